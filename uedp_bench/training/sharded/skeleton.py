"""A learner without the numbers of its weights, as other ranks are sent it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from uedp_bench.errors import InputError
from uedp_bench.learner import Learner
from uedp_bench.training.sharded.network import Weight, placeholder, weights_of


def without_weights(learner: Learner) -> bytes:
    """A learner whose network has parameters of the right shapes that hold no numbers.

    Raises:
        InputError: if it cannot be sent to another process.
    """
    file = io.BytesIO()
    try:
        _Pickler(file, learner.module).dump(learner)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputError(
            f"what is trained cannot be sent to another process ({error}); train without "
            "--shard-weights"
        ) from error
    return file.getvalue()


def read_learner(data: bytes, weights: tuple[Weight, ...]) -> Learner:
    """What `without_weights` wrote."""
    found: Learner = _Unpickler(data, {weight.name: weight for weight in weights}).load()
    return found


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, module: nn.Module) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        known = {weight.name for weight in weights_of(module)}
        self._names = {id(p): name for name, p in module.named_parameters() if name in known}

    def persistent_id(self, value: object) -> str | None:
        """The name of a weight of the network; None for all else."""
        return self._names.get(id(value))


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, weights: Mapping[str, Weight]) -> None:
        super().__init__(io.BytesIO(data))
        self._weights = weights
        self._made: dict[str, nn.Parameter] = {}

    def persistent_load(self, name: str) -> Any:
        """A parameter that looks like the weight; the same one in all places."""
        if name not in self._made:
            weight = self._weights[name]
            empty = placeholder(weight.shape, torch.zeros(()))
            self._made[name] = nn.Parameter(empty, requires_grad=weight.trained)
        return self._made[name]
