"""Specs in YAML: files of users, and those that come with the package."""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from uedp_bench.errors import InputError, nearest, shown
from uedp_bench.io.files import read_text, shown_path
from uedp_bench.io.yaml_files import MOST_BYTES, load_yaml
from uedp_bench.spec.spec import Spec


def read_spec(path_or_name: str) -> dict[str, Any]:
    """Read a YAML spec from a path, or one of the packaged specs by name.

    Raises:
        InputError: if it is neither, or not a mapping.
    """
    path = Path(path_or_name)
    where = f"the spec {shown_path(path)}"
    text = read_text(path, "spec", MOST_BYTES) if _is_there(path) else _packaged(path_or_name)
    try:
        data = load_yaml(text)
    except InputError as error:
        raise InputError(f"{where} is not YAML that can be read: {error}") from None
    if not isinstance(data, dict):
        raise InputError(f"{where} must be a mapping with keys {', '.join(Spec.model_fields)}")
    return data


def _is_there(path: Path) -> bool:
    """True if something other than a folder has this name: folders are called as specs are."""
    try:
        return os.path.lexists(path) and not path.is_dir()
    except (OSError, ValueError):  # no name of a file
        return False


def _packaged(path_or_name: str) -> str:
    name = path_or_name.removeprefix("specs/").removesuffix(".yaml")
    if name not in packaged_specs():
        names = {each: each for each in packaged_specs()} | _beside(path_or_name)
        near = nearest(name.removesuffix(".yml"), names)
        hint = None if near is None else names[near]
        choices = ", ".join(n for n in packaged_specs() if not n.startswith("paper/"))
        raise InputError(
            f"no spec {shown(path_or_name)}: neither a file nor a packaged spec; "
            + (
                f"did you mean {hint!r}?"
                if hint
                else f"packaged: {choices}, and paper/... of docs/reproductions"
            )
        )
    return files("uedp_bench.specs").joinpath(f"{name}.yaml").read_text(encoding="utf-8")


def _beside(path: str) -> dict[str, str]:
    """Paths of specs in the folder that a path names, by what they are without their endings."""
    try:
        files = [file for file in Path(path).parent.iterdir() if file.suffix in (".yaml", ".yml")]
    except (OSError, ValueError):  # no name of a folder
        return {}
    return {str(file.with_suffix("")): str(file) for file in sorted(files)}


def packaged_specs() -> tuple[str, ...]:
    """Names of the packaged specs."""
    root = files("uedp_bench.specs")
    names = [entry.name for entry in root.iterdir()]
    names += [f"paper/{entry.name}" for entry in root.joinpath("paper").iterdir()]
    return tuple(sorted(n.removesuffix(".yaml") for n in names if n.endswith(".yaml")))
