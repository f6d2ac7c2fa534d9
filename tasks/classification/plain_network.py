"""A trained classifier as plain layers, behind what the owner of a text computes alone."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.api import CapabilityError
from uedp_bench.api.capabilities import PlainNetwork
from uedp_bench.api.networks import on_device
from uedp_bench.api.training import modules_of
from uedp_bench.tasks.tokens.reader import tensors

if TYPE_CHECKING:
    from uedp_bench.api import Corpus
    from uedp_bench.tasks.classification.classifier import ClassifierReader

_ROWS = 512


def plain_network(reader: ClassifierReader, module: nn.Module) -> PlainNetwork:
    """The layers of a `ClassifierNetwork` that were trained, and what they read.

    An encoder without weights of its own belongs to what is read, and so does the normalisation
    behind it. An encoder that has `layers` (`text-cnn`) reads vectors as they are.

    Args:
        reader: reader of the classifier's inputs.
        module: the trained network; weights are not copied.

    Raises:
        CapabilityError: if another encoder was trained, or the vocabulary shows private text.
    """
    networks = modules_of(module)
    if len(networks) != 1:
        raise CapabilityError(f"{len(networks)} networks were released: they are no plain layers")
    if reader.vocabulary is not None and reader.vocabulary.private:
        raise CapabilityError(
            f"what the layers read depends on a vocabulary of private text "
            f"({reader.vocabulary.origin}): set task.vocabulary to public text"
        )
    network: Any = networks[0]
    encoder = network.encoder
    if hasattr(encoder, "layers"):
        layers = nn.Sequential(*encoder.layers(), *network.head_layers())
        shape = tuple(encoder.input_shape)
        return PlainNetwork(layers, shape, partial(_vectors, reader, shape))
    if any(True for _ in encoder.parameters()):
        raise CapabilityError(
            f"the encoder of {reader.model.name} is trained, and what it gives is normalised: "
            "these are no plain layers. Use text-cnn, or a frozen encoder without a projection"
        )
    layers = nn.Sequential(*network.head_layers())
    return PlainNetwork(layers, (network.width,), partial(_representations, reader, network))


def _vectors(reader: ClassifierReader, shape: tuple[int, ...], corpus: Corpus) -> Tensor:
    vectors = reader.inputs(corpus).get("vectors")
    if vectors is None:
        raise RuntimeError("layers read vectors, and the reader gave tokens")
    return torch.from_numpy(vectors).reshape(len(vectors), *shape)


@torch.no_grad()
def _representations(reader: ClassifierReader, network: Any, corpus: Corpus) -> Tensor:
    """(rows, d) as the head's first layer reads them."""
    columns = reader.inputs(corpus)
    device = str(next(network.parameters()).device)
    out = torch.empty(len(corpus), network.width)
    for start in range(0, len(corpus), _ROWS):
        chosen = np.arange(start, min(start + _ROWS, len(corpus)))
        batch = tensors(reader.batch(columns, chosen, np.zeros_like(chosen)))
        z = network.represent(on_device(batch, device))
        out[start : start + len(chosen)] = network.normalise(z).cpu()
    return out
