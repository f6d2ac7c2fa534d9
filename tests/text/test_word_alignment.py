"""The aligner finds alignments that are known."""

from __future__ import annotations

import math

import numpy as np
import pytest

from uedp_bench.errors import InputError
from uedp_bench.text.word_alignment import (
    NULL_SHARE,
    UNSEEN,
    Aligner,
    DirectedModel,
    Link,
    grow_diag_final_and,
)

Pair = tuple[list[str], list[str]]


def translated(
    sentences: int, words: int = 60, seed: int = 0
) -> tuple[list[Pair], list[set[Link]]]:
    """Sentences whose verb (second word) goes last in translation, with an unlinked particle."""
    rng = np.random.default_rng(seed)
    pairs, gold = [], []
    for _ in range(sentences):
        n = int(rng.integers(3, 9))
        source = rng.choice(words, n, replace=False).tolist()
        order = [0, *range(2, n), 1]
        target = [f"t{source[i]}" for i in order]
        links = {(i, j) for j, i in enumerate(order)}
        if rng.random() < 0.5:
            target.append("doch")  # stands for nothing
        pairs.append(([f"s{word}" for word in source], target))
        gold.append(links)
    return pairs, gold


def error_rate(alignments: list[frozenset[Link]], gold: list[set[Link]]) -> float:
    both = sum(len(one & other) for one, other in zip(alignments, gold, strict=True))
    return 1.0 - 2.0 * both / (sum(map(len, alignments)) + sum(map(len, gold)))


def test_links_of_a_known_language_are_found() -> None:
    pairs, gold = translated(400)
    aligner = Aligner.train(pairs)
    assert error_rate(aligner.links(pairs, "intersect"), gold) < 0.03
    assert error_rate(aligner.links(pairs, "grow-diag-final-and"), gold) < 0.06
    assert error_rate(aligner.links(pairs, "union"), gold) < 0.12
    # Beside it: words linked to those at the same place get a third of the links wrong.
    diagonal = [frozenset((i, i) for i in range(len(source))) for source, _ in pairs]
    assert error_rate(diagonal, gold) > 0.3


def test_a_model_of_other_text_aligns_new_pairs() -> None:
    pairs, _ = translated(400)
    new, gold = translated(50, seed=1)
    assert error_rate(Aligner.train(pairs).links(new, "intersect"), gold) < 0.05


def test_what_a_pair_gets_depends_on_it_and_the_models_alone() -> None:
    pairs, _ = translated(60)
    aligner = Aligner.train(pairs)
    together = aligner.links(pairs, "union")
    assert together == [aligner.links([pair], "union")[0] for pair in pairs]


def test_a_pair_that_occurs_twice_counts_twice() -> None:
    pairs, _ = translated(30)
    weights = np.arange(30) % 3 + 1
    repeated = [pair for pair, n in zip(pairs, weights.tolist(), strict=True) for _ in range(n)]
    one, other = DirectedModel.train(pairs, weights), DirectedModel.train(repeated)
    assert one.keys.tolist() == other.keys.tolist()
    np.testing.assert_allclose(one.probabilities, other.probabilities, rtol=1e-9)
    assert one.tension == pytest.approx(other.tension)


def test_one_round_is_that_of_the_paper() -> None:
    """Expected counts of the first round are those of the prior, written out word by word."""
    pairs: list[Pair] = [(["a", "b"], ["x", "y", "z"]), (["b"], ["x"])]
    counts: dict[tuple[str, str], float] = {}
    for source, target in pairs:
        n, m = len(source), len(target)
        for j, word in enumerate(target, start=1):
            weights = [math.exp(-4.0 * abs(i / n - j / m)) for i in range(1, n + 1)]
            prior = [NULL_SHARE, *((1 - NULL_SHARE) * w / sum(weights) for w in weights)]
            for other, share in zip(["\0", *source], prior, strict=True):
                counts[other, word] = counts.get((other, word), 0.0) + share
    from scipy.special import digamma

    import uedp_bench.text.word_alignment as module

    rounds = module.ROUNDS
    try:
        module.ROUNDS = 2  # one step of the table, and none of lambda
        model = DirectedModel.train(pairs)
    finally:
        module.ROUNDS = rounds
    for (source_word, target_word), count in counts.items():
        of_source = [c for (s, _), c in counts.items() if s == source_word]
        total = sum(of_source) + 0.01 * len(of_source)
        key = model.sources[source_word] * len(model.targets) + model.targets[target_word]
        probabilities = model.probabilities[np.searchsorted(model.keys, key)]
        assert probabilities == pytest.approx(math.exp(digamma(count + 0.01) - digamma(total)))


def test_lambda_follows_how_near_the_diagonal_links_are() -> None:
    rng = np.random.default_rng(0)
    words = [rng.choice(500, 12, replace=False) for _ in range(200)]
    straight = [([f"s{w}" for w in row], [f"t{w}" for w in row]) for row in words]
    mixed = [(source, rng.permutation(target).tolist()) for source, target in straight]
    near, far = DirectedModel.train(straight), DirectedModel.train(mixed)
    assert near.tension > 10.0
    assert far.tension < 3.0


def test_unknown_words_follow_the_diagonal_and_empty_sides_have_no_links() -> None:
    model = DirectedModel.train([(["a"], ["b"])])
    assert model.align([(["?", "!"], ["??", "!!"])])[0].tolist() == [0, 1]
    assert model._probabilities(np.array([-1]))[0] == UNSEEN
    assert [links.tolist() for links in model.align([([], ["b"]), (["a"], [])])] == [[-1], []]
    with pytest.raises(InputError, match=r"pair.*words"):
        DirectedModel.train([([], ["b"])])


def test_grow_diag_final_and() -> None:
    forward = frozenset({(0, 0), (1, 1), (2, 1), (5, 4)})
    backward = frozenset({(0, 0), (1, 1), (1, 2), (4, 4), (6, 0)})
    # (2, 1) and (1, 2) touch a common link and each has a free word; (6, 0) touches none, and its
    # target has a link; (5, 4) joins at the end, after which (4, 4) has a linked word.
    assert grow_diag_final_and(forward, backward) == {(0, 0), (1, 1), (2, 1), (1, 2), (5, 4)}


def test_a_row_that_would_fill_the_memory_teaches_nothing_and_has_no_links() -> None:
    long = (["a"] * 20_000, ["b"] * 20_000)
    model = DirectedModel.train([(["a"], ["b"]), long])
    assert (model.align([long])[0] == -1).all()
    assert model.align([(["a"], ["b"])])[0].tolist() == [0]
