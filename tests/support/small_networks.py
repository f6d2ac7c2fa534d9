"""Networks and encoders so small that every built-in component runs in a second, offline."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import HashedSentences
from tiny import plugged

from uedp_bench.components import registry
from uedp_bench.models import bert_params, gpt2

HASHED_CNN = {"name": "hashed-cnn", "params": {"width": 4}}
"""A classifier of plain layers that no pretrained encoder is needed for."""

SMALLER_GPT2 = {"n_layer": 1, "n_embd": 16, "n_head": 2}
SMALLER_BERT = {
    "num_hidden_layers": 1,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
"""Sizes of networks for which the promises are the same, and cheaper to check."""


@pytest.fixture
def small_networks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Sentence vectors by hash, of texts as they are: no pretrained encoder is needed."""
    registry.models.get("sentence-encoder")  # it keeps what it imported before
    monkeypatch.setattr("uedp_bench.text.sentences.SentenceEmbedder", HashedSentences)
    split = "uedp_bench.text.sentences.split_sentences"
    monkeypatch.setattr(split, lambda texts: [_halves(text) for text in texts])
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(gpt2._SIZES, "tiny", {**gpt2._SIZES["tiny"], **SMALLER_GPT2})
    monkeypatch.setitem(bert_params.SIZES, "tiny", {**bert_params.SIZES["tiny"], **SMALLER_BERT})
    with plugged(Path(__file__).with_name("hashed_cnn.py")):
        yield


def _halves(text: str) -> list[str]:
    words = text.split()
    middle = max(1, len(words) // 2)
    return [part for part in (" ".join(words[:middle]), " ".join(words[middle:])) if part]
