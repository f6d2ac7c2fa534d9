"""A stranger's task: rates texts by a linear regression on pairs of words. It knows no attack."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.api import (
    BoolArray,
    Corpus,
    Estimate,
    FloatArray,
    IntArray,
    Metric,
    Params,
    Release,
    Run,
    Task,
    TrainedRelease,
    tasks,
)
from uedp_bench.api.capabilities import capability
from uedp_bench.api.networks import Batch, Learner, Losses, Vocabulary, WordCounts
from uedp_bench.api.statistics import mean_estimate
from uedp_bench.api.training import load_modules, modules_of, save_modules


@capability(lambda release, rows: release.ratings(rows))
@runtime_checkable
class Rater(Protocol):
    """Can be asked for the rating of a text."""

    def ratings(self, corpus: Corpus) -> FloatArray:
        """(rows,) ratings."""
        ...


def features(texts: Sequence[str], size: int) -> Tensor:
    """(texts, size) how often pairs of neighbouring words occur, by hash."""
    counts = np.zeros((len(texts), size), dtype=np.float32)
    for row, text in enumerate(texts):
        for pair in pairwise(["", *text.split(), ""]):
            counts[row, zlib.crc32(" ".join(pair).encode()) % size] += 1.0
    return torch.from_numpy(counts)


class RatedLearner(Learner):
    """Half the squared error of each row's rating: its negative log-likelihood but a constant."""

    vectorised = True

    def __init__(self, module: nn.Module, corpus: Corpus) -> None:
        assert corpus.labels is not None
        self.module, self.corpus = module, corpus
        self.row_size = modules_of(module)[0].in_features
        self._inputs = features(corpus.texts, self.row_size)
        self._goals = torch.from_numpy(corpus.labels).float()

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        chosen = torch.as_tensor(np.asarray(rows))
        return {"inputs": self._inputs[chosen], "goals": self._goals[chosen]}

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        nats = 0.5 * (module(batch["inputs"])[:, 0] - batch["goals"]) ** 2
        return Losses(nats, torch.ones_like(nats))

    def release(self, module: nn.Module) -> RatedRelease:
        return RatedRelease(module)


class RatedRelease(TrainedRelease):
    """The regression: a `Rater`, and by its learner a `RowScorer`."""

    view = "model weights"

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def learner(self, corpus: Corpus) -> RatedLearner:
        return RatedLearner(self.module, corpus)

    def scorable(self, corpus: Corpus) -> BoolArray:
        if corpus.labels is None:
            return np.zeros(len(corpus), dtype=bool)
        return corpus.labels >= 0

    def ratings(self, corpus: Corpus) -> FloatArray:
        size = modules_of(self.module)[0].in_features
        with torch.no_grad():
            return np.asarray(self.module(features(corpus.texts, size))[:, 0].double())

    def save(self, folder: Path) -> None:
        save_modules(self.module, folder, lambda one, at: torch.save(one.state_dict(), at / "w.pt"))
        size = modules_of(self.module)[0].in_features
        (folder / "release.json").write_text(json.dumps({"features": size}))


class RatedTextParams(Params):
    features: int = 2048


@tasks.register
class RatedText(Task[RatedTextParams]):
    """Learn the rating of a text, which is the number of its label."""

    name = "rated-text"
    source = "none"
    Params = RatedTextParams
    needs: ClassVar[tuple[type, ...]] = (Rater,)
    metrics = (Metric("squared_error", better="lower", low=0.0),)

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary | None:
        return None

    def stages(self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run) -> list[Any]:
        module = nn.Linear(self.params.features, 1)
        nn.init.zeros_(module.weight)
        nn.init.zeros_(module.bias)
        return [RatedLearner(module, corpus.only("train"))]

    def score(self, release: Release, corpus: Corpus) -> dict[str, Estimate]:
        assert isinstance(release, Rater)
        test = corpus.only("test")
        wrong = (release.ratings(test) - test.labels) ** 2
        return {"squared_error": mean_estimate(wrong, np.random.default_rng(1), test.users)}

    def load(self, folder: Path) -> Release:
        size = json.loads((folder / "release.json").read_text())["features"]

        def one(at: Path) -> nn.Module:
            module = nn.Linear(size, 1)
            module.load_state_dict(torch.load(at / "w.pt", weights_only=True))
            return module

        return RatedRelease(load_modules(folder, one))
