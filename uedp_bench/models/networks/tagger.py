"""A tagger in two parts: a vector for every word, and scores of labels on top of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from uedp_bench.learner import Batch
from uedp_bench.models.fast.cross_entropy import token_nats
from uedp_bench.models.module_set import modules_of
from uedp_bench.models.networks.crf import CRF, Transitions, viterbi
from uedp_bench.models.networks.output_layer import OutputLayer


class TaggerNetwork(nn.Module):
    """A token encoder, layer normalisation without weights, a linear layer, and perhaps a CRF.

    The vector of every word is normalised by itself (Ba et al. 2016), so that the scale of an
    encoder does not call for a learning rate of its own; an encoder that says that it is
    `normalised` is left as it is. Nothing is computed over a batch.

    Args:
        encoder: as `TokenEncoder.build_token_encoder` makes it.
        labels: how many there are.
        crf: labels of a row are scored together; else each word's alone.
        seed: of the initial weights: those of the linear layer uniform within 1 / sqrt(width), its
            biases 0, and transitions as `CRF` draws them.
    """

    def __init__(self, encoder: nn.Module, labels: int, *, crf: bool, seed: int) -> None:
        super().__init__()
        self.encoder = encoder
        self._normalised = bool(getattr(encoder, "normalised", False))
        self.width = int(encoder.width)  # type: ignore[arg-type]
        self.head = nn.Linear(self.width, labels)
        bound = 1.0 / math.sqrt(self.width)
        with torch.no_grad():
            generator = torch.Generator().manual_seed(seed)
            self.head.weight.uniform_(-bound, bound, generator=generator)
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
        module: a `TaggerNetwork`, or a set of them.
        batch: of the encoder, with `labels` (rows, words): negative ones are padding.
    """
    labels = batch["labels"]
    members = _members(module)
    if members[0].crf is None:
        return token_nats(module(batch), labels).sum(dim=1)
    found = [_log_likelihood(each, batch) for each in members]
    if len(found) == 1:
        return -found[0]
    return math.log(len(found)) - torch.logsumexp(torch.stack(found), dim=0)


@torch.no_grad()
def best_labels(module: nn.Module, batch: Batch) -> Tensor:
    """(rows, words) the labels of the highest score; what stands in the padding means nothing.

    Several modules with a CRF add up their scores.

    Args:
        module: a `TaggerNetwork`, or a set of them.
        batch: of the encoder.
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
    found = [each for each in members if isinstance(each, TaggerNetwork)]
    if len(found) != len(members):
        raise TypeError(f"a {type(module).__name__} is no tagger")
    return found


def _log_likelihood(member: TaggerNetwork, batch: Batch) -> Tensor:
    if member.crf is None:
        raise TypeError("modules of one tagger differ in their decoder")
    likelihoods: Tensor = member.crf(member(batch), batch["labels"].clamp(min=0), batch["lengths"])
    return likelihoods
