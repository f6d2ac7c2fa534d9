"""`uedp-bench list`, `describe` and `show`: components, and results in plain words."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.cli.console import PIPE_WIDTH, AsJson, PluginFiles, console, echo, print_json
from uedp_bench.errors import InputError, UnknownNameError, nearest, shown

if TYPE_CHECKING:
    from rich.table import Table

    from uedp_bench.contracts.results import Result
    from uedp_bench.leaderboard.sources import Line

_KINDS = "mechanisms|attacks|tasks|sources|models|events"


def list_command(
    kind: Annotated[
        str | None, typer.Argument(metavar=f"[{_KINDS}]", help="One kind only.")
    ] = None,
    plugin: PluginFiles = None,
    as_json: AsJson = False,
) -> None:
    """List components of every kind, and events, with the package they come from.

    \b
    uedp-bench list
    uedp-bench list mechanisms --json
    uedp-bench list --plugin my_mechanism.py
    """  # noqa: D301
    from uedp_bench.components.registry import REGISTRIES, load_plugins
    from uedp_bench.spec.descriptions import package, summary

    load_plugins(plugin or [])
    if kind is not None and kind not in REGISTRIES:
        raise UnknownNameError("kind", kind, REGISTRIES)
    listed = {
        group: [
            {
                "name": name,
                "summary": summary(registry, name),
                "package": package(registry.origin(name)),
                "origin": registry.origin(name),
            }
            for name in registry.names()
        ]
        for group, registry in REGISTRIES.items()
        if kind in (None, group)
    }
    if as_json:
        print_json(listed)
        return
    echo("\n\n".join(_block(group, rows) for group, rows in listed.items()))


def _block(group: str, rows: list[dict[str, str]]) -> str:
    """The components of a kind; what they are for is wrapped, never cut."""
    wide = max((len(row["name"]) for row in rows), default=0)
    packages = Counter(row["package"] for row in rows)
    home = packages.most_common(1)[0][0] if rows else ""
    lines = [f"{group} ({home})" if home else group]
    for row in rows:
        text = row["summary"] + ("" if row["package"] == home else f" [{row['package']}]")
        first, *more = textwrap.wrap(
            text, width(), break_long_words=False, break_on_hyphens=False
        ) or [""]
        lines.append(f"  {row['name']:{wide}}  {first}".rstrip())
        lines += [f"  {'':{wide}}  {line}" for line in more]
    return "\n".join(lines if rows else [group, "  none"])


def width() -> int:
    """Columns for what a component is for."""
    columns = shutil.get_terminal_size((PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else 0
    return max(40, (columns or PIPE_WIDTH) - 24)


def describe_command(
    name: Annotated[str, typer.Argument(metavar="NAME | KIND/NAME", help="What to describe.")],
    plugin: PluginFiles = None,
    as_json: AsJson = False,
) -> None:
    """Show a component: parameters with defaults and ranges, metrics, source, what it needs.

    Published systems, which 'uedp-bench account' knows, are described too. With --json, parameters
    and metrics are lists of objects.

    \b
    uedp-bench describe uedp
    uedp-bench describe source/text --json
    uedp-bench describe dpnr
    """  # noqa: D301
    from uedp_bench.components.registry import load_plugins
    from uedp_bench.spec.descriptions import describe_component, describe_system

    load_plugins(plugin or [])
    system = name.removeprefix("system/")
    described = describe_system(system) if _is_system(name) else describe_component(*_resolve(name))
    if as_json:
        print_json(described)
    else:
        _print_description(described)


def _is_system(name: str) -> bool:
    """True if this names a published system that is accounted for only, and no mechanism."""
    from uedp_bench.accounting.published_systems import ALIASES, SYSTEMS
    from uedp_bench.components import registry

    bare = name.removeprefix("system/")
    return bare in {*SYSTEMS, *ALIASES} and bare not in registry.mechanisms.names()


def _resolve(name: str) -> tuple[Any, str]:
    """The registry and the bare name of NAME or KIND/NAME (kind in singular or plural)."""
    from uedp_bench.components.registry import REGISTRIES

    by_kind = {registry.kind: registry for registry in REGISTRIES.values()}
    kind, slash, bare = name.partition("/")
    if slash:
        registry = by_kind.get(kind, REGISTRIES.get(kind))
        if registry is None:
            raise UnknownNameError("kind", kind, by_kind)
        return registry, bare
    registries = [registry for registry in by_kind.values() if name in registry.names()]
    if len(registries) == 1:
        return registries[0], name
    if registries:
        choices = ", ".join(f"{registry.kind}/{name}" for registry in registries)
        raise InputError(f"{name!r} names several things; say which: {choices}")
    from uedp_bench.accounting.published_systems import ALIASES, SYSTEMS

    kinds_by_name = dict.fromkeys((*SYSTEMS, *ALIASES), "system")
    kinds_by_name |= {
        other: kind for kind, registry in by_kind.items() for other in registry.names()
    }
    near = nearest(name, kinds_by_name)
    hint = f"did you mean {kinds_by_name[near]}/{near}?" if near else "see: uedp-bench list"
    raise InputError(f"no component named {name!r}; {hint}")


def _metrics_table(metrics: list[dict[str, Any]]) -> Table:
    """Declared metrics as boards show them."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title="metrics", title_justify="left", show_lines=False)
    for column in ("name", "label", "unit", "better", "no leak", "about"):
        table.add_column(column, no_wrap=column == "name")
    for metric in metrics:
        percent, no_leak = metric["percent"], metric["no_leak"]
        unit, better = "%" if percent else metric["unit"], metric["better"] or ""
        floor = "" if no_leak is None else f"{100 * no_leak if percent else no_leak:.4g}"
        cells = (metric["name"], metric["label"], unit, better, floor, metric["about"])
        table.add_row(*map(escape, cells))
    return table


def _print_description(described: dict[str, Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    title = f"{described['kind']} {described['name']} (version {described['version']})"
    out.print(f"[bold]{escape(title)}[/bold]\n{escape(described['documentation'])}\n")
    skip = {"kind", "name", "version", "summary", "documentation", "parameters", "metrics"}
    facts = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for key, value in described.items():
        if key not in skip and value not in (None, [], ""):
            shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
            facts.add_row(key.replace("_", " "), escape(shown))
    out.print(facts)
    if described.get("metrics"):
        out.print(_metrics_table(described["metrics"]))
    if not described["parameters"]:
        out.print("no parameters")
        return
    table = Table(title="parameters", title_justify="left", show_lines=False)
    table.add_column("name", no_wrap=True)
    for column in ("type", "default", "range", "description"):
        table.add_column(column)
    for parameter in described["parameters"]:
        default = "required" if parameter["required"] else parameter["default"]
        shown = default if isinstance(default, str) else json.dumps(default)
        cells = (parameter["name"], parameter["type"], shown, parameter["range"])
        table.add_row(*map(escape, (*cells, parameter["description"])))
    out.print(table)


What = Annotated[
    str, typer.Argument(metavar="RUN", help="An id, its beginning, a folder or a result.json.")
]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder of results, or a bundle of them.")
]


def show_command(run: What, out: Out = Path("runs"), as_json: AsJson = False) -> None:
    """Show a result in plain words: what it promises, what it is worth, what attacks found.

    \b
    uedp-bench show 3f2a --out runs/quickstart
    uedp-bench show runs/quickstart/3f2a17c09be1/result.json
    uedp-bench show 3f2a --out leaderboard/results
    """  # noqa: D301
    result = _result(run, out)
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    from uedp_bench.leaderboard.run_pages.in_words import result_lines

    for line in result_lines(result):
        echo(line)


def _result(run: str, out: Path) -> Result:
    """The result that is called so.

    Raises:
        InputError: if none, or several, are called so.
    """
    from uedp_bench.contracts.results import read_result
    from uedp_bench.one_run.stored_run import result_of_text

    named = Path(run)
    for file in (named, named / "result.json"):
        if file.is_file():
            return read_result(file)
    runs: dict[str, Path | Line] = {file.parent.name: file for file in out.glob("*/result.json")}
    if not any(name.startswith(run) for name in runs):
        runs |= {line.id: line for line in _lines(out, run)}
    fits = [name for name in sorted(runs) if name.startswith(run)]
    if len(fits) == 1:
        place = runs[fits[0]]
        if isinstance(place, Path):
            return read_result(place)
        return result_of_text(place.text, place.place)
    if fits:
        raise InputError(f"{shown(run)} begins several runs of {out}: {', '.join(fits[:8])}")
    near = nearest(run, runs)
    hint = f"did you mean {near}?" if near else f"it has {len(runs)} runs; --out names a folder"
    if named.is_dir():
        hint = f"it is a folder; show ID --out {shlex.quote(run)} shows one of its runs"
    raise InputError(f"no run {shown(run)} in {out}; {hint}")


def _lines(out: Path, run: str) -> Iterator[Line]:
    """Lines of all bundles of a folder; the text of those alone whose id begins so."""
    from uedp_bench.leaderboard.sources import SUFFIX, Folder, read_lines

    for file in Folder(out, may_come=True).find():
        for line in read_lines(Path(file.name)) if file.name.endswith(SUFFIX) else ():
            yield line if line.id.startswith(run) else replace(line, text="")
