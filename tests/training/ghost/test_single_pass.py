"""Clipping in one backward pass equals clipping each unit's update, on every kind of network."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, learner_with_dropout
from token_rows import NETWORKS, TOKENS, TokenLearner, recurrent
from torch import Tensor, nn
from toy import cohort_of

from uedp_bench.contracts.learner import Learner
from uedp_bench.training import unit_sums
from uedp_bench.training.bounds import Count, Limits
from uedp_bench.training.clipping_rule import ONE_PASS, one_pass_refusal
from uedp_bench.training.ghost import norms as ghost_norms
from uedp_bench.training.ghost.single_pass import Clipped, SinglePass
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.unit_sums import (
    RoundWork,
    Share,
    ShareWorker,
    UnitSum,
    WorkerSetup,
)

UNITS = {"rows": [[i] for i in range(10)], "users": [[0], [1, 2, 3], [4, 5], [6, 7, 8], [9]]}


@pytest.fixture(autouse=True)
def looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks at each network once, and not before each sum: it takes half of the time."""
    monkeypatch.setattr(unit_sums, "one_pass_refusal", REFUSALS)


REFUSALS = cache(one_pass_refusal)


@cache
def _learner(name: str) -> Learner:
    if name == "classifier":
        return NetworkLearner(10)
    if name == "bilstm":
        return learner_with_dropout("bilstm")
    build, classes = NETWORKS[name]
    return TokenLearner(build(), classes)


def _cohort(units: list[list[int]], weighted: bool) -> Cohort:
    rng = np.random.default_rng(4)
    weights = rng.uniform(0.3, 1.0, sum(map(len, units))) if weighted else None
    return cohort_of(units, weights).drawn(1, None, rng, rng)


def _worker(learner: Learner, local: LocalTraining, *, fast: bool, **setup: Any) -> ShareWorker:
    refusal = None if fast else "a test asks for it"
    settings = {"device": "cpu", "seed": 1, "injected": (), "most": 4, "refusal": refusal, **setup}
    return ShareWorker(WorkerSetup(learner, local, **settings))


def _both(
    learner: Learner, local: LocalTraining, limits: Limits, cohort: Cohort, **setup: Any
) -> tuple[UnitSum, UnitSum]:
    weights = np.linspace(0.4, 1.0, len(cohort.rows))
    sums = []
    for fast in (True, False):
        worker = _worker(learner, local, fast=fast, **setup)
        work = RoundWork(worker.trainer.flat.vector.clone(), limits)
        sums.append(worker.unit_sum(work, Share(cohort, weights)))
        assert (ONE_PASS in sums[-1].clipping) is fast, sums[-1].clipping
    return sums[0], sums[1]


def _agree(fast: UnitSum, slow: UnitSum, rtol: float = 1e-3) -> None:
    size = float(slow.total.norm())
    assert size > 0
    assert float((fast.total - slow.total).norm()) < rtol * size
    for name in ("units", "rows", "short", "clipped", "dropped", "dropped_rows", "injected"):
        assert getattr(fast, name) == getattr(slow, name), name
    assert sorted(fast.losses) == pytest.approx(sorted(slow.losses), rel=1e-4, nan_ok=True)


FORMS: dict[str, tuple[str, bool, LocalTraining, Limits]] = {
    "records": ("rows", False, LocalTraining(), Limits(0.3)),
    "records, nothing clipped": ("rows", False, LocalTraining(), Limits(float("inf"))),
    "users, rows weighted": (
        "users", True, LocalTraining(learning_rate=0.5), Limits(0.3, count=Count(0.4, 1.0)),
    ),
    "users, sums": ("users", True, LocalTraining(reduction="sum"), Limits(0.6)),
    "users, local clipping": ("users", True, LocalTraining(gradient_clip=0.2), Limits(0.1)),
    "two levels": ("users", False, LocalTraining(learning_rate=0.5), Limits(0.25, rows=0.15)),
}  # fmt: skip


@pytest.mark.parametrize("form", list(FORMS))
@pytest.mark.parametrize("name", ["classifier", "bilstm", *NETWORKS])
def test_sums_are_those_of_clipping_each_update(name: str, form: str) -> None:
    units, weighted, local, limits = FORMS[form]
    _agree(*_both(_learner(name), local, limits, _cohort(UNITS[units], weighted)))


@pytest.mark.parametrize("name", ["classifier", "cifg, projection, no output bias", "gpt2"])
def test_layers_are_clipped_by_their_own_norms(name: str) -> None:
    learner = _learner(name)
    layers = len(_worker(learner, LocalTraining(), fast=True).layers())
    bounds = tuple(np.linspace(0.05, 0.2, layers))
    limits = Limits(float(np.linalg.norm(bounds)), layers=bounds)
    _agree(*_both(learner, LocalTraining(), limits, _cohort(UNITS["users"], True)))


@pytest.mark.parametrize("name", list(NETWORKS))
def test_both_ways_to_a_norm_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gram matrices and gradients written out, a unit at a time and all at once."""
    learner, cohort = _learner(name), _cohort(UNITS["users"], True)
    worker = _worker(learner, LocalTraining(), fast=True)
    theta = worker.trainer.flat.vector.clone()
    totals = []
    ways = ((True, 2**20, 0), (False, 2**20, 0), (False, 1, 0), (True, 1, 0), (False, 1, 2**23))
    for gram, at_once, kept in (*ways, (False, 2**20, 700)):
        monkeypatch.setattr(ghost_norms, "gram_is_cheaper", lambda *sizes, gram=gram: gram)
        monkeypatch.setattr(ghost_norms, "_WRITTEN_OUT", at_once)
        monkeypatch.setattr(ghost_norms, "_KEPT", kept)
        work = RoundWork(theta, Limits(0.2))
        totals.append(worker.unit_sum(work, Share(cohort, np.ones(len(cohort.rows)))).total)
    for other in totals[1:]:
        assert float((totals[0] - other).norm()) < 1e-3 * float(other.norm())


def test_a_share_that_does_not_fit_is_computed_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = _worker(_learner("classifier"), LocalTraining(), fast=True)
    cohort = _cohort(UNITS["users"], True)
    work, share = (
        RoundWork(worker.trainer.flat.vector.clone(), Limits(0.3)),
        Share(cohort, np.ones(5)),
    )
    whole, clipped, tried = worker.unit_sum(work, share), SinglePass.clipped, list[int]()

    def short_of_memory(self: SinglePass, theta: Tensor, some: Cohort, *rest: Any) -> Clipped:
        tried.append(len(some.rows))
        if tried[-1] > 2:
            raise torch.OutOfMemoryError
        return clipped(self, theta, some, *rest)

    monkeypatch.setattr(SinglePass, "clipped", short_of_memory)
    unit_sum = worker.unit_sum(work, share)
    assert tried == [5, 3, 2, 1, 2]
    assert (unit_sum.units, unit_sum.rows, unit_sum.clipped) == (
        whole.units,
        whole.rows,
        whole.clipped,
    )
    assert sorted(unit_sum.losses) == pytest.approx(sorted(whole.losses), rel=1e-5)
    assert float((unit_sum.total - whole.total).norm()) < 3e-4 * float(whole.total.norm())
    monkeypatch.setattr(SinglePass, "clipped", _never)
    with pytest.raises(torch.OutOfMemoryError):  # one unit alone
        worker.unit_sum(work, share)


def test_updates_that_do_not_fit_are_computed_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where some of the share was computed before memory was short."""
    worker = _worker(_learner("classifier"), LocalTraining(), fast=False)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(0.3))
    share = Share(_cohort(UNITS["users"], True), np.ones(5))
    whole, updates, tried = worker.unit_sum(work, share), worker.trainer.updates, list[int]()

    def short_of_memory(theta: Tensor, some: Cohort) -> Tensor:
        tried.append(len(some.rows))
        if tried[-1] > 2 or len(tried) == 3:
            updates(theta, some)
            raise torch.OutOfMemoryError
        return updates(theta, some)

    monkeypatch.setattr(worker.trainer, "updates", short_of_memory)
    unit_sum = worker.unit_sum(work, share)
    assert (unit_sum.units, unit_sum.rows, unit_sum.clipped) == (
        whole.units,
        whole.rows,
        whole.clipped,
    )
    assert unit_sum.clipping == whole.clipping
    assert sorted(unit_sum.losses) == pytest.approx(sorted(whole.losses), rel=1e-5)
    assert float((unit_sum.total - whole.total).norm()) < 3e-4 * float(whole.total.norm())
    monkeypatch.setattr(worker.trainer, "updates", _never)
    with pytest.raises(torch.OutOfMemoryError):  # one unit alone
        worker.unit_sum(work, share)


def _never(*arguments: Any) -> Clipped:
    raise torch.OutOfMemoryError


@pytest.mark.parametrize("name", ["bilstm", *NETWORKS])
def test_who_is_computed_beside_a_unit_decides_nothing(name: str) -> None:
    worker = _worker(_learner(name), LocalTraining(), fast=True)
    cohort = _cohort(UNITS["users"], True)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(0.3))
    whole = worker.unit_sum(work, Share(cohort, np.ones(5)))
    for split in ([[0], [1], [2], [3], [4]], [[4, 0, 2], [3, 1]]):
        parts = [
            worker.unit_sum(work, Share(cohort.take(np.array(some)), np.ones(len(some)))).total
            for some in split
        ]
        assert float((sum(parts) - whole.total).norm()) < 3e-4 * float(whole.total.norm())


@pytest.mark.parametrize("limits", [Limits(0.3), Limits(0.3, rows=0.2), Limits(0.3, (0.2, 0.2))])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 3e38])
def test_a_unit_that_is_not_finite_is_dropped_by_its_own_numbers(
    bad: float, limits: Limits
) -> None:
    learner = NetworkLearner(10)
    units, cohort = UNITS["users"], _cohort(UNITS["users"], False)
    learner.points[2, 1] = bad
    learner.module[0].weight.data *= 0.1  # so that only what is bad overflows
    fast, slow = _both(learner, LocalTraining(), limits, cohort)
    _agree(fast, slow)
    assert torch.isfinite(fast.total).all()
    if limits.rows is not None:
        assert fast.dropped_rows == slow.dropped_rows
        return
    worker = _worker(learner, LocalTraining(), fast=True)
    work = RoundWork(worker.trainer.flat.vector.clone(), limits)
    keep = np.array([unit for unit, rows in enumerate(units) if 2 not in rows])
    weights = np.linspace(0.4, 1.0, len(units))
    without = worker.unit_sum(work, Share(cohort.take(keep), weights[keep]))
    if not np.isfinite(bad):
        assert fast.dropped == 1
        torch.testing.assert_close(without.total, fast.total, rtol=1e-4, atol=1e-6)


def test_what_an_audit_injects_takes_the_place_of_a_unit() -> None:
    learner, cohort = NetworkLearner(10), _cohort(UNITS["users"], True)
    learner.points[4] = float("nan")  # of the third user, which is replaced
    fast, slow = _both(
        learner, LocalTraining(), Limits(0.3, count=Count(0.4, 1.0)), cohort, injected=(0, 4)
    )
    assert fast.injected == 2
    assert fast.dropped == 0
    _agree(fast, slow)


def test_a_transcript_is_given_the_update_of_each_unit() -> None:
    learner, cohort = NetworkLearner(10), _cohort(UNITS["users"], True)
    worker = _worker(learner, LocalTraining(), fast=True)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(0.3), keep_updates=True)
    unit_sum = worker.unit_sum(work, Share(cohort, np.ones(5)))
    assert unit_sum.updates is not None
    torch.testing.assert_close(unit_sum.updates.sum(dim=0), unit_sum.total, rtol=1e-4, atol=1e-6)
    assert "transcript" in str(unit_sum.clipping)


class _Seen(nn.Module):
    """A network of tokens whose first weight is used as a function says."""

    def __init__(self, use: Any) -> None:
        super().__init__()
        self.inner = recurrent(coupled=False, projection=None, bias=True, rate=0.0)
        self.odd = nn.Parameter(torch.linspace(-1.0, 1.0, 25).view(5, 5))
        self._use, self._raw = use, [self.odd]

    def forward(self, tokens: Tensor, seeds: Tensor | None) -> Tensor:
        values = self._use(self, nn.functional.embedding(tokens, self.inner.embedding))
        return nn.functional.linear(values, self.inner.embedding)


def _time_first(module: _Seen, values: Tensor) -> Tensor:
    turned = values.transpose(0, 1).reshape(-1, 5)  # a multiple of the rows, but not by row
    outputs = nn.functional.linear(turned, module.odd)
    return outputs.view(values.shape[1], values.shape[0], 5).transpose(0, 1)


UNKNOWN = {
    "odd in cumsum": lambda module, values: values @ module.odd.cumsum(0),
    "odd in pow": lambda module, values: values * (module.odd**2).sum(),
    "each row alone": _time_first,
    "odd in a way": lambda module, values: values @ module._raw[0],
    "not that of rows": lambda module, values: values + (torch.ones(7, 5) @ module.odd)[0],
}


@pytest.mark.parametrize("reason", list(UNKNOWN))
def test_a_network_that_is_unknown_falls_back_and_says_why(reason: str) -> None:
    learner, cohort = TokenLearner(_Seen(UNKNOWN[reason])), _cohort(UNITS["rows"], False)
    sums = []
    for fast in (True, False):
        worker = _worker(learner, LocalTraining(), fast=fast)
        work = RoundWork(worker.trainer.flat.vector.clone(), Limits(0.3))
        sums.append(worker.unit_sum(work, Share(cohort, np.ones(10))))
    assert torch.equal(sums[0].total, sums[1].total)
    (way,) = sums[0].clipping
    assert reason in way
    assert way.startswith("update by update")


@pytest.mark.parametrize("limits", [Limits(0.3), Limits(0.3, rows=0.2)])
def test_rows_of_which_one_alone_tells_something_are_computed_one_by_one(limits: Limits) -> None:
    """Nothing can be compared, and what units send is bounded by the same rule all the same."""
    learner, cohort = NetworkLearner(10), _cohort(UNITS["users"], False)
    learner.points[:9] = float("nan")
    fast, slow = _both(learner, LocalTraining(), limits, cohort)
    _agree(fast, slow)
    assert float(fast.total.norm()) > 0


def test_equal_rows_do_not_hide_that_a_network_mixes_them() -> None:
    learner = TokenLearner(_Seen(_time_first), rows=[TOKENS[3]] * 4)
    worker = _worker(learner, LocalTraining(), fast=True)
    work = RoundWork(worker.trainer.flat.vector.clone(), Limits(0.3))
    cohort = _cohort([[0], [1], [2], [3]], False)
    cohort = cohort._replace(seeds=np.zeros_like(cohort.seeds_of_rows))
    unit_sum = worker.unit_sum(work, Share(cohort, np.ones(4)))
    assert "alone" in str(unit_sum.clipping)
