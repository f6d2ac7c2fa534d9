"""A round waits for its device a few times, however many rows, units and layers it has.

Reads are counted on a CPU, where the same code runs once it counts as a device that is waited
for (where reading is free, two looks save copies): whatever gives Python a number that a device
computed, or a tensor whose shape depends on such numbers. A round reads:

* the sum, for noise, which is drawn on the CPU, and its norm, for the diagnostics;
* once for each share, what it counted, and losses before the first step: twice where they come
  from a trainer of their own;
* in one pass, which norms are in doubt, once for each level of clipping; and, where units of
  several rows are clipped, which terms are so long that float64 adds them up;
* the count that an adaptive bound asks for.

Before the first round, a few example rows are compared with each alone: two reads. Rows that are in
doubt or not finite cost one more. Networks of `transformers` look once in each pass whether
rows are padded or positions packed, which is the library's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from learners import NetworkLearner
from token_rows import TOKENS, TokenLearner, recurrent
from torch.utils._python_dispatch import TorchDispatchMode
from toy import toy_plan

from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.training import clipping
from uedp_bench.training.bounds import AdaptiveBound, Bound, FlatBound, PerLayerBound, TwoLevelBound
from uedp_bench.training.federated import train_federated
from uedp_bench.training.ghost import norms
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.server import AdamServer

_READS = {
    "_local_scalar_dense", "item", "is_nonzero", "nonzero", "nonzero_numpy", "equal", "allclose",
    "masked_select", "_unique", "_unique2", "unique_dim", "unique_consecutive", "bincount",
}  # fmt: skip


class _Reads(TorchDispatchMode):
    """Counts reads by name."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::")
        by_mask = name.startswith("index") and any(
            index is not None and index.dtype in (torch.bool, torch.uint8)
            for index in (args[1] if len(args) > 1 and isinstance(args[1], list | tuple) else ())
        )
        if name in _READS or by_mask or func is torch.ops.aten.repeat_interleave.Tensor:
            self.names.append(name)
        return func(*args, **(kwargs or {}))


@contextmanager
def _counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Reads]:
    reads = _Reads()
    for name in ("tolist", "cpu"):
        real = getattr(torch.Tensor, name)

        def counting(tensor: Any, *args: Any, name: str = name, real: Any = real) -> Any:
            reads.names.append(name)
            return real(tensor, *args)

        monkeypatch.setattr(torch.Tensor, name, counting)
    with reads:
        yield reads


class _Network(NetworkLearner):
    """As many layers as wanted, users side by side; its batches read nothing themselves."""

    def __init__(self, rows: int, layers: int) -> None:
        super().__init__(rows)
        inner = [torch.nn.Linear(5, 5) for _ in range(layers)]
        self.module = torch.nn.Sequential(self.module[0], *inner, self.module[2])  # type: ignore[index]

    def batch(self, rows: Any, seeds: Any) -> Any:
        chosen = torch.as_tensor(np.asarray(rows))
        return {"points": self.points[chosen], "goals": self.goals[chosen]}


def _learner(kind: str) -> Learner:
    """Many more rows, units and layers than a round may read."""
    rows = 24
    if kind == "side by side":
        return _Network(rows, layers=3)
    module = recurrent(coupled=True, projection=5, bias=True, rate=0.0, layers=2)
    tokens = [TOKENS[i % len(TOKENS)] for i in range(rows)]
    return TokenLearner(module, 0, tokens)


class Path(NamedTuple):
    """A way of training, and how often one of its rounds reads."""

    reads: int
    bound: Bound = FlatBound(0.3)
    local: LocalTraining = LocalTraining()
    rows_of_unit: int = 3


PATHS = {
    "records, or sentences": Path(4, rows_of_unit=1),
    "users of one step": Path(5),
    "users of one step, local clipping": Path(5, local=LocalTraining(gradient_clip=0.2)),
    "users of one step, by layer": Path(5, PerLayerBound(0.3)),
    "users of one step, adaptive": Path(6, AdaptiveBound(0.3, 0.5, 6.0, 0.2, 3.0)),
    "both levels": Path(6, TwoLevelBound(0.3, 0.2)),
    "several local steps": Path(4, local=LocalTraining(epochs=2, batch_size=2)),
    "several local steps of Adam": Path(4, local=LocalTraining(epochs=2, optimizer="adam")),
    "several local steps, by layer": Path(4, PerLayerBound(0.3), LocalTraining(epochs=2)),
}


def _by_round(path: Path, learner: Learner, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    rows = len(learner.corpus)
    size = path.rows_of_unit
    owner = np.minimum(np.arange(rows) // size, (rows - 1) // size - (size > 1))  # one has more
    plan = toy_plan(
        owner, path.bound, rounds=2, local=path.local, noise=IndependentGaussian(0.5),
        denominator=float(rows), server=AdamServer(0.1),
    )  # fmt: skip
    with _counted(monkeypatch) as reads:
        marks = [0]
        run = Run(
            1, CorpusStats(rows, rows, 0, 0, public=True),
            progress=lambda *_: marks.append(len(reads.names)),
        )  # fmt: skip
        train_federated(plan, learner, run)
    return [reads.names[a:b] for a, b in pairwise(marks)]


@pytest.mark.parametrize("kind", ["recurrent", "side by side"])
@pytest.mark.parametrize("name", list(PATHS))
def test_reads_of_a_round_do_not_grow(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = PATHS[name]
    monkeypatch.setattr(norms, "_KEPT", 0)  # networks of real size keep few gradients
    monkeypatch.setattr(clipping, "waits", lambda device: True)  # as a GPU is waited for
    first, *others = _by_round(path, _learner(kind), monkeypatch)
    assert [len(reads) for reads in others] == [path.reads], others[0]
    assert len(first) <= path.reads + 2, first
