"""Plots of pages, drawn from stored results in the language of tables.

    <!-- plot: leaderboard/results/bloggers-larger
    about: Perplexity against proven epsilon
    x: proven ε
    y: perplexity
    log: 2
    lines:
      user-dp: {rows: {row: '= ladder("user-dp", "user")'}, x: proven("user"), y: perplexity}
    levels:
      no protection: mean("perplexity", "noiseless")
    -->

A line has a point for each of its rows, which are declared as those of tables (`tables.py`), with
its 95 % interval over seeds; `x` and `y` are cells. A level is a horizontal line. `log` is the base
of a logarithmic axis of x; `ticks` are places on it by name, in place of numbers.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Mapping
from typing import Any

from expressions import Study
from tables import TableError, bindings, value_of

from uedp_bench.io.yaml_files import load_yaml
from uedp_bench.leaderboard.rows import Stat

DECLARED = re.compile(r"^<!-- plot: ([^\n]*)\n(.*?)-->\n", re.M | re.S)
MARKERS = "osd^vDPX<>"
STYLES = ("-.", "--", ":")
"""Dashes of the levels, three at most."""

ENTRIES = {"about", "x", "y", "log", "ticks", "lines", "levels"}


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put the plots of a page of the site into it."""
    return rendered(markdown, page.file.src_uri)


def rendered(text: str, page: str) -> str:
    """A page with its plots, each a picture that the page itself holds.

    Raises:
        TableError: for the first plot that cannot be drawn.
    """

    def drawn(match: re.Match[str]) -> str:
        bundles, declared = match.groups()
        try:
            entries = load_yaml(declared)
            picture = base64.b64encode(svg(Study(bundles), entries)).decode()
        except Exception as error:
            line = text.count("\n", 0, match.start()) + 1
            why = f"{type(error).__name__}: {error}"
            raise TableError(f"{page}, line {line}, plot of {bundles}: {why}") from error
        return f"![{entries['about']}](data:image/svg+xml;base64,{picture})\n"

    return DECLARED.sub(drawn, text)


def svg(study: Study, declared: Mapping[str, Any]) -> bytes:
    """The picture of a declaration, the same whenever it is drawn."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if unknown := declared.keys() - ENTRIES:
        raise ValueError(f"{', '.join(sorted(unknown))}: known are {', '.join(sorted(ENTRIES))}")
    fixed = {"svg.hashsalt": "plot", "font.size": 8, "svg.fonttype": "none"}
    with mpl.rc_context(fixed):
        figure = Figure(figsize=(6.2, 3.2), layout="constrained")
        panel = figure.subplots()
        lines = declared["lines"]
        for place, (name, line) in enumerate(lines.items()):
            x, y = _points(study, line)
            aside = place - (len(lines) - 1) / 2  # so that no bar hides another
            bars = [0.0 if one.high is None else one.high - one.value for one in y]
            panel.errorbar(
                [at * 1.02**aside if "log" in declared else at + 0.07 * aside for at in x],
                [one.value for one in y], yerr=bars, marker=MARKERS[place], markersize=4,
                capsize=2, linewidth=1, elinewidth=0.8, label=name,
            )  # fmt: skip
        for place, (name, cell) in enumerate(declared.get("levels", {}).items()):
            level, side = study.evaluate(cell), ("right", "left")[place // 2]  # names stand apart
            panel.axhline(level, color="0.5", linestyle=STYLES[place], linewidth=0.8)
            panel.text(
                0.99 if side == "right" else 0.01, level, name, fontsize=7, color="0.3",
                transform=panel.get_yaxis_transform(), va="bottom", ha=side,
            )  # fmt: skip
        panel.margins(x=0.1, y=0.12)
        if "log" in declared:
            panel.set_xscale("log", base=declared["log"])
        if ticks := declared.get("ticks"):
            panel.set_xticks(list(ticks.values()), list(ticks))
            panel.minorticks_off()
        panel.set_xlabel(declared["x"])
        panel.set_ylabel(declared["y"])
        if len(lines) > 1:
            figure.legend(frameon=False, fontsize=7, loc="outside lower center", ncols=2)
        file = io.BytesIO()
        figure.savefig(file, format="svg", metadata={"Date": None})
    return file.getvalue()


def _points(study: Study, line: Mapping[str, Any]) -> tuple[list[float], list[Stat]]:
    """Places and values of the points of a line.

    Raises:
        ValueError: if it has none.
    """
    points = []
    for bound in bindings(study, line["rows"]):
        x, y = (value_of(study, str(line[axis]), bound)[0] for axis in ("x", "y"))
        points.append((float(x), y if isinstance(y, Stat) else Stat(value=y, n=1)))
    if not points:
        raise ValueError("a line has no points")
    points.sort(key=lambda point: point[0])
    return [x for x, _ in points], [y for _, y in points]
