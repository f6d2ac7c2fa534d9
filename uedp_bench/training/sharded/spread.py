"""A trained network that stays in parts: whatever uses a weight has the ranks gather it.

Its parameters look like those of any network. A torch function that takes one gets the whole
weight, which is let go of when the function is done with it. Where ranks share questions
(`rank_group.shared_out`) all of them compute, and gather weights together. Otherwise rank 0
computes, and asks the others for their parts.
"""

from __future__ import annotations

import itertools
import traceback
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.rank_group import Fetch, OthersFailedError, number, told
from uedp_bench.sent_networks import IN_PARTS, SPREAD
from uedp_bench.training.sharded.network import LazyWeight, ShardedModule, placeholder

_numbers = itertools.count()
_forgotten: list[str] = []
_held: dict[str, nn.Module] = {}
"""On ranks other than the first, where nobody else refers to the networks."""


class Keep(NamedTuple):
    """Has all ranks keep the network of a training.

    Attributes:
        key: names it.
        forgotten: keys of networks that rank 0 has no more.
    """

    key: str
    forgotten: tuple[str, ...]

    @staticmethod
    def new() -> Keep:
        """The next network; for rank 0 alone."""
        forgotten = tuple(_forgotten)
        _forgotten.clear()
        return Keep(f"spread {next(_numbers)}", forgotten)


def kept(message: Keep, parts: ShardedModule) -> nn.Module:
    """The network of a training, on every rank; its weights stay where they are.

    It is asked from now on, and not trained: without dropout, on all ranks.
    """
    for key in message.forgotten:
        _held.pop(key, None)
    module = parts.module.eval()
    Spread(message.key, parts)
    if number() == 0:
        weakref.finalize(module, _forgotten.append, message.key)
    else:
        _held[message.key] = module
    return module


class Spread:
    """What one rank knows of a network in parts.

    Copies of the network are whole, and know nothing of it: it is left out of them.

    Args:
        key: of the network.
        parts: of this rank.

    Attributes:
        key: see above.
    """

    def __init__(self, key: str, parts: ShardedModule) -> None:
        self.key, self._parts, self._together = key, parts, False
        parts.module.__dict__[IN_PARTS] = self
        SPREAD[key] = self
        for weight in parts.weights_of_all:
            found = SpreadWeight.at(self, weight.name, trained=weight.trained)
            for place in parts.places(weight.name):
                owner, _, own = place.rpartition(".")
                parts.module.get_submodule(owner)._parameters[own] = found  # type: ignore[assignment]
        for module in parts.module.modules():
            if isinstance(module, nn.RNNBase):  # it has a list of its weights beside them
                names = module._flat_weights_names
                module._flat_weights = [getattr(module, name) for name in names]
        # Whoever lets go of the network lets go of its parts: it refers to them, not they to it.
        self._module, parts.module = weakref.ref(parts.module), nn.Module()

    @property
    def module(self) -> nn.Module:
        """The network.

        Raises:
            RuntimeError: if nobody has it any more.
        """
        if (found := self._module()) is None:
            raise RuntimeError(f"the network {self.key!r} is gone")
        return found

    def whole(self, name: str) -> Tensor:
        """A whole weight, on the device of its parts.

        Raises:
            RuntimeError: on a rank other than 0, if the others do not compute the same; on rank 0,
                if another could not give its part.
        """
        if self._together:
            return self._parts.gathered(name)
        if number():
            raise RuntimeError("rank 0 alone uses a network in parts when it likes to")
        told(Fetch(self.key, name))
        try:
            with self._parts.lockstep.together():  # an error here leaves nobody waiting
                return self._parts.gathered(name)
        except OthersFailedError as error:
            raise RuntimeError(
                f"another rank could not give its part of the weight {name!r}; it says why"
            ) from error

    def give(self, name: str) -> None:
        """Gives rank 0 the part of this one; an error is printed, and raised on rank 0."""
        try:
            with self._parts.lockstep.together():
                self._parts.gathered(name)
        except OthersFailedError:
            pass  # rank 0 raises what happened there
        except Exception:
            traceback.print_exc()

    def like(self, name: str) -> Tensor:
        """Looks like a weight."""
        return placeholder(self._parts.shape_of(name), self._parts.vector)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Within it, all ranks compute side by side, and use the weights in one order.

        Raises:
            OthersFailedError: if another rank failed.
            OutOfStepError: if ranks use the weights in different orders.
        """
        self._together = True
        try:
            with self._parts.lockstep.together():
                yield
        finally:
            self._together = False

    def bytes_held(self) -> tuple[int, int]:
        """Bytes of the parts of this rank, and of the weights that it had gathered, at most."""
        return self._parts.bytes, self._parts.most

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """See the class."""

    def __reduce__(self) -> tuple[Any, ...]:
        """See the class."""
        return type(None), ()


_CHANGES = frozenset(("__set__", "__setitem__", "__delitem__"))
_IN_PLACE = frozenset(f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "pow", "matmul"))


class SpreadWeight(LazyWeight):
    """A parameter of a network in parts. Copies of it, and what is pickled, are whole."""

    _is_param = True  # what torch asks whether this is a parameter
    spread: Spread
    label: str
    trained: bool

    @staticmethod
    def at(spread: Spread, name: str, *, trained: bool) -> SpreadWeight:
        """The weight of a name."""
        weight = spread.like(name).as_subclass(SpreadWeight)
        weight.spread, weight.label, weight.trained = spread, name, trained
        with torch._C.DisableTorchFunctionSubclass():
            weight.requires_grad_(trained)
        return weight

    def whole(self) -> Tensor:
        """See `Spread.whole`."""
        with torch.no_grad():
            return self.spread.whole(self.label)

    @classmethod
    def __torch_function__(
        cls,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Computes with whole weights.

        Raises:
            RuntimeError: if the function would change a weight: a whole one is let go of.
        """
        name = getattr(func, "__name__", "")
        changes = name in _CHANGES or name in _IN_PLACE
        changes = changes or (name.endswith("_") and not name.endswith("__"))
        if changes and _is_spread(args[0] if args else None):
            raise RuntimeError(
                f"{name} would change a weight of a network in parts (--shard-weights): "
                "copy.deepcopy makes a whole network of it"
            )
        return super().__torch_function__(func, types, args, kwargs)

    def __deepcopy__(self, memo: dict[int, Any]) -> nn.Parameter:
        """The whole weight, in main memory."""
        found = memo[id(self)] = self._parameter()
        return found

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """A parameter with the whole weight, in main memory."""
        found: tuple[Any, ...] = self._parameter().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]
        return found

    def _parameter(self) -> nn.Parameter:
        return nn.Parameter(self.whole().cpu().clone(), requires_grad=self.trained)


def _is_spread(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_is_spread, value))
    return isinstance(value, SpreadWeight)
