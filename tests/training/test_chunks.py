"""How many units compute side by side decides nothing, dropout included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learners import flat

from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.learner import Learner
from uedp_bench.mechanism import CorpusStats
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.registry import models, tasks
from uedp_bench.run import Run, Speed

STATS = CorpusStats(12, 40, 0, 0, public=True)
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "awd-lstm": ("next-word", {"embedding": 6, "units": 7}),
    "bilstm": ("text-classification", {"embedding_size": 6, "units": 4, "dropout": 0.5}),
}


def learner_of(model: str) -> Learner:
    """Twelve users with one to six rows each, of different lengths, and a public row."""
    task_name, params = MODELS[model]
    rng = np.random.default_rng(2)
    users = [user for user in range(12) for _ in range(1 + user % 6)]
    texts = [" ".join(f"w{i}" for i in rng.integers(9, size=2 + i % 5)) for i in range(len(users))]
    labels = np.array([i % 2 for i in range(len(users))])
    corpus = Corpus(
        (*texts, " ".join(f"w{i}" for i in range(9))),
        {"user": np.array([*users, 12])},
        np.array([*[SPLITS.index("train")] * len(users), SPLITS.index("public")]),
        labels=np.append(labels, -1),
        label_names=("no", "yes"),
    )
    kind = tasks.get(task_name)
    task = kind(kind.create({}).params, models.create(model, params))
    vocabulary = task.vocabulary(corpus)
    learner: Learner = list(task.stages(corpus, vocabulary, Run(1, STATS)))[-1]
    return learner


@pytest.mark.parametrize("model", list(MODELS))
def test_weights_are_the_same_whatever_the_chunk(model: str) -> None:
    found = []
    for chunk in (1, 7, 64):
        learner = learner_of(model)
        run = Run(1, STATS, scope="s", speed=Speed(chunk=chunk))
        params = {"rounds": 2, "users_per_round": 10, "noise_multiplier": 0.0, "clip": 5.0,
                  "local_batch_size": 2, "local_epochs": 2}  # fmt: skip
        module, _ = UserDP.create(params).train(learner, learner.corpus, run)
        found.append(flat(module) - flat(learner.module))
    size = float(found[0].norm())
    assert size > 0.01
    for other in found[1:]:
        assert float((found[0] - other).norm()) < 1e-4 * size


def test_without_dropout_weights_are_others() -> None:
    """So that the test above compares runs in which dropout acts."""
    kept = MODELS["bilstm"][1]["dropout"]
    found = []
    for rate in (kept, 0.0):
        MODELS["bilstm"][1]["dropout"] = rate
        learner = learner_of("bilstm")
        params = {"rounds": 1, "users_per_round": 10, "noise_multiplier": 0.0, "clip": 5.0}
        module, _ = UserDP.create(params).train(learner, learner.corpus, Run(1, STATS, scope="s"))
        found.append(flat(module))
    MODELS["bilstm"][1]["dropout"] = kept
    assert float((found[0] - found[1]).norm()) > 1e-3
