from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.errors import InputError
from uedp_bench.models.word_vocabularies import WordVocabulary
from uedp_bench.tasks.language.ngrams import NGramModel
from uedp_bench.tasks.tokens.rows import IGNORED, TextRows, prepare

VOCABULARY = WordVocabulary(["a", "b", "c"], origin="test")
SIZE = VOCABULARY.size
Rows = list[list[int]]
ROWS = st.lists(st.lists(st.integers(1, SIZE - 1), min_size=1, max_size=5), min_size=1, max_size=9)


def rows(targets: Rows) -> TextRows:
    return TextRows.build(targets, VOCABULARY)


def by_hand(order: int, weights: list[float], train: Rows, history: list[int], word: int) -> float:
    """The definition, with loops."""
    if order == 1:
        flat = [t for row in train for t in row]
        return (flat.count(word) + 1) / (len(flat) + SIZE)
    lower = by_hand(order - 1, weights, train, history, word)
    context = history[-(order - 1) :]
    seen = hits = 0
    for row in train:
        padded = [VOCABULARY.begin] * (order - 1) + row
        for i in range(order - 1, len(padded)):
            if padded[i - order + 1 : i] == context:
                seen += 1
                hits += padded[i] == word
    if not seen:
        return lower
    return weights[order - 2] * hits / seen + (1 - weights[order - 2]) * lower


@given(ROWS, ROWS, ROWS)
@settings(max_examples=40, deadline=None)
def test_every_order_equals_its_definition(train: Rows, valid: Rows, test: Rows) -> None:
    for order in (1, 2, 3):
        model = NGramModel(order, SIZE, rows(train), rows(valid))
        expected = [
            -np.log(by_hand(order, model.weights, train, [0, 0, *row[:i]], word))
            for row in test
            for i, word in enumerate(row)
        ]
        np.testing.assert_allclose(model.nats(rows(test)), expected, rtol=1e-9)


def test_probabilities_sum_to_one() -> None:
    model = NGramModel(3, SIZE, rows([[3, 4, 5, 1], [3, 4, 4, 1]]), rows([[3, 4, 5, 1]]))
    assert all(0 < weight < 1 for weight in model.weights)
    for history in ([], [3], [3, 4], [5, 5]):
        nats = model.nats(rows([[*history, word] for word in range(SIZE)]))
        last = nats.reshape(SIZE, -1)[:, -1]
        assert np.exp(-last).sum() == pytest.approx(1.0)


def test_weight_is_the_best_on_validation_rows() -> None:
    rng = np.random.default_rng(0)
    train, valid = (rng.integers(1, SIZE, size=(40, 6)).tolist() for _ in range(2))
    train += [[3, 4, 5, 3, 4, 1]] * 20
    valid += [[3, 4, 5, 3, 4, 1]] * 20
    model = NGramModel(2, SIZE, rows(train), rows(valid))

    def posterior(weight: float) -> float:
        model.weights[0] = weight
        return float(np.log(weight * (1 - weight)) - model.nats(rows(valid)).sum())

    fitted = model.weights[0]
    assert 0.05 < fitted < 0.99
    assert posterior(fitted) > max(posterior(fitted - 0.01), posterior(fitted + 0.01))


def test_bad_orders_and_empty_training_are_input_errors() -> None:
    with pytest.raises(InputError, match="order is 0"):
        NGramModel(0, SIZE, rows([[1]]), rows([]))
    with pytest.raises(InputError, match="63"):
        NGramModel(5, 50_257, rows([[1]]), rows([]))
    with pytest.raises(InputError, match="train"):
        NGramModel(1, SIZE, rows([]), rows([]))


def test_without_validation_rows_bigrams_fall_back_to_unigrams() -> None:
    model = NGramModel(2, SIZE, rows([[3, 4, 1]]), rows([]))
    assert model.weights == [0.0]


@given(ROWS, st.data())
@settings(max_examples=40, deadline=None)
def test_padding_loses_and_invents_nothing(targets: Rows, data: st.DataObject) -> None:
    table = rows(targets)
    chosen = data.draw(st.lists(st.integers(0, len(targets) - 1), min_size=1, max_size=6))
    inputs, out = table.padded(np.array(chosen))
    assert inputs.shape == out.shape == (len(chosen), max(len(targets[i]) for i in chosen))
    for row, given_row, wanted in zip(chosen, inputs, out, strict=True):
        length = len(targets[row])
        assert wanted[:length].tolist() == targets[row]
        assert (wanted[length:] == IGNORED).all()
        assert given_row[:length].tolist() == [VOCABULARY.begin, *targets[row][:-1]]
        assert (given_row[length:] == VOCABULARY.end).all()
    np.testing.assert_allclose(
        table.row_sums(table.flat.astype(float)), [sum(row) for row in targets]
    )


def test_paper_preprocessing() -> None:
    assert prepare(["The U.N. said: “Ça va?” – 3 snake_case's!"], "paper") == [
        "the un said ça va 3 snakecases"
    ]
    assert prepare([" A  b. "], "none") == [" A  b. "]
