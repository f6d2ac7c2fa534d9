"""Span scores against nervaluate and seqeval, the paper's table, and what intervals must do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nervaluate import Evaluator
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support

from uedp_bench.corpus import Spans
from uedp_bench.errors import InputError
from uedp_bench.statistics.span_scores import (
    SCHEMES,
    _most_pairs,
    counts_by_type,
    span_counts,
    span_scores,
    spans_of_labels,
)

TYPES = ("LOC", "PER")
LABELS = ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
ROWS = st.lists(
    st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=12),
    min_size=1,
    max_size=4,
)
NERVALUATE = {"strict": "strict", "exact": "exact", "partial": "partial", "type": "ent_type"}


def scores(gold: list[list[str]], predicted: list[list[str]]) -> dict[str, tuple[float, ...]]:
    counts = span_counts(spans_of_labels(gold, TYPES), spans_of_labels(predicted, TYPES), len(gold))
    by_scheme = span_scores(counts, np.arange(len(gold)), np.random.default_rng(0))
    return {name: tuple(part.value for part in score) for name, score in by_scheme.items()}


@settings(max_examples=100)
@given(ROWS)
def test_scores_are_those_of_nervaluate_and_conlleval(rows: list[list[tuple[str, str]]]) -> None:
    gold, predicted = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
    if all(label == "O" for row in gold for label in row):
        with pytest.raises(InputError, match="gold span"):
            scores(gold, predicted)
        return
    ours = scores(gold, predicted)
    theirs = Evaluator(gold, predicted, tags=list(TYPES), loader="list").evaluate()["overall"]
    for name, other in NERVALUATE.items():
        entry = theirs[other]
        assert ours[name] == pytest.approx((entry.precision, entry.recall, entry.f1)), name
    conlleval = precision_recall_fscore_support(gold, predicted, average="micro", zero_division=0)
    assert ours["strict"] == pytest.approx(tuple(conlleval[:3]))


@given(ROWS)
def test_scores_of_a_type_are_those_of_seqeval(rows: list[list[tuple[str, str]]]) -> None:
    gold, predicted = ([[pair[side] for pair in row] for row in rows] for side in (0, 1))
    sides = (spans_of_labels(gold, TYPES), spans_of_labels(predicted, TYPES))
    by_type = counts_by_type(*sides, len(gold), TYPES)
    types = sorted({label[2:] for row in [*gold, *predicted] for label in row} - {""})
    theirs = precision_recall_fscore_support(gold, predicted, zero_division=0) if types else []
    for index, name in enumerate(types):
        counts = by_type[name]
        assert counts.gold.sum() == theirs[3][index]
        hits, predictions = counts.strict.sum(), counts.predicted.sum()
        assert (hits / predictions if predictions else 0.0) == pytest.approx(theirs[0][index])


@pytest.mark.parametrize(
    ("predicted", "strict", "exact", "type_paper", "partial_paper"),
    [
        (("B-PER", "I-PER"), 1.0, 1.0, 1.0, 1.0),
        (("B-PER", "O"), 0.0, 0.0, 0.5, 0.5),
        (("B-LOC", "I-LOC"), 0.0, 1.0, 0.0, 0.5),
        (("B-LOC", "O"), 0.0, 0.0, 0.0, 0.5),
    ],
    ids=["right", "boundary", "type", "both"],
)
def test_rewards_are_those_of_table_3_of_the_paper(
    predicted: tuple[str, str], strict: float, exact: float, type_paper: float, partial_paper: float
) -> None:
    by_scheme = scores([["B-PER", "I-PER"]], [list(predicted)])  # "Adam London", a name
    wanted = {"strict": strict, "exact": exact} | {
        "type_paper": type_paper,
        "partial_paper": partial_paper,
    }
    for name, reward in wanted.items():
        assert by_scheme[name] == (reward, reward, reward), name
    assert set(by_scheme) == set(SCHEMES)


def test_a_fixed_file_scores_as_conlleval_scores_it() -> None:
    """4 phrases, 6 found, 2 right: precision 33.33 %, recall 50.00 %, FB1 40.00."""
    gold = ["B-PER I-PER O B-LOC", "O I-LOC B-LOC O", "O O"]
    predicted = ["B-PER I-PER O B-PER", "O I-PER B-LOC I-PER", "B-LOC O"]
    by_scheme = scores([row.split() for row in gold], [row.split() for row in predicted])
    assert by_scheme["strict"] == pytest.approx((2 / 6, 2 / 4, 0.4))
    assert by_scheme["exact"] == pytest.approx((4 / 6, 4 / 4, 0.8))


def test_neighbours_are_two_spans_and_a_stray_inside_label_begins_one() -> None:
    spans = spans_of_labels([["B-PER", "B-PER", "I-LOC", "I-LOC", "O", "I-PER"]], TYPES)
    assert spans.mentions() == [(0, 0, 1, 1), (0, 1, 2, 1), (0, 2, 4, 0), (0, 5, 6, 1)]
    assert spans_of_labels([[], ["O"]], TYPES).mentions() == []
    with pytest.raises(InputError, match=r"'B-PRE'.*word 1.*row 0.*'B-PER'"):
        spans_of_labels([["O", "B-PRE"]], TYPES)


def test_nothing_predicted_scores_zero_and_spans_outside_are_refused() -> None:
    assert set(scores([["B-PER"]], [["O"]]).values()) == {(0.0, 0.0, 0.0)}
    spans = spans_of_labels([["O"], ["B-PER"]], TYPES)
    with pytest.raises(InputError, match=r"predicted.*\(0, 1\).*row 1"):
        span_counts(Spans.none(), spans, 1)


def test_overlapping_spans_of_one_side_count_once_each() -> None:
    """Nested gold names: one prediction satisfies one of them."""
    gold = Spans.build(["Bank of England"], [(0, 0, 15, 0), (0, 8, 15, 1)])
    counts = span_counts(gold, Spans.build(["Bank of England"], [(0, 8, 15, 1)]), 1)
    assert counts.table().tolist() == [[2, 1, 1, 1, 1, 1]]


SPANS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=4
)


@given(SPANS, SPANS, st.permutations([0, 1, 2]))
def test_counts_do_not_depend_on_how_types_are_numbered(
    gold: list[tuple[int, int, int]], predictions: list[tuple[int, int, int]], order: list[int]
) -> None:
    def counts(numbers: list[int]) -> list[list[float]]:
        sides = (
            Spans.build(
                ["Bank of England"], [(0, at, at + size, numbers[k]) for at, size, k in side]
            )
            for side in (gold, predictions)
        )
        return span_counts(*sides, 1).table().tolist()  # type: ignore[no-any-return]

    assert counts([0, 1, 2]) == counts(order)


@given(SPANS, SPANS)
def test_best_pairing_is_that_of_brute_force(
    gold: list[tuple[int, int, int]], predictions: list[tuple[int, int, int]]
) -> None:
    def most(left: list[tuple[int, int]], right: list[tuple[int, int]]) -> int:
        if not left:
            return 0
        (start, end), rest = left[0], left[1:]
        met = [i for i, other in enumerate(right) if other[0] < end and start < other[1]]
        return max(most(rest, right), *(1 + most(rest, right[:i] + right[i + 1 :]) for i in met), 0)

    sides = [[(start, start + size) for start, size, _ in side] for side in (gold, predictions)]
    ours = _most_pairs(*([(*piece, 0) for piece in side] for side in sides))
    assert ours == most(*sides)


def test_intervals_are_over_users() -> None:
    """All rows of a user are drawn together: two users, one right and one wrong, span [0, 1]."""
    gold = [["B-PER"]] * 200
    predicted = [["B-PER"]] * 100 + [["O"]] * 100
    counts = span_counts(spans_of_labels(gold, TYPES), spans_of_labels(predicted, TYPES), 200)
    two = np.arange(200) // 100
    by_user = span_scores(counts, two, np.random.default_rng(0))["strict"].recall
    by_row = span_scores(counts, np.arange(200), np.random.default_rng(0))["strict"].recall
    assert (by_user.value, by_user.low, by_user.high) == (0.5, 0.0, 1.0)
    assert by_row.low is not None
    assert by_row.high is not None
    assert 0.4 < by_row.low < 0.5 < by_row.high < 0.6
    one = span_scores(counts, np.zeros(200, dtype=np.int64), np.random.default_rng(0))["strict"].f1
    assert (one.value, one.low) == (pytest.approx(2 / 3), None)
    with pytest.raises(InputError, match=r"200 rows.* 3 users"):
        span_scores(counts, np.arange(3), np.random.default_rng(0))


def test_nan_is_an_error() -> None:
    counts = span_counts(spans_of_labels([["B-PER"]], TYPES), Spans.none(), 1)
    counts.strict[0] = np.nan
    with pytest.raises(InputError, match="NaN"):
        span_scores(counts, np.zeros(1, dtype=np.int64), np.random.default_rng(0))
