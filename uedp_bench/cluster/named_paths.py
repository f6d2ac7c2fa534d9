"""Files that a spec names: what they hold travels to other machines, where they lie does not."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uedp_bench import registry
from uedp_bench.component import MayBePath
from uedp_bench.files.regular_files import open_regular
from uedp_bench.harness.named_files import RELEASE, RESULT, path_mark
from uedp_bench.results import ComponentSpec, RunSpec
from uedp_bench.second_source import names_source

CHUNK_BYTES = 64 * 2**20
"""Bytes of an object in which the content of files travels."""

Change = Callable[[str, MayBePath], str]
"""Stands in place of a path that a parameter names."""


@dataclass(frozen=True)
class NamedFiles:
    """A file or folder that a parameter names.

    Attributes:
        where: its absolute path on the machine that starts the grid.
        base: name of the folder above `inside`; empty for a lone file.
        inside: path of what is named below that folder, or the name of the file.
        files: (path below the folder, bytes, SHA-256) of every file that travels.
    """

    where: str
    base: str
    inside: str
    files: tuple[tuple[str, int, str], ...]

    @property
    def digest(self) -> str:
        """Name of this content: of paths below the folder, and of what the files hold."""
        return hashlib.sha256(repr((self.base, self.inside, self.files)).encode()).hexdigest()[:32]

    @property
    def root(self) -> Path:
        """Folder that the paths of `files` start at, on the machine that starts the grid."""
        path = Path(self.where)
        return path.parents[len(Path(self.inside).parts) - 1] if self.inside else path

    @staticmethod
    def of(path: Path, *, of_a_run: bool = False) -> NamedFiles:
        """What lies at a path.

        Args:
            path: of a file or folder.
            of_a_run: the result beside a release travels with it.
        """
        where = path.absolute()
        if not where.is_dir():
            return NamedFiles(str(where), "", where.name, _told([where], where.parent))
        found = sorted(each for each in where.rglob("*") if each.is_file())
        beside = where.parent / RESULT
        if of_a_run and where.name == RELEASE and beside.is_file():
            root = where.parent
            return NamedFiles(str(where), root.name, RELEASE, _told([*found, beside], root))
        return NamedFiles(str(where), where.name, "", _told(found, where))

    def lies_at(self, path: Path) -> bool:
        """True if the same content lies at a path of this machine."""
        try:
            if not path.exists():
                return False
            return NamedFiles.of(path, of_a_run=self.inside == RELEASE).files == self.files
        except (OSError, ValueError):  # somebody else's, or being changed
            return False

    def chunks(self) -> Iterator[bytes]:
        """The content of all files one after the other, in pieces of `CHUNK_BYTES`."""
        held = bytearray()
        for name, _, _ in self.files:
            with (self.root / name).open("rb") as file:
                while part := file.read(CHUNK_BYTES - len(held)):
                    held += part
                    if len(held) == CHUNK_BYTES:
                        yield bytes(held)
                        held.clear()
        if held:
            yield bytes(held)

    def write(self, folder: Path, chunks: Iterable[bytes]) -> None:
        """Writes the files into a folder, for its owner alone.

        Raises:
            OSError: if the chunks hold something else: the files have changed.
        """
        stream, held = iter(chunks), memoryview(b"")
        for name, size, digest in self.files:
            path, left, seen = folder / name, size, hashlib.sha256()
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with path.open("wb") as file:
                while left:
                    if not held:
                        held = memoryview(next(stream, b""))
                    part, held = held[:left], held[left:]
                    if not part:
                        break
                    file.write(part)
                    seen.update(part)
                    left -= len(part)
            if seen.hexdigest() != digest:
                raise OSError(f"{self.where} changed while it was read")

    def below(self, folder: Path) -> Path:
        """Where what is named lies once `write` has written into a folder."""
        return folder / self.inside


def _told(files: Iterable[Path], root: Path) -> tuple[tuple[str, int, str], ...]:
    out = []
    for path in files:
        with open_regular(path, "a file that a parameter names") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            out.append((path.relative_to(root).as_posix(), file.tell(), digest))
    return tuple(out)


def named_in(specs: Iterable[RunSpec]) -> dict[str, NamedFiles]:
    """All files and folders that specs name and that exist, by the text that names them."""
    found: dict[str, NamedFiles] = {}

    def noted(text: str, mark: MayBePath) -> str:
        if text not in found and _exists(text):
            found[text] = NamedFiles.of(Path(text), of_a_run=mark.of_a_run)
        return text

    for spec in specs:
        with_paths(spec, noted)
    return found


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # no file could have this name
        return False


def with_paths(spec: RunSpec, change: Change) -> RunSpec:
    """The spec with every text changed that may name a file or folder."""

    def of(ref: ComponentSpec, kind: registry.Registry[Any]) -> ComponentSpec:
        component, params = kind.get(ref.name), dict[str, Any]()
        for name, value in ref.params.items():
            mark = path_mark(component, name)
            params[name] = value
            if value is None:
                continue
            if names_source(component.Params.model_fields[name].annotation):
                second = of(ComponentSpec.model_validate(value), registry.sources)
                params[name] = second.model_dump(mode="json")
            elif mark is not None:
                params[name] = _changed(value, mark, change)
        return ref.model_copy(update={"params": params})

    return spec.model_copy(
        update={
            "task": of(spec.task, registry.tasks),
            "source": of(spec.source, registry.sources),
            "model": of(spec.model, registry.models),
            "mechanism": tuple(of(ref, registry.mechanisms) for ref in spec.mechanism),
            "attacks": tuple(of(ref, registry.attacks) for ref in spec.attacks),
        }
    )


def _changed(value: Any, mark: MayBePath, change: Change) -> Any:
    if isinstance(value, list | tuple):
        return [_changed(part, mark, change) for part in value]
    text = str(value)
    return value if text in mark.words else change(text, mark)
