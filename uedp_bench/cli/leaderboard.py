"""`uedp-bench leaderboard`: the table of results."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.cli.console import console, echo
from uedp_bench.cli.site import build_command, serve_command
from uedp_bench.cli.sources import (
    Experiments,
    Folders,
    OneSource,
    OneTask,
    TrackingUri,
    loader_of,
    no_results,
)
from uedp_bench.cli.validate import validate_command
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.leaderboard.rows import Row

# Options only, no arguments: these would hide the commands of the group.
app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def leaderboard_command(
    context: typer.Context,
    results: Folders = None,
    experiment: Experiments = None,
    tracking_uri: TrackingUri = None,
    task: OneTask = None,
    source: OneSource = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Markdown tables.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line a row.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write there, not to the screen.")
    ] = None,
) -> None:
    """Utility, guarantee, leakage and cost of every mechanism; mean and interval over seeds.

    \b
    uedp-bench leaderboard --results runs --task next-word --source conll2003
    uedp-bench leaderboard --results runs --markdown --out docs/table.md
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        _refuse_options(context, context.invoked_subcommand)
        return
    if as_json + as_markdown + as_csv > 1:
        raise InputError("--json, --markdown and --csv: choose one")
    from uedp_bench.leaderboard import table

    loader = loader_of(results, experiment, tracking_uri)
    loaded = loader.load().checked()
    if not loaded.copies:
        raise no_results(loader)
    for note in loaded.notes:
        echo(f"note: {note}", err=True)
    rows = table.select(table.aggregate(loaded.results, loaded.places), task, source)
    if as_json or as_markdown or as_csv:
        write = table.to_json if as_json else table.to_csv if as_csv else table.to_markdown
        _deliver(write(rows), out)
    elif out is None:
        console().print(table.render(rows))
    else:
        _deliver(_as_text(rows), out)


def _refuse_options(context: typer.Context, command: str) -> None:
    """Options before a command's name would be the table's, and do nothing."""
    given = [name for name, value in context.params.items() if value]
    if given:
        option = next(one.opts[0] for one in context.command.params if one.name == given[0])
        raise InputError(f"{option} stands before {command!r}: give it after that name")


def _as_text(rows: list[Row]) -> str:
    from rich.console import Console

    from uedp_bench.cli.console import PIPE_WIDTH
    from uedp_bench.leaderboard.table import render

    screen = Console(width=PIPE_WIDTH, record=True, file=io.StringIO())
    screen.print(render(rows))
    return screen.export_text()


def _deliver(text: str, out: Path | None) -> None:
    if out is None:
        echo(text.rstrip("\n"))
        return
    try:
        out.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"--out {out}: {error.strerror}") from None
    echo(f"written: {out}", err=True)


app.command("build")(build_command)
app.command("serve")(serve_command)
app.command("validate")(validate_command)
