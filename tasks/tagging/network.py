"""A tagger in two parts: a vector for every word, and scores of labels on top of it.

A linear-chain conditional random field: one score for a whole row of labels.

Lafferty, McCallum and Pereira 2001; on top of an LSTM, Lample et al. 2016, section 2.2. The score
of a row is the sum of its emissions, of `between` for each pair of neighbours, and of `start` and
`end`. Nothing branches on a value, so that `torch.func.vmap` works.

Every row gets a copy of the transitions first: one-pass clipping then sees the gradient of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.api.networks import Batch
from uedp_bench.api.training import modules_of
from uedp_bench.models.fast.output_nats import token_nats
from uedp_bench.models.networks.modules import OutputLayer

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
        seed: seed of the initial scores.
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
        transitions: transition scores, shared by all rows.
    """
    rows = _by_row(transitions, emissions)
    score = _score(emissions, labels, lengths, rows)
    return torch.where(lengths > 0, score - _log_partition(emissions, lengths, rows), 0.0)


def viterbi(emissions: Tensor, lengths: Tensor, transitions: Transitions) -> Tensor:
    """(rows, words) labels of the highest score, 0 after a row's last word.

    Among equal scores the lowest label wins, from the last word back.

    Args:
        emissions: (rows, words, labels) scores.
        lengths: (rows,) words of each row.
        transitions: transition scores, shared by all rows.
    """
    start, between, end = _by_row(transitions, emissions)
    words = emissions.shape[1]
    best = start + emissions[:, 0]
    stay = torch.arange(best.shape[1], device=best.device).expand_as(best)
    before = []
    for t in range(1, words):
        inside = (t < lengths)[:, None]
        scores, came = (best[:, :, None] + between).max(dim=1)
        best = torch.where(inside, scores + emissions[:, t], best)
        before.append(torch.where(inside, came, stay))
    label = (best + end).argmax(dim=1, keepdim=True)
    path = [label]
    for came in reversed(before):
        label = came.gather(1, label)
        path.append(label)
    return torch.where(_inside(lengths, words), torch.cat(path[::-1], dim=1), 0)


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


class TaggerNetwork(nn.Module):
    """A token encoder, layer normalisation without weights, a linear layer, and perhaps a CRF.

    The vector of every word is normalised by itself (Ba et al. 2016), so that the scale of an
    encoder does not call for a learning rate of its own; an encoder that says that it is
    `normalised` is left as it is. Nothing is computed over a batch.

    Args:
        encoder: encoder of `TokenEncoder.build_token_encoder`.
        labels: number of labels.
        crf: labels of a row are scored together; else each word's alone.
        seed: seed of the initial weights: those of the linear layer uniform within 1 / sqrt(width),
            its biases 0, and transitions as `CRF` draws them.
    """

    def __init__(self, encoder: nn.Module, labels: int, *, crf: bool, seed: int) -> None:
        super().__init__()
        self.encoder = encoder
        self._normalised = bool(getattr(encoder, "normalised", False))
        self.width = int(encoder.width)  # type: ignore[arg-type]
        self.head = nn.Linear(self.width, labels)
        bound = 1.0 / math.sqrt(self.width)
        with torch.no_grad():
            self.head.weight.uniform_(-bound, bound, generator=torch.Generator().manual_seed(seed))
            self.head.bias.zero_()
        self.crf = CRF(labels, seed) if crf else None

    def forward(self, batch: Batch) -> Tensor:
        """(rows, words, labels) scores; without a CRF the logits of each word's label."""
        z: Tensor = self.encoder(batch)
        values = z if self._normalised else nn.functional.layer_norm(z, (self.width,))
        scores: Tensor = self.head(values)
        return scores

    def output_layer(self) -> OutputLayer:
        """Weight and bias of the linear layer, by label; see `HasOutputLayer`."""
        return OutputLayer(self.head.weight, self.head.bias)


def row_nats(module: nn.Module, batch: Batch) -> Tensor:
    """(rows,) negative log-likelihoods (nats) of all labels of each row.

    Several modules (`ModuleSet`) give the logarithm of the mean of their probabilities: of each
    word's label, or with a CRF of all labels of a row.

    Args:
        module: `TaggerNetwork`, or a set of them.
        batch: batch of the encoder, with `labels` (rows, words): negative ones are padding.
    """
    labels = batch["labels"]
    members = _members(module)
    if members[0].crf is None:
        return token_nats(module(batch), labels).sum(dim=1)
    log_likelihoods = [_log_likelihood(each, batch) for each in members]
    if len(log_likelihoods) == 1:
        return -log_likelihoods[0]
    return math.log(len(log_likelihoods)) - torch.logsumexp(torch.stack(log_likelihoods), dim=0)


@torch.no_grad()
def best_labels(module: nn.Module, batch: Batch) -> Tensor:
    """(rows, words) labels of the highest score; labels of padding mean nothing.

    Several modules with a CRF add up their scores.

    Args:
        module: `TaggerNetwork`, or a set of them.
        batch: batch of the encoder.
    """
    members = _members(module)
    if members[0].crf is None:
        return module(batch).argmax(dim=2)  # type: ignore[no-any-return]
    emissions = torch.stack([each(batch) for each in members]).mean(dim=0)
    parts = zip(*(each.crf.transitions() for each in members if each.crf), strict=True)
    mean = Transitions(*(torch.stack(part).mean(dim=0) for part in parts))
    return viterbi(emissions, batch["lengths"], mean)


def _members(module: nn.Module) -> Sequence[TaggerNetwork]:
    members = modules_of(module)
    taggers = [each for each in members if isinstance(each, TaggerNetwork)]
    if len(taggers) != len(members):
        raise TypeError(f"a {type(module).__name__} is no tagger")
    return taggers


def _log_likelihood(member: TaggerNetwork, batch: Batch) -> Tensor:
    if member.crf is None:
        raise TypeError("modules of one tagger differ in their decoder")
    likelihoods: Tensor = member.crf(member(batch), batch["labels"].clamp(min=0), batch["lengths"])
    return likelihoods
