"""Two inputs are told apart where a dealer repeats itself, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import text_encoders  # noqa: F401

from uedp_bench.components.registry import attacks, mechanisms, models, tasks
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.secure_inference.engine import compile as compiling
from uedp_bench.mechanisms.secure_inference.engine import dealer
from uedp_bench.mechanisms.secure_inference.engine.dealer import Expansion
from uedp_bench.randomness import Stream

STATS = CorpusStats(20, 20, 0, 0, public=True)


def corpus_of(rows: int = 20) -> Corpus:
    texts = tuple(f"w{i} w{i + 1} w{i + 2}" for i in range(rows))
    split = np.full(rows, SPLITS.index("train"))
    split[rows // 2 :] = SPLITS.index("test")
    return Corpus(texts, {"user": np.arange(rows)}, split, labels=np.arange(rows) % 2,
                  label_names=("a", "b"))  # fmt: skip


def served(seed: int = 1) -> Any:
    model = models.create("hashed-words", {"width": 24})
    task = tasks.create("text-classification", {"hidden": [4]}, model=model)
    run = Run(seed, STATS)
    (learner,) = task.stages(corpus_of(), None, run)
    return mechanisms.create("mpc", {}).serve(learner.release(learner.module), run)


def leakage_of(release: Any, retrain: Any = None, **params: Any) -> dict[str, Any]:
    attack = attacks.create("transcript", {"executions": 40, "bytes": 512, **params})
    run = Run(1, STATS, retrainer=retrain)
    corpus, planted = attack.plant(corpus_of(), np.random.default_rng(0))
    return dict(attack.run(release, planted, corpus, run).metrics)


@pytest.mark.parametrize("randomness", [False, True])
def test_neither_inputs_nor_models_are_told_apart(randomness: bool) -> None:
    retrainings: list[str] = []

    def retrain(users: Any, *, mechanism: str, seed: int, **_: Any) -> Any:
        retrainings.append(mechanism)
        return served(seed=2)

    metrics = leakage_of(served(), retrain, models=True, randomness=randomness, bytes=256)
    for name in ("inputs", "models"):
        assert metrics[f"auc_{name}"].low < 0.5 < metrics[f"auc_{name}"].high
        assert metrics[f"p_{name}"].value > 1e-3
    assert metrics["p_uniform"].value > 1e-3
    assert retrainings == ["same"]


@pytest.mark.parametrize("randomness", [False, True])
def test_masks_that_are_used_twice_tell_everything(randomness: bool) -> None:
    release = served()
    once = release._draw("the dealer")
    release._draw = lambda question: once
    metrics = leakage_of(release, randomness=randomness, executions=24, bytes=256)
    assert metrics["auc_inputs"].value == 1.0
    assert metrics["p_inputs"].value < 1e-6


def test_a_mask_of_one_share_is_found_by_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is opened is uniform; behind the server's own share of the mask stands the secret."""
    of_client: set[bytes] = set()
    started, drawn = Expansion.__init__, Expansion.draw

    def start(self: Any, seed: Stream, *name: Any) -> None:
        started(self, seed, *name)
        self.weak = seed.key in of_client

    def draw(self: Any, specs: Any) -> Any:
        numbers = drawn(self, specs)
        if self.weak and len(specs) == 3:  # of truncation: the client's share of r
            numbers[0].zero_()
        return numbers

    def seeds(stream: Stream) -> tuple[Stream, Stream]:
        of_client.add(stream.child("client").key)
        return stream.child("server"), stream.child("client")

    monkeypatch.setattr(Expansion, "__init__", start)
    monkeypatch.setattr(Expansion, "draw", draw)
    for module in (compiling, dealer):
        monkeypatch.setattr(module, "seeds_of", seeds)
    opened = leakage_of(served())["auc_inputs"]
    assert opened.low < 0.5 < opened.high
    shares = leakage_of(served(), randomness=True, executions=24)["auc_inputs"]
    assert shares.value > 0.9


def test_words_that_are_not_uniform_are_found() -> None:
    release = served()
    opened = release.opened
    # Every eighth byte loses its top bit, as if a mask ended below the ring.
    release.opened = lambda *arguments, **more: (
        opened(*arguments, **more) & np.resize(np.array([255] * 7 + [127], dtype=np.uint8), 512)
    )
    assert leakage_of(release, executions=16)["p_uniform"].value < 1e-6


def test_two_rows_that_are_equal_cannot_be_told_apart() -> None:
    attack = attacks.create("transcript", {})
    with pytest.raises(InputError, match=r"transcript: .*test rows"):
        attack.run(served(), None, corpus_of().take(np.array([0, 15, 15])), Run(1, STATS))
    with pytest.raises(InputError, match=r"transcript: .*test rows"):
        attack.plant(corpus_of().take(np.array([0, 15, 15])), np.random.default_rng(1))
    corpus = corpus_of()
    assert attack.plant(corpus, np.random.default_rng(1))[0] is corpus
