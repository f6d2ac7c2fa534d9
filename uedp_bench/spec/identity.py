"""The identity of a run: hashes of everything that defines it, and of no path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from uedp_bench.components import registry
from uedp_bench.components.component import Component
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import ComponentSpec, RunSpec
from uedp_bench.contracts.second_source import names_source
from uedp_bench.corpus import Corpus
from uedp_bench.spec.named_files import Content, content_of, path_mark
from uedp_bench.version import ENGINE

UNPROTECTED = "noiseless"
"""Mechanism that trains where no protection is asked for."""

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
    if spec.attacks or not any(_trains(ref) for ref in spec.mechanism):
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


def _trains(ref: ComponentSpec) -> bool:
    return issubclass(registry.mechanisms.get(ref.name), TrainingMechanism)


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
