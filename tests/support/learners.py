"""Learners for mechanisms: toy rows that mention entities, and a small nonlinear network."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import nn
from toy import ToyLearner

from uedp_bench.components.registry import models, tasks
from uedp_bench.contracts.learner import Batch, Learner, Losses
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, IntArray, Spans
from uedp_bench.randomness import Stream
from uedp_bench.training.local import LocalTraining, schedule
from uedp_bench.training.sampling import Cohort


class EntityLearner(ToyLearner):
    """Toy rows; `mentions[i]` are the one-letter entities of row i, ids by first appearance."""

    def __init__(self, points: np.ndarray, users: Sequence[int], mentions: Sequence[str]) -> None:
        super().__init__(points, users)
        texts = [" ".join(letters) or "-" for letters in mentions]
        spans = [
            (row, 2 * at, 2 * at + 1, 0)
            for row, letters in enumerate(mentions)
            for at in range(len(letters))
        ]
        self.corpus = replace(
            self.corpus,
            texts=tuple(texts),
            entities=Spans.build(texts, spans),
            entity_types=("NAME",),
        )


class NetworkLearner(ToyLearner):
    """Squared error of a two-layer network: gradients that are no closed form of the rows."""

    def __init__(self, rows: int, vectorised: bool = True, held_out: int = 0) -> None:
        rng = np.random.default_rng(11)
        points = rng.normal(size=(rows, 4))
        super().__init__(points, list(range(rows)), vectorised)
        self.goals = torch.as_tensor(10 * rng.normal(size=(rows, 2)), dtype=torch.float32)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.module = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2))
        split = np.zeros(rows, dtype=np.int64)
        split[rows - held_out :] = SPLITS.index("valid")
        self.corpus = replace(self.corpus, split=split)
        self.seen: list[int] = []

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        chosen = torch.as_tensor(np.asarray(rows))
        self.seen.extend(chosen.tolist())
        return {"points": self.points[chosen], "goals": self.goals[chosen]}

    def example_batch(self) -> Batch:
        rng = np.random.default_rng(0)
        goals = torch.as_tensor(10 * rng.normal(size=(3, 2)), dtype=torch.float32)
        return {**super().example_batch(), "goals": goals}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        nats = ((module(batch["points"]) - batch["goals"]) ** 2).sum(-1)
        return Losses(nats, torch.full_like(nats, 2.0))


def flat(module: nn.Module) -> torch.Tensor:
    """All weights of a module in one vector."""
    return torch.cat([p.detach().reshape(-1) for p in module.parameters()])


def by_torch(
    learner: Learner, cohort: Cohort, local: LocalTraining, theta: torch.Tensor | None = None
) -> torch.Tensor:
    """(d,) what torch's SGD moves a copy of the network by, from `theta`, for a cohort of one."""
    module = copy.deepcopy(learner.module).train()
    trained = [weight for weight in module.parameters() if weight.requires_grad]
    if theta is not None:
        nn.utils.vector_to_parameters(theta.clone(), trained)
    before = torch.cat([weight.detach().reshape(-1) for weight in trained])
    optimizer = torch.optim.SGD(trained, lr=local.learning_rate)
    for rows, weights, seeds in schedule(cohort, local):
        if weights.any():
            losses = learner.losses(module, learner.batch(rows[0], seeds[0]))
            kept = torch.from_numpy(weights[0]).float()
            optimizer.zero_grad()
            ((kept * losses.nats).sum() / (kept * losses.targets).sum()).backward()
            optimizer.step()
    return torch.cat([weight.detach().reshape(-1) for weight in trained]) - before


def run_of(learner: ToyLearner, seed: int = 0, public: bool = True) -> Run:
    """A run whose sizes are those of the learner's training rows."""
    corpus = learner.corpus
    train = corpus.where("train")
    return Run(seed, sizes(
        users=len(np.unique(corpus.users[train])),
        rows=int(train.sum()),
        sensitive_rows=int((train & corpus.sensitive).sum()),
        entities=corpus.entity_count,
        public=public,
    ))  # fmt: skip


def first_round(run: Run) -> Stream:
    """What the first round of the first federated training of a run draws from.

    Args:
        run: equal to the one that trains, not the same: asking counts as a training.
    """
    return run.fresh("federated").child("round", 0)


def sizes(
    users: int = 10,
    rows: int = 30,
    sensitive_rows: int = 20,
    entities: int = 8,
    public: bool = True,
) -> CorpusStats:
    """Sizes of a training split."""
    return CorpusStats(users, rows, sensitive_rows, entities, public)


DROPOUT_STATS = CorpusStats(12, 40, 0, 0, public=True)
DROPOUT_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "awd-lstm": ("next-word", {"embedding": 6, "units": 7}),
    "bilstm": ("text-classification", {"embedding_size": 6, "units": 4, "dropout": 0.5}),
}


def learner_with_dropout(model: str) -> Learner:
    """Twelve users with one to six rows each, of different lengths, and a public row."""
    task_name, params = DROPOUT_MODELS[model]
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
    learner: Learner = list(task.stages(corpus, vocabulary, Run(1, DROPOUT_STATS)))[-1]
    return learner
