"""The state of objects as plain values, which a file can hold and anybody may read.

A checkpoint may lie in a folder of a stranger, and a pickle runs what its writer likes. So a file
holds numbers, texts, tensors and arrays alone, and an object is never made from it: the state is
put into an object of the same kind that the program has made already.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from enum import Enum
from functools import partial
from pathlib import PurePath
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from uedp_bench.errors import UedpBenchError

Node = Any
"""A plain value or a tensor, or (mark, kind, content)."""

Restore = Callable[[], Any]
"""Puts a state where it belongs; returns the value that stands there then."""

_MARK = "\0state"
_PLAIN = (bool, int, float, str, bytes, type(None))
_NEVER_CHANGE = (
    type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, partial, Enum, PurePath,
    range, frozenset, np.dtype,
)  # fmt: skip
_MOST_DEPTH = 40
_KINDS: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "deque": deque}


class StateError(UedpBenchError):
    """A state cannot be written down, or does not fit the object that it is meant for."""


def state_of(value: Any, where: str = "state") -> Node:
    """The state of a value.

    Plain values, containers of them, tensors, arrays and generators of random numbers are written
    as they are. An object with `state_dict` and `load_state_dict` says itself what its state is;
    any other is the state of its attributes. Functions and classes have none, and what has a
    fingerprint (a corpus) must be the same again.

    Args:
        value: anything.
        where: its name, for messages.

    Raises:
        StateError: naming what cannot be written.
    """
    return _written(value, where, 0)


def restoring(current: Any, node: Node, where: str = "state") -> Restore:
    """What puts a state into an object; nothing changes before it is called.

    Args:
        current: an object like the one that the state is of.
        node: of `state_of`.
        where: its name, for messages.

    Raises:
        StateError: if the state does not fit.
    """
    kind, content = _taken_apart(node)
    if kind == "plain":
        return lambda: content
    if kind == "array":
        return lambda: _array(content)
    if kind == "number":
        return lambda: _array(content)[()]
    if kind in _KINDS:
        if kind == "deque" and not isinstance(current, deque):  # how long it may be is not known
            raise StateError(f"{where} is no deque, and one was written down")
        return _restoring_items(current, kind, _parts(current, content, where))
    if kind == "named":
        if not isinstance(current, tuple) or not hasattr(current, "_make"):
            raise StateError(f"{where} is no named tuple, and one was written down")
        fields, remake = _parts(current, content, where), type(current)
        return lambda: remake(*(field() for field in fields))
    if kind == "dict":
        return _restoring_dict(current, content, where)
    return _restoring_in_place(current, kind, content, where)


def digest_of(value: Node) -> str:
    """A hash of a state; equal states have equal ones."""
    hashed = hashlib.sha256()
    for part in _bytes_of(value):
        hashed.update(part)
    return hashed.hexdigest()


# ----------------------------------------------------------------------------------------- writing


def _written(value: Any, where: str, depth: int) -> Node:
    import torch

    if depth > _MOST_DEPTH:
        raise StateError(f"{where} refers to itself, or is nested too deeply to be written down")
    deeper = depth + 1
    match value:
        case _ if type(value) in _PLAIN:
            return value
        case torch.Tensor():
            return value.detach()
        case np.ndarray() | np.generic():
            return _written_array(value, where)
        case np.random.Generator():
            bits = _written(value.bit_generator.state, where, deeper)
            return _MARK, "numpy generator", bits
        case torch.Generator():
            return _MARK, "torch generator", value.get_state()
        case _ if isinstance(value, (*_NEVER_CHANGE, torch.dtype, torch.device)):
            return _MARK, "constant", _name_of(value)
        case _ if isinstance(getattr(value, "fingerprint", None), str):
            return _MARK, "constant", value.fingerprint
        case Mapping():
            return _MARK, "dict", _written_pairs(value, where, deeper)
        case list() | tuple() | set() | deque():
            return _written_items(value, where, deeper)
        case _ if _says_itself(value):
            return _MARK, "state_dict", _written(dict(value.state_dict()), where, deeper)
        case _ if _has_attributes(value):
            parts = {name: _written(one, f"{where}.{name}", deeper)
                     for name, one in _attributes(value)}  # fmt: skip
            return _MARK, "object", (_name_of(type(value)), parts)
        case _:
            raise StateError(
                f"{where} is a {_name_of(type(value))}, whose state cannot be written down: give "
                "the object that holds it the methods state_dict and load_state_dict"
            )


def _written_pairs(value: Mapping[Any, Any], where: str, depth: int) -> dict[Any, Node]:
    if any(type(key) not in _PLAIN for key in value):
        raise StateError(f"{where} has keys that are no plain values")
    return {key: _written(one, f"{where}[{key!r}]", depth) for key, one in value.items()}


def _written_items(value: Any, where: str, depth: int) -> Node:
    items = sorted(value, key=repr) if isinstance(value, set) else value
    nodes = [_written(one, f"{where}[{at}]", depth) for at, one in enumerate(items)]
    if hasattr(value, "_make"):
        return _MARK, "named", nodes
    kind = next(kind for kind, made in _KINDS.items() if isinstance(value, made))
    return _MARK, kind, nodes


def _written_array(value: Any, where: str) -> Node:
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise StateError(f"{where} is an array of objects, which cannot be written down")
    kind = "array" if isinstance(value, np.ndarray) else "number"
    return _MARK, kind, (array.dtype.str, array.shape, np.ascontiguousarray(array).tobytes())


def _array(content: tuple[str, tuple[int, ...], bytes]) -> Any:
    kind, shape, data = content
    return np.frombuffer(data, dtype=np.dtype(kind)).reshape(shape).copy()


def _says_itself(value: Any) -> bool:
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _has_attributes(value: Any) -> bool:
    return hasattr(value, "__dict__") or any(True for _ in _slots(type(value)))


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        yield from (slots,) if isinstance(slots, str) else slots


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(value, "__dict__", {}).items()
    for name in _slots(type(value)):
        if name not in ("__dict__", "__weakref__") and hasattr(value, name):
            yield name, getattr(value, name)


def _name_of(value: Any) -> str:
    if isinstance(value, partial):
        return f"partial {_name_of(value.func)}"
    name = getattr(value, "__qualname__", None)
    return f"{getattr(value, '__module__', '')}.{name}" if name else repr(value)


# --------------------------------------------------------------------------------------- restoring


def _taken_apart(node: Node) -> tuple[str, Any]:
    if isinstance(node, tuple) and len(node) == 3 and node[0] == _MARK:
        return str(node[1]), node[2]
    return "plain", node


def _parts(current: Any, nodes: Sequence[Node], where: str) -> list[Restore]:
    """Items that are objects take their state where they stand."""
    old: list[Any] = list(current) if isinstance(current, Iterable) else []
    old += [None] * (len(nodes) - len(old))
    pairs = zip(old, nodes, strict=False)
    return [restoring(one, node, f"{where}[{at}]") for at, (one, node) in enumerate(pairs)]


def _restoring_items(current: Any, kind: str, parts: Sequence[Restore]) -> Restore:
    made: Any = _KINDS[kind]
    if made is tuple or not isinstance(current, made):
        return lambda: made(part() for part in parts)

    def refill() -> Any:
        values = [part() for part in parts]
        current.clear()
        (current.update if made is set else current.extend)(values)
        return current

    return refill


def _restoring_dict(current: Any, nodes: Mapping[Any, Node], where: str) -> Restore:
    old = current if isinstance(current, Mapping) else {}
    parts = {key: restoring(old.get(key), node, f"{where}[{key!r}]") for key, node in nodes.items()}

    def refill() -> Any:
        values = {key: part() for key, part in parts.items()}
        if not isinstance(current, MutableMapping):
            return values
        current.clear()
        current.update(values)
        return current

    return refill


def _restoring_in_place(current: Any, kind: str, content: Any, where: str) -> Restore:
    import torch

    if kind == "constant":
        known = _taken_apart(_written(current, where, 0))
        if known != (kind, content):
            raise StateError(f"{where} was {content} when it was written down, and is another now")
        return lambda: current
    if kind == "numpy generator" and isinstance(current, np.random.Generator):
        bits = restoring(current.bit_generator.state, content, where)
        return lambda: _set_bits(current, bits())
    if kind == "torch generator" and isinstance(current, torch.Generator):
        return lambda: current.set_state(content)
    if kind == "state_dict" and _says_itself(current):
        state = restoring(None, content, where)
        return lambda: _load(current, state())
    if kind == "object" and _has_attributes(current) and _name_of(type(current)) == content[0]:
        old = dict(_attributes(current))
        parts = {
            name: restoring(old.get(name), node, f"{where}.{name}")
            for name, node in content[1].items()
        }
        return lambda: _set_attributes(current, {name: part() for name, part in parts.items()})
    found = content[0] if kind == "object" else kind
    raise StateError(
        f"{where} was {found} when it was written down, and is {type(current).__name__} now"
    )


def _set_bits(generator: np.random.Generator, state: Any) -> np.random.Generator:
    generator.bit_generator.state = state
    return generator


def _load(current: Any, state: Mapping[str, Any]) -> Any:
    current.load_state_dict(state)
    return current


def _set_attributes(current: Any, values: Mapping[str, Any]) -> Any:
    for name in [name for name, _ in _attributes(current) if name not in values]:
        object.__delattr__(current, name)
    for name, value in values.items():
        object.__setattr__(current, name, value)  # frozen ones too
    return current


# ----------------------------------------------------------------------------------------- hashing


def _bytes_of(node: Node) -> Iterator[bytes]:
    import torch

    if isinstance(node, torch.Tensor):
        data = node.cpu().contiguous().reshape(-1).view(torch.uint8)
        yield f"tensor {node.dtype} {tuple(node.shape)}".encode()
        yield data.numpy().tobytes()
    elif isinstance(node, tuple | list):
        yield f"{type(node).__name__} {len(node)}".encode()
        for part in node:
            yield from _bytes_of(part)
    elif isinstance(node, dict):
        yield f"dict {len(node)}".encode()
        for key, part in node.items():
            yield repr(key).encode()
            yield from _bytes_of(part)
    else:
        yield f"{type(node).__name__} {node!r};".encode()
