"""One unit's whole influence on a sum, where it changes how all others are computed."""

from __future__ import annotations

import numpy as np
import pytest
from token_rows import NextWord, TokenLearner
from torch import Tensor
from toy import cohort_of

from uedp_bench.training.bounds import Limits
from uedp_bench.training.clipping_rule import ONE_PASS
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.unit_sums import RoundWork, Share, ShareWorker, WorkerSetup

BOUND, OTHERS, WORDS = 0.1, 400, 64


def _sum(rows: list[list[int]], local: LocalTraining, limits: Limits) -> tuple[Tensor, set[str]]:
    learner, rng = TokenLearner(NextWord(WORDS), 0, rows), np.random.default_rng(0)
    cohort = cohort_of(np.arange(len(rows))[:, None]).drawn(1, None, rng, rng)
    worker = ShareWorker(WorkerSetup(learner, local, "cpu", seed=1, injected=(), most=64))
    work = RoundWork(worker.trainer.flat.vector.clone(), limits)
    unit_sum = worker.unit_sum(work, Share(cohort, np.ones(len(rows))))
    return unit_sum.total.double(), set(unit_sum.clipping)


@pytest.mark.parametrize("others", ["alike", "of two kinds"])
@pytest.mark.parametrize("form", ["whole", "rows", "layers", "steps that are clipped"])
def test_a_unit_moves_the_sum_by_its_bound_at_most(others: str, form: str) -> None:
    """A long row makes another way to all norms the cheaper one.

    Others pull one way, so that errors of their factors add up.
    """
    rng = np.random.default_rng(0)
    words = rng.permutation(np.arange(2, WORDS))[:25].tolist()
    last = [words[-1], words[0] if others == "of two kinds" else words[-1]]
    rows = [[*words[:-1], last[i % 2]] for i in range(OTHERS)]
    limits, local = Limits(BOUND), LocalTraining()
    if form == "rows":
        limits = Limits(BOUND, rows=BOUND)
    elif form == "layers":
        limits = Limits(BOUND, layers=(BOUND,))
    elif form != "whole":
        limits, local = Limits(BOUND), LocalTraining(gradient_clip=0.9 * BOUND)
    without, ways = _sum(rows, local, limits)
    sums, more = _sum([*rows, rng.integers(2, WORDS, 60).tolist()], local, limits)
    assert ways == more == {ONE_PASS}
    moved = float((sums - without).norm())
    assert 0.8 * BOUND < moved <= BOUND
    assert float(without.norm()) > 0.8 * BOUND * OTHERS
