"""A classifier as plain layers: they give its logits, and hold all that was trained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import hashed_cnn  # noqa: F401
import numpy as np
import pytest
import text_encoders  # noqa: F401
import torch
from torch import nn

from uedp_bench.components.registry import mechanisms, models, tasks
from uedp_bench.contracts.capabilities import LabelOnly, class_labels
from uedp_bench.contracts.release import Compilable, Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import CapabilityError
from uedp_bench.models.networks.modules import ModuleSet
from uedp_bench.one_run.evaluation import utility_of

ROWS = 12


def corpus_of() -> Corpus:
    rng = np.random.default_rng(0)
    texts = tuple(" ".join(f"w{i}" for i in rng.integers(30, size=5)) for _ in range(ROWS))
    split = np.full(ROWS, SPLITS.index("train"))
    split[-2:] = SPLITS.index("public")
    return Corpus(texts, {"user": np.arange(ROWS)}, split, labels=np.arange(ROWS) % 3,
                  label_names=("a", "b", "c"))  # fmt: skip


def release_of(model: str, params: dict[str, Any], corpus: Corpus, **task: Any) -> Any:
    run = Run(1, CorpusStats(ROWS, ROWS, 0, 0, public=True))
    text_task = tasks.create("text-classification", task, model=models.create(model, params))
    (learner,) = text_task.stages(corpus, text_task.vocabulary(corpus), run)
    return learner.release(learner.module)


@pytest.mark.parametrize(
    ("model", "params", "task", "depth"),
    [
        ("hashed-cnn", {}, {}, 3),
        ("hashed-cnn", {}, {"hidden": [5]}, 5),
        ("hashed-words", {"width": 20}, {}, 1),
        ("hashed-words", {"width": 20}, {"hidden": [7, 4]}, 5),
        ("tfidf", {"words": "hashed", "vocabulary_size": 64}, {}, 1),
    ],
)
def test_layers_behind_what_they_read_give_the_logits(
    model: str, params: dict[str, Any], task: dict[str, Any], depth: int
) -> None:
    corpus = corpus_of()
    release = release_of(model, params, corpus, **task)
    assert isinstance(release, Compilable)
    layers, shape, read = release.network()
    inputs = read(corpus)
    assert inputs.shape == (ROWS, *shape)
    logits = layers.eval()(inputs)
    expected = release.class_logprobs(corpus)
    logprobs = torch.log_softmax(logits.double(), dim=-1).detach().numpy()
    np.testing.assert_allclose(logprobs, expected, atol=1e-5)
    assert len(layers) == depth
    everything = {id(each) for each in release.module.parameters()}
    assert {id(each) for each in layers.parameters()} == everything


def test_published_vectors_are_read_as_they_are() -> None:

    vectors = np.random.default_rng(1).normal(size=(ROWS, 6)).astype(np.float32)
    corpus = replace(corpus_of(), vectors=vectors)
    release = release_of("hashed-words", {"width": 20}, corpus)
    layers, shape, read = release.network()
    assert shape == (6,)
    logprobs = torch.log_softmax(layers(read(corpus)).double(), dim=-1).detach().numpy()
    np.testing.assert_allclose(logprobs, release.class_logprobs(corpus), atol=1e-5)


def test_a_trained_encoder_of_another_kind_is_refused() -> None:
    corpus = corpus_of()
    release = release_of("mean-of-words", {}, corpus)
    with pytest.raises(CapabilityError, match="mean-of-words"):
        release.network()


def test_a_vocabulary_of_private_text_is_no_part_of_what_everybody_computes() -> None:
    release = release_of("tfidf", {"vocabulary_size": 64}, corpus_of(), vocabulary="private")
    with pytest.raises(CapabilityError, match=r"private.*task\.vocabulary"):
        release.network()


def test_what_is_perturbed_inside_and_several_networks_are_refused() -> None:
    corpus = corpus_of()
    release = release_of("hashed-words", {"width": 20}, corpus)
    channel = mechanisms.create("dpnr", {"epsilon": 1, "dimension": 20})
    noisy = release.through(channel, release._noise)
    with pytest.raises(CapabilityError, match="dpnr"):
        noisy.network()
    release.module = ModuleSet([release.module, release.module])
    with pytest.raises(CapabilityError, match="2 networks"):
        release.network()


class Labels:
    def labels(self, corpus: Corpus) -> Any:
        return np.arange(len(corpus)) % 2


def test_labels_of_either_capability() -> None:
    corpus = corpus_of()
    release = release_of("hashed-words", {"width": 20}, corpus)
    assert not isinstance(release, LabelOnly)
    expected = release.class_logprobs(corpus).argmax(axis=1)
    assert class_labels(release, corpus).tolist() == expected.tolist()
    assert class_labels(Labels(), corpus).tolist() == [0, 1] * (ROWS // 2)
    with pytest.raises(CapabilityError, match=r"Linear.*LabelOnly"):
        class_labels(nn.Linear(1, 1), corpus)


def test_a_task_scores_labels_alone() -> None:
    corpus = corpus_of()
    split = np.full(ROWS, SPLITS.index("train"))
    split[6:] = SPLITS.index("test")

    corpus = replace(corpus, split=split)
    task = tasks.create("text-classification", {}, model=models.create("hashed-words", {}))

    class Told(Release):
        def labels(self, corpus: Corpus) -> Any:
            return corpus.labels

    metrics = utility_of(task, Told(), corpus).metrics
    assert metrics["accuracy"].value == 1.0
    assert metrics["error"].value == 0.0
