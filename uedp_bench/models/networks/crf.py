"""A linear-chain conditional random field: one score for a whole row of labels.

Lafferty, McCallum and Pereira 2001; on top of an LSTM, Lample et al. 2016, section 2.2. The score
of a row is the sum of its emissions, of `between` for each pair of neighbours, and of `start` and
`end`. Nothing branches on a value, so that `torch.func.vmap` works.

Every row gets a copy of the transitions first: one-pass clipping then sees the gradient of each.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

_RANGE = 0.1


class Transitions(NamedTuple):
    """Scores that do not depend on the text.

    Attributes:
        start, end: (labels,) of the first and of the last label.
        between: (labels, labels) of label j after label i, at [i, j].
    """

    start: Tensor
    between: Tensor
    end: Tensor


class CRF(nn.Module):
    """Holds transitions, which start uniform within 0.1.

    Args:
        labels: number of labels.
        seed: of the initial scores.
    """

    def __init__(self, labels: int, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape).uniform_(-_RANGE, _RANGE, generator=generator))

        self.start, self.between, self.end = drawn(labels), drawn(labels, labels), drawn(labels)

    def forward(self, emissions: Tensor, labels: Tensor, lengths: Tensor) -> Tensor:
        """(rows,) log-likelihoods; see `log_likelihood`."""
        return log_likelihood(emissions, labels, lengths, self.transitions())

    def transitions(self) -> Transitions:
        """The scores."""
        return Transitions(self.start, self.between, self.end)

    @torch.no_grad()
    def best(self, emissions: Tensor, lengths: Tensor) -> Tensor:
        """(rows, words) labels; see `viterbi`."""
        return viterbi(emissions, lengths, self.transitions())


def log_likelihood(
    emissions: Tensor, labels: Tensor, lengths: Tensor, transitions: Transitions
) -> Tensor:
    """(rows,) log-probabilities of the labels among all label sequences of the row's length.

    That of a row without words is 0. What stands after a row's last word changes nothing.

    Args:
        emissions: (rows, words, labels) scores.
        labels: (rows, words) ids in range, in the padding too.
        lengths: (rows,) words of each row.
        transitions: shared by all rows.
    """
    rows = _by_row(transitions, emissions)
    score = _score(emissions, labels, lengths, rows)
    return torch.where(lengths > 0, score - _log_partition(emissions, lengths, rows), 0.0)


def viterbi(emissions: Tensor, lengths: Tensor, transitions: Transitions) -> Tensor:
    """(rows, words) the labels of the highest score, 0 after a row's last word.

    Among equal scores the lowest label wins, from the last word back.

    Args:
        emissions: (rows, words, labels) scores.
        lengths: (rows,) words of each row.
        transitions: shared by all rows.
    """
    start, between, end = _by_row(transitions, emissions)
    words = emissions.shape[1]
    best = start + emissions[:, 0]
    stay = torch.arange(best.shape[1], device=best.device).expand_as(best)
    before = []
    for t in range(1, words):
        inside = (t < lengths)[:, None]
        found, came = (best[:, :, None] + between).max(dim=1)
        best = torch.where(inside, found + emissions[:, t], best)
        before.append(torch.where(inside, came, stay))
    label = (best + end).argmax(dim=1, keepdim=True)
    path = [label]
    for came in reversed(before):
        label = came.gather(1, label)
        path.append(label)
    found = torch.cat(path[::-1], dim=1)
    return torch.where(_inside(lengths, words), found, 0)


def _by_row(transitions: Transitions, emissions: Tensor) -> Transitions:
    """The transitions once for every row, which is the first dimension of each."""
    rows, labels = emissions.shape[0], emissions.shape[2]
    ends = emissions.new_zeros(rows, labels)
    pairs = emissions.new_zeros(rows, labels, labels)
    return Transitions(
        transitions.start + ends, transitions.between + pairs, transitions.end + ends
    )


def _inside(lengths: Tensor, words: int) -> Tensor:
    """(rows, words) True where a row has a word."""
    return torch.arange(words, device=lengths.device) < lengths[:, None]


def _score(emissions: Tensor, labels: Tensor, lengths: Tensor, rows: Transitions) -> Tensor:
    inside = _inside(lengths, emissions.shape[1])
    emitted = emissions.gather(2, labels[:, :, None])[:, :, 0]
    pairs = labels[:, :-1] * emissions.shape[2] + labels[:, 1:]
    moved = rows.between.flatten(1).gather(1, pairs)
    last = labels.gather(1, (lengths - 1).clamp(min=0)[:, None])
    ends = rows.start.gather(1, labels[:, :1]) + rows.end.gather(1, last)
    # `where`, not a product: what is not finite in the padding stays there.
    return (
        ends[:, 0]
        + torch.where(inside, emitted, 0.0).sum(dim=1)
        + torch.where(inside[:, 1:], moved, 0.0).sum(dim=1)
    )


def _log_partition(emissions: Tensor, lengths: Tensor, rows: Transitions) -> Tensor:
    """(rows,) by the forward algorithm."""
    total = rows.start + emissions[:, 0]
    for t in range(1, emissions.shape[1]):
        arrived = torch.logsumexp(total[:, :, None] + rows.between, dim=1) + emissions[:, t]
        total = torch.where((t < lengths)[:, None], arrived, total)
    return torch.logsumexp(total + rows.end, dim=1)
