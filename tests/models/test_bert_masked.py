"""BERT as a masked language model: folders of the library, adapters, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForMaskedLM,
    BertConfig,
    BertForMaskedLM,
    BertModel,
    DistilBertConfig,
    DistilBertForMaskedLM,
    RobertaConfig,
    RobertaForMaskedLM,
)

from uedp_bench.components.registry import models
from uedp_bench.contracts.learner import take_over
from uedp_bench.errors import InputError
from uedp_bench.models.tokenizers import train_wordpiece

TEXTS = ["the cat sat on the mat", "a dog ran in the park"] * 5
SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "bert": (BertForMaskedLM, BertConfig, SIZES),
    "roberta": (RobertaForMaskedLM, RobertaConfig, SIZES),
    "encoder": (BertModel, BertConfig, SIZES),
    "distilbert": (
        DistilBertForMaskedLM,
        DistilBertConfig,
        {"dim": 16, "n_heads": 2, "n_layers": 1, "hidden_dim": 32},
    ),
    "untied": (BertForMaskedLM, BertConfig, {**SIZES, "tie_word_embeddings": False}),
}
TOKENS = torch.tensor([[2, 7, 4, 9, 11, 3], [2, 4, 8, 3, 3, 3]])
LENGTHS, PLACES = torch.tensor([6, 4]), torch.tensor([[2, 1], [1, 0]])


def folder_of(kind: str, where: Path) -> Path:
    """A network of random weights, biases among them, and a tokenizer."""
    network, configuration, sizes = KINDS[kind]
    tokenizer = train_wordpiece(TEXTS, 60)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        masked_model = network(configuration(**sizes, vocab_size=len(tokenizer), pad_token_id=0))
        for weight in masked_model.parameters():
            weight.data.normal_(0.0, 0.3)
    masked_model.save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


def built(where: Path, **params: Any) -> tuple[Any, Any, Any]:
    model = models.create("bert", {"pretrained": str(where), **params})
    vocabulary = model.vocabulary([], origin="", private=False)
    return model, vocabulary, model.build_masked(vocabulary, 1).eval()


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_logits_are_those_of_the_library(kind: str, tmp_path: Path) -> None:
    _, _, module = built(folder_of(kind, tmp_path))
    theirs = AutoModelForMaskedLM.from_pretrained(tmp_path).eval()
    inside = (torch.arange(6) < LENGTHS[:, None]).long()
    expected = theirs(input_ids=TOKENS, attention_mask=inside).logits
    expected = torch.take_along_dim(expected, PLACES[:, :, None], dim=1)
    torch.testing.assert_close(module(TOKENS, LENGTHS, PLACES), expected, atol=1e-4, rtol=1e-4)
    assert not any("decoder" in name for name in module.state_dict())
    assert module.output_layer()[0] is module.token_embedding()


@pytest.mark.parametrize("lora", [None, 2])
def test_it_is_saved_as_the_library_saves_it(lora: int | None, tmp_path: Path) -> None:
    model, vocabulary, module = built(folder_of("bert", tmp_path / "given"), lora_rank=lora)
    for weight in module.parameters():  # adapters are no longer at zero
        weight.data += 0.01 * torch.randn_like(weight)
    model.save_masked(module, tmp_path / "saved")
    again = model.load_masked(vocabulary, tmp_path / "saved").eval()
    read = (TOKENS, LENGTHS, PLACES)
    torch.testing.assert_close(again(*read), module(*read), atol=0.0, rtol=0.0)
    if lora is None:
        theirs = BertForMaskedLM.from_pretrained(tmp_path / "saved" / "encoder").eval()
        logits = theirs(input_ids=TOKENS[:1]).logits[:, PLACES[0]]
        torch.testing.assert_close(logits, module(*read)[:1], atol=1e-4, rtol=1e-4)


def test_an_encoder_alone_gets_a_fresh_head_by_the_seed(tmp_path: Path) -> None:
    model, vocabulary, module = built(folder_of("encoder", tmp_path))
    same, other = (model.build_masked(vocabulary, seed) for seed in (1, 2))
    torch.testing.assert_close(same.head.dense.weight, module.head.dense.weight)
    assert not torch.equal(other.head.dense.weight, module.head.dense.weight)
    token_encoder = model.build_token_encoder(vocabulary, 1)
    for one, two in ((module.encoder, token_encoder), (other.encoder, token_encoder)):
        torch.testing.assert_close(dict(one.state_dict()), dict(two.state_dict()))


def test_a_tagger_s_encoder_takes_its_weights_over() -> None:
    model = models.create("bert", {"configuration": "tiny"})
    vocabulary = model.vocabulary(TEXTS, origin="", private=False)
    masked, tagger = torch.nn.Module(), torch.nn.Module()
    masked.encoder = model.build_masked(vocabulary, 3).encoder
    tagger.encoder = model.build_token_encoder(vocabulary, 4)
    take_over(tagger, masked, "encoder")
    torch.testing.assert_close(dict(tagger.state_dict()), dict(masked.state_dict()))


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("distilbert", {}, "DistilBertForMaskedLM"),
        ("untied", {}, "BertForMaskedLM.*table"),
        ("bert", {"frozen": True}, r"bert\.frozen"),
        ("bert", {"projection": 3}, r"bert\.projection.*3"),
    ],
)
def test_what_it_cannot_be_is_refused_by_name(
    kind: str, params: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        built(folder_of(kind, tmp_path), **params)


def test_sizes_from_scratch_take_a_vocabulary_of_their_own() -> None:
    texts = [" ".join(f"{a}{b}{c}" for c in "abcdefgh") for a in "abcdefgh" for b in "abcdefgh"]
    sizes = {}
    for params in ({}, {"vocabulary_size": 60}):
        model = models.create("bert", {"configuration": "small", **params})
        vocabulary = model.vocabulary(texts, origin="", private=False)
        sizes[vocabulary.size] = model.token_numbers(), model.max_length()
    assert list(sizes.values()) == [(1536, 512)] * 2
    assert min(sizes) == 60 < max(sizes)
    with pytest.raises(InputError, match="vocabulary_size"):
        models.create("bert", {"vocabulary_size": 60})
