"""From modules to layers and weights of the ring, with the range of every value."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from uedp_bench.api import InputError
from uedp_bench.api.training import ArgMax, Branches
from uedp_bench.mechanisms.secure_inference.engine import FRACTION
from uedp_bench.mechanisms.secure_inference.engine.dealer import Shape
from uedp_bench.mechanisms.secure_inference.engine.layers import (
    Affine,
    Layer,
    Parallel,
    Pointwise,
    Pool,
    Sequence,
    encode,
)

_KNOWN = (nn.Linear, nn.Conv1d, nn.ReLU, nn.MaxPool1d, nn.Flatten, nn.Sigmoid, Branches,
          nn.Sequential, nn.Dropout, nn.Identity)  # fmt: skip

_ULP = 2.0**-FRACTION

Named = tuple[str, nn.Module]


@dataclass(frozen=True)
class Values:
    """Facts of a layer's values: the shape of a row, and a bound on their size."""

    shape: Shape
    bound: float


@dataclass
class Reader:
    """Reads modules in order, and bounds what each returns.

    Attributes:
        largest: the declared bound of all values.
        weights, biases: of the layers that were read, in the ring.
    """

    largest: float
    weights: dict[str, Tensor] = field(default_factory=dict)
    biases: dict[str, Tensor] = field(default_factory=dict)

    def sequence(self, name: str, modules: list[Named], values: Values) -> tuple[Layer, Values]:
        """Layers of modules that follow each other."""
        layers: list[Layer] = []
        waiting = list(modules)
        while waiting:
            (name_of, module), *waiting = waiting
            floor = isinstance(module, nn.ReLU)
            if floor and waiting and isinstance(waiting[0][1], nn.MaxPool1d):
                (name_of, module), *waiting = waiting
            elif isinstance(module, nn.MaxPool1d) and waiting:
                floor = isinstance(waiting[0][1], nn.ReLU)
                waiting = waiting[int(floor) :]
            layer, values = self._layer(name_of, module, values, floor)
            layers.append(layer)
        return Sequence(name, tuple(layers)), values

    def _layer(
        self, name: str, module: nn.Module, values: Values, floor: bool
    ) -> tuple[Layer, Values]:
        """The layer of one module; `floor` says that a ReLU goes with a pool."""
        if isinstance(module, nn.Linear | nn.Conv1d):
            return self._affine(name, module, values)
        if isinstance(module, nn.MaxPool1d):
            layer: Layer = _pool(name, module, values.shape, floor)
            return layer, Values(layer.outputs(values.shape), values.bound)
        if isinstance(module, Branches):
            return self._branches(name, module, values)
        kind = type(module).__name__
        if isinstance(module, ArgMax):
            raise InputError(f"{name} (ArgMax) stands before the end of the network")
        if isinstance(module, nn.Flatten) and (module.start_dim, module.end_dim) != (1, -1):
            raise InputError(f"{name} ({kind}): only all dimensions but rows can be flattened")
        layer = Pointwise(name, kind)  # type: ignore[arg-type]
        bound = 1.0 + 64 * _ULP if isinstance(module, nn.Sigmoid) else values.bound
        return layer, Values(layer.outputs(values.shape), bound)

    def _branches(self, name: str, module: Branches, values: Values) -> tuple[Layer, Values]:
        branches = [
            self.sequence(f"{name}.{at}", flat(f"{name}.{at}", branch), values)
            for at, branch in enumerate(module.branches)
        ]
        shapes = [end.shape[1:] for _, end in branches]
        if len(set(shapes)) > 1:
            raise InputError(f"{name} (Branches): outputs {shapes} do not fit beside each other")
        layer = Parallel(name, tuple(branch for branch, _ in branches))
        return layer, Values(layer.outputs(values.shape), max(end.bound for _, end in branches))

    def _affine(
        self, name: str, module: nn.Linear | nn.Conv1d, values: Values
    ) -> tuple[Layer, Values]:
        where = f"{name} ({type(module).__name__})"
        if isinstance(module, nn.Conv1d):
            _plain(where, {"stride": module.stride, "dilation": module.dilation,
                           "groups": (module.groups,)}, 1)  # fmt: skip
            _plain(where, {"padding": module.padding}, 0)
            expected: tuple[int | None, ...] = (module.in_channels, None)
            short = len(values.shape) == 2 and values.shape[1] < module.kernel_size[0]
            kind = "Conv1d"
        else:
            expected = (*values.shape[:-1], module.in_features)
            short, kind = False, "Linear"
        _fits(where, values.shape, expected, short)
        weights = module.weight.detach().cpu().double()
        bias = torch.zeros(len(weights)) if module.bias is None else module.bias.detach().cpu()
        if not (weights.isfinite().all() and bias.isfinite().all()):
            raise InputError(f"{where}: a weight is not a finite number")
        sizes = weights.abs().flatten(1) + _ULP  # rounded to the ring
        reach = float((sizes.sum(1) * (values.bound + _ULP) + bias.double().abs()).max()) + 2 * _ULP
        if reach > self.largest:
            raise InputError(
                f"{where} may return values up to {reach:,.6g}, and the declared range ends at "
                f"{self.largest:,.6g}: declare a larger `value_range`, or a smaller `input_range`"
            )
        self.weights[name] = encode(weights)
        biases = encode(bias, 2 * FRACTION)
        self.biases[name] = biases[:, None] if kind == "Conv1d" else biases
        layer = Affine(name, kind, tuple(weights.shape))  # type: ignore[arg-type]
        return layer, Values(layer.outputs(values.shape), reach)


def read_network(network: nn.Module, *, keep_sigmoid: bool) -> list[Named]:
    """Modules up to the closing `ArgMax`, which is checked and left off.

    Args:
        network: network of `nn.Sequential`, `Branches` and known layers, with `ArgMax` at its end.
        keep_sigmoid: False leaves out a `Sigmoid` before the end, for it moves no maximum.

    Raises:
        InputError: there is no `ArgMax` at the end.
    """
    modules = flat("", network)
    if not modules or not isinstance(modules[-1][1], ArgMax):
        raise InputError("the network does not end with ArgMax, which says what is revealed")
    modules = modules[:-1]
    if not keep_sigmoid and modules and isinstance(modules[-1][1], nn.Sigmoid):
        modules = modules[:-1]
    return modules


def flat(name: str, module: nn.Module) -> list[Named]:
    """Modules with their names, `nn.Sequential` resolved; those that do nothing are left out.

    Raises:
        InputError: for a module that no protocol computes.
    """
    if isinstance(module, nn.Sequential) and type(module).forward is nn.Sequential.forward:
        joined = ((f"{name}.{at}" if name else at, child) for at, child in module.named_children())
        return [one for at, child in joined for one in flat(at, child)]
    if type(module) in (nn.Dropout, nn.Identity):  # nothing, once trained
        return []
    if type(module) not in (*_KNOWN, ArgMax):
        names = ", ".join(sorted(kind.__name__ for kind in _KNOWN))
        raise InputError(
            f"{name or 'the network'} ({type(module).__name__}) cannot be computed between two "
            f"parties; known: {names}, and ArgMax at the end"
        )
    return [(name, module)]


def _pool(name: str, module: nn.MaxPool1d, shape: Shape, floor: bool) -> Pool:
    where = f"{name} (MaxPool1d)"
    _plain(where, {"padding": _one(module.padding), "ceil_mode": (module.ceil_mode,)}, 0)
    _plain(where, {"dilation": _one(module.dilation)}, 1)
    _plain(where, {"return_indices": module.return_indices}, 0)
    (size,), (stride,) = _one(module.kernel_size), _one(module.stride)
    if shape[-1] < size:
        raise InputError(f"{where}: windows of {size:,} do not fit into {shape[-1]:,} positions")
    return Pool(name, size, stride, floor)


def _one(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def _plain(where: str, options: dict[str, object], only: int) -> None:
    """Refuses options at other values than one."""
    for option, value in options.items():
        if value not in ((only,), only):
            shown = value[0] if isinstance(value, tuple) else value
            raise InputError(f"{where}: {option} is {shown!r}; only {only} can be computed")


def _fits(where: str, shape: Shape, expected: tuple[int | None, ...], short: bool) -> None:
    same = len(shape) == len(expected) and all(
        b is None or a == b for a, b in zip(shape, expected, strict=True)
    )
    if not same or short or not shape:
        raise InputError(f"{where} does not take rows of shape {tuple(shape)}")
