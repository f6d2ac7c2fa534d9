"""Reference pages that are made from the code: commands, and names for Python."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import textwrap
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import uedp_bench
from uedp_bench import api
from uedp_bench.cli.main import parser


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages."""
    pages = {
        "reference/command-line.md": command_line(),
        "reference/python.md": names("uedp_bench", _PYTHON, uedp_bench.__all__),
        "reference/components.md": components(),
    }
    for where, text in pages.items():
        files.append(File.generated(config, where, content=text))
    return files


_PYTHON = """# Python reference

These names come from `import uedp_bench as ub`. [From Python](../python.md) shows how they are
used."""

_API = """# Reference for components

A mechanism, attack, task, source or model of your own imports these names. [Components of your
own](../registry.md) has a page for each kind, with an example that runs."""


def command_line() -> str:
    """The page of all commands, as `--help` says it."""
    head = "# Commands\n\nThis is what `--help` prints of each command.\n"
    return "\n".join([head, *_commands(parser(), None, "uedp-bench", 2)])


def _commands(command: Any, parent: Any, name: str, level: int) -> list[str]:
    """The sections of a command and of those below it."""
    context = command.context_class(command, info_name=name.split()[-1], parent=parent)
    parts = [f"{'#' * level} {name}\n", _help(command.help or "")]
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts.append(f"```text\n{usage}\n```\n")
    records = [part.get_help_record(context) for part in command.get_params(context)]
    rows = [
        f"| `{_cell(option)}` | {_text(help_text)} |" for option, help_text in filter(None, records)
    ]
    if rows:
        parts.append("\n".join(["| option or argument | meaning |", "|---|---|", *rows, ""]))
    for below in getattr(command, "commands", {}).values():
        if not below.hidden:
            parts += _commands(below, context, f"{name} {below.name}", min(level + 1, 3))
    return parts


def _help(text: str) -> str:
    """A docstring as typer prints it: what follows a backspace stands as it is."""
    parts = []
    for part in textwrap.dedent(text).strip().split("\n\n"):
        kept, _, code = part.partition("\b")
        prose = " ".join(kept.split())
        parts += [_text(prose)] if prose else []
        parts += [f"```text\n{textwrap.dedent(code).strip(chr(10))}\n```"] if code.strip() else []
    return "\n\n".join(parts) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _text(text: str) -> str:
    for sign in "\\*_[]<>":
        text = text.replace(sign, f"\\{sign}")
    return _cell(text)


def components() -> str:
    """Page of all names for authors of components, by the module to import them from."""
    sections = []
    for part in ("", *(f".{each.name}" for each in pkgutil.iter_modules(api.__path__))):
        module = f"{api.__name__}{part}"
        owner = importlib.import_module(module)
        head = f"## `{module}`\n\n{str(owner.__doc__).splitlines()[0]}"
        sections.append(names(module, head, owner.__all__, level=3))
    return "\n\n".join([_API, *sections])


def names(module: str, head: str, listed: Any, level: int = 2) -> str:
    """Text that documents names of a module, each where it is defined.

    Args:
        module: module that has the names.
        head: text above them.
        listed: names to document; values that are neither class nor function are left out.
        level: level of their headings.
    """
    owner = importlib.import_module(module)
    entries = []
    for name in sorted(listed, key=str.lower):
        member = getattr(owner, name)
        home = getattr(member, "__module__", "")
        if home.startswith("uedp_bench") and (
            inspect.isclass(member) or inspect.isfunction(member)
        ):
            entries.append(
                f"{'#' * level} {name}\n\n::: {home}.{member.__qualname__}\n"
                f"    options:\n      heading_level: {level + 1}\n"
            )
    return "\n\n".join([head, *entries])
