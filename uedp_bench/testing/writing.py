"""Writes a component that works, with its test, from a template."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template

from uedp_bench.components import registry
from uedp_bench.errors import InputError, UnknownNameError, shown
from uedp_bench.testing.checks import KINDS

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

EXAMPLE = "author,region,stars,text\n" + "".join(
    f"author{at // 2},{'north' if at % 3 else 'south'},{1 + at % 5},"
    f"a {'lovely' if at % 5 > 2 else 'dull'} book number {at}\n"
    for at in range(40)
)
"""Rows of the file that a new source reads."""


def write_component(kind: str, name: str, folder: Path, *, package: bool = False) -> list[Path]:
    """Write a component and its test; nothing that exists is overwritten.

    Args:
        kind: kind of the component: "mechanism", "attack", "task", "source" or "model".
        name: name of the component: lower-case words joined by hyphens.
        folder: folder of the files, or of the package.
        package: True to write a package that registers by an entry point, not a lone file.

    Returns:
        The files that were written.

    Raises:
        UnknownNameError: for another kind.
        InputError: for a name that is none or is taken, or a file that exists.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of component", kind, KINDS)
    if not NAME.fullmatch(name):
        raise InputError(f"the name {shown(name)} is not lower-case words joined by hyphens")
    if name in registry.REGISTRIES[f"{kind}s"]:
        raise InputError(f"there is a {kind} {name} already: choose another name")
    module = name.replace("-", "_")
    target = folder / name if package else folder
    texts = {f"{module}.py": f"{kind}.py", f"test_{module}.py": f"test_{kind}.py"}
    if package:
        texts |= {"pyproject.toml": "pyproject.toml", "README.md": "README.md"}
    words = {
        "kind": kind,
        "name": name,
        "module": module,
        "Class": "".join(word.capitalize() for word in name.split("-")),
        "title": name.replace("-", " ").capitalize(),
    }
    files = {target / file: _filled(text, words) for file, text in texts.items()}
    if package:
        files[target / f"{module}.py"] = _by_entry_point(files[target / f"{module}.py"], kind)
    if kind == "source":
        files[target / f"{module}_example.csv"] = EXAMPLE
    for file in files:
        if file.exists():
            raise InputError(f"{file} exists: choose another name or folder")
    target.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)


def _filled(name: str, words: dict[str, str]) -> str:
    text = (files("uedp_bench.testing") / "templates" / f"{name}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(words)


def _by_entry_point(text: str, kind: str) -> str:
    """The module without its decorator: an entry point registers it."""
    text = text.replace(f"@{kind}s.register\n", "")
    text = text.replace(f"    {kind}s,\n", "")  # a line of its own
    return text.replace(f", {kind}s\n", "\n")
