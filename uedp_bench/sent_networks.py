"""Networks as ranks keep them: what is asked of one network again and again sends it once."""

from __future__ import annotations

import copy
import hashlib
import io
import pickle
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from torch import nn

_MOST = 2
"""Networks that ranks keep after a call: a release, and what it is compared with."""


class SpreadNetwork(Protocol):
    """A network of which each rank holds a part (`training.sharded.spread`).

    Attributes:
        key: names it on all ranks.
    """

    key: str

    @property
    def module(self) -> nn.Module:
        """The network, on this rank."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Within it, all ranks compute side by side."""
        ...

    def give(self, name: str) -> None:
        """Gives rank 0 this rank's part of a weight."""
        ...


SPREAD: WeakValueDictionary[str, SpreadNetwork] = WeakValueDictionary()
"""Networks in parts, by key: they are on all ranks, and are not sent."""

IN_PARTS = "_in_parts"
"""Attribute of a network in parts that has its `SpreadNetwork`."""


def spread_of(module: nn.Module) -> SpreadNetwork | None:
    """What is known of a network in parts; None for one that is whole."""
    found: SpreadNetwork | None = module.__dict__.get(IN_PARTS)
    return found


def in_main_memory(module: nn.Module) -> nn.Module:
    """The network; one in parts is put together, in main memory."""
    return module if spread_of(module) is None else copy.deepcopy(module)


class Network(NamedTuple):
    """A network as it is sent.

    Attributes:
        kind: of the device that it is on.
        data: pickled on the CPU.
    """

    kind: str
    data: bytes


class Sent(NamedTuple):
    """A value without the networks in it, and which networks these are.

    Attributes:
        data: the value, pickled.
        kept: keys of all networks that ranks hold from now on.
        new: of these, the networks that they do not hold yet.
        spread: keys of networks in it of which each rank holds a part.
    """

    data: bytes
    kept: tuple[str, ...]
    new: Mapping[str, Network]
    spread: tuple[str, ...]


class Sender:
    """What the rank that leads knows of the networks of all others.

    A network is known by a digest of everything in it, so that one whose weights changed is sent
    again.
    """

    def __init__(self) -> None:
        self._held: tuple[str, ...] = ()

    def forget(self) -> None:
        """From now on, other ranks hold nothing."""
        self._held = ()

    def of(self, value: object) -> Sent | None:
        """A value as it is sent; None where it cannot be."""
        file = io.BytesIO()
        pickler = _Pickler(file)
        try:
            pickler.dump(value)
        except (pickle.PicklingError, TypeError, AttributeError):
            return None
        used = pickler.networks
        kept = tuple(dict.fromkeys([*used, *self._held]))[: max(_MOST, len(used))]
        new = {key: each for key, each in used.items() if key not in self._held}
        self._held = kept
        return Sent(file.getvalue(), kept, new, tuple(pickler.spread))


class Holder:
    """The networks that a rank holds."""

    def __init__(self) -> None:
        self._held: dict[str, nn.Module] = {}

    def read(self, sent: Sent) -> Any:
        """The value that was sent, on the devices that it was on."""
        for key in set(self._held) - set(sent.kept):
            del self._held[key]
        for key, network in sent.new.items():
            module: nn.Module = pickle.loads(network.data)  # noqa: S301 - of the rank that leads
            self._held[key] = module.to(network.kind)
        return _Unpickler(sent.data, self._held).load()


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.networks: dict[str, Network] = {}
        self.spread: dict[str, SpreadNetwork] = {}
        self._keys: dict[int, str] = {}

    def persistent_id(self, value: object) -> str | None:
        """The key of a network; None for all else, which is pickled where it stands."""
        if "torch" not in sys.modules:
            return None
        from torch import nn

        if not isinstance(value, nn.Module):
            return None
        if (spread := spread_of(value)) is not None:
            self.spread[spread.key] = spread
            return spread.key
        if any(spread_of(part) is not None for part in value.modules()):
            return None  # several that are released as one: each is found by itself
        if (key := self._keys.get(id(value))) is None:
            network = _pickled(value)
            key = hashlib.sha256(network.data).hexdigest()
            self.networks[key], self._keys[id(value)] = network, key
        return key


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, networks: Mapping[str, nn.Module]) -> None:
        super().__init__(io.BytesIO(data))
        self._networks = networks

    def persistent_load(self, key: str) -> nn.Module:
        """The network of a key."""
        spread = SPREAD.get(key)
        return self._networks[key] if spread is None else spread.module


def _pickled(module: nn.Module) -> Network:
    kind = next((weight.device.type for weight in module.parameters()), "cpu")
    if kind == "cpu":
        return Network(kind, pickle.dumps(module, protocol=pickle.HIGHEST_PROTOCOL))
    module.to("cpu")
    try:
        return Network(kind, pickle.dumps(module, protocol=pickle.HIGHEST_PROTOCOL))
    finally:
        module.to(kind)
