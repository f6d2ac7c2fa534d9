"""The contract of sources: where a corpus comes from."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, final

from pydantic import Field, field_validator, model_validator

from uedp_bench.components.component import Component, P, Params, equals
from uedp_bench.contracts.mechanism import CorpusStats
from uedp_bench.corpus import Corpus, with_names
from uedp_bench.errors import PluginError
from uedp_bench.text.annotation.automatic import AnnotationParams, annotate


class SourceParams(Params):
    """Parameters that every source has."""

    public: tuple[Path, ...] = Field(
        default=(),
        description="files of public text (plain or gzipped; one sentence a line, or jsonl whose "
        "'text' is split into sentences), added as the split 'public': vocabulary, pre-training "
        "and reference models come from it",
    )
    valid_is_public: bool = Field(
        default=False,
        description="declare the split 'valid' (text of other users) public: it becomes the split "
        "'public'",
    )
    tune_on_valid: float | None = Field(
        default=None,
        exclude_if=equals(None),
        gt=0,
        lt=1,
        description="leave out the splits 'train' and 'test', and let the users of 'valid' take "
        "their place: this share of them, drawn by hash, is scored, and the others train. Settings "
        "that are chosen so have read nobody whom a guarantee without it protects",
    )
    public_rows: int | None = Field(
        default=None, ge=1, description="keep at most this many public rows (the first)"
    )
    sample: float = Field(
        default=1.0,
        exclude_if=equals(1.0),
        gt=0,
        le=1,
        description="keep the rows of this share of the users of all splits, drawn by hash",
    )
    public_share: float = Field(
        default=0.0,
        exclude_if=equals(0.0),
        ge=0,
        lt=1,
        description="declare the text of this share of the training users public, drawn by hash: "
        "for mechanisms that need public documents of the same kind",
    )
    min_sentences: int = Field(
        default=1,
        exclude_if=equals(1),
        ge=1,
        description="leave out rows of any split with fewer sentences",
    )
    show_samples: bool = Field(
        default=False,
        exclude_if=equals(False),
        description="let results keep a few samples of what attacks read of the text: for text "
        "that is public, or that may be shown; samples of generated text are kept anyway",
    )
    test_sentences: tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]] | None = Field(
        default=None,
        exclude_if=equals(None),
        description="leave out test rows with fewer sentences than the first number or more than "
        "the second",
    )
    annotate: AnnotationParams | None = Field(
        default=None,
        exclude_if=equals(None),
        description="add the layer 'automatic': rows marked where they say what the records of "
        "their user know ({} takes the defaults; the source must have records)",
    )

    @field_validator("test_sentences")
    @classmethod
    def _from_few_to_many(cls, value: tuple[int, int] | None) -> tuple[int, int] | None:
        if value is not None and value[0] > value[1]:
            raise ValueError(f"the first number, {value[0]}, is above the second, {value[1]}")
        return value

    @model_validator(mode="after")
    def _valid_is_one_thing(self) -> Self:
        if self.tune_on_valid is not None and self.valid_is_public:
            raise ValueError(
                f"tune_on_valid={self.tune_on_valid} trains and scores on the split 'valid', which "
                "valid_is_public=true makes public; give one of the two"
            )
        return self

    @property
    def selects(self) -> bool:
        """True if rows are left out or made public, so that documented sizes do not hold."""
        tuned = self.tune_on_valid is not None
        return tuned or self.sample < 1 or self.public_share > 0 or self.min_sentences > 1


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

        given = {"name": value} if isinstance(value, str) else value
        if not isinstance(given, dict) or not isinstance(given.get("name"), str):
            return given
        params = given.get("params", {})
        if not isinstance(params, dict):
            return given
        live = sources.create(given["name"], params)
        return {**given, "params": live.params.model_dump(mode="json")}


class Source(Component[P]):
    """Base of all sources. `read` is deterministic: a source's seeds are its own parameters.

    Attributes:
        needs_path: the parameter `path` is required.
        generated: its text is invented: boards show real text first.
    """

    needs_path: ClassVar[bool] = True
    generated: ClassVar[bool] = False

    @abstractmethod
    def read(self) -> Corpus:
        """The corpus as the data give it, with all its splits.

        Raises:
            InputError: for a missing file, a missing column, nulls or an empty corpus.
        """

    def load(self) -> Corpus:
        """What `read` gives, after the parameters that every source has were applied to it.

        Raises:
            InputError: see `read`, `text.public_text.add_public` and
                `text.annotation.automatic.annotate`.
            PluginError: if the source's parameters do not derive from `SourceParams`.
        """
        from uedp_bench.text.public_text import add_public

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
        """Why `proven` must refuse on this corpus: rows of one user depend on those of others."""
        return ()

    def undeclared(self) -> frozenset[str]:
        """Content whose classes are collected from rows: `labels`, or as `Component.reads` has it.

        A class that one row alone has is there or not as that row is, and a network that has an
        output for it tells (docs/proofs.md, C4). None by default.
        """
        return frozenset()

    @final
    def shows_samples(self) -> bool:
        """True if results may hold samples of its text: it is generated, or somebody asked."""
        asked = isinstance(self.params, SourceParams) and self.params.show_samples
        return self.generated or asked

    @final
    def all_refusals(self) -> tuple[str, ...]:
        """`refusals`, and those of the annotation and detector that the parameters ask for."""
        from uedp_bench.text.entities import DetectionParams

        asked = self.params.annotate if isinstance(self.params, SourceParams) else None
        detector = self.params if isinstance(self.params, DetectionParams) else None
        return (
            *self.refusals(),
            *(() if asked is None else asked.refusals()),
            *(() if detector is None else detector.refusals()),
        )
