"""A masked language model of two layers of 32, on rows of a few words."""

from __future__ import annotations

from typing import Any

import numpy as np

from uedp_bench.components.registry import models, tasks
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.tasks.masked_language.masked_model import MaskedLanguageModelRelease
from uedp_bench.tasks.tokens.reader import SupervisedLearner

STATS = CorpusStats(users=40, rows=200, sensitive_rows=0, entities=0, public=False)
SMALL = {
    "num_hidden_layers": 2,
    "hidden_size": 32,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "max_position_embeddings": 40,
}
WORDS = """
    the nurse saw a doctor near some old clinic and went home to rest early
""".split()  # noqa: SIM905


def rows_of_words(rows: int = 100, longest: int = 12) -> Corpus:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, rng.integers(1, longest + 1))) for _ in range(rows)]
    split = np.resize(
        [SPLITS.index(s) for s in ("train", "train", "valid", "test", "public")], rows
    )
    return Corpus(tuple(texts), {"user": np.arange(rows) // 3}, split)


def task_with(model: dict[str, Any] | None = None, **params: Any) -> Any:
    kind = tasks.get("masked-language-model")
    encoder = models.create("bert", model or {"configuration": "tiny"})
    return kind(kind.create(params).params, encoder)


def learner_of(task: Any, corpus: Corpus, seed: int = 1) -> SupervisedLearner:
    learner: SupervisedLearner = task.stages(corpus, task.vocabulary(corpus), Run(seed, STATS))[-1]
    return learner


def release_of(task: Any, corpus: Corpus) -> MaskedLanguageModelRelease:
    learner = learner_of(task, corpus)
    return learner.release(learner.module)
