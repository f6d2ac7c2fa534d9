"""The conditional random field against all paths, and against pytorch-crf."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from uedp_bench.tasks.tagging.network import CRF, Transitions, log_likelihood, viterbi

LABELS, LENGTHS = 3, (5, 1, 4, 2, 0)


def _drawn(seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Transitions]:
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=rng, dtype=torch.float64)

    rows, words = len(LENGTHS), max(LENGTHS)
    labels = torch.randint(0, LABELS, (rows, words), generator=rng)
    transitions = Transitions(normal(LABELS), normal(LABELS, LABELS), normal(LABELS))
    return normal(rows, words, LABELS), labels, torch.tensor(LENGTHS), transitions


def _score(emissions: Tensor, path: tuple[int, ...], transitions: Transitions) -> Tensor:
    start, between, end = transitions
    pairs = [between[a, b] for a, b in itertools.pairwise(path)]
    return sum(
        (*pairs, *(emissions[t, label] for t, label in enumerate(path))),
        start[path[0]] + end[path[-1]],
    )


@pytest.mark.parametrize("seed", range(3))
def test_probabilities_and_best_paths_are_those_of_all_paths(seed: int) -> None:
    emissions, labels, lengths, transitions = _drawn(seed)
    nats = log_likelihood(emissions, labels, lengths, transitions)
    best = viterbi(emissions, lengths, transitions)
    for row, length in enumerate(LENGTHS):
        assert not best[row, length:].any()
        if length == 0:
            assert float(nats[row]) == 0.0
            continue
        paths = list(itertools.product(range(LABELS), repeat=length))
        scores = torch.stack([_score(emissions[row], path, transitions) for path in paths])
        own = scores[paths.index(tuple(labels[row, :length].tolist()))]
        torch.testing.assert_close(nats[row], own - scores.logsumexp(0))
        assert tuple(best[row, :length].tolist()) == paths[int(scores.argmax())]


def test_values_gradients_and_paths_are_those_of_pytorch_crf() -> None:
    torchcrf = pytest.importorskip("torchcrf", reason="pytorch-crf comes with the extra `test`")
    emissions, labels, lengths, transitions = _drawn()
    emissions, labels, lengths = emissions[:4], labels[:4], lengths[:4]  # it knows no empty row
    peer = torchcrf.CRF(LABELS, batch_first=True).double()
    with torch.no_grad():
        peer.start_transitions.copy_(transitions.start)
        peer.transitions.copy_(transitions.between)
        peer.end_transitions.copy_(transitions.end)
    mask = torch.arange(emissions.shape[1]) < lengths[:, None]
    inputs = [emissions.clone().requires_grad_(), emissions.clone().requires_grad_()]
    theirs = peer(inputs[0], labels, mask, reduction="none")
    own = Transitions(*(value.clone().requires_grad_() for value in transitions))
    ours = log_likelihood(inputs[1], labels, lengths, own)
    torch.testing.assert_close(ours, theirs)
    parameters = (peer.start_transitions, peer.transitions, peer.end_transitions)
    expected = torch.autograd.grad(theirs.exp().sum(), (inputs[0], *parameters))
    torch.testing.assert_close(torch.autograd.grad(ours.exp().sum(), (inputs[1], *own)), expected)
    paths = viterbi(emissions, lengths, transitions)
    for row, path in enumerate(peer.decode(emissions, mask)):
        assert paths[row, : len(path)].tolist() == path


def test_padding_changes_neither_value_nor_gradient() -> None:
    emissions, labels, lengths, transitions = _drawn()
    for row, length in enumerate(LENGTHS[:4]):
        by_padding = []
        for words in (length, emissions.shape[1]):
            padded = emissions[row : row + 1, :words].clone()
            padded[:, length:] = float("nan")
            padded.requires_grad_()
            own = Transitions(*(value.clone().requires_grad_() for value in transitions))
            value = log_likelihood(
                padded, labels[row : row + 1, :words], lengths[row : row + 1], own
            )
            gradients = torch.autograd.grad(value.sum(), (padded, *own))
            assert not gradients[0][:, length:].any()
            by_padding.append((value, gradients[0][:, :length], *gradients[1:]))
        torch.testing.assert_close(by_padding[0], by_padding[1], rtol=0.0, atol=0.0)


def test_rows_of_weights_go_side_by_side() -> None:
    emissions, labels, lengths, transitions = _drawn()
    other = Transitions(*(2.0 * value for value in transitions))

    def value(emissions: Tensor, labels: Tensor, lengths: Tensor, *own: Tensor) -> Tensor:
        return log_likelihood(emissions, labels, lengths, Transitions(*own)).sum()

    both = [torch.stack(pair) for pair in zip(transitions, other, strict=True)]
    many = [torch.stack([part, part]) for part in (emissions, labels, lengths)]
    gradient = torch.func.grad(value, argnums=(0, 3, 4, 5))
    gradients = torch.func.vmap(gradient)(*many, *both)
    for unit, own in enumerate((transitions, other)):
        alone = gradient(emissions, labels, lengths, *own)
        torch.testing.assert_close(tuple(part[unit] for part in gradients), alone)
    paths = torch.func.vmap(lambda e, n, *own: viterbi(e, n, Transitions(*own)))(
        many[0], many[2], *both
    )
    assert torch.equal(paths[1], viterbi(emissions, lengths, other))


def test_what_may_not_follow_is_never_chosen() -> None:
    emissions, labels, lengths, transitions = _drawn()
    transitions.between[0, 1] = transitions.start[1] = -1e4
    paths = viterbi(emissions, lengths, transitions)
    for row, length in enumerate(LENGTHS[:4]):
        path = paths[row, :length].tolist()
        assert path[0] != 1
        assert (0, 1) not in list(itertools.pairwise(path))
    assert torch.isfinite(log_likelihood(emissions, labels, lengths, transitions)).all()


def test_the_module_holds_the_transitions_that_it_scores_by() -> None:
    emissions, labels, lengths, _ = _drawn()
    crf = CRF(LABELS, seed=0).double()
    same = CRF(LABELS, seed=0).double().transitions()
    nats = crf(emissions, labels, lengths)
    torch.testing.assert_close(nats, log_likelihood(emissions, labels, lengths, same))
    assert torch.equal(crf.best(emissions, lengths), viterbi(emissions, lengths, same))
