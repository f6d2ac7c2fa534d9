from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from uedp_bench.components.registry import models
from uedp_bench.errors import InputError
from uedp_bench.models.tokenizers import TokenizerVocabulary

TEXTS = ["the cat sat on the mat", "a dog ran in the park", "birds sing in the tall old trees"] * 9


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A random model with dropout and a tokenizer, as `save_pretrained` writes them."""
    vocabulary = TokenizerVocabulary.train(TEXTS, 290, origin="test")
    torch.manual_seed(0)
    sizes = {"n_layer": 2, "n_embd": 16, "n_head": 2, "n_positions": 24}
    GPT2LMHeadModel(GPT2Config(**sizes, vocab_size=vocabulary.size + 3)).save_pretrained(tmp_path)
    vocabulary._tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_local_directory_is_a_pretrained_model(folder: Path) -> None:
    model = models.create("gpt2", {"pretrained": str(folder)})
    vocabulary = model.vocabulary([], origin="not used", private=True)
    assert not vocabulary.private, "its tokenizer saw none of the texts"
    module = model.build(vocabulary, seed=1).train()
    reference = GPT2LMHeadModel.from_pretrained(folder).eval()
    tokens = torch.tensor(vocabulary.encode(["the cat ran"]))
    assert torch.equal(module(tokens), reference(tokens).logits), "dropout must stay off"
    assert module(tokens).shape[-1] == vocabulary.size
    assert model.max_length() == 24


def test_a_saved_network_does_not_need_the_directory_again(folder: Path, tmp_path: Path) -> None:
    model = models.create("gpt2", {"pretrained": str(folder)})
    vocabulary = model.vocabulary([], origin="", private=False)
    module = model.build(vocabulary, seed=1)
    saved = tmp_path / "saved"
    saved.mkdir()
    model.save_network(module, saved)
    (folder / "config.json").unlink()
    tokens = torch.tensor([[1, 2, 3]])
    assert torch.equal(model.load_network(vocabulary, saved)(tokens), module(tokens))


def test_a_missing_directory_is_one_clear_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    model = models.create("gpt2", {"pretrained": str(tmp_path / "nowhere")})
    with pytest.raises(InputError, match="nowhere") as caught:
        model.vocabulary([], origin="", private=False)
    assert "\n" not in str(caught.value)


def test_pretrained_and_a_size_of_ones_own_contradict() -> None:
    with pytest.raises(InputError, match=r"configuration.*vocabulary_size"):
        models.create("gpt2", {"pretrained": "x", "configuration": "small"})


def test_small_has_gpt2_small_s_size() -> None:
    model = models.create("gpt2", {"configuration": "small"})
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    with torch.device("meta"):
        module = model.build(vocabulary, seed=0)
    count = sum(p.numel() for p in module.parameters())
    # 124,439,808 parameters with 50,257 tokens; fewer tokens take 768 each off the embedding
    assert count == 124_439_808 - 768 * (50_257 - vocabulary.size)
    assert model.max_length() == 1024
