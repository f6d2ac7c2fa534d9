"""A task in several stages: an encoder learns the words of rows first, then their labels."""

from __future__ import annotations

import zlib
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import nn

from uedp_bench.api import Corpus, Metric, Params, SourceRef, Task, tasks
from uedp_bench.api.capabilities import Classifier
from uedp_bench.api.networks import Batch, Learner, Losses, Role, Schedule, take_over
from uedp_bench.api.statistics import mean_estimate
from uedp_bench.contracts.learner import TrainedRelease

BUCKETS, WIDTH = 64, 8


def bags(corpus: Corpus) -> torch.Tensor:
    """(rows, BUCKETS) shares of words, told apart by a hash."""
    out = torch.zeros(len(corpus), BUCKETS)
    for row, text in enumerate(corpus.texts):
        for word in text.split():
            out[row, zlib.crc32(word.encode()) % BUCKETS] += 1.0
    return out / out.sum(1, keepdim=True).clamp(min=1.0)


class Headed(nn.Module):
    def __init__(self, outputs: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.encoder, self.head = nn.Linear(BUCKETS, WIDTH), nn.Linear(WIDTH, outputs)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.encoder(words)))


class HeadLearner(Learner):
    """Predicts words, or labels; shares its encoder, and its head where that is of one kind."""

    vectorised = True
    row_size = BUCKETS

    def __init__(self, module, corpus, predicts, role="private", schedule=None) -> None:
        self.module, self.corpus, self.predicts = module, corpus, predicts
        self.role, self.schedule = role, schedule
        self.words = bags(corpus)

    def start_from(self, module: nn.Module) -> None:
        same = module.head.out_features == self.module.head.out_features
        take_over(self.module, module, "" if same else "encoder")

    def batch(self, rows, seeds) -> Batch:
        chosen = np.asarray(rows)
        labels = torch.from_numpy(np.asarray(self.corpus.labels)[chosen])
        return {"words": self.words[chosen], "labels": labels}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        goal = batch["words"] if self.predicts == "words" else batch["labels"]
        nats = nn.functional.cross_entropy(module(batch["words"]), goal, reduction="none")
        return Losses(nats, torch.ones_like(nats))

    def release(self, module: nn.Module) -> HeadRelease:
        return HeadRelease(module.eval(), self.corpus.label_names)


class HeadRelease(TrainedRelease):
    def __init__(self, module: nn.Module, classes: tuple[str, ...]) -> None:
        self.module, self.classes = module, classes

    def learner(self, corpus: Corpus) -> Learner:
        return HeadLearner(self.module, corpus, "labels")

    def class_logprobs(self, corpus: Corpus):
        with torch.no_grad():
            return torch.log_softmax(self.module(bags(corpus)).double(), -1).numpy()

    def save(self, folder) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        weights = self.module.state_dict()
        torch.save({"weights": weights, "classes": list(self.classes)}, folder / "heads.pt")


class TwoHeadsParams(Params):
    roles: tuple[Role, ...] = Field(default=("private", "downstream"))
    downstream: SourceRef | None = Field(default=None)
    lies: Literal["", "roles", "rows"] = ""  # about what `stages` gives


@tasks.register
class TwoHeads(Task[TwoHeadsParams]):
    """Every stage but the last learns words; the last learns labels, of the second source if any"""

    name = "two-heads"
    Params = TwoHeadsParams
    needs: ClassVar[tuple[type, ...]] = (Classifier,)
    metrics = (Metric("accuracy", better="higher"), Metric("rows"))

    def vocabulary(self, corpus):
        return None

    def roles(self) -> tuple[Role, ...]:
        return self.params.roles[:1] if self.params.lies == "roles" else self.params.roles

    def stages(self, corpus, vocabulary, run):
        roles, learners = self.params.roles, []
        for place, role in enumerate(roles):
            last = place == len(roles) - 1
            second = last and run.downstream is not None
            rows = run.downstream if second else corpus
            if role == "public" and self.params.lies != "rows":
                rows = rows.only("public").with_split(rows.only("public").where("public"), "train")
            elif self.params.lies == "rows":
                rows = corpus.only("train")
            else:
                rows = rows.only("train")
            outputs = len(rows.label_names) if last else BUCKETS
            learners.append(
                HeadLearner(
                    Headed(outputs, run.shared_seed("init", str(last))),
                    rows,
                    "labels" if last else "words",
                    role,
                    None if role == "private" else Schedule(2, 16, 0.01),
                )
            )
        return learners

    def score(self, release, corpus):
        test = corpus.only("test")
        right = release.class_logprobs(test).argmax(1) == test.labels
        rng = np.random.default_rng(1)
        accuracy = mean_estimate(right.astype(float), rng, test.users)
        rows = mean_estimate(np.full(len(test), float(len(test))), rng, test.users)
        return {"accuracy": accuracy, "rows": rows}

    def load(self, folder):
        saved = torch.load(folder / "heads.pt", weights_only=True)
        module = Headed(len(saved["classes"]), 0)
        module.load_state_dict(saved["weights"])
        return HeadRelease(module.eval(), tuple(saved["classes"]))
