"""Writes the static site: a pure function of results, without a server and without a network.

    OUT/index.html            table, plots and comparison; its data are in the page
    OUT/runs/<id>.html        a page for every run; curves are in the page
    OUT/results.json, .csv    everything that the table shows, for programs
    OUT/assets/               scripts and styles, ours and vendored

Browsers block `fetch` and modules on pages that are opened from disk, so pages carry their data
and scripts are plain ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from uedp_bench import __version__
from uedp_bench.leaderboard.page import page_data, run_page
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.leaderboard.run_page import run_context
from uedp_bench.leaderboard.table import to_csv, to_json
from uedp_bench.results import Result

STATIC = (
    "style.css", "table.css", "plots.css", "compare.css", "run.css",
    "theme.js", "core.js", "filters.js", "table.js", "plots.js", "compare.js", "run.js", "live.js",
    "vendor/dataTables.min.js", "vendor/dataTables.dataTables.min.css", "vendor/jstat.min.js",
)  # fmt: skip
"""What pages load, beside Plotly's own file."""


def build(results: Sequence[Result], out: Path, *, live: bool = False) -> list[Path]:
    """Writes the site of some results.

    Args:
        results: of any runs, each id once.
        out: the site's folder; made where it does not exist. Files of the same name are replaced.
        live: pages ask the server that they come from whether there is something new.

    Returns:
        The files that were written.

    Raises:
        ValueError: if a result's id is no safe name of a file.
    """
    rows = aggregate(results)
    by_id = {result.id: result for result in results}
    pages = {"index.html": _index(rows, by_id, live)}
    for row in rows:
        for run in row.runs:
            pages[run_page(run.id)] = _run(by_id[run.id], row, live)
    pages["results.json"] = to_json(rows)
    pages["results.csv"] = to_csv(rows)
    return [*_assets(out), *(_write(out / name, text) for name, text in pages.items())]


def _index(rows: Sequence[Row], results: Mapping[str, Result], live: bool) -> str:
    return _render("index.html.j2", {
        "data": _embedded(page_data(rows, results)), "rows": len(rows), "runs": len(results),
        "root": "", "live": live,
    })  # fmt: skip


def _run(result: Result, row: Row, live: bool) -> str:
    context = run_context(result, row)
    data = _embedded(context.pop("data"))
    return _render("run.html.j2", {**context, "data": data, "root": "../", "live": live})


def _embedded(value: Any) -> str:
    """JSON that may stand in a script element: no value of it can end the element."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=False)
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("uedp_bench.leaderboard", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version"] = __version__
    return environment


def _render(template: str, context: Mapping[str, Any]) -> str:
    page: str = _environment().get_template(template).render(context)
    return page


def _assets(out: Path) -> list[Path]:
    from plotly.offline import get_plotlyjs

    folder = files("uedp_bench.leaderboard") / "static"
    texts = {name: (folder / name).read_text(encoding="utf-8") for name in STATIC}
    texts["plotly.min.js"] = get_plotlyjs()
    return [_write(out / "assets" / Path(name).name, text) for name, text in texts.items()]


def _write(path: Path, text: str) -> Path:
    """Writes what has changed only: browsers and web servers keep the rest."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode()
    if not path.is_file() or path.read_bytes() != content:
        partial = path.with_name(f"{path.name}.partial")
        partial.write_bytes(content)
        partial.replace(path)
    return path
