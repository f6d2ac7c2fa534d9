"""What has seen nothing private: one release whatever the private text, at epsilon 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, run_of, sizes
from tiny import MODEL

from uedp_bench.accounting.ledger import check_plan, proven
from uedp_bench.contracts.results import Result
from uedp_bench.mechanisms.public_only import PublicOnly
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

PUBLIC = ("the cat sat on the mat", "a dog ran to the cat", "the dog sat", "a cat ran home") * 6


def test_it_looks_at_no_row_and_releases_a_copy_of_the_module() -> None:
    learner = NetworkLearner(6)
    mechanism = PublicOnly.create()
    run = run_of(learner)
    module, events = mechanism.train(learner, learner.corpus, run)
    assert learner.seen == []
    assert torch.equal(flat(module), flat(learner.module))
    assert module is not learner.module
    assert not module.training
    check_plan(mechanism.plan(sizes()), events)


@pytest.mark.parametrize("public", [True, False])
def test_epsilon_is_zero_with_counted_sizes_too(public: bool) -> None:
    mechanism = PublicOnly.create()
    stats = sizes(public=public)
    assert mechanism.refusals(stats) == ()
    (guarantee,) = proven(mechanism.plan(stats), delta=1e-5, refusals=mechanism.refusals(stats))
    assert (guarantee.unit, guarantee.status, guarantee.notion) == ("user", "given", "dp")
    assert (guarantee.epsilon, guarantee.delta) == (0, 0)


def result_of(folder: Path, texts: list[str], **task: Any) -> tuple[Result, dict[str, Any]]:
    """The result on these private texts, one a user, and the weights that were released."""
    folder.mkdir()
    (folder / "public.txt").write_text("\n".join(PUBLIC))
    lines = [json.dumps({"who": i // 2, "text": text}) for i, text in enumerate(texts)]
    (folder / "private.jsonl").write_text("\n".join(lines))
    source = {"path": str(folder / "private.jsonl"), "text_column": "text", "user_column": "who",
              "public": [str(folder / "public.txt")]}  # fmt: skip
    spec = parse_spec(
        {
            "task": {"name": "next-word", "params": {"pretraining_epochs": 2, **task}},
            "source": {"name": "text", "params": source},
            "model": {"name": "lstm-small", "params": MODEL},
            "mechanisms": ["public-only"],
            "attacks": [],
        }
    )
    result = execute(expand(spec)[0], Execution(folder / "out", device="cpu"))
    assert result.status == "finished", result.error
    (weights,) = (folder / "out" / result.id / "release").glob("*.pt")
    return result, torch.load(weights, weights_only=True)


def test_other_private_text_gives_the_same_release_to_the_bit(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["alpha", "beta", "gamma", "the", "cat", "dog"]
    texts = [[" ".join(rng.choice(words, size=5)) for _ in range(n)] for n in (40, 64)]
    (one, first), (two, second) = (
        result_of(tmp_path / str(i), part) for i, part in enumerate(texts)
    )
    assert one.provenance["corpus"] != two.provenance["corpus"]
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    (guarantee,) = one.guarantees
    assert (guarantee.kind, guarantee.unit, guarantee.epsilon) == ("proven", "user", 0)
    assert one.pretraining["rows"] == len(PUBLIC)


def test_without_pre_training_it_is_the_untrained_model(tmp_path: Path) -> None:
    texts = ["the cat sat on the dog"] * 40
    plain, before = result_of(tmp_path / "plain", texts, pretraining_epochs=0)
    pretraining = {"pretraining_epochs": 40, "pretraining_learning_rate": 0.05}
    trained, after = result_of(tmp_path / "trained", texts, **pretraining)
    assert plain.pretraining == {}
    assert plain.utility["perplexity"].value > 1.3 * trained.utility["perplexity"].value
    assert any(not torch.equal(before[name], after[name]) for name in before)


def test_a_vocabulary_of_private_words_is_not_free(tmp_path: Path) -> None:
    result, _ = result_of(tmp_path / "x", ["the cat sat on the dog"] * 40, vocabulary="private")
    (guarantee,) = result.guarantees
    assert guarantee.status == "refused"
    assert "vocabulary" in guarantee.reason
