"""No unit chooses the rule that clips others: one unit's whole influence is one clip bound."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner
from token_rows import NETWORKS, WORDS, NextWord, TokenLearner
from torch import Tensor, nn
from toy import cohort_of

from uedp_bench.contracts.learner import Batch, Learner
from uedp_bench.corpus import IntArray
from uedp_bench.errors import PrivacyError
from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import NO_EXAMPLES, ONE_PASS
from uedp_bench.training.ghost import norms as ghost_norms
from uedp_bench.training.ghost.single_pass import Clipped, SinglePass
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.sampling import Cohort
from uedp_bench.training.unit_sums import RoundWork, ShareWorker, WorkerSetup, round_shares

SLACK = 1.0001
SIZE, BOUND = 29, 1e-5
"""Words of the network, and a bound that rounding is large beside."""


class _Branching(NextWord):
    """Some rows take another way."""

    def forward(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        if bool((tokens[:, 1:3] == 2).all(dim=1).any()):
            weight = self.out.weight + 0.0 * (self.out.weight**2).sum()
            return self.table[tokens] @ weight.t()
        return super().forward(tokens, seeds)


def _cycle(words: Sequence[int]) -> list[int]:
    """A walk over every ordered pair of words once, back to its start: gradients cancel."""
    after = {word: list(words) for word in words}
    stack, walk = [words[0]], list[int]()
    while stack:
        if after[stack[-1]]:
            stack.append(after[stack[-1]].pop())
        else:
            walk.append(stack.pop())
    return walk[::-1]


CYCLE = _cycle(range(SIZE))
ALMOST = [*CYCLE[1:], 5]
"""All but one pair of words cancels: the norm is a thousandth of the sum of the terms."""
UNITS: dict[str, list[list[int]]] = {
    "rounding noise": [CYCLE[1:] * 2],
    "equal to all": [ALMOST],
    "one token": [[7]],
    "long": [np.random.default_rng(0).integers(2, SIZE, 2000).tolist()],
    "several rows": [ALMOST, ALMOST, [3, 4]],
    "opposed rows": [CYCLE[1:], [*CYCLE[1:], 9], [9], [7, 9]],
}


def _sum(
    learner: Learner,
    units: list[list[int]],
    local: LocalTraining | None = None,
    limits: Limits | None = None,
    chunk: int = 64,
    refusal: str | None = None,
    scale: float = 1.0,
) -> tuple[Tensor, set[str]]:
    """The sum of a round over all of its shares, in float64, and how units were clipped."""
    local, limits = local or LocalTraining(), limits or Limits(BOUND)
    worker = ShareWorker(_setup(learner, local, chunk, refusal))
    cohort = cohort_of(units)
    cohort = cohort._replace(seeds=cohort.rows[None])  # a row's own, whoever is beside it
    if local.batch_size is not None and local.batch_size < cohort.rows.shape[1]:
        cohort = cohort._replace(keys=(cohort.rows * 7919 % 101 / 101)[None])
    work = RoundWork(scale * worker.trainer.flat.vector, limits)
    total, ways = torch.zeros(len(work.theta), dtype=torch.float64), set[str]()
    for share in round_shares(work, local, learner, cohort, np.ones(len(units)), chunk):
        part = worker.unit_sum(work, share)
        total, ways = total + part.total.double(), ways | set(part.clipping)
    return total, ways


@lru_cache(maxsize=1)
def _setup(learner: Learner, local: LocalTraining, chunk: int, refusal: str | None) -> WorkerSetup:
    """Settings with their clipping rule, which a training decides once."""
    return WorkerSetup(learner, local, "cpu", 1, (), chunk, refusal).decided()


def _influence(
    module: nn.Module, others: list[list[int]], unit: list[list[int]], **settings: Any
) -> float:
    """Distance that one unit more moves the sum, over its bound; others have a row each."""
    return _influences(module, others, [unit], **settings)[0]


def _influences(
    module: nn.Module, others: list[list[int]], units: list[list[list[int]]], **settings: Any
) -> list[float]:
    """The same of several units, each alone beside the others."""
    learner = TokenLearner(module, 0, [*others, *(row for unit in units for row in unit)])
    alone = [[row] for row in range(len(others))]
    without, ways = _sum(learner, alone, **settings)
    moved, end = [], len(others)
    for unit in units:
        whole, more = _sum(learner, [*alone, list(range(end, end + len(unit)))], **settings)
        assert ways == more
        moved.append(
            float((whole - without).norm()) / (settings.get("limits") or Limits(BOUND)).total
        )
        end += len(unit)
    return moved


@pytest.mark.parametrize("others", [20, 128])
def test_a_unit_of_rounding_noise_moves_nobody_else(others: int) -> None:
    moved = _influences(NextWord(SIZE), [ALMOST] * others, list(UNITS.values()))
    assert max(moved) <= SLACK, dict(zip(UNITS, moved, strict=True))


@pytest.mark.parametrize("chunk", [1, 64])
@pytest.mark.parametrize("others", [20, 128])
def test_a_unit_of_more_rows_than_a_batch_moves_nobody_else(others: int, chunk: int) -> None:
    local = LocalTraining(batch_size=1)
    rows = [ALMOST] * others
    assert _influence(NextWord(SIZE), rows, [ALMOST] * 2, local=local, chunk=chunk) <= SLACK


@pytest.mark.parametrize("most", [1, 7])
def test_a_share_that_does_not_fit_keeps_its_rule(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    clipped = SinglePass.clipped

    def short_of_memory(self: SinglePass, theta: Tensor, some: Cohort, *rest: Any) -> Clipped:
        if len(some.rows) > most and int(some.rows.max()) == 20:  # the unit that is added
            raise torch.OutOfMemoryError
        return clipped(self, theta, some, *rest)

    monkeypatch.setattr(SinglePass, "clipped", short_of_memory)
    assert _influence(NextWord(SIZE), [ALMOST] * 20, UNITS["rounding noise"]) <= SLACK


@pytest.mark.parametrize("others", [20, 128])
def test_a_row_that_takes_another_way_is_clipped_alone(others: int) -> None:
    unit = [[2, 2, *CYCLE[1:]]]
    assert _influence(_Branching(SIZE), [ALMOST] * others, unit) <= SLACK


def test_a_row_that_takes_another_way_decides_about_no_other_of_its_user() -> None:
    """It would move its user by 17 bounds of a row."""
    rows = [*[ALMOST] * 20, [2, 2, *CYCLE[1:]]]
    learner, limits = TokenLearner(_Branching(SIZE), 0, rows), Limits(50 * BOUND, rows=BOUND)
    with pytest.raises(PrivacyError, match="two-level"):
        _sum(learner, [list(range(len(rows)))], LocalTraining(reduction="sum"), limits)


@pytest.mark.parametrize("refusal", [None, "a test asks for it"])
@pytest.mark.parametrize("name", [name for name, (_, classes) in NETWORKS.items() if not classes])
def test_influence_is_one_bound_on_every_network(name: str, refusal: str | None) -> None:
    rng = np.random.default_rng(1)
    others = [rng.integers(2, WORDS, rng.integers(1, 9)).tolist() for _ in range(20)]
    units = [[others[0]] * 5, [[7]], [rng.integers(2, WORDS, 12).tolist()]]
    for local in (LocalTraining(), LocalTraining(batch_size=2)):
        settings = {"local": local, "limits": Limits(0.05), "refusal": refusal}
        assert max(_influences(NETWORKS[name][0](), others, units, **settings)) <= SLACK


@pytest.mark.parametrize("others", [20, 128])
def test_units_of_one_step_keep_their_digits_beside_others(others: int) -> None:
    """Weights are large beside the bound: updates as differences of weights would be rounded."""
    learner = NetworkLearner(others + 2)
    units = [[row] for row in range(others)]
    settings: dict[str, Any] = {
        "local": LocalTraining(batch_size=1, learning_rate=1e-6), "limits": Limits(1e-5),
        "refusal": "a test asks for it", "scale": 100.0,
    }  # fmt: skip
    without, _ = _sum(learner, units, **settings)
    whole, _ = _sum(learner, [*units, [others, others + 1]], **settings)
    assert float((whole - without).norm()) <= SLACK * 1e-5


def test_gradients_that_are_kept_are_bounded_as_those_that_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kept gradients depend on the share: the second of two levels must not see that."""
    rows = [row for _ in range(20) for row in (ALMOST, CYCLE[1:], [7, 9])]
    units = [[3 * unit, 3 * unit + 1, 3 * unit + 2] for unit in range(20)]
    learner, limits = TokenLearner(NextWord(SIZE), 0, rows), Limits(2 * BOUND, rows=BOUND)
    sums = []
    for kept in (2**23, 0):
        monkeypatch.setattr(ghost_norms, "_KEPT", kept)
        sums.append(_sum(learner, units, LocalTraining(reduction="sum"), limits)[0])
    assert float((sums[0] - sums[1]).norm()) <= (SLACK - 1.0) * 2 * BOUND
    assert float(sums[0].norm()) > 10 * BOUND


@pytest.mark.parametrize("kept", [2**23, 0])
@pytest.mark.parametrize("times", [1, 2, 8])
def test_a_row_moves_its_unit_by_its_own_bound(
    monkeypatch: pytest.MonkeyPatch, times: int, kept: int
) -> None:
    monkeypatch.setattr(ghost_norms, "_KEPT", kept)
    for bound in (1.0, 4.0):
        rows = [[7, 9]] * 2 * times + [ALMOST] * times
        learner, limits = TokenLearner(NextWord(SIZE), 0, rows), Limits(bound * BOUND, rows=BOUND)
        everything = list(range(len(rows)))
        whole, _ = _sum(learner, [everything], LocalTraining(reduction="sum"), limits)
        for lost in (0, len(rows) - 1):
            left = [row for row in everything if row != lost]
            less, _ = _sum(learner, [left], LocalTraining(reduction="sum"), limits)
            assert float((whole - less).norm()) <= SLACK * BOUND


class _Unread(TokenLearner):
    """Rows that nobody may read yet."""

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        raise AssertionError("a private row was read")


class _WithoutExamples(TokenLearner):
    example_batch = Learner.example_batch  # type: ignore[assignment]


def test_the_rule_is_settled_before_any_row_is_read() -> None:
    local = LocalTraining()
    for rows in ([CYCLE[1:] * 2], [ALMOST] * 3):
        setup = WorkerSetup(_Unread(NextWord(SIZE), 0, rows), local, "cpu", 1, (), 64).decided()
        assert setup.refusal == ""
        assert pickle.loads(pickle.dumps(setup.refusal)) == ""  # noqa: S301 - to other processes
        assert setup.decided() is setup


def test_without_example_rows_nobody_is_clipped_in_one_pass() -> None:
    learner = _WithoutExamples(NextWord(SIZE), 0, [ALMOST, [3, 4]])
    _, ways = _sum(learner, [[0], [1]])
    (way,) = ways
    assert ONE_PASS not in way
    assert NO_EXAMPLES in way
