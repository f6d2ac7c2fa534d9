"""Evidence of leaks: those of all or of a few are found, and random coins seldom leak."""

from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.bounds.ceilings import JudgedUsers
from uedp_bench.contracts.results import Estimate
from uedp_bench.leaderboard.member_evidence import leaks
from uedp_bench.statistics.intervals import fraction_estimate
from uedp_bench.statistics.roc import Scores, auc_estimate, tpr_at_fpr


def judgement(rng, users=100, found=0, shift=0.0):
    """A run that judged users; so many of the members are surely found."""
    members, others = rng.normal(shift, 1.0, users), rng.normal(0.0, 1.0, users)
    members[:found] += 10.0
    sides = [Scores(values, np.arange(users)) for values in (members, others)]
    rate = tpr_at_fpr(members, others, 0.01)
    metrics = {
        "auc_user": auc_estimate(*sides, rng),
        "tpr_user_at_1pct_fpr": fraction_estimate(rate.hits, rate.positives),
    }
    return metrics, JudgedUsers(members=users, non_members=users, most_records=1)


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_random_coins_seldom_leak(seeds):
    rng = np.random.default_rng(seeds)
    trials = 100
    found = sum(leaks([judgement(rng) for _ in range(seeds)]) for _ in range(trials))
    # At 5 % a trial, more than 11 of 100 have a probability below 0.5 %.
    assert found <= 11


def test_rates_alone_seldom_leak_by_chance():
    rng, found = np.random.default_rng(7), 0
    for _ in range(2000):
        members, others = rng.normal(size=(2, 100))
        rate = tpr_at_fpr(members, others, 0.01)
        metrics = {"auc_user": Estimate(value=0.5), "tpr_user_at_1pct_fpr":
                   fraction_estimate(rate.hits, rate.positives)}  # fmt: skip
        found += leaks([(metrics, JudgedUsers(members=100, non_members=100, most_records=1))])
    assert found <= 0.05 * 2000


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_leak_of_all_or_of_a_few_is_found(seeds):
    rng = np.random.default_rng(1)
    assert leaks([judgement(rng, shift=0.8) for _ in range(seeds)])
    few = [judgement(rng, users=200, found=30) for _ in range(seeds)]
    blind = [({**metrics, "auc_user": Estimate(value=0.5)}, judged) for metrics, judged in few]
    assert leaks(blind)
    # Of older results, nobody knows how many users their rates rest on.
    assert not leaks([(metrics, None) for metrics, _ in blind])


def test_runs_that_differ_and_agree_leak():
    runs = [({"auc_user": Estimate(value=value, low=value - 0.05, high=value + 0.05)}, None)
            for value in (0.65, 0.95)]  # fmt: skip
    assert leaks(runs)
    assert not leaks([*runs, ({"auc_user": Estimate(value=0.5)}, None)])
