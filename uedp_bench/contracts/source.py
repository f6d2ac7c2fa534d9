"""Contract of sources, which read a corpus."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, final, get_args

from pydantic import Field, model_validator

from uedp_bench.components import registry
from uedp_bench.components.component import Component, P, Params
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.contracts.source_rows import SourceParams, add_public
from uedp_bench.corpus import Corpus, with_names
from uedp_bench.errors import PluginError
from uedp_bench.text.automatic_annotation import annotate


@dataclass(frozen=True)
class CorpusStats:
    """Sizes of the private training split, as far as a mechanism may know them.

    Attributes:
        users, rows, sensitive_rows, entities: counts.
        public: True if the source documents them (public constants); False if they were counted
            from private data, and then `proven` refuses what depends on them.
        downstream: sizes of the task's second source, where it has one.
        clients: the public share of each client in the rows (`contracts.clients`); none where the
            run has no clients.
    """

    users: int
    rows: int
    sensitive_rows: int
    entities: int
    public: bool
    downstream: CorpusStats | None = None
    clients: tuple[float, ...] = ()


class SourceRef(Params):
    """A source with its parameters, as the value of a parameter: the second source of a task.

    A task that has a parameter of this type trains its last stage on the rows of that source, and
    is scored on them. A name alone stands for the source with its defaults; all parameters are
    checked and filled in. The fingerprint of the corpus enters the identity of the run.
    """

    name: str = Field(description="name of a registered source")
    params: dict[str, Any] = Field(default={}, description="parameters of the source")

    @model_validator(mode="before")
    @classmethod
    def _filled_in(cls, value: Any) -> Any:
        from uedp_bench.components.registry import sources

        ref = {"name": value} if isinstance(value, str) else value
        if not isinstance(ref, dict) or not isinstance(ref.get("name"), str):
            return ref
        params = ref.get("params", {})
        if not isinstance(params, dict):
            return ref
        live = sources.create(ref["name"], params)
        return {**ref, "params": live.params.model_dump(mode="json")}


class Source(Component[P]):
    """Base of all sources. `read` is deterministic: a source's seeds are its own parameters.

    Attributes:
        needs_path: True if the parameter `path` is required.
        generated: True if its text is invented: boards show real text first.
        title: name of its data on the front page; empty if it reads any file, whose name stands
            there then.
    """

    needs_path: ClassVar[bool] = True
    title: ClassVar[str] = ""
    generated: ClassVar[bool] = False

    @abstractmethod
    def read(self) -> Corpus:
        """Read the corpus as the data give it, with all its splits.

        Raises:
            InputError: for a missing file, a missing column, nulls or an empty corpus.
        """

    def load(self) -> Corpus:
        """Read the corpus, and apply the parameters that every source has.

        Raises:
            InputError: see `read`, `source_rows.add_public` and
                `text.automatic_annotation.annotate`.
            PluginError: if the source's parameters do not derive from `SourceParams`.
        """
        if not isinstance(self.params, SourceParams):
            raise PluginError(
                f"the source {self.name!r} has parameters of the type "
                f"{type(self.params).__name__}, which does not derive from SourceParams"
            )
        corpus = add_public(with_names(self.read()), self.params)
        return corpus if self.params.annotate is None else annotate(corpus, self.params.annotate)

    def documented(self) -> CorpusStats | None:
        """Sizes of the train split that are public knowledge (`public=True`), else None."""
        return None

    def refusals(self) -> tuple[str, ...]:
        """Reasons why `proven` must refuse on this corpus: rows of a user depend on other users."""
        return ()

    def undeclared(self) -> frozenset[str]:
        """Content whose classes are collected from rows: `labels`, or as `Component.reads` has it.

        A class of one row alone exists only with that row, and a network that has an output for it
        tells (docs/proofs.md, C4). None by default.
        """
        return frozenset()

    @final
    def shows_samples(self) -> bool:
        """True if results may hold samples of its text: it is generated, or shown by choice."""
        show = isinstance(self.params, SourceParams) and self.params.show_samples
        return self.generated or show

    @final
    def all_refusals(self) -> tuple[str, ...]:
        """`refusals`, and those of the annotation and detector that the parameters set."""
        from uedp_bench.corpus.entity_detection import DetectionParams

        annotation = self.params.annotate if isinstance(self.params, SourceParams) else None
        detector = self.params if isinstance(self.params, DetectionParams) else None
        return (
            *self.refusals(),
            *(() if annotation is None else annotation.refusals()),
            *(() if detector is None else detector.refusals()),
        )


def second_source(task: ComponentSpec) -> ComponentSpec | None:
    """Second source that the parameters of a task name; None if they name none."""
    fields = registry.tasks.get(task.name).Params.model_fields
    for name, value in task.params.items():
        if value is not None and name in fields and names_source(fields[name].annotation):
            return ComponentSpec.model_validate(value)
    return None


def names_source(annotation: Any) -> bool:
    """True if a parameter of this type names a second source."""
    return annotation is SourceRef or any(map(names_source, get_args(annotation)))
