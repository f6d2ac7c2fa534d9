"""A GPT-2 of public text: what is read is what is learnt, and the next run can load it."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from uedp_bench.components.registry import models
from uedp_bench.models.tokenizers import TokenizerVocabulary

pytestmark = pytest.mark.long

SCRIPT = Path(__file__).parents[3] / "docs" / "reproductions" / "pretrain_gpt2.py"
LINES = ["The cat sat on the mat.", "A dog, a cat!", "The dog sat.", "On the mat sat a dog."] * 8


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


@pytest.fixture(scope="module")
def folder(script: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("public")
    (root / "text.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    main = script["main"]
    main(["read", str(root / "text.txt"), "--vocabulary", "300", "--out", str(root / "gpt2")])
    main(["train", str(root / "gpt2"), "--size", "tiny", "--epochs", "30", "--batch-tokens", "64"])
    return root / "gpt2"


def test_every_row_is_in_one_batch_and_no_batch_is_too_large(script: dict[str, Any]) -> None:
    lengths = np.array([3, 9, 1, 9, 70, 2, 5, 5])
    batches = script["batches"](lengths, 20, np.random.default_rng(0))
    assert sorted(np.concatenate(batches)) == list(range(8))
    for batch in batches:
        padded = len(batch) * lengths[batch].max()
        assert padded <= 20 or len(batch) == 1
    again = script["batches"](lengths, 20, np.random.default_rng(1))
    assert [list(batch) for batch in again] != [list(batch) for batch in batches]


def test_rows_are_the_sentences_with_their_end(script: dict[str, Any], folder: Path) -> None:
    vocabulary = TokenizerVocabulary.load(folder)
    rows = script["rows_of"](folder, vocabulary)
    inputs, targets = rows.padded(np.arange(4))
    expected = vocabulary.encode(["the cat sat on the mat", "a dog a cat"])
    assert len(rows) == len(LINES)
    for at, ids in enumerate(expected):
        assert [t for t in targets[at] if t >= 0] == [*ids, vocabulary.end]
        assert list(inputs[at, : len(ids) + 1]) == [vocabulary.begin, *ids]


def test_it_says_what_it_learnt_from_and_loads_as_a_model(folder: Path) -> None:
    record = json.loads((folder / "pretraining.json").read_text(encoding="utf-8"))
    assert list(record["texts"].values()) == [len(LINES)]
    assert record["sentences"] == len(LINES)
    assert record["tokens_seen"] == 30 * record["tokens"]
    assert record["last_loss"] < np.log(record["vocabulary"])
    model = models.create("gpt2", {"pretrained": str(folder)})
    vocabulary = model.vocabulary([], origin="not used", private=True)
    assert vocabulary.size == record["vocabulary"]
    module = model.build(vocabulary, seed=1)
    assert sum(weight.numel() for weight in module.parameters()) == record["weights"]
    ids = torch.tensor([[vocabulary.begin, *vocabulary.encode(["the cat sat on the mat"])[0]]])
    losses = torch.nn.functional.cross_entropy(module(ids)[0, :-1], ids[0, 1:])
    assert losses < np.log(vocabulary.size) / 2, "the weights are those that were learnt"
