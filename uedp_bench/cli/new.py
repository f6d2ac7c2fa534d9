"""`uedp-bench new`: a component of one's own that works from the first minute."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uedp_bench.cli.console import echo

Kind = Annotated[
    str, typer.Argument(metavar="mechanism|attack|task|source|model", help="What to write.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Lower-case words joined by hyphens.")]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write it.")]
Package = Annotated[
    bool, typer.Option("--package", help="Write a package with an entry point, not a lone file.")
]


def new_command(kind: Kind, name: Name, out: Out = Path(), package: Package = False) -> None:
    """Write a component that works, documented and with its test, to change it to your own.

    \b
    uedp-bench new mechanism my-mechanism
    uedp-bench new attack my-attack --out plugins
    uedp-bench new task my-task --package
    """  # noqa: D301
    from uedp_bench.testing.writing import write_component

    written = write_component(kind, name, out, package=package)
    for file in written:
        echo(f"wrote {file}")
    file, test = written[0], written[1]
    if package:
        echo(f"next: pip install -e {file.parent}, then uedp-bench check {kind}/{name}")
    else:
        example = f" --set path={written[-1]}" if kind == "source" else ""
        echo(f"next: uedp-bench check {file}{example}; pytest {test}")
