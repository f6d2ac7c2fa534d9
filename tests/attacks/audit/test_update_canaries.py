"""Update canaries: how many there are, how often noise looks like a leak, what a leak is worth."""

from __future__ import annotations

import numpy as np
import pytest
from toy import ToyLearner, Weights, looked_at_once

from uedp_bench.attacks.audit.attack import Audit
from uedp_bench.attacks.audit.scores import _capped
from uedp_bench.contracts.leakage import Leakage
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus
from uedp_bench.mechanisms.private_training.user_dp import UserDP

ALARMS = 22  # of 300 draws: the 97.5 % point of rate 5 %


def audited(corpus: Corpus, seed: int, *, noise: float, weights: int, rounds: int = 1) -> Leakage:
    """Plants, trains by `user-dp` on users who send nothing of their own, and audits."""
    users = len(np.unique(corpus.users[corpus.where("train")]))
    attack = Audit.create({"canary": "update", "canaries": users})
    corpus, what = attack.plant(corpus, np.random.default_rng(seed))
    included = list(what.injected)
    stats = CorpusStats(users, users, 0, 0, public=True)
    run = Run(seed, stats, injected=what.injected)
    learner = ToyLearner(np.zeros((len(included), weights)), included)
    params = {"rounds": rounds, "users_per_round": users, "noise_multiplier": noise}
    with looked_at_once():
        module, _ = UserDP.create(params).train(learner, learner.corpus, run)
    return attack.run(Weights(module), what, corpus, run)


@pytest.mark.parametrize(
    ("users", "canary", "canaries"),
    [
        (150, "update", 100),
        (300, "update", 150),
        (4000, "update", 1000),
        (300, "user", 100),
        (4000, "user", 100),
    ],
)
def test_default_number_of_canaries_follows_from_users(make_corpus, users, canary, canaries):
    attack = Audit.create({"canary": canary})
    _, what = attack.plant(make_corpus(users, rows=1), np.random.default_rng(1))
    assert len(what.canaries) == canaries


@pytest.mark.long
def test_noise_is_not_a_leak_through_the_whole_pipeline(make_corpus):
    corpus = make_corpus(users=60, rows=1)
    bounds: dict[str, int] = {}
    strict = 0.0
    for seed in range(300):
        for bound in audited(corpus, seed, noise=1e4, weights=400).lower_bounds:
            name = f"{bound.method} {bound.delta:g}"
            bounds[name] = bounds.get(name, 0) + (bound.epsilon > 0.0)
            strict = max(strict, bound.strict_epsilon or 0.0)
    assert set(bounds) >= {"nct 1e-05", "one-run 1e-05", "one-run-f-dp 1e-05"}
    assert max(bounds.values()) <= ALARMS, bounds
    assert strict == 0.0


def test_a_thousand_canaries_show_most_of_a_proven_epsilon(make_corpus):
    """Three rounds in which all take part, noise 1.5: epsilon is 5.17 at delta 1e-5."""
    corpus = make_corpus(users=1000, rows=1)
    audits = [audited(corpus, seed, noise=1.5, weights=20_000, rounds=3) for seed in (1, 2, 3)]
    metrics = {
        name: float(np.median([one.metrics[name].value for one in audits]))
        for name in audits[0].metrics
    }
    assert metrics["epsilon_nct"] > 4.0
    assert metrics["epsilon_one_run_f_dp"] > 2.0
    assert 4.0 < metrics["epsilon_of_auc"] < 6.0
    for one in audits:
        (nct,) = [bound for bound in one.lower_bounds if bound.method == "nct"]
        assert nct.strict_epsilon is None
        assert any("normal" in each and "(p " in each for each in nct.assumptions)


def test_what_others_do_to_few_weights_does_not_drown_canaries():
    rng = np.random.default_rng(3)
    bulk = rng.normal(size=50_000)
    moved = bulk.copy()
    moved[:50] += 1000.0
    capped, whole = _capped(moved), _capped(bulk)
    assert np.linalg.norm(capped - whole) < 0.15 * np.linalg.norm(whole)
    assert np.linalg.norm(moved - bulk) > 30.0 * np.linalg.norm(whole)
    assert (whole == bulk).mean() > 0.99
    sparse = np.zeros(100)
    sparse[:3] = 5.0
    assert (_capped(sparse) == sparse).all()
