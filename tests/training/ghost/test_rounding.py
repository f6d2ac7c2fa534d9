"""Rows whose tokens cancel: what rounding leaves of a norm must not lengthen what a row adds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from toy import ToyLearner, cohort_of

from uedp_bench.contracts.learner import Batch, Losses
from uedp_bench.corpus import IntArray
from uedp_bench.training.bounds import Limits
from uedp_bench.training.ghost import norms as ghost_norms
from uedp_bench.training.ghost.single_pass import SinglePass
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.vector import FlatModule

ROWS, TOKENS, INPUTS, OUTPUTS, BOUND = 24, 12, 40, 300, 0.5


class _Chosen(ToyLearner):
    """Row i has the gradient sum over tokens of outward[i, t] inward[i, t]^T, exactly as given.

    Tokens are those of a linear layer, or the places of a kernel whose patches do not overlap.
    """

    row_size = 1

    def __init__(self, inward: Tensor, outward: Tensor, kernel: int = 0) -> None:
        super().__init__(np.zeros((len(inward), 2)), list(range(len(inward))))
        self.module: nn.Module = nn.Linear(INPUTS, OUTPUTS, bias=False)
        if kernel:
            channels = INPUTS // kernel
            self.module = nn.Conv1d(channels, OUTPUTS, kernel, stride=kernel, bias=False)
        self.kernel = kernel
        self.inward, self.outward = inward, outward

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        chosen = torch.as_tensor(np.asarray(rows))
        return {"inward": self.inward[chosen], "outward": self.outward[chosen]}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        inward = batch["inward"]
        if self.kernel:
            patches = inward.view(*inward.shape[:2], -1, self.kernel).transpose(1, 2)
            outputs = module(patches.flatten(2)).transpose(1, 2)
        else:
            outputs = module(inward)
        nats = (outputs * batch["outward"]).sum(dim=(1, 2))
        return Losses(nats, torch.ones_like(nats))

    def exact(self) -> Tensor:
        """(rows, outputs * inputs) gradients in float64."""
        both = (self.outward.double(), self.inward.double())
        return torch.einsum("rtp,rtq->rpq", *both).flatten(1)


def _cancelling(size: float, seed: int = 0, kernel: int = 0) -> _Chosen:
    """Tokens in pairs that leave a millionth of each other, or less, and odd sums in between."""
    generator = torch.Generator().manual_seed(seed)
    inward = torch.randn(ROWS, TOKENS, INPUTS, generator=generator).abs() * size
    outward = torch.randn(ROWS, TOKENS, OUTPUTS, generator=generator).abs()
    nearly = 1.0 + 2.0**-20 * torch.randn(ROWS, TOKENS // 2, INPUTS, generator=generator)
    inward[:, 1::2] = inward[:, ::2] * nearly
    outward[:, 1::2] = -outward[:, ::2]
    inward[::4, 1::2] = inward[::4, ::2]  # nothing is left of these
    outward[1::4, :2] *= 1.0 + torch.rand(len(outward[1::4]), 2, OUTPUTS, generator=generator)
    return _Chosen(inward, outward, kernel)


class _Pass:
    """Calls give the sum and the norms that one pass finds for units of rows, in float64.

    The network is compared with itself row by row at the first call alone.
    """

    def __init__(self, learner: _Chosen) -> None:
        self._flat = FlatModule(learner.module, "cpu")
        self._single = SinglePass(learner, LocalTraining(reduction="sum"), self._flat, "cpu")

    def __call__(self, units: list[list[int]], limits: Limits) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng(0)
        cohort = cohort_of(units).drawn(1, None, rng, rng)
        weights = torch.ones(len(units), dtype=torch.float64)
        clipped_sum = self._single.clipped(self._flat.vector.clone(), cohort, limits, weights)
        return clipped_sum.total.double(), clipped_sum.norms


WAYS = {"gram": (True, 0), "written out": (False, 0), "kept": (False, 2**30)}
UNITS = {"rows": [[i] for i in range(ROWS)], "users": [[3 * i, 3 * i + 1, 3 * i + 2]
                                                      for i in range(ROWS // 3)]}  # fmt: skip


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("form", list(UNITS))
@pytest.mark.parametrize(
    ("size", "kernel"), [(1e-3, 0), (1.0, 0), (1e4, 0), (1e8, 0), (1.0, 4), (1e8, 1)]
)
def test_norms_are_not_too_small_and_no_unit_adds_more_than_the_bound(
    size: float, kernel: int, form: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gram, kept = WAYS[way]
    monkeypatch.setattr(ghost_norms, "gram_is_cheaper", lambda *sizes: gram)
    monkeypatch.setattr(ghost_norms, "_KEPT", kept)
    learner, units = _cancelling(size, kernel=kernel), UNITS[form]
    exact = torch.stack([learner.exact()[rows].sum(dim=0) for rows in units])
    of_units = _Pass(learner)
    _, norms = of_units(units, Limits(BOUND))
    assert (norms >= exact.norm(dim=1)).all()
    for unit in range(len(units)):
        alone, _ = of_units(units[unit : unit + 1], Limits(BOUND))
        assert float(alone.norm()) <= BOUND
        # As it enters the sum, in the arithmetic of the reference.
        factor = min(1.0, BOUND / float(norms[unit]))
        assert factor * float(exact[unit].norm()) <= BOUND


@pytest.mark.parametrize("way", list(WAYS))
@pytest.mark.parametrize("limits", [Limits(BOUND), Limits(BOUND, rows=0.2)])
@pytest.mark.parametrize("kernel", [0, 4])
def test_the_influence_of_one_unit_on_the_sum_is_its_bound(
    kernel: int, limits: Limits, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With it minus without it, where others are ordinary and it cancels, or the other way."""
    gram, kept = WAYS[way]
    monkeypatch.setattr(ghost_norms, "gram_is_cheaper", lambda *sizes: gram)
    monkeypatch.setattr(ghost_norms, "_KEPT", kept)
    for size in (1.0, 1e5):
        learner, units = _cancelling(size, 3, kernel), UNITS["users"]
        ordinary = torch.randn(ROWS // 2, TOKENS, INPUTS, generator=torch.Generator())
        learner.inward[: ROWS // 2] = ordinary
        of_units = _Pass(learner)
        whole, _ = of_units(units, limits)
        for unit in range(len(units)):
            rest, _ = of_units(units[:unit] + units[unit + 1 :], limits)
            assert float((whole - rest).norm()) <= BOUND * (1.0 + 1e-5 * len(units))


@pytest.mark.parametrize("way", list(WAYS))
def test_ordinary_rows_are_hardly_shortened(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    gram, kept = WAYS[way]
    monkeypatch.setattr(ghost_norms, "gram_is_cheaper", lambda *sizes: gram)
    monkeypatch.setattr(ghost_norms, "_KEPT", kept)
    generator = torch.Generator().manual_seed(1)
    learner = _Chosen(
        torch.randn(ROWS, TOKENS, INPUTS, generator=generator),
        torch.randn(ROWS, TOKENS, OUTPUTS, generator=generator),
    )
    _, norms = _Pass(learner)(UNITS["rows"], Limits(BOUND))
    exact = learner.exact().norm(dim=1)
    assert (norms >= exact).all()
    assert float((norms / exact).max()) < 1.001
