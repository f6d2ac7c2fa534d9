"""Every mechanism that trains ends as it would have, wherever it is killed on the way."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from learners import EntityLearner, run_of
from split import WordsLearner, topic_corpus

from uedp_bench.components import registry
from uedp_bench.contracts.checkpoints import Checkpoints, Pace
from uedp_bench.contracts.clients import Clients
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.run_context import Diary, Run
from uedp_bench.contracts.saved_state import digest_of
from uedp_bench.corpus import SPLITS

ROUNDS = {"rounds": 6, "users_per_round": 4}
ADAPTIVE = {"clip_policy": "adaptive", "server_optimizer": "yogi"}
SPLIT = {"epochs": 3, "batch_size": 10, "dimension": 4, "epsilon": 1.0}
NEVER_TRAINED = {"public-only", "trained-elsewhere"}
CLIENTS = Clients(count=3, by="random")

SETTINGS: dict[str, list[dict[str, Any]]] = {
    "adversarial": [{"epochs": 3, "batch_size": 10, "attacker_hidden": 4}],
    "cyclic": [
        {"epochs": 4, "batch_size": 3, "order": "random", "compression": "int8"},
        {"epochs": 3, "batch_size": 5, "optimizer": "sgd", "momentum": 0.5, "local_epochs": 2},
    ],
    "dp-ftrl": [{"rounds": 8, "users_per_round": 2, "bands": 3, "server_momentum": 0.5}],
    "dp-sgd": [{"rounds": 6, "batch_size": 6}],
    "dpnr": [SPLIT],
    "fedavg": [{**ROUNDS, "iid": True, "local_momentum": 0.5}],
    "federated-dp-sgd": [
        {"rounds": 6, "local_steps": 2, "batch_size": 2, "server_momentum": 0.5},
        {"rounds": 6, "data_per_round": 0.16, "batch_size": 1, "optimizer": "adam"},
    ],
    "noiseless": [
        {"epochs": 3, "batch_size": 7},
        {"epochs": 2, "batch_size": 7, "learning_rate_factors": [0.1, 1.0, 3.0]},
    ],
    "pooled": [{"epochs": 3, "batch_size": 7}],
    "uedp": [{**ROUNDS, "server_optimizer": "adam"}],
    "uedp-group": [{"rounds": 6, "server_momentum": 0.5, "server_optimizer": "sgd"}],
    "uedp-spread": [ROUNDS],
    "user-dp": [{**ROUNDS, "local_epochs": 2, "local_batch_size": 1}, {**ROUNDS, **ADAPTIVE}],
}
"""Of every training mechanism, settings with which its policies keep a state."""


class Killed(BaseException):
    """What a kill is to the code that it hits."""


def training() -> list[str]:
    """All mechanisms that train, of whoever is installed; files of other tests are not."""
    names = registry.mechanisms._entries()
    return [n for n in names if issubclass(registry.mechanisms.get(n), TrainingMechanism)]


def test_every_mechanism_that_trains_is_here() -> None:
    assert {name for name in training() if name not in NEVER_TRAINED} == set(SETTINGS)


def learner_for(name: str) -> Learner:
    if name in ("adversarial", "dpnr"):
        return WordsLearner(topic_corpus(rows=60), 8, 4)
    rng = np.random.default_rng(0)
    mentions = [rng.choice(list("abcd"), size=rng.integers(3)).tolist() for _ in range(24)]
    learner = EntityLearner(rng.normal(size=(24, 5)), [row // 3 for row in range(24)], mentions)
    learner.corpus = CLIENTS.deal(learner.corpus)
    if name == "noiseless":  # it chooses on rows of the split valid
        held_out = np.where(np.arange(24) < 18, 0, SPLITS.index("valid"))
        learner.corpus = replace(learner.corpus, split=held_out)
    return learner


def trained(name: str, params: dict[str, Any], run: Run) -> str:
    """Digest of everything that comes of a training."""
    learner = learner_for(name)
    fields = registry.mechanisms.get(name).Params.model_fields
    settings = {field: value for field, value in params.items() if field in fields}
    mechanism = registry.mechanisms.create(name, settings)
    module, events = mechanism.train(learner, learner.corpus, run)
    record = dict(run.series), dict(run.diagnostics), dict(run.counts), run.rng("after").random()
    return digest_of((module.state_dict(), record, repr(events)))


@pytest.mark.parametrize(
    ("name", "params"),
    [pytest.param(name, one, id=f"{name}-{at}") for name, them in SETTINGS.items()
     for at, one in enumerate(them)],
)  # fmt: skip
def test_a_mechanism_that_is_killed_goes_on(
    name: str, params: dict[str, Any], tmp_path: Path
) -> None:
    rng, steps, left = random.Random(name), [0], [-1]  # noqa: S311

    def kill(phase: str, done: int, total: int) -> None:
        if phase == "train":
            steps[0], left[0] = steps[0] + 1, left[0] - 1
            if left[0] == 0:
                raise Killed

    def run(folder: Path | None) -> Run:
        checkpoints = Checkpoints(folder, pace=Pace(seconds=0, steps=1))
        tiny_run = run_of(learner_for(name))  # type: ignore[arg-type]
        sizes = replace(tiny_run.stats, clients=CLIENTS.public_shares(learner_for(name).corpus))
        return replace(tiny_run, stats=sizes, checkpoints=checkpoints, progress=kill, diary=Diary())

    expected = trained(name, params, run(None))
    whole = steps[0]
    assert whole >= 6
    left[0], done = 2, 0
    while done < 3:  # kills; the first is after the first step that was written
        with pytest.raises(Killed):
            trained(name, params, run(tmp_path))
        done, left[0] = done + 1, rng.randint(1, (whole - 2) // 3)
    left[0], steps[0] = -1, 0
    last = run(tmp_path)
    assert trained(name, params, last) == expected
    assert last.checkpoints.resumed >= 1
    assert last.checkpoints.messages == []
    assert 0 < steps[0] < whole
