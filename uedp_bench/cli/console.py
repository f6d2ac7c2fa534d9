"""Where commands print: one console, and plug-in files as every command takes them."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

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
    return Console(width=width, soft_wrap=False, highlight=False)


def print_json(value: Any) -> None:
    """Prints JSON; infinity must already be the string "inf".

    Raises:
        ValueError: if a number is NaN or infinite.
    """
    typer.echo(json.dumps(value, indent=1, allow_nan=False, default=str))
