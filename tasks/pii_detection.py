"""PII detection: how much of what people labelled a de-identifier finds, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from uedp_bench.api import (
    CapabilityError,
    Corpus,
    Estimate,
    FloatArray,
    InputError,
    IntArray,
    Layer,
    Metric,
    Params,
    Spans,
    Utility,
)
from uedp_bench.api.capabilities import EntityDetector, Published, capability
from uedp_bench.api.statistics import ratio_estimate, span_counts, span_scores
from uedp_bench.api.text import or_alone
from uedp_bench.errors import nearest
from uedp_bench.tasks.tagging.scores import F1, F1_LOOSE, PRECISION
from uedp_bench.tasks.untrained import UntrainedTask
from uedp_bench.text.comparison import NormalWord, normal_words, without_accents
from uedp_bench.text.detection import kinds_of_types, overlaps

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Release


@capability(None)
@runtime_checkable
class Deidentified(Published, Protocol):
    """Release of published text with replaced pieces.

    Attributes:
        entity_detector: detector of the pieces.
    """

    entity_detector: EntityDetector


class NamesLeft(NamedTuple):
    """Labelled names in published texts.

    Attributes:
        utility: `names_left` and `rows_left`, shares with intervals over users.
        details: counts, of all and by type.
    """

    utility: dict[str, Estimate]
    details: dict[str, Any]


def names_left(
    corpus: Corpus, gold: Layer, published: Corpus, rng: np.random.Generator
) -> NamesLeft | None:
    """Labelled mentions whose words still stand, in their order, in what was made of their row.

    Words are compared in their normal form, without accents and without the signs between them:
    "José_Núñez" and "jose nunez" are one name. What begins or ends where a word does must do so
    again: "Ann" is not left in "annual". A name that is left once counts for all its mentions in
    the row, as it does for a reader.

    Args:
        corpus: original.
        gold: what people labelled in it; rows that it does not annotate completely, rows that an
            attack planted and public rows are left out.
        published: what was made of it; `origin` says of which row each was made.
        rng: random generator for the resampling.

    Returns:
        None where no row with a label was published as text.
    """
    if published.vectors is not None:
        return None
    texts: dict[int, list[_Letters]] = {}
    for text, origin in zip(published.texts, published.origin.tolist(), strict=True):
        if origin >= 0:
            texts.setdefault(origin, []).append(_Letters.read(text))
    counts = gold.rows & ~corpus.where("public") & (corpus.origin >= 0)
    names = [
        (row, kind, int(corpus.origin[row]), _Name.read(corpus.texts[row], start, end))
        for row, start, end, kind in gold.spans.mentions()
        if counts[row] and int(corpus.origin[row]) in texts
    ]
    if not names:
        return None
    left = np.array([any(text.holds(name) for text in texts[at]) for _, _, at, name in names])
    rows = np.array([row for row, *_ in names])
    users = or_alone(corpus.users)
    distinct, place = np.unique(rows, return_inverse=True)
    by_row = np.bincount(place, weights=left, minlength=len(distinct)) > 0
    utility = {
        "names_left": _share(left, users[rows], rng),
        "rows_left": _share(by_row, users[distinct], rng),
    }
    kinds = np.array([kind for _, kind, *_ in names])
    by_type = {
        name: {"mentions": int((kinds == at).sum()), "left": int(left[kinds == at].sum())}
        for at, name in enumerate(gold.types)
        if (kinds == at).any()
    }
    return NamesLeft(utility, {
        "mentions": len(names),
        "mentions_left": int(left.sum()),
        "rows": len(distinct),
        "rows_left": int(by_row.sum()),
        "types": by_type,
    })  # fmt: skip


class _Name(NamedTuple):
    """A labelled mention.

    Attributes:
        letters: letters of its words, in their normal form; its other signs where it has no word.
        begins, ends: a word of its row begins where it does, and ends where it does.
    """

    letters: str
    begins: bool
    ends: bool

    @classmethod
    def read(cls, text: str, start: int, end: int) -> _Name:
        """The mention between two places of a text."""
        words = normal_words(text)
        return cls(
            _joined(normal_words(text[start:end])),
            begins=not any(word.start < start < word.end for word in words),
            ends=not any(word.start < end < word.end for word in words),
        )


class _Letters(NamedTuple):
    """Letters of all words of a text, and those of all its signs.

    Attributes:
        words: letters of words, joined.
        edges: places where a word begins or ends.
        signs: forms of words and other signs, joined.
    """

    words: str
    edges: frozenset[int]
    signs: str

    @classmethod
    def read(cls, text: str) -> _Letters:
        """The letters of a text."""
        words = normal_words(text)
        forms = [without_accents(word.form) for word in words if word.is_name]
        ends = np.cumsum([0, *map(len, forms)]).tolist()
        return cls("".join(forms), frozenset(ends), "".join(word.form for word in words))

    def holds(self, name: _Name) -> bool:
        """True if the name stands in the text."""
        if not name.letters:
            return False
        if not name.letters[0].isalnum():
            return name.letters in self.signs
        at = self.words.find(name.letters)
        while at >= 0:
            end = at + len(name.letters)
            if (at in self.edges or not name.begins) and (end in self.edges or not name.ends):
                return True
            at = self.words.find(name.letters, at + 1)
        return False


def _joined(words: tuple[NormalWord, ...]) -> str:
    named = [without_accents(word.form) for word in words if word.is_name]
    return "".join(named or [word.form for word in words])


def _share(hits: Any, owners: Any, rng: np.random.Generator) -> Estimate:
    return ratio_estimate(hits.astype(np.float64), np.ones(len(hits)), rng, owners)


class Detection(NamedTuple):
    """Labelled and detected mentions of some rows, all completely annotated.

    Attributes:
        texts: texts of the rows.
        gold: mentions labelled by people, at least one.
        detected: mentions that a detector found.
        users: (rows,) rows with equal numbers are resampled together.
    """

    texts: Sequence[str]
    gold: Layer
    detected: Layer
    users: IntArray


def detection_scores(
    detection: Detection, same_types: Mapping[str, str], rng: np.random.Generator
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Scores of all types together, and of each type.

    Args:
        detection: labelled and detected mentions.
        same_types: see `text.detection.kind_of_type`.
        rng: random generator for the resampling.

    Returns:
        Metrics by name; and details: `recall` by labelled type (`covered`, `touched` and `right`,
        which asks for a type of the same kind), `precision` by type of the detector.
    """
    texts, gold, detected, users = detection
    covered, touched = overlaps(texts, gold.spans, detected.spans)
    _, right = overlaps(texts, detected.spans, gold.spans)
    kinds = kinds_of_types(gold.types, same_types), kinds_of_types(detected.types, same_types)
    alike = _of_same_kind(texts, gold.spans, detected.spans, kinds)

    def share(hits: FloatArray, of: Spans) -> Estimate:
        return ratio_estimate(hits, np.ones(len(of)), rng, users[of.row])

    owners, whole = _entities(gold.spans, covered, users)
    utility = {
        "covered": share(covered.astype(np.float64), gold.spans),
        "covered_entities": ratio_estimate(whole, np.ones(len(whole)), rng, owners),
        "precision": share(right.astype(np.float64), detected.spans)
        if len(detected.spans)
        else Estimate(value=0.0),
        "hidden": _hidden(detection, rng),
        **_semeval(detection, kinds, rng),
        "nothing_covered": Estimate(value=0.0),
    }
    details: dict[str, Any] = {"rows": len(texts), "mentions": len(gold.spans), "recall": {}}
    for kind, name in enumerate(gold.types):
        of = np.flatnonzero(gold.spans.type == kind)
        if len(of):
            spans = gold.spans.chosen(of)
            hits = {"covered": covered[of], "touched": touched[of], "right": alike[of]}
            shares = {key: share(row.astype(np.float64), spans) for key, row in hits.items()}
            estimates = {key: value.model_dump(mode="json") for key, value in shares.items()}
            details["recall"][name] = {"mentions": len(of), **estimates}
    details["precision"] = {}
    for kind, name in enumerate(detected.types):
        of = np.flatnonzero(detected.spans.type == kind)
        if len(of):
            value = share(right[of].astype(np.float64), detected.spans.chosen(of))
            estimates = {"precision": value.model_dump(mode="json")}
            details["precision"][name] = {"mentions": len(of), **estimates}
    return utility, details


def _entities(
    gold: Spans, covered: np.ndarray[Any, Any], users: IntArray
) -> tuple[IntArray, FloatArray]:
    """Owner of each entity of a user, and 1 where all its mentions are covered."""
    pairs = np.stack([users[gold.row], gold.entity], axis=1)
    distinct, place = np.unique(pairs, axis=0, return_inverse=True)
    left = np.bincount(place.ravel(), weights=~covered, minlength=len(distinct))
    return distinct[:, 0], (left == 0).astype(np.float64)


def _hidden(detection: Detection, rng: np.random.Generator) -> Estimate:
    """Share of the characters that the detector's spans cover."""
    length = np.array([len(text) for text in detection.texts], dtype=np.float64)
    hidden = np.zeros(len(length))
    last: dict[int, int] = {}
    for row, start, end, _ in detection.detected.spans.mentions():  # in order of their start
        begin = max(start, last.get(row, 0))
        hidden[row] += max(0, end - begin)
        last[row] = max(end, last.get(row, 0))
    return ratio_estimate(hidden, length, rng, detection.users)


def _semeval(
    detection: Detection, kinds: tuple[list[str], list[str]], rng: np.random.Generator
) -> dict[str, Estimate]:
    """Scores of SemEval-2013 task 9, with kinds in place of types."""
    _, gold, detected, users = detection
    names = sorted({*kinds[0], *kinds[1]})
    true, predicted = (
        layer.spans.renumbered([names.index(kind) for kind in own])
        for layer, own in ((gold, kinds[0]), (detected, kinds[1]))
    )
    scores = span_scores(span_counts(true, predicted, len(detection.texts)), users, rng)
    out = {f"f1_{name}": scores[name].f1 for name in ("strict", "exact", "partial", "type")}
    return out | {"recall_type": scores["type"].recall}


def _of_same_kind(
    texts: Sequence[str], gold: Spans, detected: Spans, kinds: tuple[list[str], list[str]]
) -> np.ndarray[Any, Any]:
    """(mentions,) True where a labelled mention overlaps something found of its own kind."""
    out = np.zeros(len(gold), dtype=bool)
    of_gold, of_detected = (np.array(names, dtype=object) for names in kinds)
    for kind in sorted({*kinds[0]} & {*kinds[1]}):
        mine = np.flatnonzero(of_gold[gold.type] == kind)
        theirs = np.flatnonzero(of_detected[detected.type] == kind)
        out[mine] = overlaps(texts, gold.chosen(mine), detected.chosen(theirs))[1]
    return out


_BOOTSTRAP_SEED = 2022


class PIIDetectionParams(Params):
    """Labels that a detector is measured by, and rows to measure on."""

    layer: str | None = Field(
        default=None,
        min_length=1,
        description="annotation that says what there is to find: entities, or a layer by name; by "
        "default the layer gold where the source has one, else its entities",
    )
    rows: Literal["published", "test", "all"] = Field(
        default="published",
        description="rows on which detection is measured: those that are published (train and "
        "valid), test rows (for a detector that was trained on the others), or both",
    )
    same_types: Mapping[str, str] = Field(
        default_factory=dict,
        description="names of types that mean the same, beyond those known of CoNLL-2003, "
        "OntoNotes, Presidio and TAB: {Applicant: PERSON}",
    )


class PIIDetection(UntrainedTask[PIIDetectionParams]):
    """Ask the detector of a de-identifier for what people labelled; nothing is trained.

    `covered` is the share of labelled mentions of which nothing but white space is left outside of
    what the detector finds, by whatever type; `covered_entities` that of entities of a user all of
    whose mentions are covered: one that is left tells who it is. `precision` is the share of what
    is found that overlaps a label, `hidden` that of all characters that are replaced: whoever
    hides everything covers everything. `f1_strict` to `f1_type` and `recall_type` are those of
    SemEval-2013 task 9, where types of one kind (PER and PERSON) are equal. `names_left` is the
    share of mentions that still stand, as words, in what was published of their row, `rows_left`
    that of rows with labels in which at least one does.
    """

    name = "pii-detection"
    version = 4
    source = (
        "Pilan et al. 2022 (The Text Anonymization Benchmark), section 6; Segura-Bedmar, Martinez "
        "and Herrero-Zazo 2013 (SemEval-2013 task 9)"
    )
    Params = PIIDetectionParams
    needs: ClassVar[tuple[type, ...]] = (Deidentified,)
    metrics = (
        Metric.rate("covered", "covered", "share of the mentions that people labelled of which a "
                    "detector leaves nothing, by whatever type", "higher", main=True),
        Metric.rate("covered_entities", "covered entities", "share of the labelled entities of a "
                    "user all of whose mentions are covered", "higher"),
        replace(PRECISION, main=True),
        Metric.rate("hidden", "hidden", "share of all characters that are replaced", main=True),
        replace(F1, main=False), *F1_LOOSE,
        Metric.rate("recall_type", "recall, type", "share of the mentions of which something of "
                    "the right type is found", "higher"),
        Metric.rate("names_left", "names left", "share of the labelled mentions that still stand "
                    "in what was published", "lower", main=True),
        Metric.rate("rows_left", "rows with names left", "share of the rows with labels in which "
                    "one still stands", "lower"),
        Metric.rate("nothing_covered", "covered by nothing", "of a detector that finds nothing"),
    )  # fmt: skip
    floors: ClassVar[Mapping[str, str]] = MappingProxyType({"nothing": "nothing_covered"})
    optional = ("names_left", "rows_left")
    counted = tuple(one.name for one in metrics[:-1])
    scores_original = True

    def score(self, release: Release, corpus: Corpus) -> Utility:
        """See `Task`; metrics are of all labelled types together.

        Details have the recall of each labelled type, the precision of each type of the detector,
        and counts.

        Raises:
            InputError: if no row that counts is completely annotated, or none has a label.
        """
        if not isinstance(release, Deidentified):
            raise CapabilityError("pii-detection scores releases that are Deidentified")
        gold = gold_of(corpus, self.params.layer)
        rows = np.flatnonzero(self._counts(corpus) & gold.rows)
        spans = gold.spans.take(rows)
        if not len(spans):
            raise InputError(
                f"pii-detection: none of the {len(rows)} completely annotated rows "
                f"(task.rows={self.params.rows}) has a labelled mention: there is nothing to find"
            )
        some = corpus.take(rows)
        detected = release.entity_detector.find(some)
        users = or_alone(some.users)
        # Every detector sees the same resamples of users.
        rng = np.random.default_rng(_BOOTSTRAP_SEED)
        utility, details = detection_scores(
            Detection(some.texts, Layer(spans, gold.types, gold.rows[rows]), detected, users),
            self.params.same_types,
            rng,
        )
        left = names_left(corpus, gold, release.published, rng)
        if left is not None:
            utility |= left.utility
            details["left"] = left.details
        return Utility(utility, details)

    def _counts(self, corpus: Corpus) -> BoolArray:
        named = {"published": ("train", "valid"), "test": ("test",)}
        splits = named.get(self.params.rows, ("train", "valid", "test"))
        # What an attack planted is made of random words.
        return corpus.where(*splits) & (corpus.origin >= 0)


def gold_of(corpus: Corpus, layer: str | None) -> Layer:
    """Annotation that a detector should find.

    Args:
        corpus: original.
        layer: "entities", the name of a layer, or None for the layer gold, else the entities.

    Raises:
        InputError: if there is no such layer, or the entities are what a detector found.
    """
    name = layer or ("gold" if "gold" in corpus.layers else "entities")
    if name != "entities":
        if name not in corpus.layers:
            near = nearest(name, (*corpus.layers, "entities"))
            layers = ", ".join(sorted(corpus.layers)) or "none"
            hint = f"did you mean {near!r}?" if near else f"layers: {layers}"
            raise InputError(f"task.layer: the corpus has no layer {name!r}; {hint}")
        return corpus.layers[name]
    if corpus.detector is not None:
        raise InputError(
            "pii-detection: the entities of this source are what its own detector found, and no "
            "labels by people: give the source labels (entities_column), and deidentify the "
            "detector"
        )
    return Layer(corpus.entities, corpus.entity_types, np.ones(len(corpus), dtype=bool))
