"""The paper's network: its size, its numbers against a second implementation, its training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hashed_cnn import SIZE
from torch import nn

from uedp_bench.components.registry import mechanisms, models, tasks
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.models.networks.classifier import ClassifierNetwork, CNNLayout, TextCNN
from uedp_bench.models.text_cnn import TextCNN as TextCNNModel
from uedp_bench.models.text_cnn import TextCNNParams

PAPER = TextCNNParams().layout()


def network(size: int = 768, dropout: float = 0.25) -> TextCNN:
    return TextCNN((1, size), PAPER, 32, dropout, seed=3)


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
    ("params", "message"),
    [
        ({"channels": (2, 4)}, r"channels.*2.*\[4, 2, 3\]"),
        ({"pools": (3, 4)}, r"\[3, 4\] has 2"),
        ({"dropout": 1.0}, "dropout"),
    ],
)
def test_layouts_that_do_not_fit_are_refused(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        models.create("text-cnn", params)


def test_a_vector_that_is_too_short_is_refused() -> None:
    with pytest.raises(InputError, match=r"40 numbers.*kernels"):
        TextCNN((1, 40), CNNLayout(((4, 2, 3),), (2, 4, 6), (3, 4, 5)), 8, 0.0, seed=0)


def test_weights_come_back_from_disk(tmp_path: Path) -> None:
    model = models.create("hashed-cnn", {})
    assert isinstance(model, TextCNNModel)
    module = model.build_encoder(None, seed=1)
    model.save_encoder(module, tmp_path)
    again = model.load_encoder(None, tmp_path)
    vectors = torch.randn(2, SIZE)
    torch.testing.assert_close(again(vectors), module(vectors))
    assert model.row_numbers(1, 32) == 3 * 2 * SIZE


@pytest.mark.long
def test_clipped_and_noisy_steps_learn_it() -> None:
    params = {"steps": 60, "batch_size": 30, "noise_multiplier": 0.1, "learning_rate": 0.02}
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
    module, _ = mechanisms.create("dp-sgd", params).train(learner, corpus, run)
    predictions = learner.release(module).class_logprobs(corpus).argmax(axis=1)
    assert (predictions == labels).mean() > 0.9
    assert "clipping" in run.diary.ways


# ---------------------------------------------------------------------------------- over words


def over_words(tmp_path: Path, **params: Any) -> TextCNNModel:
    """Of three words with vectors of two numbers."""
    file = tmp_path / "vectors.txt"
    file.write_text("up 1 -2\ndown 3 4\nand 0.5 0.25\n")
    params = {"embedding": file, "positions": 5, "widths": (1, 2), "filters": 3, **params}
    model = models.create("text-cnn", params)
    assert isinstance(model, TextCNNModel)
    return model


def test_a_text_is_the_vectors_of_its_first_words(tmp_path: Path) -> None:
    model = over_words(tmp_path)
    features = model.features(["Up nobody down", "and " * 4 + "up down", ""], "cpu")
    assert features.dtype == np.float32
    assert features.shape == (3, model.feature_size()) == (3, 10)
    first, second, empty = features.reshape(3, 2, 5)
    assert first.T.tolist() == [[1, -2], [0, 0], [3, 4], [0, 0], [0, 0]]
    assert second.T.tolist() == [[0.5, 0.25]] * 4 + [[1, -2]]
    assert not empty.any()
    assert not model.features([model.mask], "cpu").any()


def test_each_filter_keeps_its_largest_value_over_all_words(tmp_path: Path) -> None:
    module = over_words(tmp_path).build_encoder(None, seed=4)
    vectors = torch.randn(4, 2, 5, generator=torch.Generator().manual_seed(2))
    expected = []
    for branch, width in zip(module.branches.branches, (1, 2), strict=True):
        convolution = branch[0]
        assert convolution.weight.shape == (3, 2, width)
        windows = vectors.unfold(2, width, 1)  # (rows, d, places, width)
        values = torch.einsum("rdpw,fdw->rpf", windows, convolution.weight) + convolution.bias
        expected.append(values.relu().amax(1))
    features = module(vectors.flatten(1))
    torch.testing.assert_close(features, torch.cat(expected, 1))
    torch.testing.assert_close(module.layers()(vectors), features)
    assert module.width == 6


def test_the_defaults_over_words_are_kims(tmp_path: Path) -> None:
    model = over_words(tmp_path, positions=64, widths=(3, 4, 5), filters=100)
    plain = models.create("text-cnn", {"embedding": model.params.embedding})
    assert plain.params == model.params
    module = ClassifierNetwork(model.build_encoder(None, seed=0), 2, (), 0.0, seed=0)
    sizes = [100 * 2 * (3 + 4 + 5), 3 * 100, 300 * 2, 2]
    assert sum(each.numel() for each in module.parameters()) == sum(sizes)
    assert model.row_numbers(1, 300) == 300 * 64


def test_a_network_over_words_leaves_other_results_their_identity() -> None:
    defaults = TextCNNParams().model_dump(mode="json")
    assert not {"embedding", "positions", "widths", "filters"} & set(defaults)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"kernels": ((3,),), "channels": (2,), "pools": (2,)}, "kernels is .*without embedding"),
        ({"standardise": False}, "standardise is False.*without embedding"),
        ({"widths": (3, 6)}, "widths has 6.* 5"),
        ({"embedding": None}, "positions is 5.*with embedding"),
    ],
)
def test_parameters_of_the_other_network_are_refused(
    tmp_path: Path, params: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        over_words(tmp_path, **params)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    model = over_words(tmp_path, embedding=tmp_path / "none.txt")
    with pytest.raises(InputError, match=r"text-cnn\.embedding.*none\.txt"):
        model.feature_size()
