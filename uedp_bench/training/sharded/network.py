"""A network of which each rank holds a part of every weight, and all of one only while it is used.

torch's own `fully_shard` gathers the weights of a module when the module is called. The losses of
this package read weights outside of calls (an output layer and its cross-entropy are one function,
a recurrent layer another), where `fully_shard` leaves parts. So a weight is gathered here by
whatever torch function takes it, and what the backward pass needs of it is gathered again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from uedp_bench.training.ghost.gradients import WeightGradients
from uedp_bench.training.ghost.watched import FACTS, PROPERTIES, Tape, WatchedWeight
from uedp_bench.training.sharded.lockstep import Lockstep
from uedp_bench.training.vector import FlatModule

_LETTING_GO = (1e-3, 1e-2, 5e-2)
"""Seconds that the thread which received a weight is waited for, until it has let go of it."""


class Weight(NamedTuple):
    """A weight of the whole network.

    Attributes:
        name: the first that the network has for it.
        shape: of it.
        trained: False where it is frozen.
    """

    name: str
    shape: tuple[int, ...]
    trained: bool

    @property
    def size(self) -> int:
        """Its numbers."""
        return math.prod(self.shape)


def weights_of(module: nn.Module) -> tuple[Weight, ...]:
    """The weights of a network, those that are trained first, in the order of an update."""
    named = [Weight(name, tuple(p.shape), p.requires_grad) for name, p in module.named_parameters()]
    return tuple(sorted(named, key=lambda weight: not weight.trained))


class Sums(IntEnum):
    """What ranks add up beside weights and gradients; see `Lockstep.agree`."""

    COMPARED = 0
    TOTAL = 1
    LOSSES = 2
    NORMS = 3
    GRADIENT = 4
    LAYERS = 5


class ShardedModule(FlatModule):
    """A network whose weights are spread over ranks; its own parameters hold no numbers.

    Each weight is cut into as many parts of equal length as there are ranks, the last filled up.

    Args:
        module: parameters of the right shapes, whatever they hold; it is not copied.
        weights: of the network (`weights_of`).
        lockstep: of all ranks.
        device: where the parts live.

    Attributes:
        trained: the weights that are trained.
        vector: this rank's parts of them, one after the other.
        frozen: this rank's parts of all others.
        most: bytes of gathered weights that were there at the same time, at most.
    """

    def __init__(
        self, module: nn.Module, weights: Sequence[Weight], lockstep: Lockstep, device: str
    ) -> None:
        self.module, self.weights_of_all, self.lockstep = module, tuple(weights), lockstep
        for name, buffer in module.named_buffers():
            owner, _, own = name.rpartition(".")
            module.get_submodule(owner)._buffers[own] = buffer.to(device)
        self.trained = trained = [weight for weight in weights if weight.trained]
        self.names = [weight.name for weight in trained]
        self.shapes = [torch.Size(weight.shape) for weight in trained]
        self.sizes = [weight.size for weight in trained]
        self._buffers = {name: value.clone() for name, value in module.named_buffers()}
        self._places = self._places_by_name()
        of_trained = [self._own(weight.size) for weight in trained]
        self.vector = torch.zeros(sum(of_trained), device=device)
        rest = [self._own(weight.size) for weight in weights if not weight.trained]
        self.frozen = torch.zeros(sum(rest), device=device)
        parts = [*torch.split(self.vector, of_trained), *torch.split(self.frozen, rest)]
        self.parts = dict(zip((weight.name for weight in weights), parts, strict=True))
        self._numbers = {weight.name: at for at, weight in enumerate(weights)}
        self._live: dict[StorageWeakRef, str] = {}
        self.most = 0

    def __len__(self) -> int:
        return sum(self.sizes)

    @property
    def bytes(self) -> int:
        """Bytes of the parts that this rank holds."""
        return int(self.vector.nbytes + self.frozen.nbytes)

    def split(self, vector: Tensor) -> dict[str, Tensor]:
        """The parts of each trained weight in a vector like that of this rank."""
        sizes = [len(self.parts[name]) for name in self.names]
        return dict(zip(self.names, torch.split(vector, sizes), strict=True))

    def gathered(self, name: str) -> Tensor:
        """A whole weight; it is let go of by whoever has used it."""
        weight = self.weights_of_all[self._numbers[name]]
        whole = self.lockstep.gathered(self._numbers[name], self.filled(name).detach())
        self._count(whole, name)
        return whole[: weight.size].view(weight.shape)

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a whole weight."""
        return self.weights_of_all[self._numbers[name]].shape

    def places(self, name: str) -> list[str]:
        """Every place of the network that has a weight; a tied one has several."""
        return self._places[name]

    def filled(self, name: str) -> Tensor:
        """This rank's part of a weight, as long as that of any rank."""
        weight, part = self.weights_of_all[self._numbers[name]], self.parts[name]
        missing = self.share(weight.size) - len(part)
        return torch.cat([part, part.new_zeros(missing)]) if missing else part

    def mine(self, name: str, whole: Tensor) -> Tensor:
        """This rank's part of something of the shape of a weight."""
        share = self.share(whole.numel())
        start = share * self.lockstep.rank
        return whole.reshape(-1)[start : start + len(self.parts[name])]

    def scattered_sum(self, name: str, whole: Tensor) -> Tensor:
        """This rank's part of the sum over ranks, in float64, of what has the shape of a weight."""
        share = self.share(whole.numel())
        filled = whole.new_zeros(share * self.lockstep.ranks, dtype=torch.float64)
        filled[: whole.numel()] = whole.reshape(-1)
        found = self.lockstep.scattered_sum(len(self._numbers) + self._numbers[name], filled)
        return found[: len(self.parts[name])]

    def summed(self, what: Sums, values: Tensor) -> Tensor:
        """The sum of values over ranks, on all of them."""
        return self.lockstep.summed(2 * len(self._numbers) + what, values)

    def share(self, size: int) -> int:
        """Numbers of the longest part of a weight."""
        return -(-size // self.lockstep.ranks)

    def lazy(self) -> dict[str, Tensor]:
        """All weights by name, gathered where they are used; nothing is differentiated."""
        return {name: self._lazy(name) for name in self.parts}

    def watched(self, tape: Tape) -> dict[str, Tensor]:
        """All weights by name, those that are trained with their uses on a tape."""
        found = self.lazy()
        for name, shape in zip(self.names, self.shapes, strict=True):
            found[name] = _Watched.at(self, name, shape, tape)
        return found

    def differentiable(self, *, summed: bool = False) -> tuple[dict[str, Tensor], list[Tensor]]:
        """All weights by name, and leaves: the parts of this rank of those that are trained.

        The gradient of a leaf is this rank's part of the gradient of the whole weight.

        Args:
            summed: ranks compute different rows, and gradients are their sums, added in float64;
                False where all ranks compute the same.
        """
        found, leaves = self.lazy(), list[Tensor]()
        for name in self.names:
            leaf = self.parts[name].detach().requires_grad_()
            leaves.append(leaf)
            found[name] = self._lazy(name, leaf, summed=summed)
        return found, leaves

    @contextmanager
    def gathering_again(self) -> Iterator[None]:
        """Within it, no weight is kept for a backward pass: it is gathered again there."""
        with saved_tensors_hooks(self._packed, self._unpacked):
            yield

    def load(self, flat: Tensor) -> None:
        """Nobody has a flat vector of all weights.

        Raises:
            RuntimeError: always.
        """
        raise RuntimeError("sharded weights have no flat vector")

    def _own(self, size: int) -> int:
        """Numbers of this rank's part of a weight: the last ranks may have fewer, or none."""
        share = self.share(size)
        return max(0, min(share, size - share * self.lockstep.rank))

    def _lazy(self, name: str, leaf: Tensor | None = None, *, summed: bool = False) -> Tensor:
        def whole() -> Tensor:
            if leaf is None:
                return self.gathered(name)
            found: Tensor = _Whole.apply(leaf, self, name, summed)  # type: ignore[no-untyped-call]
            return found

        return _Lazy.of(self.shape_of(name), self.vector, whole)

    def _count(self, whole: Tensor, name: str) -> None:
        self._live[StorageWeakRef(whole.untyped_storage())] = name  # type: ignore[no-untyped-call]
        here = self._gathered_bytes()
        for seconds in _LETTING_GO:
            if here <= self.most:
                break
            time.sleep(seconds)
            here = self._gathered_bytes()
        self.most = max(self.most, here)

    def _gathered_bytes(self) -> int:
        for old in [ref for ref in self._live if ref.expired()]:  # type: ignore[no-untyped-call]
            del self._live[old]
        weights = (self.weights_of_all[self._numbers[name]] for name in self._live.values())
        numbers = sum(self.share(weight.size) for weight in weights) * self.lockstep.ranks
        return numbers * self.vector.element_size()

    def _packed(self, tensor: Tensor) -> Tensor | _Saved:
        name = self._live.get(StorageWeakRef(tensor.untyped_storage()))  # type: ignore[no-untyped-call]
        if name is None:
            return tensor
        return _Saved(name, tensor.size(), tensor.stride(), int(tensor.storage_offset()))

    def _unpacked(self, saved: Tensor | _Saved) -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        whole = self.gathered(saved.name)
        return whole.as_strided(saved.size, saved.stride, saved.offset)

    def _places_by_name(self) -> dict[str, list[str]]:
        """Every place of each weight, frozen ones too."""
        named = list(self.module.named_parameters())
        names = {id(weight): name for name, weight in named}
        places: dict[str, list[str]] = {name: [] for name, _ in named}
        for owner, module in self.module.named_modules():
            for own, value in module._parameters.items():
                if value is not None:
                    places[names[id(value)]].append(f"{owner}.{own}" if owner else own)
        return places


class _Saved(NamedTuple):
    """Stands for a view of a gathered weight between the passes."""

    name: str
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


def placeholder(shape: Sequence[int], like: Tensor) -> Tensor:
    """Looks like a weight, and has one number."""
    return like.new_empty(()).expand(tuple(shape))


class _Watched(WatchedWeight):
    """A `WatchedWeight` whose numbers are gathered where a handler asks for them."""

    module: ShardedModule

    @staticmethod
    def at(module: ShardedModule, name: str, shape: torch.Size, tape: Tape) -> _Watched:
        """The watched form of a sharded weight."""
        weight = placeholder(shape, module.vector).as_subclass(_Watched)
        weight.module, weight.tape, weight.label, weight.turned = module, tape, name, False
        tape.gradients[name] = WeightGradients(tuple(shape))
        return weight

    @property
    def plain(self) -> Tensor:
        """The whole weight."""
        return self.module.gathered(self.label)


class LazyWeight(Tensor):
    """A weight that any torch function gathers when it is given it."""

    def whole(self) -> Tensor:
        """The weight."""
        raise NotImplementedError

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Computes with whole weights; what only asks for shapes gathers nothing."""
        named = kwargs or {}
        if getattr(func, "__name__", "") in FACTS or func in PROPERTIES:
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **named)
        return func(*_whole(args), **{key: _whole(value) for key, value in named.items()})


class _Lazy(LazyWeight):
    """One that a function gathers."""

    found_by: Callable[[], Tensor]

    @staticmethod
    def of(shape: Sequence[int], like: Tensor, found_by: Callable[[], Tensor]) -> _Lazy:
        """The lazy form of a weight that `found_by` gathers."""
        weight = placeholder(shape, like).as_subclass(_Lazy)
        weight.found_by = found_by
        return weight

    def whole(self) -> Tensor:
        """See `LazyWeight.whole`."""
        return self.found_by()


def _whole(value: Any) -> Any:
    if isinstance(value, LazyWeight):
        return value.whole()
    if isinstance(value, tuple) and hasattr(value, "_make"):  # one that is named
        return type(value)(*map(_whole, value))
    if isinstance(value, (list, tuple)):
        return type(value)(map(_whole, value))
    return value


class _Whole(torch.autograd.Function):
    """The whole weight of a part; the gradient of the part is its part of the gradient."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, module: ShardedModule, name: str, summed: bool) -> Tensor:
        ctx.module, ctx.name, ctx.summed = module, name, summed
        return module.gathered(name)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None, None]:
        (whole,), module = gradients, ctx.module
        if ctx.summed:
            return module.scattered_sum(ctx.name, whole).to(whole.dtype), None, None, None
        return module.mine(ctx.name, whole).clone(), None, None, None
