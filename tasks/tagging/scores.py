"""Agreement of a tagger's spans with an annotation, of all types and of each."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import Corpus, Estimate, InputError, IntArray, Metric, Spans, Utility
from uedp_bench.api.statistics import SpanScore, span_counts, span_scores
from uedp_bench.api.text import or_alone
from uedp_bench.corpus import normal_spelling
from uedp_bench.statistics.label_scores import token_counts, weighted_token_score
from uedp_bench.statistics.span_scores import counts_by_type
from uedp_bench.tasks.tagging.targets import (
    OUTSIDE,
    Annotation,
    WordRule,
    WordTable,
    annotation_of,
    chosen_types,
    labels_of_spans,
    mentions_of_labels,
    word_labels,
)

if TYPE_CHECKING:
    from uedp_bench.api.capabilities import Tagger


Phrase = tuple[str, ...]
"""The words of an entity, in their normal spelling: the case of a word tells names from others."""

F1 = Metric.rate("f1_strict", "entity F1", "of entities with the right words and type", "higher",
                 main=True)  # fmt: skip
PRECISION = Metric.rate("precision", "precision", "share of predicted entities that are right",
                        "higher")  # fmt: skip
F1_LOOSE = (
    Metric.rate("f1_exact", "F1, exact", "of entities with the right words, whatever type",
                "higher"),
    Metric.rate("f1_partial", "F1, partial", "of entities, half for an overlap", "higher"),
    Metric.rate("f1_type", "F1, type", "of entities of the right type that overlap", "higher"),
)  # fmt: skip
"""F1 where less than the right words and type counts, as SemEval-2013 task 9 has it."""


def dictionary(entities: Iterable[tuple[Phrase, int]]) -> dict[Phrase, int]:
    """The type that each phrase has most often; of equally frequent ones the first by number.

    Args:
        entities: words and type of every mention.
    """
    counts: defaultdict[Phrase, Counter[int]] = defaultdict(Counter)
    for phrase, kind in entities:
        counts[tuple(map(normal_spelling, phrase))][kind] += 1
    return {phrase: min(of, key=lambda kind: (-of[kind], kind)) for phrase, of in counts.items()}


def labelled_phrases(words: WordTable, labels: IntArray) -> list[tuple[Phrase, int]]:
    """Words and type of every entity that BIO2 labels (words,) mark."""
    begins = np.flatnonzero((labels > 0) & (labels % 2 == 1))
    ends = np.append(np.flatnonzero((labels == 0) | (labels % 2 == 1)), len(labels))
    stops = ends[np.searchsorted(ends, begins, "right")]
    # A row may end inside of an entity whose I- the next row does not go on: rows are apart.
    row_ends = words.offsets[1:][words.row[begins]]
    return [
        (words.words[a:b], int(labels[a] - 1) // 2)
        for a, b in zip(begins.tolist(), np.minimum(stops, row_ends).tolist(), strict=True)
    ]


def longest_matches(words: WordTable, phrases: Mapping[Phrase, int]) -> IntArray:
    """(words,) labels by the longest phrase that starts at a word, row by row, left to right."""
    by_first: defaultdict[str, set[int]] = defaultdict(set)
    for phrase in phrases:
        by_first[phrase[0]].add(len(phrase))
    lengths = {word: sorted(sizes, reverse=True) for word, sizes in by_first.items()}
    spelled = tuple(map(normal_spelling, words.words))
    labels = np.zeros(len(spelled), dtype=np.int64)
    for at, end in pairwise(words.offsets.tolist()):
        while at < end:
            fitting = (
                size
                for size in lengths.get(spelled[at], ())
                if at + size <= end and spelled[at : at + size] in phrases
            )
            if size := next(fitting, 0):
                labels[at : at + size] = 2 + 2 * phrases[spelled[at : at + size]]
                labels[at] -= 1
            at += max(size, 1)
    return labels


_BOOTSTRAP_SEED = 2003

_NO_DICTIONARY = "no public text has annotated entities: there is no dictionary to compare with"


class _Gold(NamedTuple):
    """Test rows with the labels of their words, and the same as spans that fit the words."""

    corpus: Corpus
    words: WordTable
    labels: IntArray
    spans: Spans
    types: tuple[str, ...]

    def of_rows(self, labels: IntArray) -> list[IntArray]:
        """Labels (words,) by row."""
        return np.split(labels, self.words.offsets[1:-1])


def score_tagger(
    release: Tagger, corpus: Corpus, layer: str, types: Sequence[str] | None, rule: WordRule
) -> Utility:
    """Scores on the test rows that a layer annotates completely, with intervals over users.

    Details are the scores of each type, and what stands behind the floor of the dictionary.

    Args:
        release: finds spans.
        corpus: whole; its public rows make the dictionary.
        layer: annotation that predictions are compared with.
        types: that count; all types of the layer, and those that the release finds, by default.
        rule: definition of a word.

    Raises:
        InputError: if no such row has an entity.
    """
    annotation = annotation_of(corpus, layer)
    wanted = chosen_types(annotation, types)
    # What the release finds of further types is wrong, and counts.
    every = tuple(dict.fromkeys([*wanted, *release.types]))
    annotation = annotation.of_types(wanted)
    gold = _gold(corpus, annotation, rule)._replace(types=every)
    found_types = [every.index(name) for name in release.types]
    predicted = release.spans(gold.corpus).renumbered(found_types)
    users = or_alone(gold.corpus.users)
    scores = _span_scores(gold, predicted, users)
    tokens = labels_of_spans(gold.words, predicted, every)
    utility = {
        "f1_strict": scores["strict"].f1,
        "precision": scores["strict"].precision,
        "recall": scores["strict"].recall,
        "f1_exact": scores["exact"].f1,
        "f1_partial": scores["partial"].f1,
        "f1_type": scores["type"].f1,
        "type_f1_paper": scores["type_paper"].f1,
        "partial_f1_paper": scores["partial_paper"].f1,
        "weighted_token_f1": _weighted(gold, tokens, users),
        "all_outside_weighted_token_f1": _weighted(gold, np.full_like(tokens, OUTSIDE), users),
        "all_outside_f1": Estimate(value=0.0),
    }
    details: dict[str, Any] = {
        "rows": len(gold.corpus),
        "words": len(gold.words.words),
        "types": _by_type(gold, predicted, users),
    }
    phrases = _public_phrases(corpus, annotation, rule)
    if phrases:
        looked_up = longest_matches(gold.words, dictionary(phrases))
        spans = Spans.build(gold.corpus.texts, mentions_of_labels(gold.words, looked_up))
        utility["dictionary_f1"] = _span_scores(gold, spans, users)["strict"].f1
        details["dictionary_phrases"] = len(dictionary(phrases))
    else:
        details["notes"] = [_NO_DICTIONARY]
    return Utility(utility, details)


def _gold(corpus: Corpus, annotation: Annotation, rule: WordRule) -> _Gold:
    rows = np.flatnonzero(corpus.where("test") & annotation.rows)
    test = corpus.take(rows)
    own = annotation.take(rows)
    words = WordTable.from_texts(test.texts, rule)
    labels = word_labels(test.origin, own, words)
    if not labels.any():
        raise InputError(
            f"tagging: {annotation.name} annotates {len(rows)} rows of the split 'test' completely,"
            " and none of them has an entity: there is nothing to score"
        )
    spans = Spans.build(test.texts, mentions_of_labels(words, labels))
    return _Gold(test, words, labels, spans, annotation.types)


def _rng() -> np.random.Generator:
    """Every score, and every mechanism, sees the same resamples of users."""
    return np.random.default_rng(_BOOTSTRAP_SEED)


def _span_scores(gold: _Gold, predicted: Spans, users: IntArray) -> dict[str, SpanScore]:
    return span_scores(span_counts(gold.spans, predicted, len(gold.corpus)), users, _rng())


def _weighted(gold: _Gold, labels: IntArray, users: IntArray) -> Estimate:
    counts = token_counts(gold.of_rows(gold.labels), gold.of_rows(labels), 1 + 2 * len(gold.types))
    return weighted_token_score(counts, users, _rng()).f1


def _by_type(gold: _Gold, predicted: Spans, users: IntArray) -> dict[str, Any]:
    """Counts and strict scores of each type; of one without gold spans, counts alone."""
    out: dict[str, Any] = {}
    for name, counts in counts_by_type(gold.spans, predicted, len(gold.corpus), gold.types).items():
        out[name] = {"gold": int(counts.gold.sum()), "predicted": int(counts.predicted.sum())}
        if counts.gold.any():
            strict = span_scores(counts, users, _rng())["strict"]
            out[name] |= {
                label: value.model_dump()
                for label, value in zip(("precision", "recall", "f1_strict"), strict, strict=True)
            }
    return out


def _public_phrases(
    corpus: Corpus, annotation: Annotation, rule: WordRule
) -> list[tuple[tuple[str, ...], int]]:
    """Words and type of the entities of completely annotated public rows."""
    rows = np.flatnonzero(corpus.where("public") & annotation.rows)
    public = corpus.take(rows)
    own = annotation.take(rows)
    words = WordTable.from_texts(public.texts, rule)
    return labelled_phrases(words, word_labels(public.origin, own, words))
