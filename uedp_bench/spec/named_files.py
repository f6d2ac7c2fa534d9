"""Files that parameters name: their content counts, their place does not."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

from uedp_bench.components.component import Component, MayBePath
from uedp_bench.errors import InputError, Problems
from uedp_bench.io.files import open_regular, shown_path, state_of
from uedp_bench.text.pretrained import adapter_base

MOST_FILES = 10_000
"""Files in a folder that a parameter names, at most; all of them are read."""

RELEASE, RESULT = "release", "result.json"
"""Names in a run's folder: its release, and its result."""

Content = Callable[[Any, MayBePath], Any]
"""Stands in place of the value of a parameter that may name files."""


def path_mark(component: type[Component[Any]], name: str) -> MayBePath | None:
    """Mark of a parameter that may name files or folders; None where it never does."""
    field = component.Params.model_fields[name]
    mark = next((part for part in field.metadata if isinstance(part, MayBePath)), None)
    return MayBePath() if mark is None and _is_path(field.annotation) else mark


def check_files(components: Iterable[Component[Any]]) -> None:
    """Refuse files that are not there, or of no use, before anything is loaded or trained.

    Raises:
        InputError: naming the parameter, its value and what it may be.
        SeveralInputError: if there are several.
    """
    problems, unusable = Problems(), Problems()
    every = [*components]
    for one in every:
        for name, field in type(one.params).model_fields.items():
            mark, value = path_mark(type(one), name), getattr(one.params, name)
            if mark is None:
                continue
            for path in _paths(value, mark, only_paths=_is_path(field.annotation)):
                missing = [file for file in mark.holds if not _exists(path / file)]
                if _exists(path) and not missing:
                    continue
                lacks = f"has no {', no '.join(missing)}" if _exists(path) else "is not there"
                with problems.collect():
                    raise InputError(f"{one.name}.{name}: {shown_path(path)} {lacks}; allowed is: "
                                     f"{field.description}")  # fmt: skip
    problems.check()
    for one in every:
        with unusable.collect():
            one.check_files()
    unusable.check()


def _paths(value: Any, mark: MayBePath, *, only_paths: bool) -> Iterator[Path]:
    """Paths among the values of a parameter; a name that may be on the hub is none."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from _paths(part, mark, only_paths=only_paths)
        return
    if value is None or value in mark.words:
        return
    text = str(value)
    package = ":" in text.partition("/")[0]  # as in spacy:NAME
    if (only_paths and not package) or mark.words or text.startswith(("/", "./", "../")):
        yield Path(text)


def _is_path(annotation: Any) -> bool:
    return annotation is Path or any(_is_path(part) for part in get_args(annotation))


def content_of(value: Any, mark: MayBePath) -> Any:
    """Digests of the files and folders that a parameter names; what names none stays."""
    if isinstance(value, list):
        return [content_of(part, mark) for part in value]
    if value is None or value in mark.words or not _exists(Path(value)):
        return value
    path = Path(value).resolve()
    digests = _digest_of_files(path)
    base = adapter_base(path)
    if base is not None and Path(base) != path and _exists(Path(base)):
        digests = f"{digests}{_digest_of_files(Path(base).resolve())}"
    if mark.of_a_run and path.name == RELEASE and (result := path.parent / RESULT).is_file():
        # Guarantees compose what the result says: two records of one release are two inputs.
        return hashlib.sha256(f"{digests}\0{_digest_of_files(result)}".encode()).hexdigest()[:16]
    return digests


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # no file could have this name
        return False


def _digest_of_files(path: Path) -> str:
    folder = path.is_dir()
    inside = (p for p in path.rglob("*") if p.is_file()) if folder else iter([path])
    files = sorted(itertools.islice(inside, MOST_FILES + 1))
    if len(files) > MOST_FILES:
        raise InputError(f"{shown_path(path)}: a folder that a parameter names has more than "
                         f"{MOST_FILES:,} files; name the one that is meant")  # fmt: skip
    return _digest_of(path, folder, tuple(files), tuple(map(state_of, files)))


@lru_cache(maxsize=64)
def _digest_of(path: Path, folder: bool, files: tuple[Path, ...], states: object) -> str:
    # States are arguments so that files that were written anew are read anew.
    digest = hashlib.sha256()
    for file in files:
        name = file.relative_to(path).as_posix() if folder else ""
        with open_regular(file, "a file that a parameter names") as content:
            held = hashlib.file_digest(content, "sha256").hexdigest()
        digest.update(f"{name}\0{held}".encode())
    return digest.hexdigest()[:16]
