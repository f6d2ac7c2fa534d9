"""`uedp-bench leaderboard`: the table of results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.cli.console import PIPE_WIDTH, console, echo
from uedp_bench.cli.pack import pack_command
from uedp_bench.cli.site import build_command, serve_command
from uedp_bench.cli.sources import (
    Experiments,
    Folders,
    OneSource,
    OneTask,
    TrackingUri,
    loader_of,
    no_results,
    tell,
)
from uedp_bench.cli.validate import validate_command
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.results import Result

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
    from uedp_bench.leaderboard.leaving_out import without_culprits

    loader = loader_of(results, experiment, tracking_uri)
    loaded = loader.load().unambiguous()
    if not loaded.copies:
        tell(loaded)
        raise no_results(loader)
    screen = console()
    plainly = partial(table.to_text, width=PIPE_WIDTH)
    coloured = partial(table.to_text, width=screen.width, styles=screen.is_terminal)
    write = (
        table.to_json if as_json
        else table.to_csv if as_csv
        else table.to_markdown if as_markdown
        else coloured if out is None
        else plainly
    )  # fmt: skip

    def show(results: Sequence[Result]) -> str:
        return write(table.select(table.aggregate(results, loaded.places), task, source))

    text, left_out = without_culprits(loaded, show)
    tell(loaded, left_out)
    _deliver(text, out)


def _refuse_options(context: typer.Context, command: str) -> None:
    """Options before a command's name would be the table's, and do nothing."""
    given = [name for name, value in context.params.items() if value]
    if given:
        option = next(one.opts[0] for one in context.command.params if one.name == given[0])
        raise InputError(f"{option} stands before {command!r}: give it after that name")


def _deliver(text: str, out: Path | None) -> None:
    if out is None:
        # Names are harmless already; a terminal obeys the table's own styles alone.
        typer.echo(text.rstrip("\n"))
        return
    try:
        out.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"--out {out}: {error.strerror}") from None
    echo(f"written: {out}", err=True)


app.command("build")(build_command)
app.command("pack")(pack_command)
app.command("serve")(serve_command)
app.command("validate")(validate_command)
