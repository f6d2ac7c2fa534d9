"""The files of a site: what each of them is made of, and how.

    index.html            what was found, and which mechanism for what
    glossary.html         what words, columns, mechanisms and attacks mean
    table.html            table, plots and comparison; its data are in the page
    assets/rows-001.js    rows of the table, where there are thousands
    runs/<id>.html        a page for every run; curves are in the page
    results.json, .csv    everything that the table shows, for programs
    assets/               scripts and styles, ours and vendored

Browsers block `fetch` and modules on pages that are opened from disk, so pages carry their data
and scripts are plain ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, metadata
from importlib.metadata import version as version_of
from importlib.resources import files
from pathlib import Path
from typing import Any

from uedp_bench.components import registry
from uedp_bench.contracts.results import Result
from uedp_bench.errors import plain
from uedp_bench.io.sealed_files import package_digest
from uedp_bench.leaderboard.boards import boards, real_first, title
from uedp_bench.leaderboard.cell_text import NONE, guarantees_text, stat_text
from uedp_bench.leaderboard.comparisons import better_than_unprotected, sentences, warnings
from uedp_bench.leaderboard.findings import first_page, leading, leading_metric, names
from uedp_bench.leaderboard.front_page import front_context
from uedp_bench.leaderboard.glossary import glossary_context
from uedp_bench.leaderboard.index_page import (
    Pieces,
    TableData,
    embedded,
    first_board,
    page_data,
    run_page,
)
from uedp_bench.leaderboard.rows import Known, Row, aggregate
from uedp_bench.leaderboard.run_pages.in_words import Sentence
from uedp_bench.leaderboard.run_pages.run_page import run_context
from uedp_bench.leaderboard.table import csv_parts, json_parts, to_csv, to_json
from uedp_bench.leaderboard.table_columns import metric_columns
from uedp_bench.leaderboard.validation.publishing import published
from uedp_bench.version import __version__


@cache
def links() -> dict[str, str]:
    """`repository`, `docs` and `submit`; an empty text for what the package does not declare."""
    try:
        declared = metadata("uedp-bench").get_all("Project-URL") or []
    except PackageNotFoundError:
        declared = []
    pairs = (one.partition(",") for one in declared)
    return named({label.strip().lower(): url.strip() for label, _, url in pairs})


def named(urls: dict[str, str]) -> dict[str, str]:
    """Links by use, from URLs by lower-case label as in `[project.urls]`; only https counts."""
    urls = {label: url.rstrip("/") for label, url in urls.items() if url.startswith("https://")}
    repository = next((urls[name] for name in ("repository", "source") if name in urls), "")
    return {
        "repository": repository,
        "docs": urls.get("documentation", f"{repository}/tree/HEAD/docs" if repository else ""),
        "submit": f"{repository}/blob/HEAD/CONTRIBUTING.md" if repository else "",
    }


MOST = 12


def _promise(row: Row) -> str:
    """Proven guarantees in words; stated ones, named so, where nothing is proven."""
    proven, stated = (guarantees_text(row, kind) for kind in ("proven", "stated"))
    return proven if proven != NONE or stated == NONE else f"not proven; stated: {stated}"


def first_rows(rows: Sequence[Row]) -> dict[str, Any]:
    """The best rows of the set that readers first see; empty where there is no result.

    Returns:
        `title` of the set and `metric` that ranks it; `rows`: name, page, proof, value of the
        metric, and marks of rows that learned nothing or are better than the unprotected row;
        `left`: number of the set's further rows.
    """
    board = first_board(real_first(boards(rows)))
    if not board:
        return {}
    metric, called = leading_metric(board[0]), names(board)
    better = better_than_unprotected(board)
    scale, unit = (
        (100.0, " %") if metric.percent else (1.0, f" {metric.unit}" if metric.unit else "")
    )
    best = [
        (
            called[row.group],
            first_page(row),
            _promise(row),
            f"{stat_text(leading(row), scale, False, (metric.low, metric.high))}{unit}",
            row.learned is False,
            row.group in better,
        )
        for row in board[:MOST]
    ]
    left = max(0, len(board) - MOST)
    return {"title": title(board), "metric": metric.label, "rows": best, "left": left}


STATIC = (
    "style.css", "front.css", "glossary.css", "table.css", "plots.css", "compare.css", "run.css",
    "theme.js", "values.js", "front.js", "core.js", "filters.js", "table.js", "picker.js",
    "plots.js", "significance.js", "compare.js", "run.js", "live.js",
    "vendor/dataTables.min.js", "vendor/dataTables.dataTables.min.css", "vendor/jstat.min.js",
)  # fmt: skip
"""Files that pages load, beside Plotly's own."""

Text = str | Iterator[str]
"""A text, or its parts one after the other."""

Address = Callable[[str], str]
"""The version of a file, which follows its name in links: browsers keep the others."""


@dataclass(frozen=True)
class SiteFile:
    """A file of a site.

    Attributes:
        key: digest of all that the file is made of: results, code and registered components. As
            long as it is the same, so is the file.
        make: function that makes the file.
    """

    key: str
    make: Callable[[], Text]


@dataclass(frozen=True)
class Files:
    """The files of a site.

    Attributes:
        rows, runs: numbers of rows and of runs on the site.
        files: files by name; the index is the last: it leads to all others.
    """

    rows: int
    runs: int
    files: dict[str, SiteFile]


class Contents:
    """The files of results that come and go; what has not changed is not made again.

    Args:
        live: True for pages that ask their server for changes.
    """

    def __init__(self, *, live: bool = False) -> None:
        self._live = live
        self._published: dict[str, _Published] = {}
        self._known_rows: Known = {}

    def files(self, results: Sequence[Result], address: Address) -> Files:
        """The files of the site of these results.

        Args:
            results: results of any runs, each id once, in any order.
            address: address of the pieces of a large table.

        Raises:
            ValueError: if a result's id is no safe name of a file.
        """
        self._publish(results)
        by_id = {name: one.public for name, one in self._published.items()}
        paths = {name: run_page(name) for name in by_id}
        rows = aggregate(list(by_id.values()), paths, self._known_rows)
        digests = {name: one.digest for name, one in self._published.items()}
        code = code_digest()
        wrong, judged = warnings(rows), sentences(rows)
        runs = {
            paths[run.id]: SiteFile(
                key_of(code, run.id, repr(beside), *(digests[one.id] for one in row.runs)),
                partial(_run, by_id[run.id], row, self._live, beside),
            )
            for row in rows
            for beside in [
                [Sentence(text, "bad") for text in [wrong.get(row.group)] if text]
                + judged.get(row.group, [])
            ]
            for run in row.runs
        }
        everything = key_of(code, *(f"{name} {digest}" for name, digest in digests.items()))
        of_all = {
            name: SiteFile(everything, make)
            for name, make in files_of_all(rows, by_id, self._live, address).items()
        }
        return Files(len(rows), len(runs), {**_assets(), **dict(sorted(runs.items())), **of_all})

    def _publish(self, results: Sequence[Result]) -> None:
        """Looks only at results that are new: the others are the same objects as before."""
        earlier = self._published
        self._published = {
            one.id: earlier[one.id]
            if one.id in earlier and earlier[one.id].result is one
            else _Published.from_result(one)
            for one in sorted(results, key=lambda one: one.id)
        }


@dataclass(frozen=True)
class _Published:
    """A result as it was read, as the site shows it, and the digest of its content."""

    result: Result
    public: Result
    digest: str

    @classmethod
    def from_result(cls, result: Result) -> _Published:
        """Often `public` is the result itself, which then takes no more memory."""
        public = published(result)
        digest = sha256(result.model_dump_json().encode()).hexdigest()
        return cls(result, result if public == result else public, digest)


def code_digest() -> str:
    """Another one means other code, or other registered components.

    Those of a package are known by its version, those of a lone file by what is in it.
    """
    components = {
        kind: [(name, each.origin(name), each.digest(name)) for name in each.names()]
        for kind, each in sorted(registry.REGISTRIES.items())
    }
    return key_of(package_digest(), repr(components))


def key_of(*parts: str) -> str:
    """The key of what is made of these parts."""
    return sha256("\0".join(parts).encode()).hexdigest()


def files_of_all(
    rows: Sequence[Row], results: Mapping[str, Result], live: bool, address: Address
) -> dict[str, Callable[[], Text]]:
    """Makers of the files that show all rows, which are aggregated from `results`."""
    waiting = partial(_waiting, live) if live and not rows else None
    pieces = Pieces(rows, results)
    return {
        "results.json": partial(json_parts, rows),
        "results.csv": partial(csv_parts, rows),
        **pieces.files(),
        "glossary.html": partial(_glossary, rows, live),
        "table.html": waiting or partial(_table, rows, results, live, pieces.names, address),
        "index.html": waiting or partial(_front, rows, live),
    }


def render_alone(result: Result) -> None:
    """Makes every page of one result, and writes none; raises whatever the result makes fail."""
    public = published(result)
    rows = aggregate([public], {public.id: run_page(public.id)})
    pages = (
        _front(rows, False), _glossary(rows, False), _table(rows, {public.id: public}, False),
    )  # fmt: skip
    for text in (to_json(rows), to_csv(rows), *pages):
        text.encode()
    _run(public, rows[0], False).encode()


def _front(rows: Sequence[Row], live: bool) -> str:
    return render("front.html.j2", {
        **front_context(rows), "data": "{}", "root": "", "live": live, "links": links(),
    })  # fmt: skip


def _glossary(rows: Sequence[Row], live: bool) -> str:
    context = glossary_context(rows, metric_columns(rows))
    return render("glossary.html.j2", {
        **context, "data": "{}", "root": "", "live": live, "links": links(),
    })  # fmt: skip


def _table(
    rows: Sequence[Row],
    results: Mapping[str, Result],
    live: bool,
    pieces: Sequence[str] = (),
    address: Address = str,
) -> str:
    data = TableData(rows, results).frame if pieces else page_data(rows, results)
    return render("table.html.j2", {
        "data": embedded(data), "root": "", "live": live, "first": first_rows(rows),
        "pieces": [f"{name}?{address(name)}" for name in pieces],
    })  # fmt: skip


def _waiting(live: bool) -> str:
    return render("waiting.html.j2", {"data": "{}", "root": "", "live": live})


def _run(result: Result, row: Row, live: bool, beside: Sequence[Sentence] = ()) -> str:
    context = run_context(result, row, beside)
    data = embedded(context.pop("data"))
    return render("run.html.j2", {**context, "data": data, "root": "../", "live": live})


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
    environment.filters["plain"] = partial(plain, lines=True)
    return environment


def render(template: str, context: Mapping[str, Any]) -> str:
    """Page of a template, with everything escaped that a template does not call safe."""
    return str(_environment().get_template(template).render(context))


def _assets() -> dict[str, SiteFile]:
    folder = files("uedp_bench.leaderboard") / "static"
    own = {
        f"assets/{Path(name).name}": partial((folder / name).read_text, encoding="utf-8")
        for name in STATIC
    }
    key = key_of(code_digest(), version_of("plotly"))
    makers: dict[str, Callable[[], Text]] = {**own, "assets/plotly.min.js": _plotly}
    return {name: SiteFile(key, make) for name, make in makers.items()}


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
