"""Layers whose updates leak, and their places in flat weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.api import CapabilityError
from uedp_bench.api.networks import EmbedsTokens, HasOutputLayer, ReadsTokenVectors

if TYPE_CHECKING:
    from torch import Tensor, nn

Array = NDArray[Any]


class Place(NamedTuple):
    """The place of one weight in the flat weights."""

    start: int
    shape: tuple[int, ...]

    def weight_in(self, flat: Array) -> Array:
        """Weight of this place in flat weights (d,), in its own shape."""
        return flat[self.start : self.start + int(np.prod(self.shape))].reshape(self.shape)


class Layers(NamedTuple):
    """The layers of a network that tell what it reads and predicts, as far as they are trained.

    Attributes:
        size: d, trainable weights of the network.
        embedding: (vocabulary, size) its table of token vectors; None where it is not trained.
        tied: the output layer reads the same table.
        output: (outputs, size) weight of the output layer, if it is trained.
        bias: (outputs,) its bias, if there is one that is trained.
        frozen: (vocabulary, size) the table where it is not trained; None where it is.
        readers: (outputs, inputs) trained weights whose first inputs are vectors of a frozen table.
    """

    size: int
    embedding: Place | None
    tied: bool
    output: Place | None
    bias: Place | None
    frozen: Array | None = None
    readers: tuple[Place, ...] = ()

    @staticmethod
    def from_module(module: nn.Module) -> Layers:
        """Layers that the parts of a network declare.

        Raises:
            CapabilityError: if none of its parts says in which table it looks tokens up, or which
                layer makes its logits.
        """
        table, output, bias = _declared(module)
        if table is None and output is None:
            raise CapabilityError(
                f"no part of the network {type(module).__name__} says in which table it looks "
                "tokens up (`token_embedding`), nor which layer makes its logits (`output_layer`)"
            )
        places: dict[int, Place] = {}
        at = 0
        for weight in module.parameters():
            if weight.requires_grad:
                places[id(weight)] = Place(at, tuple(weight.shape))
                at += weight.numel()

        def place(weight: Tensor | None) -> Place | None:
            return None if weight is None else places.get(id(weight))

        frozen = None if table is None or id(table) in places else table.detach().cpu().numpy()
        readers = [place(weight) for weight in _readers(module)] if frozen is not None else []
        return Layers(
            at, place(table), table is output, place(output), place(bias), frozen,
            tuple(reader for reader in readers if reader is not None),
        )  # fmt: skip

    def labels_of(self, change: Array) -> Array | None:
        """(outputs,) rise of each label's bias in a change (d,); None without a bias.

        The gradient of a bias is the mean of p(label) - [it is the label] (Zhao et al. 2020): it is
        positive for labels that no row has, in each step. So labels that rise are there; those that
        the network expects more often than they are need not rise.
        """
        return None if self.bias is None else self.bias.weight_in(change)


def _readers(module: nn.Module) -> Sequence[Tensor]:
    """Weights that multiply vectors of tokens, as far as the network says which."""
    declared = (
        part.token_readers() for part in module.modules() if isinstance(part, ReadsTokenVectors)
    )
    return next(declared, ())


def _declared(module: nn.Module) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The table of token vectors, and weight and bias of the output layer."""
    tables = (part.token_embedding() for part in module.modules() if isinstance(part, EmbedsTokens))
    outputs = (part.output_layer() for part in module.modules() if isinstance(part, HasOutputLayer))
    weight, bias = next((layer for layer in outputs if layer is not None), (None, None))
    return next(tables, None), weight, bias
