"""The small translator: rows by themselves, causal, sensitive to order; and its search."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn import functional

from uedp_bench.models.networks.translators import (
    Search,
    TransformerTranslator,
    TranslatorShape,
    rotated,
    translated,
)

SHAPE = TranslatorShape(vocabulary=7, width=8, inner=16, layers=2, heads=2)
START, END = 0, 1


@pytest.fixture(scope="module")
def network() -> TransformerTranslator:
    translator = TransformerTranslator(SHAPE, seed=3).eval()
    with torch.no_grad():  # as drawn, it repeats itself whatever it reads
        for weight in translator.parameters():
            weight.mul_(3.0)
    return translator


def test_rows_do_not_depend_on_what_is_beside_them(network: TransformerTranslator) -> None:
    tokens, lengths = torch.tensor([[2, 3, 4, 1], [5, 1, 1, 1]]), torch.tensor([4, 2])
    inputs = torch.tensor([[0, 3, 2], [0, 4, 1]])
    both = network(tokens, lengths, inputs).detach()
    alone = network(tokens[1:, :2], lengths[1:], inputs[1:, :2]).detach()
    assert both[1:, :2].numpy() == pytest.approx(alone.numpy(), abs=1e-5)
    assert both.shape == (2, 3, 7)


def test_a_target_sees_what_came_before_it_and_the_whole_source(
    network: TransformerTranslator,
) -> None:
    def outputs(source: list[int], inputs: list[int]) -> torch.Tensor:
        size = torch.tensor([len(source)])
        return network(torch.tensor([source]), size, torch.tensor([inputs])).detach()[0]

    one, later = outputs([2, 3, 1], [0, 3, 2]), outputs([2, 3, 1], [0, 3, 5])
    assert one[:2] == pytest.approx(later[:2], abs=1e-5)
    assert (one[2] - later[2]).abs().max() > 1e-3
    assert (one[0] - outputs([3, 2, 1], [0, 3, 2])[0]).abs().max() > 1e-3, "order counts"


def test_rotation_tells_distances_alone() -> None:
    query, key = torch.randn(2, 1, 9, 4, generator=torch.Generator().manual_seed(1))
    query[:], key[:] = query[:, :1], key[:, :1]
    products = rotated(query)[0] @ rotated(key)[0].T
    assert products[0, 2] == pytest.approx(products[5, 7].item(), abs=1e-5)
    assert (products[0, 2] - products[2, 0]).abs() > 1e-4


def logp(network: TransformerTranslator, source: list[int], target: list[int]) -> float:
    """Mean log-probability of target and end, where the start is never next."""
    inputs = torch.tensor([[START, *target]])
    logits = network(torch.tensor([source]), torch.tensor([len(source)]), inputs)[0].detach()
    logits[:, START] = -torch.inf
    wanted = torch.tensor([*target, END])
    return float(-functional.cross_entropy(logits, wanted))


def test_greedy_search_takes_the_best_next_token(network: TransformerTranslator) -> None:
    source, search = [2, 5, 3, 1], Search(START, END, (START,), most=6)
    (translation,) = translated([network], torch.tensor([source]), torch.tensor([4]), search)
    so_far: list[int] = []
    while len(so_far) < 6:
        inputs = torch.tensor([[START, *so_far]])
        scores = network(torch.tensor([source]), torch.tensor([4]), inputs)[0, -1].detach()
        scores[START] = -torch.inf
        best = int(scores.argmax())
        if best == END:
            break
        so_far.append(best)
    assert translation == so_far


def test_a_wide_beam_finds_the_best_of_all(network: TransformerTranslator) -> None:
    """With a beam as wide as there are texts, the best finished one is the best of all."""
    search = Search(START, END, (START,), beams=31, most=3)
    sources = [[2, 5, 3, 1], [4, 4, 1], [6, 1], [3, 2, 6, 5, 1]]
    for source in sources:
        (translation,) = translated(
            [network], torch.tensor([source]), torch.tensor([len(source)]), search
        )
        every = [[*ids] for size in range(3) for ids in itertools.product(range(2, 7), repeat=size)]
        best = max(every, key=lambda ids: logp(network, source, ids))
        assert logp(network, source, translation) == pytest.approx(
            logp(network, source, best), abs=1e-5
        )


def test_limits_are_those_of_each_row() -> None:
    search = Search(START, END, (), most=15)
    assert search.limits(torch.tensor([1, 2, 9])).tolist() == [12, 14, 15]
