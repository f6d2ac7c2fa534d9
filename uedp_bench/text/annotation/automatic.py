"""The layer `automatic`: places where texts say what records already know.

Hathurusinghe, Nejadgholi and Bolic, PrivateNLP 2021, section 2. The marks of a row are a function
of the row's text and the records of its own user: guarantees rest on that
(docs/proofs.md, section 16).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from uedp_bench.components.component import Params
from uedp_bench.components.requirements import Requirement, of_detector
from uedp_bench.corpus import Corpus, Facts, Layer
from uedp_bench.corpus.entity_detection import DECLARES, check_declared, pipeline_refusals
from uedp_bench.errors import InputError
from uedp_bench.text.annotation.candidates import Candidate, by_patterns, by_pipeline
from uedp_bench.text.annotation.keys import WIKIPII, RecordTag, normalise_key, tags_by_key
from uedp_bench.text.annotation.matching import closeness

AUTOMATIC = "automatic"
"""Name of the layer."""


class AnnotationParams(Params):
    """Parameters of marks in texts by records."""

    tags: dict[str, RecordTag] = Field(
        default=dict(WIKIPII),
        min_length=1,
        description="tags, each with the keys of the records whose values it marks and with what "
        "these are: date, person, organisation or place (default: the five tags of WikiPII)",
    )
    threshold: float = Field(
        default=0.85, gt=0, le=1, description="a value marks the phrase closest to it, if it is "
        "at least so close (1: equal)",
    )  # fmt: skip
    candidates: Literal["patterns", "spacy"] = Field(
        default="patterns",
        description="phrases that values are compared with: dates and runs of capitalised words, "
        "or the entities of a spaCy pipeline",
    )
    pipeline: str | None = Field(
        default=None,
        description="spaCy pipeline, by the name of an installed package or as a folder",
    )
    pipeline_is_public: bool = Field(default=False, description=DECLARES)
    only_marked_rows: bool = Field(
        default=False, description="rows without a mark do not count as annotated, as in the paper"
    )

    def requires(self) -> tuple[Requirement, ...]:
        """Packages of the pipeline."""
        return (*super().requires(), *of_detector(self.candidates, self.pipeline))

    @field_validator("tags")
    @classmethod
    def _no_key_twice(cls, value: dict[str, RecordTag]) -> dict[str, RecordTag]:
        tags_by_key(value)
        return value

    @model_validator(mode="after")
    def _pipeline_fits(self) -> Self:
        if (self.candidates == "spacy") != (self.pipeline is not None):
            raise ValueError("candidates 'spacy' needs a pipeline, and 'patterns' has none")
        check_declared(self.pipeline, self.pipeline_is_public)
        return self

    def refusals(self) -> tuple[str, ...]:
        """Reasons why nothing can be proven of training on the marks; empty if something can."""
        return pipeline_refusals(
            self.pipeline, self.pipeline_is_public, "the annotation of a row",
            "annotate.pipeline_is_public",
        )  # fmt: skip


def annotate(corpus: Corpus, params: AnnotationParams) -> Corpus:
    """Add the layer `automatic` to a corpus.

    Rows of users whose records have a value for a tag are annotated; all others are not, for a word
    that is not marked there may be one that nobody looked for.

    Raises:
        InputError: if the corpus has no records; for a missing pipeline.
        MissingExtraError: if spaCy is needed and not installed.
    """
    if corpus.records is None:
        raise InputError(
            "source.annotate: the source has no records of its users to annotate texts by; "
            "sources that have: wiki-biographies, tab, text and hub with records"
        )
    values = [values_of(facts, params.tags) for facts in corpus.records]
    rows = [
        row
        for row, user in enumerate(corpus.users.tolist())
        if 0 <= user < len(values) and values[user]
    ]
    texts = [corpus.texts[row] for row in rows]
    mentions = []
    names = tuple(params.tags)
    complete = np.zeros(len(corpus), dtype=bool)
    for row, text, candidates in zip(rows, texts, _candidates(texts, params), strict=True):
        marks = marks_of(text, values[corpus.users[row]], candidates, params)
        mentions += [(row, start, end, names.index(tag)) for start, end, tag in marks]
        complete[row] = bool(marks) or not params.only_marked_rows
    layer = Layer.build(corpus.texts, mentions, names, complete)
    return replace(corpus, layers={**corpus.layers, AUTOMATIC: layer})


def _candidates(texts: Sequence[str], params: AnnotationParams) -> list[list[Candidate]]:
    if params.pipeline is None:
        return [by_patterns(text) for text in texts]
    return by_pipeline(texts, params.pipeline)


def values_of(facts: Facts, tags: Mapping[str, RecordTag]) -> list[tuple[str, str]]:
    """(tag, value) of the facts whose key belongs to a tag, each once."""
    by_key = tags_by_key(tags)
    pairs = (
        (by_key[normalise_key(key)], value)
        for key, values in facts.items()
        if normalise_key(key) in by_key
        for value in values
    )
    return list(dict.fromkeys(pairs))


def marks_of(
    text: str,
    values: Sequence[tuple[str, str]],
    candidates: Sequence[Candidate],
    params: AnnotationParams,
) -> list[tuple[int, int, str]]:
    """Mark one text: (start, end, tag) of each mark, in order.

    Each value marks the phrases that are closest to it, where they are at least `threshold` close.
    The closest pairs come first, of equally close ones the longest value; a word that has a tag
    gets no other.
    """
    pairs: list[tuple[float, int, str, Candidate]] = []
    for tag, value in values:
        kind = params.tags[tag].kind
        close = [
            (closeness(kind, value, text[one.start : one.end]), one)
            for one in candidates
            if kind in one.kinds
        ]
        best = max((close_by for close_by, _ in close), default=0.0)
        if best >= params.threshold:
            pairs += [(best, len(value), tag, one) for close_by, one in close if close_by == best]
    marks: list[tuple[int, int, str]] = []
    for _, _, tag, one in sorted(pairs, key=lambda pair: (-pair[0], -pair[1])):
        if all(one.end <= start or end <= one.start for start, end, _ in marks):
            marks.append((one.start, one.end, tag))
    return sorted(marks)
