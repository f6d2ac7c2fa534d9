"""`uedp-bench init`: looks at a file of the user's own, and writes a spec that runs."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.cli.console import echo
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.first_spec.column_roles import Role

Text = Annotated[str | None, typer.Option("--text", metavar="COLUMN", help="Column with the text.")]
User = Annotated[
    str | None,
    typer.Option("--user", metavar="COLUMN", help="Who wrote a row; none: every row its own."),
]
Label = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="The class of a row, or none.")
]
Spans = Annotated[
    str | None,
    typer.Option("--spans", metavar="COLUMN", help="Entities: {start, end, type}, or none."),
]
Split = Annotated[
    str | None, typer.Option("--split", metavar="COLUMN", help="train, valid, test; or none.")
]
TaskName = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", help="next-word, text-classification or tagging."),
]
PublicText = Annotated[
    list[Path] | None,
    typer.Option(
        "--public", metavar="FILE", help="Text that anybody may see, a sentence a line (repeat)."
    ),
]
SpecFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="SPEC.yaml", help="Where to write. [default: ./NAME.yaml]"),
]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]


def init_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Your file, or a folder.")],
    task: TaskName = None,
    text: Text = None,
    user: User = None,
    label: Label = None,
    spans: Spans = None,
    split: Split = None,
    public: PublicText = None,
    out: SpecFile = None,
    force: Force = False,
) -> None:
    """Look at a file of your own, and write a spec that runs on it.

    It reads csv, tsv, jsonl, json, parquet, plain text a line, files with a token and its tag a
    line, and folders that a source knows; encoding, delimiter and columns are guessed, and every
    guess is printed with the option that says otherwise.

    \b
      uedp-bench init mail.csv
      uedp-bench init chat.jsonl --text message.text --user from.id
      uedp-bench init reviews.tsv --task text-classification --label stars
    """  # noqa: D301
    from uedp_bench.first_spec.first_spec import first_spec

    target = out or Path(f"{path.name.partition('.')[0] or path.resolve().name}.yaml")
    if target.exists() and not force:
        raise InputError(f"{target} is there already: --force writes over it, --out FILE elsewhere")
    named: dict[Role, str | None] = {
        "text": text, "user": user, "label": label, "entities": spans, "split": split,
    }  # fmt: skip
    named_columns = {role: name for role, name in named.items() if name is not None}
    folder = f"runs/{target.stem}"
    # A command line takes a name that begins with a dash for an option.
    name = f"./{target}" if str(target).startswith("-") else str(target)
    spec = first_spec(
        path, named_columns, task=task, public=tuple(public or ()), names=(name, folder)
    )
    echo("found")
    for line in spec.facts:
        echo(f"  {line}")
    echo("guessed")
    for line in spec.guesses:
        echo(f"  {line}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(spec.text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out {target} cannot be written: {error.strerror}") from None
    command = f"uedp-bench run {shlex.quote(name)} --out {shlex.quote(folder)}"
    names = ", ".join(part.title for part in spec.suggestion.mechanisms)
    echo(f"wrote {target}: {names}; seeds 1, 2, 3")
    echo(f"next: {command} --dry-run    what would happen, and how long it takes")
    echo(f"      {command}")
