"""PII detection: how much of what people labelled a de-identifier finds, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from uedp_bench.component import Params
from uedp_bench.corpus import Layer, or_alone
from uedp_bench.errors import CapabilityError, InputError, nearest
from uedp_bench.release import Deidentified
from uedp_bench.task import Utility
from uedp_bench.tasks.pii_detection.detection_scores import Detection, detection_scores
from uedp_bench.tasks.pii_detection.names_left import names_left
from uedp_bench.tasks.untrained import UntrainedTask

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus
    from uedp_bench.release import Release

_BOOTSTRAP_SEED = 2022


class PIIDetectionParams(Params):
    """Which labels a detector is measured by, and on which rows."""

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
    version = 3
    source = (
        "Pilan et al. 2022 (The Text Anonymization Benchmark), section 6; Segura-Bedmar, Martinez "
        "and Herrero-Zazo 2013 (SemEval-2013 task 9)"
    )
    Params = PIIDetectionParams
    needs: ClassVar[tuple[type, ...]] = (Deidentified,)
    utility = (
        "covered",
        "covered_entities",
        "precision",
        "hidden",
        "f1_strict",
        "f1_exact",
        "f1_partial",
        "f1_type",
        "recall_type",
        "names_left",
        "rows_left",
        "nothing_covered",
    )
    larger_is_better = True
    floors: ClassVar[Mapping[str, str]] = MappingProxyType({"nothing": "nothing_covered"})
    optional = ("names_left", "rows_left")
    counted = utility[:-1]
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
        found = release.entity_detector.find(some)
        users = or_alone(some.users)
        # Every detector sees the same resamples of users.
        rng = np.random.default_rng(_BOOTSTRAP_SEED)
        utility, details = detection_scores(
            Detection(some.texts, Layer(spans, gold.types, gold.rows[rows]), found, users),
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
    """The annotation that says what there is to find.

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
            there = ", ".join(sorted(corpus.layers)) or "none"
            hint = f"did you mean {near!r}?" if near else f"layers: {there}"
            raise InputError(f"task.layer: the corpus has no layer {name!r}; {hint}")
        return corpus.layers[name]
    if corpus.detector is not None:
        raise InputError(
            "pii-detection: the entities of this source are what its own detector found, and no "
            "labels by people: give the source labels (entities_column), and deidentify the "
            "detector"
        )
    return Layer(corpus.entities, corpus.entity_types, np.ones(len(corpus), dtype=bool))
