"""Console of all commands, and plug-in files as every command takes them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.errors import InputError, plain

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, ConsoleRenderable
    from rich.segment import Segment

PIPE_WIDTH = 120
"""Columns of a table that is not printed to a terminal."""

PluginFiles = Annotated[
    list[Path] | None,
    typer.Option("--plugin", metavar="FILE", help="Python file that registers components."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def console() -> Console:
    """The console of standard output; pipes get a fixed width."""
    from rich.console import Console

    # Highlighting would colour numbers inside paths and names.
    width = None if sys.stdout.isatty() else PIPE_WIDTH
    out = Console(width=width, soft_wrap=False, highlight=False)
    out.push_render_hook(_Hook())  # type: ignore[arg-type]  # by its method: rich comes late
    return out


class _Hook:
    """Makes harmless what a console is about to print."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """As rich calls it."""
        return [_Harmless(one) for one in renderables]


@dataclass(frozen=True)
class _Harmless:
    """Takes out of all that is printed what a terminal would obey; its own colours stay.

    Names and values in tables may be of strangers. A character is replaced by one, so that columns
    stay where they are.
    """

    content: ConsoleRenderable

    def __rich_console__(self, out: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in out.render(self.content, options):
            text = segment.text
            if segment.control or plain(text, lines=True) == text:
                yield segment
            else:
                kept = (c if plain(c, lines=True) == c else "\ufffd" for c in text)
                yield segment._replace(text="".join(kept))


def echo(text: str, *, err: bool = False) -> None:
    """Print text that may hold names or values of strangers."""
    typer.echo(plain(text, lines=True), err=err)


def print_json(value: Any) -> None:
    """Print JSON, infinity as the string "inf".

    Raises:
        ValueError: if a number is NaN, naming its place.
    """
    from uedp_bench.contracts.results import json_values

    typer.echo(json.dumps(json_values(value), indent=1, allow_nan=False, default=str))


def refuse_options(context: typer.Context) -> None:
    """Refuse options before the name of a command, where they would be lost."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(
                f"{parameter.opts[0]}: stands before {context.invoked_subcommand}; "
                f"write the options of {context.invoked_subcommand} after it"
            )
