"""Writes the static site: a pure function of results, without a server and without a network.

    OUT/index.html            what was found, and which mechanism for what
    OUT/glossary.html         what words, columns, mechanisms and attacks mean
    OUT/table.html            table, plots and comparison; its data are in the page
    OUT/assets/rows-001.js    rows of the table, where there are thousands
    OUT/runs/<id>.html        a page for every run; curves are in the page
    OUT/results.json, .csv    everything that the table shows, for programs
    OUT/assets/               scripts and styles, ours and vendored
    OUT/site.json             the files of the site

Browsers block `fetch` and modules on pages that are opened from disk, so pages carry their data
and scripts are plain ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from uedp_bench.leaderboard.first_rows import first_rows
from uedp_bench.leaderboard.former_pages import FormerPages
from uedp_bench.leaderboard.front.links import links
from uedp_bench.leaderboard.front.page import front_context
from uedp_bench.leaderboard.glossary.page import glossary_context
from uedp_bench.leaderboard.index_page import TableData, metric_columns, page_data, run_page
from uedp_bench.leaderboard.loading import Copy, Progress
from uedp_bench.leaderboard.public_results import published
from uedp_bench.leaderboard.rows import Known, Row, aggregate
from uedp_bench.leaderboard.run_pages.run_page import run_context
from uedp_bench.leaderboard.site_folder import SiteFolder
from uedp_bench.leaderboard.table import csv_parts, json_parts, to_csv, to_json
from uedp_bench.leaderboard.table_pieces import Pieces, embedded
from uedp_bench.results import Result
from uedp_bench.version import __version__

STATIC = (
    "style.css", "front.css", "glossary.css", "table.css", "plots.css", "compare.css", "run.css",
    "theme.js", "values.js", "front.js", "core.js", "views.js", "filters.js", "columns.js",
    "presets.js", "explain.js", "table.js", "picker.js", "download.js", "plot_data.js",
    "plot_axes.js", "plot_traces.js", "plot_layout.js", "plot_labels.js", "plot_scatter.js",
    "plot_figures.js", "plot_spread.js", "plot_controls.js", "plot_card.js", "plots.js",
    "significance.js", "compare_data.js", "compare_download.js", "compare_plot.js",
    "compare_tables.js", "compare_verdict.js", "compare.js", "run.js", "live.js",
    "vendor/dataTables.min.js", "vendor/dataTables.dataTables.min.css", "vendor/jstat.min.js",
)  # fmt: skip
"""Files that pages load, beside Plotly's own."""


_VERSION = '<meta name="version" content="">'


@dataclass(frozen=True)
class Built:
    """What a build did; files are named from the site's root.

    Attributes:
        rows, runs: on the site.
        files: all of the site.
        written: those whose content is new.
        removed: those of a former build that have no place any more.
    """

    rows: int
    runs: int
    files: tuple[str, ...]
    written: tuple[str, ...]
    removed: tuple[str, ...]


def build(
    results: Sequence[Result],
    out: Path,
    *,
    force: bool = False,
    progress: Progress | None = None,
    copies: Mapping[str, Copy] = MappingProxyType({}),
) -> Built:
    """Writes the site of some results.

    Args:
        results: of any runs, each id once, in any order.
        out: the site's folder; made where it does not exist.
        force: write into a folder that holds files of others, too; these stay.
        progress: is told how many files are done.
        copies: where results were read, by id: the rest of short ones is read there again, and
            pages of results that have not changed since the last build are not made again.

    Raises:
        ValueError: if a result's id is no safe name of a file.
        InputError: if `out` holds other files than a site of ours.
    """
    return Site(out, force=force).update(results, progress, copies)


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


@dataclass(frozen=True)
class _RunPage:
    """What the page of a run is made of.

    Attributes:
        result: as the site shows it; it may be short.
        row: that it is in.
        copy: where it was read, if that is known.
    """

    result: Result
    row: Row
    copy: Copy | None

    @property
    def content(self) -> str:
        """Another one means another result; empty where nobody knows."""
        return "" if self.copy is None else self.copy.version

    def same(self, other: _RunPage) -> bool:
        """True if both are made of the same."""
        return (self.result, self.row, self.content) == (other.result, other.row, other.content)

    def render(self, live: bool) -> str:
        """The page."""
        if self.copy is None or self.copy.again is None:
            return _run(self.result, self.row, live)
        return _run(published(self.copy.whole()), self.row, live)


def _public(result: Result) -> Result:
    """What the site shows of a result: often the result itself, which then takes no more memory."""
    public = published(result)
    return result if public == result else public


class Site:
    """A site that is written again and again; what has not changed is not rendered again.

    Args:
        out: its folder.
        live: pages ask the server that they come from for changes.
        force: see `build`.
    """

    def __init__(self, out: Path, *, live: bool = False, force: bool = False) -> None:
        self._out, self._live, self._force = out, live, force
        self._published: dict[str, tuple[Result, Result]] = {}
        self._pages: dict[str, _RunPage] = {}
        self._known_rows: Known = {}
        self.versions: dict[str, str] = {}
        """A text for each file that changes when its content does."""

    def update(
        self,
        results: Sequence[Result],
        progress: Progress | None = None,
        copies: Mapping[str, Copy] = MappingProxyType({}),
    ) -> Built:
        """Writes the site of these results; see `build`."""
        by_id = self._public(results)
        paths = {name: run_page(name) for name in by_id}
        rows = aggregate(list(by_id.values()), paths, self._known_rows)
        shown = {run.id: row for row in rows for run in row.runs}
        pages = {
            run_page(name): _RunPage(by_id[name], row, copies.get(name))
            for name, row in shown.items()
        }
        files = self._files(rows, by_id, pages)
        folder = SiteFolder(self._out, files, force=self._force)
        with FormerPages(self._out, pages if not self._live else {}) as former:
            for at, (name, text) in enumerate(files.items(), start=1):
                if name in pages:
                    self._write_page(folder, former, name, pages[name])
                else:
                    self._write(folder, name, text())
                if progress is not None:
                    progress(at, len(files))
        removed = folder.close()
        self._pages = pages
        self.versions = {name: self.versions[name] for name in files}
        return Built(len(rows), len(shown), tuple(files), tuple(folder.written), tuple(removed))

    def _write_page(
        self, folder: SiteFolder, former: FormerPages, name: str, page: _RunPage
    ) -> None:
        """Writes the page of a run, unless it is known to be there as it would be made."""
        if name in self._pages and self._pages[name].same(page):
            return
        version = former.version(name, page.row, page.content)
        if version is None:
            text = page.render(self._live)
            self._write(folder, name, text)
            former.made(name, page.row, page.content, text)
        else:
            self.versions[name] = version

    def _public(self, results: Sequence[Result]) -> dict[str, Result]:
        """What the site shows of each result; the same object as long as the result is the same."""
        known = self._published
        self._published = {
            one.id: known[one.id] if one.id in known and known[one.id][0] is one
            else (one, _public(one))
            for one in sorted(results, key=lambda one: one.id)
        }  # fmt: skip
        return {name: public for name, (_, public) in self._published.items()}

    def _files(
        self,
        rows: Sequence[Row],
        results: Mapping[str, Result],
        pages: Mapping[str, _RunPage],
    ) -> dict[str, Callable[[], str | Iterator[str]]]:
        """How to make every file; the index is the last: it leads to all others."""
        waiting = self._live and not rows
        pieces = Pieces(rows, results)
        table = _waiting if waiting else partial(_table, rows, results, pieces=self._pieces(pieces))
        front = _waiting if waiting else partial(_front, rows)
        return {
            **_assets(),
            **{name: partial(page.render, self._live) for name, page in sorted(pages.items())},
            "results.json": partial(json_parts, rows),
            "results.csv": partial(csv_parts, rows),
            **pieces.files(),
            "glossary.html": partial(_glossary, rows, self._live),
            "table.html": partial(table, self._live),
            "index.html": partial(front, self._live),
        }

    def _pieces(self, pieces: Pieces) -> Callable[[], list[str]] | None:
        """Addresses of the pieces, which change with their content; None where there are none."""
        if not pieces.names:
            return None
        return lambda: [f"{name}?{self.versions.get(name, '')}" for name in pieces.names]

    def _write(self, folder: SiteFolder, name: str, text: str | Iterator[str]) -> None:
        if not isinstance(text, str):
            self.versions[name] = folder.write_parts(name, text)[:16]
            return
        version = sha256(text.encode()).hexdigest()[:16]
        if self._live and name.endswith(".html"):
            # The first is ours: in values of results, "<" is escaped.
            text = text.replace(_VERSION, _VERSION.replace('""', f'"{version}"'), 1)
        if self.versions.get(name) != version:
            folder.write(name, text)
            self.versions[name] = version


def _front(rows: Sequence[Row], live: bool) -> str:
    context = front_context(rows)
    data = context.pop("data")
    return _render("front.html.j2", {
        **context, "data": embedded(data), "data_rows": bool(data["rows"]), "root": "",
        "live": live, "links": links(),
    })  # fmt: skip


def _glossary(rows: Sequence[Row], live: bool) -> str:
    context = glossary_context(rows, metric_columns(rows))
    return _render("glossary.html.j2", {
        **context, "data": "{}", "root": "", "live": live, "links": links(),
    })  # fmt: skip


def _table(
    rows: Sequence[Row],
    results: Mapping[str, Result],
    live: bool,
    pieces: Callable[[], list[str]] | None = None,
) -> str:
    data = TableData(rows, results).frame if pieces else page_data(rows, results)
    return _render("table.html.j2", {
        "data": embedded(data), "root": "", "live": live, "first": first_rows(rows),
        "pieces": pieces() if pieces else (),
    })  # fmt: skip


def _waiting(live: bool) -> str:
    return _render("waiting.html.j2", {"data": "{}", "root": "", "live": live})


def _run(result: Result, row: Row, live: bool) -> str:
    context = run_context(result, row)
    data = embedded(context.pop("data"))
    return _render("run.html.j2", {**context, "data": data, "root": "../", "live": live})


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


def _assets() -> dict[str, Callable[[], str]]:
    folder = files("uedp_bench.leaderboard") / "static"
    own = {
        f"assets/{Path(name).name}": partial((folder / name).read_text, encoding="utf-8")
        for name in STATIC
    }
    return {**own, "assets/plotly.min.js": _plotly}


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text
