"""The law of random numbers: what is shared between runs, and what never is."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from learners import flat
from toy import ToyLearner, toy_plan, toy_run

from uedp_bench.accounting.events import Repeated
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.run_context import Run, Speed
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.randomness import scope_of
from uedp_bench.spec.grid import expand
from uedp_bench.spec.identity import identity_parts
from uedp_bench.spec.spec import parse_spec
from uedp_bench.training.federated import train_federated
from uedp_bench.training.federation import Federation
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import PoissonSampler

STATS = CorpusStats(10, 10, 0, 0, public=True)
USERS = [0, 1, 2, 3, 4, 5]


def word(rng: np.random.Generator) -> int:
    return int(rng.integers(2**62))


def identity(**mechanism: object) -> dict[str, object]:
    (run,) = expand(parse_spec({"mechanisms": [[{"name": "user-dp", "params": mechanism}]]}))
    return identity_parts(run, "corpus")


def plan(rounds: int = 1, noise: float = 1.0) -> Federation:
    sampler = PoissonSampler(6, 0.5)
    return toy_plan(USERS, rounds=rounds, sampler=sampler, noise=IndependentGaussian(noise))


def test_a_call_draws_afresh_and_a_keyed_stream_does_not() -> None:
    run, again = Run(1, STATS, scope="s"), Run(1, STATS, scope="s")
    first = [word(run.rng("a")), word(run.rng("a")), word(run.rng("b")), word(run.rng("a", "b"))]
    assert len(set(first)) == 4
    assert [word(again.rng("a")), word(again.rng("a"))] == first[:2]
    assert word(run.stream("row").rng(3)) == word(run.stream("row").rng(3))
    assert word(run.stream("row").rng(3)) != word(run.stream("row").rng(4))
    assert word(run.stream("ab").rng()) != word(run.stream("a").rng("b"))


def test_secret_streams_differ_by_scope_stage_and_seed_and_shared_ones_by_seed_alone() -> None:
    runs = [Run(1, STATS, scope="s"), Run(1, STATS, scope="t"), Run(2, STATS, scope="s")]
    runs.append(Run(1, STATS, scope="s").within("mechanism"))
    assert len({word(run.rng("a")) for run in runs}) == 4
    assert len({word(run.stream("a").rng()) for run in runs}) == 4
    assert len({word(run.shared("a")) for run in runs}) == 2
    assert len({run.shared_seed("a") for run in runs}) == 2


def test_speed_and_device_are_no_part_of_any_stream() -> None:
    one = Run(1, STATS, scope="s")
    other = Run(1, STATS, device="cuda", speed=Speed(chunk=1, threads=3), scope="s")
    assert word(one.rng("a")) == word(other.rng("a"))


def test_a_stage_that_acts_again_counts_on() -> None:
    """Training rows and test rows are published by two calls of one stage."""
    run = Run(1, STATS, scope="s")
    first, second = (word(run.within("m").rng("a")) for _ in range(2))
    assert first != second


def test_scope_is_what_is_trained_on_what() -> None:
    base = scope_of(identity(), "fingerprint")
    assert scope_of(identity(), "fingerprint") == base
    assert (
        scope_of(identity() | {"seed": 9, "attacks": [1], "selection": {}}, "fingerprint") == base
    )
    others = [
        scope_of(identity(local_learning_rate=0.5), "fingerprint"),
        scope_of(identity() | {"model": ["lstm", 1, {"units": 3}]}, "fingerprint"),
        scope_of(identity() | {"task": ["next-word", 2, {}]}, "fingerprint"),
        scope_of(identity() | {"delta": 1e-6}, "fingerprint"),
        scope_of(identity(), "planted"),
        scope_of(identity(), "fingerprint", (3,)),
    ]
    assert len({base, *others}) == 7


def test_two_settings_share_neither_coins_nor_noise() -> None:
    """The difference of two releases with one noise is their signal, free of any noise."""
    points = np.zeros((6, 4000))
    points[0, 0] = 1.0
    weights = []
    for rate in (0.5, 1.0):
        run = toy_run(users=6, scope=scope_of(identity(local_learning_rate=rate), "corpus"))
        learner = ToyLearner(points, USERS)
        params = {"rounds": 1, "users_per_round": 3, "local_learning_rate": rate, "clip": 1.0}
        module, _ = UserDP.create(params).train(learner, learner.corpus, run)
        weights.append(flat(module))
    noise = float(weights[0][1:].std())
    difference = weights[0] - weights[1]
    # Independent noise adds up; equal noise would leave 0 on all coordinates but the first.
    assert float(difference[1:].std()) == pytest.approx(2**0.5 * noise, rel=0.1)


def test_a_loop_that_trains_again_draws_afresh() -> None:
    """Adaptive clipping as a plug-in would write it: one round a call, the same run."""

    class Adaptive(TrainingMechanism[UserDP.Params]):  # type: ignore[name-defined, misc]
        name = "adaptive"
        Params = UserDP.Params

        def plan(self, stats):  # type: ignore[no-untyped-def]
            return ()

        def train(self, learner, corpus, run):  # type: ignore[no-untyped-def]
            moved.extend(flat(train_federated(plan(), learner, run).module) for _ in range(4))
            return learner.module, ()

    moved: list[torch.Tensor] = []
    learner = ToyLearner(np.zeros((6, 500)), USERS)
    Adaptive().train(learner, learner.corpus, toy_run())
    for i in range(4):
        for j in range(i):
            assert abs(float(torch.corrcoef(torch.stack([moved[i], moved[j]]))[0, 1])) < 0.3


def test_rounds_draw_coins_and_noise_of_their_own() -> None:
    streams = Run(1, STATS).fresh("federated")
    words = [word(streams.child("round", step).rng(use)) for step in range(50)
             for use in ("sample", "rows", "dropout", "noise")]  # fmt: skip
    assert len(set(words)) == 200


def test_events_are_those_of_the_rounds_that_were_run() -> None:
    learner = ToyLearner(np.zeros((6, 2)), USERS)
    mechanism = UserDP.create({"rounds": 3, "users_per_round": 3})
    _, (event,) = mechanism.train(learner, learner.corpus, toy_run(users=6))
    assert isinstance(event.event, Repeated)
    assert event.event.count == 3
