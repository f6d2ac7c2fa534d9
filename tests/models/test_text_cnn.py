"""The paper's network: its size, its numbers against a second implementation, its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hashed_cnn import SIZE
from torch import nn

from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.mechanism import CorpusStats
from uedp_bench.models.networks.classifier import ClassifierNetwork
from uedp_bench.models.networks.text_cnn import CNNLayout, TextCNN
from uedp_bench.models.text_cnn import TextCNN as TextCNNModel
from uedp_bench.models.text_cnn import TextCNNParams
from uedp_bench.registry import mechanisms, models, tasks
from uedp_bench.run import Run

PAPER = TextCNNParams().layout()


def network(size: int = 768, dropout: float = 0.25) -> TextCNN:
    return TextCNN(size, PAPER, 32, dropout, seed=3)


def test_the_papers_network_has_7078_parameters() -> None:
    module = ClassifierNetwork(network(), 2, (), 0.0, seed=0)
    assert sum(each.numel() for each in module.parameters()) == 7078
    assert PAPER.outputs(768) == (72, 66, 66)  # 204 in all


def test_pooling_before_relu_gives_the_numbers_of_the_papers_order() -> None:
    module = network(200).eval()
    vectors = torch.randn(5, 200, generator=torch.Generator().manual_seed(1))
    parts = []
    for branch in module.branches.branches:
        values = vectors[:, None]
        convolutions = [layer for layer in branch if isinstance(layer, nn.Conv1d)]
        for layer, pool in zip(convolutions, (3, 4, 5), strict=True):
            values = nn.functional.max_pool1d(torch.relu(layer(values)), pool)
        parts.append(values.flatten(1))
    expected = module.linear(torch.cat(parts, dim=1))
    torch.testing.assert_close(module(vectors), expected)
    torch.testing.assert_close(module.layers()(vectors[:, None]), expected)


def test_dropout_is_drawn_from_the_seed_of_a_row_and_in_training_alone() -> None:
    module = ClassifierNetwork(network(200), 2, (), 0.0, seed=0)
    vectors = torch.randn(4, 200, generator=torch.Generator().manual_seed(1))
    batch = {"vectors": vectors, "seeds": torch.tensor([5, 6, 7, 5])}
    module.train()
    first = module(batch)
    torch.testing.assert_close(module(batch), first)
    alone = module({"vectors": vectors[1:2], "seeds": torch.tensor([6])})
    torch.testing.assert_close(alone[0], first[1])
    other = module({**batch, "seeds": torch.tensor([8, 9, 10, 11])})
    assert not torch.allclose(other, first)
    module.eval()
    torch.testing.assert_close(module(batch), module({"vectors": vectors}))


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"channels": (2, 4)}, "channels has 2 numbers"),
        ({"pools": (3, 4)}, r"\[3, 4\] has 2"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        models.create("text-cnn", params)


def test_a_vector_that_is_too_short_is_refused() -> None:
    with pytest.raises(InputError, match="nothing is left of a vector of 40 numbers"):
        TextCNN(40, CNNLayout(((4, 2, 3),), (2, 4, 6), (3, 4, 5)), 8, 0.0, seed=0)


def test_weights_come_back_from_disk(tmp_path: Path) -> None:
    model = models.create("hashed-cnn", {})
    assert isinstance(model, TextCNNModel)
    module = model.build_encoder(None, seed=1)
    model.save_encoder(module, tmp_path)
    again = model.load_encoder(None, tmp_path)
    vectors = torch.randn(2, SIZE)
    torch.testing.assert_close(again(vectors), module(vectors))
    assert model.row_numbers(1, 32) == 3 * 2 * SIZE


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("noiseless", {"epochs": 30, "learning_rate": 0.01, "batch_size": 16}),
        ("dp-sgd", {"steps": 60, "batch_size": 30, "noise_multiplier": 0.1, "learning_rate": 0.02}),
        ("user-dp", {"rounds": 150, "users_per_round": 30, "noise_multiplier": 0.05,
                     "local_learning_rate": 1.0, "clip": 1.0}),
    ],
)  # fmt: skip
def test_every_trainer_learns_it(name: str, params: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(2, size=60)
    texts = tuple(" ".join(rng.choice(["up", "rise"] if y else ["down", "fall"], 2))
                  for y in labels)  # fmt: skip
    corpus = Corpus(
        texts, {"user": np.arange(60)}, np.full(60, SPLITS.index("train")),
        labels=labels, label_names=("low", "high"),
    )  # fmt: skip
    run = Run(1, CorpusStats(60, 60, 0, 0, public=True))
    task = tasks.create("text-classification", {"dropout": 0.0},
                        model=models.create("hashed-cnn", {"dropout": 0.0}))  # fmt: skip
    (learner,) = task.stages(corpus, None, run)
    module, _ = mechanisms.create(name, params).train(learner, corpus, run)
    found = learner.release(module).class_logprobs(corpus).argmax(axis=1)
    assert (found == labels).mean() > 0.9
    if name != "noiseless":
        assert "clipping" in run.diary.ways
