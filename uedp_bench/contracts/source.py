"""Contract of sources, which read a corpus, and the parameters that every source has."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, final, get_args

import numpy as np
from pydantic import Field, field_validator, model_validator

from uedp_bench.components import registry
from uedp_bench.components.component import Component, P, Params, equals
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.corpus import (
    SPLITS,
    Corpus,
    Spans,
    concatenate,
    distinct,
    names_of_ids,
    owner_numbers,
    user_names,
    user_numbers,
    with_names,
)
from uedp_bench.errors import InputError, PluginError
from uedp_bench.text.automatic_annotation import AnnotationParams, annotate
from uedp_bench.text.sentences import read_public, split_sentences

PUBLIC = SPLITS.index("public")
SCORED_STAY = (
    "neighbours have the same rows in 'valid' and 'test': with source.public_share, a user who has "
    "one there is not made public"
)
"""Assumption of guarantees about a corpus of which a share is public."""

ROWS_PER_USER = 20
"""Files of plain text have no authors: this many consecutive lines count as one."""


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


def add_public(corpus: Corpus, params: SourceParams) -> Corpus:
    """Append the rows of the files in `params.public` as split `public`.

    With `params.valid_is_public`, the corpus' own split `valid` is public too. Appended rows have
    users of their own, no entities, no label and no attributes; no layer covers them. At most
    `params.public_rows` public rows are kept, those that the source made itself first.

    Before that, the split `valid` takes the place of all others (`tune_on_valid`), a sample of the
    users is drawn (`sample`), rows of too few sentences are left out (`min_sentences`,
    `test_sentences`), and with `public_share` some of the training users become
    public.

    Raises:
        InputError: for a file that is missing, unreadable or without a sentence, if users of the
            split `valid` are to be public or tuned on and have rows in other splits as well, or if
            no training or test row is left.
    """
    if params.tune_on_valid is not None:
        corpus = _valid_alone(corpus, params.tune_on_valid)
    corpus = _of_length(_sample(corpus, params.sample), params)
    corpus = _share(corpus, params.public_share)
    if params.valid_is_public:
        if shared := _shared(corpus, "train"):  # they would be trained on without protection
            raise InputError(
                f"valid_is_public: {shared} users of the split valid are in train too, so their "
                "text is not public; only text of other users can be"
            )
        corpus = corpus.with_split(corpus.where("valid"), "public")
    own = np.flatnonzero(corpus.split == PUBLIC)
    room = None if params.public_rows is None else max(params.public_rows - len(own), 0)
    texts = read_public(params.public, room)
    if texts:
        corpus = _append(corpus, texts)
    if params.public_rows is not None and len(own) > params.public_rows:
        keep = np.setdiff1d(np.arange(len(corpus)), own[params.public_rows :])
        corpus = replace(corpus.take(keep), origin=np.arange(len(keep)))
    return corpus


def _valid_alone(corpus: Corpus, scored: float) -> Corpus:
    """Keep public rows and those of `valid`: users drawn by hash are `test`, the others `train`.

    Raises:
        InputError: if one of the two has no row, or users of `valid` have rows in `train` or
            `test`: a guarantee that covers them would not be for free.
    """
    if shared := _shared(corpus, "train", "test"):
        raise InputError(
            f"source.tune_on_valid={scored}: {shared} users of the split 'valid' have rows in "
            "'train' or 'test' too; settings may be chosen on other users alone"
        )
    kept = np.flatnonzero(corpus.where("valid", "public"))
    corpus = replace(corpus.take(kept), origin=np.arange(len(kept)))
    valid = corpus.where("valid")
    owned = corpus.users >= 0  # rows of nobody train
    test = valid & owned & (owner_numbers(corpus, 0, "tune") < scored)
    if not test.any() or not (valid & ~test).any():
        users = distinct(corpus.users[valid & (corpus.users >= 0)])
        raise InputError(
            f"source.tune_on_valid={scored} cuts {len(users)} users of "
            "the split 'valid' into users to train on and users to score, and one of them has no "
            "row; have the source cut more users off (valid=SHARE)"
        )
    return corpus.with_split(valid & ~test, "train").with_split(test, "test")


def _of_length(corpus: Corpus, params: SourceParams) -> Corpus:
    """Leave out rows of too few sentences, and test rows of too many."""
    if params.min_sentences == 1 and params.test_sentences is None:
        return corpus
    counts = np.array([len(sentences) for sentences in split_sentences(corpus.texts)])
    keep = counts >= params.min_sentences
    if params.test_sentences is not None:
        low, high = params.test_sentences
        keep &= ~corpus.where("test") | ((counts >= low) & (counts <= high))
    kept = corpus.take(np.flatnonzero(keep))
    for split in ("train", "test"):
        if corpus.where(split).any() and not kept.where(split).any():
            raise InputError(
                f"source.min_sentences={params.min_sentences} and test_sentences="
                f"{params.test_sentences} leave no row in the split {split!r}: its rows have up to "
                f"{counts[corpus.where(split)].max()} sentences"
            )
    return replace(kept, origin=np.arange(len(kept)))


def _sample(corpus: Corpus, share: float) -> Corpus:
    """Keep the rows of a share of the users, drawn by hash of their name, and rows of nobody."""
    if share == 1:
        return corpus
    drawn = (owner_numbers(corpus, 0, "sample") < share) | (corpus.users < 0)
    kept = corpus.take(np.flatnonzero(drawn))
    for split in ("train", "test"):
        if corpus.where(split).any() and not kept.where(split).any():
            raise InputError(f"source.sample={share} leaves no row in {split!r}; take more")
    return replace(kept, origin=np.arange(len(kept)))


def _share(corpus: Corpus, share: float) -> Corpus:
    """Make a share of the training users public, drawn by the hash of their name."""
    if share == 0:
        return corpus
    numbers = user_numbers(corpus, 0, "public")
    elsewhere = np.zeros(corpus.user_count, dtype=bool)
    owned = corpus.users >= 0
    elsewhere[corpus.users[owned & ~corpus.where("train", "public")]] = True
    drawn = (numbers < share) & ~elsewhere
    moved = corpus.where("train") & owned & np.append(drawn, False)[corpus.users]
    if not moved.any():
        raise InputError(
            f"source.public_share={share} draws no training user who has no valid or test row; "
            "give a larger share, or public files"
        )
    return replace(corpus.with_split(moved, "public"), quotas=(*corpus.quotas, SCORED_STAY))


def _shared(corpus: Corpus, *others: str) -> int:
    """Number of users of the split `valid` with rows in one of other splits too."""
    valid, other = (distinct(corpus.users[corpus.where(*names)]) for names in (("valid",), others))
    return int((np.intersect1d(valid, other) >= 0).sum())


def _append(corpus: Corpus, texts: list[str]) -> Corpus:
    """Append public rows of which nothing but the text and an invented user is known."""
    rows = len(texts)
    nobody = np.full(rows, -1, dtype=np.int64)
    silent = corpus.take(np.zeros(rows, dtype=np.int64)).blank(np.ones(rows, dtype=bool))
    number = np.arange(rows) // ROWS_PER_USER
    users = corpus.user_count + number
    # Nobody whom a guarantee speaks of: places in the files are names enough.
    own = names_of_ids("public row", range(rows))
    authors = names_of_ids("public user", range(int(number[-1]) + 1))
    more = replace(
        silent,
        texts=tuple(texts),
        groups={**dict.fromkeys(corpus.groups, nobody), "user": users},
        split=np.full(rows, PUBLIC, dtype=np.int64),
        labels=None if corpus.labels is None else nobody,
        attributes=dict.fromkeys(corpus.attributes, nobody),
        ids=None if corpus.ids is None else ("",) * rows,
        row_names=None if corpus.row_names is None else own,
        user_names=None if corpus.user_names is None else user_names(corpus).followed_by(authors),
    )
    without = replace(corpus, entities=Spans.none())  # else ids would be made anew
    return replace(
        concatenate(without, more), entities=corpus.entities, origin=np.arange(len(corpus) + rows)
    )


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
