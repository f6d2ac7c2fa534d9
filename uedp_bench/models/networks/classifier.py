"""A classifier in two parts: an encoder, and a head of fully connected layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import Batch
from uedp_bench.models.networks.lstm import keep_mask
from uedp_bench.models.networks.output_layer import OutputLayer

_HEAD_STREAM = 1 << 20
"""First number of the head's dropout masks: an encoder's own are smaller."""


class Given(nn.Module):
    """The encoder of rows that are vectors already: they are their own representations."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, vectors: Tensor) -> Tensor:
        """(rows, d) as they are."""
        return vectors


class ClassifierNetwork(nn.Module):
    """Encoder, layer normalisation without weights, and a multilayer perceptron with ReLU.

    Representations are normalised row by row before the head (Ba et al. 2016), so that the scale of
    an encoder, or of noise, does not call for a learning rate of its own; an encoder that says that
    it is `normalised` is left as it is. Nothing is computed over a batch. Dropout masks of the head
    come from each row's seed.

    Args:
        encoder: encoder with the attribute `width`, d. One of vectors gets the rows' seeds if it
            says that it is `seeded`.
        classes: outputs.
        hidden: sizes of hidden layers; none for a linear classifier.
        dropout: rate at which inputs of each layer of the head are dropped in training.
        seed: seed of the head's initial weights, uniform within 1 / sqrt(inputs); biases are 0.
    """

    def __init__(
        self, encoder: nn.Module, classes: int, hidden: Sequence[int], dropout: float, seed: int
    ) -> None:
        super().__init__()
        self.encoder, self.dropout = encoder, dropout
        self._normalised = bool(getattr(encoder, "normalised", False))
        self.width = int(encoder.width)  # type: ignore[arg-type]
        sizes = [self.width, *hidden, classes]
        self.head = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(sizes))
        self._initialise(torch.Generator().manual_seed(seed))

    @torch.no_grad()
    def _initialise(self, generator: torch.Generator) -> None:
        for layer in self._layers():
            bound = 1.0 / math.sqrt(layer.in_features)
            layer.weight.uniform_(-bound, bound, generator=generator)
            layer.bias.zero_()

    def _layers(self) -> list[nn.Linear]:
        return [layer for layer in self.head if isinstance(layer, nn.Linear)]

    def output_layer(self) -> OutputLayer:
        """Its last layer: a row of the weight, and a bias, for each class; see `HasOutputLayer`."""
        last = self._layers()[-1]
        return OutputLayer(last.weight, last.bias)

    def represent(self, batch: Batch) -> Tensor:
        """(rows, d) representations of `vectors`, or of `tokens` and `lengths`."""
        seeds = batch["seeds"] if self.training else None
        if "vectors" in batch:
            drawn = (seeds,) if getattr(self.encoder, "seeded", False) else ()
            vectors: Tensor = self.encoder(batch["vectors"], *drawn)
            return vectors
        encoded: Tensor = self.encoder(batch["tokens"], batch["lengths"], seeds)
        return encoded

    def normalise(self, z: Tensor) -> Tensor:
        """(rows, d) as the first layer of the head reads representations (rows, d)."""
        return z if self._normalised else nn.functional.layer_norm(z, (self.width,))

    def head_layers(self) -> list[nn.Module]:
        """Everything behind the normalisation, as plain layers, without dropout."""
        first, *others = self._layers()
        return [first, *(part for layer in others for part in (nn.ReLU(), layer))]

    def classify(self, z: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Logits (rows, classes) of representations (rows, d); dropout where seeds are given."""
        values = self.normalise(z)
        for number, layer in enumerate(self._layers()):
            if number:
                values = torch.relu(values)
            if seeds is not None and self.dropout > 0:
                columns = torch.arange(values.shape[1], device=values.device)[None]
                mask = keep_mask(seeds, _HEAD_STREAM + number, columns, self.dropout)
                values = values * mask.to(values.dtype)
            values = layer(values)
        return values

    def forward(self, batch: Batch) -> Tensor:
        """Logits (rows, classes)."""
        return self.classify(self.represent(batch), batch["seeds"] if self.training else None)
