"""Classifiers in two parts: a head of fully connected layers on an encoder of texts or vectors.

Encoders here are convolutions, TF-IDF vectors and vectors as they are; `recurrent_encoders` and
`transformer_encoders` have others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import Batch
from uedp_bench.corpus import FloatArray
from uedp_bench.errors import InputError
from uedp_bench.models.networks.lstm import keep_mask
from uedp_bench.models.networks.modules import Branches, OutputLayer
from uedp_bench.models.word_vocabularies import FIRST_TERM

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


_STREAM = 0
"""Number of the dropout mask: those of a classifier's head are larger."""


class CNNLayout(NamedTuple):
    """Sizes of the convolutions.

    Attributes:
        kernels: kernel sizes of each branch, one number for each of its convolutions.
        channels: outputs of the convolutions, the same for all branches.
        pools: sizes and strides of the max-pooling after each convolution; None for one window of
            all positions (max over time).
    """

    kernels: tuple[tuple[int, ...], ...]
    channels: tuple[int, ...]
    pools: tuple[int | None, ...]

    def outputs(self, size: int) -> tuple[int, ...]:
        """Numbers that each branch makes of a sequence of this size.

        Raises:
            InputError: if nothing is left behind a pooling.
        """
        return tuple(
            self._windows(kernels, size)[-1][1] * self.channels[-1] for kernels in self.kernels
        )

    def branch(self, kernels: tuple[int, ...], shape: tuple[int, int]) -> nn.Sequential:
        """The layers of one branch, with fresh weights, for sequences (channels, positions)."""
        parts: list[nn.Module] = []
        inputs, size = shape
        windows = self._windows(kernels, size)
        for kernel, outputs, (window, _) in zip(kernels, self.channels, windows, strict=True):
            parts += [nn.Conv1d(inputs, outputs, kernel), nn.MaxPool1d(window), nn.ReLU()]
            inputs = outputs
        return nn.Sequential(*parts, nn.Flatten())

    def _windows(self, kernels: tuple[int, ...], size: int) -> list[tuple[int, int]]:
        """The window after each convolution, and how many positions it leaves."""
        windows, left = [], size
        for kernel, pool in zip(kernels, self.pools, strict=True):
            room = left - kernel + 1
            window = room if pool is None else pool
            left = room // window if room > 0 else 0
            if left < 1:
                raise InputError(
                    f"text-cnn: nothing is left of {size} numbers or words behind kernels "
                    f"{list(kernels)} and pools {list(self.pools)}: make these smaller"
                )
            windows.append((window, left))
        return windows


class TextCNN(nn.Module):
    """Branches of convolutions, dropout of their outputs, and one linear layer if needed.

    A convolution is followed by max-pooling, then by ReLU: pooling what ReLU gave is the same, and
    takes more work. Nothing here is normalised, so that `layers` are all that comes after the
    vectors.

    Args:
        shape: (channels, positions) of what the convolutions read: (1, size) of a vector whose
            coordinates they slide over, (size, words) of a text of word vectors.
        layout: layout of the convolutions.
        width: outputs of the linear layer; None for what the branches give.
        dropout: rate at which outputs of the branches are dropped in training.
        seed: seed of the initial weights, by the laws of PyTorch's layers.

    Attributes:
        input_shape: shape of inputs; `layers` read rows of this shape.
    """

    normalised = True
    seeded = True

    def __init__(
        self,
        shape: tuple[int, int],
        layout: CNNLayout,
        width: int | None,
        dropout: float,
        seed: int,
    ) -> None:
        super().__init__()
        joined = sum(layout.outputs(shape[1]))
        self.input_shape, self.width, self.dropout = shape, width or joined, dropout
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.branches = Branches(layout.branch(kernels, shape) for kernels in layout.kernels)
            self.linear = nn.Identity() if width is None else nn.Linear(joined, width)

    def forward(self, vectors: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, width) of vectors (rows, channels * positions).

        There is dropout where seeds (rows,) are given.
        """
        joined: Tensor = self.branches(vectors.reshape(-1, *self.input_shape))
        if seeds is not None and self.dropout > 0:
            columns = torch.arange(joined.shape[1], device=joined.device)[None]
            joined = joined * keep_mask(seeds, _STREAM, columns, self.dropout).to(joined.dtype)
        return self.linear(joined)  # type: ignore[no-any-return]

    def layers(self) -> nn.Sequential:
        """Everything that a row of `input_shape` goes through at inference, as plain layers."""
        return nn.Sequential(self.branches, self.linear)


class TfidfNetwork(nn.Module):
    """(1 + ln count) times the weight of every term of a row, scaled to length 1.

    A batch is dense, (rows, terms); texts stay lists of token ids, so that a corpus is never held
    as such a table.

    Args:
        weights: (terms,) inverse document frequencies, from public text.
    """

    normalised = True

    def __init__(self, weights: FloatArray) -> None:
        super().__init__()
        self.width = len(weights)
        self.weights: Tensor
        self.register_buffer("weights", torch.as_tensor(weights, dtype=torch.float32))

    def forward(self, tokens: Tensor, lengths: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, terms); a row without any known term is 0. See `TextEncoder`."""
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        terms = inside & (tokens >= FIRST_TERM)
        empty = torch.zeros(tokens.shape[0], self.width, device=tokens.device)
        counts = empty.scatter_add(1, (tokens - FIRST_TERM).clamp(min=0), terms.to(empty.dtype))
        # ln 0 would be -inf, and 0 of it NaN: absent terms are left out before the logarithm.
        frequency = torch.where(counts > 0, 1.0 + counts.clamp(min=1.0).log(), empty)
        return nn.functional.normalize(frequency * self.weights, dim=1)
