"""State of the parts of a training: plain values and tensors, as a checkpoint holds them.

A checkpoint may lie in a folder of a stranger, and a pickle runs whatever its writer likes. So a
checkpoint holds numbers, texts and tensors alone, and no object is made from it: each part saves
its own state, and loads it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from uedp_bench.errors import UedpBenchError

_PLAIN = (bool, int, float, str, bytes, type(None))


class StateError(UedpBenchError):
    """A state that no checkpoint can hold, or a checkpoint that does not fit its training."""


@runtime_checkable
class Stateful(Protocol):
    """Part of a training that saves its state, as modules and optimisers of torch do."""

    def state_dict(self) -> Mapping[str, Any]:
        """Everything that changes from step to step."""
        ...

    def load_state_dict(self, state: Any, /) -> Any:
        """Go on from a state."""
        ...


class AttributeState:
    """Base of parts whose state is a few of their attributes.

    Attributes:
        changing: names of attributes that change from step to step: plain values, tensors, NumPy
            arrays, and lists and dictionaries of plain values and tensors.
    """

    changing: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Any]:
        """Attributes by name; arrays as tensors."""
        import torch

        values = {name: getattr(self, name) for name in self.changing}
        return {
            name: torch.from_numpy(value) if isinstance(value, np.ndarray) else value
            for name, value in values.items()
        }

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Set the attributes."""
        for name in self.changing:
            is_array = isinstance(getattr(self, name), np.ndarray)
            setattr(self, name, state[name].numpy() if is_array else state[name])


def state_of(part: Any, name: str) -> Any:
    """Save the state of a part, with containers of its own.

    Args:
        part: a `Stateful`, a tensor, a random generator of NumPy, or a constant of the training: a
            plain value, or something with a fingerprint (a corpus).
        name: name of the part, for messages.

    Raises:
        StateError: naming the part that has no state, or the value that no checkpoint can hold.
    """
    import torch

    match part:
        case torch.Tensor():
            state: Any = part
        case Stateful():
            try:
                state = part.state_dict()
            except TypeError as error:  # also arrays of a type that torch does not have
                raise StateError(f"{name} ({_kind(part)}) has no state: {error}") from error
        case np.random.Generator():
            state = part.bit_generator.state
        case _ if type(part) in _PLAIN:
            state = part
        case _ if isinstance(getattr(part, "fingerprint", None), str):
            state = part.fingerprint
        case _:
            raise StateError(f"{name} ({_kind(part)}) has no state_dict and load_state_dict")
    return _plain(state, name)


def load_state(part: Any, state: Any) -> None:
    """Put a state back into a part; constants stay as they are."""
    import torch

    match part:
        case torch.Tensor():
            with torch.no_grad():
                part.copy_(state)
        case Stateful():
            part.load_state_dict(state)
        case np.random.Generator():
            part.bit_generator.state = state


def digest_of(state: Any) -> str:
    """Hash of a state; equal states have equal hashes."""
    digest = hashlib.sha256()
    for piece in _bytes_of(state):
        digest.update(piece)
    return digest.hexdigest()


def _plain(value: Any, where: str) -> Any:
    import torch

    match value:
        case _ if type(value) in _PLAIN:
            return value
        case torch.Tensor():
            return value.detach()
        case Mapping():
            if any(type(key) not in _PLAIN for key in value):
                raise StateError(f"{where} has keys that are no plain values")
            return {key: _plain(one, f"{where}[{key!r}]") for key, one in value.items()}
        case list() | tuple():
            items = (_plain(one, f"{where}[{place}]") for place, one in enumerate(value))
            return tuple(items) if isinstance(value, tuple) else list(items)
        case np.float64() | np.integer() | np.bool_():  # the same numbers in Python
            return value.item()
        case _:
            raise StateError(
                f"{where} is a {_kind(value)}; a state holds tensors, plain values, and lists and "
                "dictionaries of them"
            )


def _kind(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _bytes_of(state: Any) -> Iterator[bytes]:
    import torch

    if isinstance(state, torch.Tensor):
        data = state.cpu().contiguous().reshape(-1).view(torch.uint8)
        yield f"tensor {state.dtype} {tuple(state.shape)}".encode()
        yield data.numpy().tobytes()
    elif isinstance(state, tuple | list):
        yield f"{type(state).__name__} {len(state)}".encode()
        for item in state:
            yield from _bytes_of(item)
    elif isinstance(state, dict):
        yield f"dict {len(state)}".encode()
        for key, item in state.items():
            yield repr(key).encode()
            yield from _bytes_of(item)
    else:
        yield f"{type(state).__name__} {state!r};".encode()
