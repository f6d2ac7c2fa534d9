"""The last layer of a network, and the weights that an encoder may bring for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.contracts.model import BringsHead
from uedp_bench.errors import InputError


class OutputLayer(NamedTuple):
    """Weights of an output layer: logits are features times `weight`, plus `bias`.

    Attributes:
        weight: (vocabulary, size).
        bias: (vocabulary,), or None.
    """

    weight: Tensor
    bias: Tensor | None


def take_head(encoder: nn.Module, layer: OutputLayer, names: Sequence[str]) -> None:
    """Give a network's last layer the weights that its encoder brings, if it brings any.

    Args:
        encoder: encoder of the network.
        layer: output layer, changed in place; its inputs are the encoder's vectors.
        names: names of the classes, in the order of the layer's outputs.

    Raises:
        InputError: if the encoder's head has other classes or inputs.
    """
    if not isinstance(encoder, BringsHead):
        return
    weight, bias = encoder.head(names)
    if layer.weight.shape != weight.shape or layer.bias is None:
        raise InputError(
            "the model brings the layer on top of its encoder: leave out layers between them "
            "(task.hidden)"
        )
    with torch.no_grad():
        layer.weight.copy_(weight)
        layer.bias.copy_(bias)
