"""Counts what a round asks of a device while the engine computes it: calls, FLOPs, bytes, memory.

Counts are those of torch's own operations below autograd and `vmap`, whoever called them. They do
not depend on how busy or how fast a machine is. Views cost a call and move no byte.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import FlopCounterMode, sdpa_backward_flop_count, sdpa_flop_count


@dataclass(frozen=True)
class Counts:
    """Sums over operations.

    Attributes:
        calls: operations that compute something.
        flops: of products, attention and convolutions; a multiplication and an addition are two.
        bytes: of their inputs and outputs.
    """

    calls: float
    flops: float
    bytes: float

    def plus(self, other: Counts, times: float = 1.0) -> Counts:
        """This and `times` the other."""
        return Counts(
            self.calls + times * other.calls,
            self.flops + times * other.flops,
            self.bytes + times * other.bytes,
        )


class _Calls(TorchDispatchMode):
    """Counts operations, the bytes of what they read and write, and those that are held at once."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.bytes = self.held = self.peak = 0
        self._alive: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        outputs = [each for each in tree_leaves(found) if isinstance(each, Tensor)]
        if func.is_view or not outputs:
            return found
        inputs = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        self.calls += 1
        written = {id(each.untyped_storage()) for each in inputs}
        for each in outputs:
            # What is written in place was there before, or is counted already.
            if id(storage := each.untyped_storage()) not in written:
                self._hold(storage)
        # A lookup reads the rows that it gives, not its table; filling reads nothing of its output.
        read = outputs if func.overloadpacket in _LOOKUPS else inputs
        self.bytes += sum(each.numel() * each.element_size() for each in (*read, *outputs))
        return found

    def _hold(self, storage: Any) -> None:
        """Counts a memory that an operation has made, as long as some tensor uses it."""
        name, size = id(storage), storage.nbytes()
        if name in self._alive:
            return

        def free(_: object) -> None:
            del self._alive[name]
            self.held -= size

        self._alive[name] = weakref.ref(storage, free)
        self.held += size
        self.peak = max(self.peak, self.held)


class Counting:
    """Counts within a block.

    Attributes:
        counts: after the block.
        peak: most bytes that tensors made within the block held at once. What an operation uses
            inside itself is not seen.
    """

    def __enter__(self) -> Counting:
        self._calls = _Calls()
        self._flops = FlopCounterMode(display=False, custom_mapping=_MORE)
        self._flops.__enter__()
        self._calls.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._calls.__exit__(*error)
        self._flops.__exit__(*error)
        self.counts, self.peak = self.so_far(), self._calls.peak

    def so_far(self) -> Counts:
        """Counts of what was computed until now."""
        flops = float(self._flops.get_total_flops())
        return Counts(self._calls.calls, flops, self._calls.bytes)


def _onednn_flops(x: Any, weight: Any, *_: Any, out_shape: Any = None, **__: Any) -> int:
    rows = 1
    for size in x[:-1]:
        rows *= size
    return int(2 * rows * x[-1] * weight[0])


def _attention_flops(query: Any, key: Any, value: Any, *_: Any, **__: Any) -> int:
    return int(sdpa_flop_count(query, key, value))


def _attention_backward_flops(
    gradient: Any, query: Any, key: Any, value: Any, *_: Any, **__: Any
) -> int:
    return int(sdpa_backward_flop_count(gradient, query, key, value))


def _convolution_backward_flops(
    gradient: Any, x: Any, weight: Any, *rest: Any, out_shape: Any = None, **__: Any
) -> int:
    """Torch's own formula takes a convolution of groups for a whole one."""
    wanted = sum(bool(each) for each in rest[-1][:2])
    outputs = 1
    for size in gradient:
        outputs *= size
    inside = 1
    for size in weight[1:]:
        inside *= size
    return int(wanted * 2 * outputs * inside)


_ATEN = torch.ops.aten
_LOOKUPS = {_ATEN.embedding, _ATEN.index_select, _ATEN.gather, _ATEN.index}
_MORE: dict[Any, Any] = {
    torch.ops.mkldnn._linear_pointwise: _onednn_flops,
    _ATEN.convolution_backward: _convolution_backward_flops,
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _attention_flops,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward_flops,
}
"""Operations that torch's own counter does not know, or takes for others."""
