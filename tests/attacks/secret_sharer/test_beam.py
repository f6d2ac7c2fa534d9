"""Beam search against enumeration, with word and sub-word tokens."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

import numpy as np
import pytest

from uedp_bench.attacks.secret_sharer import beam
from uedp_bench.attacks.secret_sharer.beam import BeamSearch
from uedp_bench.errors import InputError


class Bigrams:
    """A generator with random bigram probabilities over pieces; "##x" continues a word."""

    def __init__(self, pieces: Sequence[str], seed: int) -> None:
        self.pieces = ["", *pieces]
        logits = np.random.default_rng(seed).normal(0, 2, (len(self.pieces),) * 2)
        self.table = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    def encode(self, text: str) -> list[int]:
        return [self.pieces.index(word) for word in text.split()]

    def decode(self, tokens: Sequence[int]) -> str:
        return " ".join(self.pieces[t] for t in tokens if t).replace(" ##", "")

    def next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> np.ndarray:
        return self.table[[prefix[-1] for prefix in prefixes]]


def likelihood(model: Bigrams, tokens: Sequence[int]) -> float:
    return float(sum(model.table[a, b] for a, b in pairwise(tokens)))


def test_a_beam_that_is_wide_enough_finds_the_best_texts_of_words() -> None:
    model = Bigrams(list("abcde"), seed=0)
    first = model.encode("b")
    every = sorted(
        product(range(1, 6), repeat=3), key=lambda rest: -likelihood(model, [*first, *rest])
    )
    expected = [model.decode([*first, *rest]) for rest in every[:4]]
    search = BeamSearch(model, tuple(first), width=125)
    assert search.run("b", 4)[:4] == expected
    assert len(BeamSearch(model, tuple(first), width=5).run("b", 4)) == 5


@pytest.mark.parametrize("seed", range(5))
def test_words_of_several_tokens_are_weighed_as_whole_words(seed: int) -> None:
    model = Bigrams(["a", "b", "##x", "##y"], seed)
    starts = [t for t, piece in enumerate(model.pieces) if not piece.startswith("##")]
    words: dict[str, float] = {}
    for length in range(1, 6):
        for rest in product(range(1, 5), repeat=length):
            tokens = [1, *rest]
            if len(model.decode(tokens).split()) != 2:
                continue
            ends = np.logaddexp.reduce(model.table[tokens[-1], starts])
            words[model.decode(tokens)] = likelihood(model, tokens) + float(ends)
    expected = sorted(words, key=lambda text: -words[text])[:3]
    assert BeamSearch(model, (1,), width=200).run("a", 2)[:3] == expected


def test_searches_side_by_side_find_what_each_finds_alone() -> None:
    model = Bigrams(["a", "b", "##x", "##y", "c"], 3)
    starts = [("a", 2), ("b", 3), ("a b", 3), ("c", 1), ("b c a", 4)]
    search = BeamSearch(model, (1,), width=4)
    alone = [search.run(prefix, words) for prefix, words in starts]
    sizes: list[int] = []

    class Counted(Bigrams):
        def next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> np.ndarray:
            assert len({len(prefix) for prefix in prefixes}) == 1
            sizes.append(len(prefixes))
            return super().next_logprobs(prefixes)

    ended: list[int] = []
    counted = Counted(["a", "b", "##x", "##y", "c"], 3)
    assert BeamSearch(counted, (1,), width=4).run_all(starts, ended.append) == alone
    assert max(sizes) > 4
    assert ended == sorted(ended)
    assert ended[-1] == len(starts)


def test_few_searches_at_once_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Bigrams(list("abcde"), seed=0)
    starts = [(word, 3) for word in "abcde"]
    together = BeamSearch(model, (1,), width=3).run_all(starts)
    monkeypatch.setattr(beam, "NUMBERS_AT_ONCE", 40)
    assert BeamSearch(model, (1,), width=3).run_all(starts) == together


def test_log_probabilities_that_are_nan_are_an_error() -> None:
    model = Bigrams(list("abc"), seed=0)
    model.table[2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        BeamSearch(model, (1,)).run("b", 2)


def test_the_largest_come_first_and_ties_in_their_order() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        table = np.where(rng.random((3, 7)) < 0.3, -np.inf, rng.integers(4, size=(3, 7)))
        best = np.argsort(-table, axis=None, kind="stable")[:5]
        expected = [divmod(int(at), 7) for at in best if np.isfinite(table.flat[at])]
        assert beam._largest(table, 5) == expected
