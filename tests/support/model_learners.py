"""Learners of every model of the registry at its smallest, on rows that are hard to keep apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
from small_networks import SMALLER_BERT, SMALLER_GPT2

from uedp_bench.components.registry import models, tasks
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Spans
from uedp_bench.models import bert_params, gpt2

# Of one word, of one word again and again, of words that others have, of very different lengths.
ROWS = ["w1", "w2 w2 w2 w2 w2 w2 w2 w2", "w3 w4", "w4 w3", "w5 w6 w7 w8 w1 w2 w3 w4 w5", "w8"]
ROWS += [" ".join(f"w{i % 9}" for i in range(24)), "w1 w1 w2", "w7 w3 w7 w3", "w6"]
USERS = [[0], [1, 2], [3, 4, 5], [6], [7, 8, 9]]
STATS = CorpusStats(len(USERS), len(ROWS), 0, 0, public=True)

LANGUAGE, CLASSES, LABELS = "next-word", "text-classification", "tagging"
PAIRS, HIDDEN = "translation", "masked-language-model"
_SMALL = {"embedding_size": 6, "units": 4, "dropout": 0.5}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "lstm-small": (LANGUAGE, "lstm-small", {"units": 7, "embedding": 5}),
    "cifg-lstm": (LANGUAGE, "cifg-lstm", {"units": 7, "embedding": 5}),
    "awd-lstm": (LANGUAGE, "awd-lstm", {"units": 7, "embedding": 6}),
    "gpt2": (LANGUAGE, "gpt2", {"vocabulary_size": 257}),
    "gpt2, adapters": (LANGUAGE, "gpt2", {"vocabulary_size": 257, "lora_rank": 2}),
    "bilstm": (CLASSES, "bilstm", {"embedding_size": 6, "units": 4, "dropout": 0.5}),
    "bert": (CLASSES, "bert", {"configuration": "tiny"}),
    "bert, adapters": (CLASSES, "bert", {"configuration": "tiny", "lora_rank": 2}),
    "tfidf": (CLASSES, "tfidf", {}),
    "vectors": (CLASSES, "hashed-words", {"width": 6}),
    "convolutions": (CLASSES, "hashed-cnn", {"dropout": 0.5}),
    "words of bilstm": (LABELS, "bilstm", _SMALL),
    "words of bilstm, crf": (LABELS, "bilstm", _SMALL),
    "words of vectors, crf": (LABELS, "hashed-words", {"width": 6}),
    "words of bert": (LABELS, "bert", {"configuration": "tiny", "projection": 5}),
    "words of bert, adapters, crf": (LABELS, "bert", {"configuration": "tiny", "lora_rank": 2}),
    "hidden words of bert": (HIDDEN, "bert", {"configuration": "tiny"}),
    "transformer-small": (
        PAIRS,
        "transformer-small",
        {"vocabulary_size": 300, "layers": 1, "width": 8, "inner": 6, "heads": 2},
    ),
}
"""Task, model and parameters by name; `hashed-words` and `hashed-cnn` read vectors that are frozen,
and what comes after these is what is trained."""
_SMALLER_GPT2 = {"tiny": {**gpt2._SIZES["tiny"], **SMALLER_GPT2, "n_layer": 2}}
_SMALLER_BERT = {"tiny": {**bert_params.SIZES["tiny"], **SMALLER_BERT, "num_hidden_layers": 2}}


def learner_of_model(name: str, more: Sequence[str] = ()) -> Learner:
    """Five users with one to three rows, and a public row; adapters are no longer at zero.

    Args:
        name: of `MODELS`; "crf" in it asks for that decoder.
        more: rows after `ROWS`, of a user each.
    """
    import torch

    task_name, model, params = MODELS[name]
    rows = [*ROWS, *more]
    owner = np.repeat(np.arange(len(USERS)), [len(rows) for rows in USERS])
    split = [SPLITS.index("train")] * len(rows) + [SPLITS.index("public")]
    texts = (*rows, " ".join(f"w{i}" for i in range(9)))
    corpus = Corpus(
        texts,
        {"user": np.append(owner, len(USERS) + np.arange(len(more) + 1))},
        np.array(split),
        labels=np.append(np.arange(len(rows)) % 2, -1),
        label_names=("no", "yes"),
        entities=Spans.build(texts, _mentions(texts)),
        entity_types=("even", "odd"),
        # Each is the translation of the row after it.
        targets=(*texts[1:], texts[0]) if task_name == PAIRS else None,
    )
    kind = tasks.get(task_name)
    task_params = {"decoder": "crf"} if "crf" in name else {}
    task = kind(kind.create(task_params).params, models.create(model, params))
    with patch.dict(gpt2._SIZES, _SMALLER_GPT2), patch.dict(bert_params.SIZES, _SMALLER_BERT):
        *_, learner = task.stages(corpus, task.vocabulary(corpus), Run(1, STATS))
    nonzero: Learner = learner
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        for weight in (w for w in nonzero.module.parameters() if not w.any()):
            weight.normal_(0.0, 0.1)
    return nonzero


def _mentions(texts: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Every w2 and w3 is an entity, of two words where w4 comes next."""
    for row, text in enumerate(texts):
        for mention in re.finditer(r"\bw([23])(?: w4)?\b", text):
            yield row, mention.start(), mention.end(), int(mention[1]) % 2
