"""The identity of a run: hashes of everything that defines it, and of no path.

Of files that parameters name, the content counts, and their place does not.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, get_args

from uedp_bench.components import registry
from uedp_bench.components.component import Component, MayBePath
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import UNPROTECTED, ComponentSpec, RunSpec
from uedp_bench.contracts.source import names_source
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError, Problems
from uedp_bench.io.files import open_regular, shown_path, state_of
from uedp_bench.text.pretrained import adapter_base
from uedp_bench.version import ENGINE

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


# --------------------------------------------------------------------------------------- identities


AND = "+"
"""Between the fingerprints of the two corpora of a run."""


@dataclass(frozen=True)
class Identity:
    """Identity of a run, and the names that follow from it.

    No path is part of it: the corpus' fingerprint stands for what a source's paths hold, and other
    files and folders count by their content.

    Attributes:
        parts: parts of `identity_parts`.
    """

    parts: Mapping[str, Any]

    @staticmethod
    def from_spec(spec: RunSpec, fingerprint: str = "") -> Identity:
        """The identity of a run on a corpus; without one it is that of the spec alone."""
        return Identity(identity_parts(spec, fingerprint))

    @cached_property
    def _hashes(self) -> tuple[str, str]:
        return identity_of(self.parts)

    @property
    def id(self) -> str:
        """Name of the run's folder."""
        return self._hashes[0]

    @property
    def group(self) -> str:
        """The group: what runs that differ in the seed alone have in common."""
        return self._hashes[1]

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the data (`fingerprint_of`); empty where none was made."""
        return AND.join(str(self.parts[name]) for name in _DATA if name in self.parts)

    def on(self, fingerprint: str) -> Identity:
        """Identity of this run on the data of a fingerprint."""
        rest = {name: value for name, value in self.parts.items() if name not in _DATA}
        return Identity({**rest, **_data_parts(fingerprint)})


_DATA = ("corpus", "downstream")
"""Parts that stand for the data of a run."""


def _data_parts(fingerprint: str) -> dict[str, str]:
    corpus, _, downstream = fingerprint.partition(AND)
    return {"corpus": corpus, **({"downstream": downstream} if downstream else {})}


def fingerprint_of(corpus: Corpus, downstream: Corpus | None) -> str:
    """The fingerprint of a run's data: of its corpus, and of its task's second one."""
    both = (corpus,) if downstream is None else (corpus, downstream)
    return AND.join(each.fingerprint for each in both)


def identity_parts(
    spec: RunSpec, fingerprint: str, content: Content = content_of
) -> dict[str, Any]:
    """Parts that define the run: its spec with versions, and digests in place of paths.

    Args:
        spec: spec of the run.
        fingerprint: fingerprint of the corpus as the source made it, and of that of the task's
            second source (`fingerprint_of`); empty where none was made.
        content: content in place of paths.
    """
    parts: dict[str, Any] = {
        "engine": ENGINE,
        "delta": spec.delta,
        **_data_parts(fingerprint),
        "task": component_identity(spec.task, registry.tasks, content),
        "source": component_identity(spec.source, registry.sources, None),
        "model": component_identity(spec.model, registry.models, content),
        "mechanism": [
            component_identity(ref, registry.mechanisms, content) for ref in spec.mechanism
        ],
        "attacks": [component_identity(ref, registry.attacks, content) for ref in spec.attacks],
        "seed": spec.seed,
    }
    kinds = [registry.mechanisms.get(ref.name) for ref in spec.mechanism]
    if spec.attacks or not any(issubclass(kind, TrainingMechanism) for kind in kinds):
        # It trains where no mechanism does, and the models that attacks compare with.
        plain = registry.mechanisms.get(UNPROTECTED)
        parts["unprotected"] = [UNPROTECTED, plain.version, plain.Params().model_dump(mode="json")]
    if spec.noise_source != "seed":  # results of before it was a choice keep their ids
        parts["noise_source"] = spec.noise_source
    if spec.clients is not None:
        parts["clients"] = spec.clients.model_dump(mode="json")
    if spec.selection is not None:
        parts["selection"] = spec.selection.declared()
    return parts


def component_identity(
    ref: ComponentSpec, kind: registry.Registry[Any], content: Content | None = content_of
) -> list[Any]:
    """Name, version and parameters, with digests of content in place of paths.

    Of a component of a lone file, the digest of that file comes last: nobody raises the version of
    a plug-in at every change. What the file imports from elsewhere is not part of it.

    Args:
        ref: the component.
        kind: registry of the component.
        content: content in place of paths; None leaves out all parameters that name a file or
            folder.
    """
    component: type[Component[Any]] = kind.get(ref.name)
    params: dict[str, Any] = {}
    for name, value in ref.params.items():
        mark = path_mark(component, name)
        if value is not None and names_source(component.Params.model_fields[name].annotation):
            params[name] = component_identity(ComponentSpec(**value), registry.sources, None)
        elif mark is None:
            params[name] = value
        elif content is not None:
            params[name] = content(value, mark)
    source = kind.digest(ref.name)
    return [ref.name, component.version, params, *([] if source is None else [source])]
