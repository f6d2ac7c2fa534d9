"""Every component that comes with the package keeps its contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documents import HashedSentences
from tiny import plugged

from uedp_bench import registry
from uedp_bench.models import bert_params, gpt2
from uedp_bench.testing import Subject, check_component
from uedp_bench.testing.checks import KINDS
from uedp_bench.testing.small_parameters import known_partners

SUPPORT = Path(__file__).parents[1] / "support"
CNN = {"name": "hashed-cnn", "params": {"width": 4}}

SMALLER_GPT2 = {"n_layer": 1, "n_embd": 16, "n_head": 2}
SMALLER_BERT = {
    "num_hidden_layers": 1,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
"""Sizes of networks for which the promises are the same, and cheaper to check."""

PARTNERS: dict[str, dict[str, Any]] = {
    "mechanism/mpc": {"model": CNN},
    "attack/transcript": {"model": CNN, "mechanism": "mpc"},
    "attack/model-extraction": {"task": "text-classification"},
    "model/bert": {"task": "text-classification"},
    "source/wiki-biographies": {"task": "tagging"},
}
"""Where a pretrained encoder would be needed, one without weights takes its place."""

NEVER_RUN = {
    "model/marian": "it is pretrained, and nothing is downloaded here",
    "model/none": "it stands for no model",
    "model/sentence-encoder": "it is pretrained",
    "model/text-cnn": "its encoder is pretrained",
}
"""Components of which no small run is possible here; sources of files are not named."""

FAILS = {
    "attack/fragment-reassembly": {
        "check_leak_is_found": "what is published whole leaves no sentence to be put together"
    },
    "attack/model-extraction": {
        "check_leak_is_found": "it copies what is said of public texts, of which nothing leaks"
    },
}
"""Checks that a built-in component is known to fail, with reasons."""


def components() -> list[str]:
    found = [f"{kind}/{n}" for kind in KINDS for n in registry.REGISTRIES[f"{kind}s"].names()]
    ours = [name for name in found if "(uedp-bench " in _origin(name)]
    assert len(ours) > 60
    return ours


def _origin(name: str) -> str:
    kind, _, bare = name.partition("/")
    return registry.REGISTRIES[f"{kind}s"].origin(bare)


@pytest.fixture
def sentences(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Sentence vectors by hash, of texts as they are: no pretrained encoder is needed."""
    registry.models.get("sentence-encoder")  # it keeps what it imported before
    monkeypatch.setattr("uedp_bench.text.sentences.SentenceEmbedder", HashedSentences)
    split = "uedp_bench.text.sentences.split_sentences"
    monkeypatch.setattr(split, lambda texts: [_halves(text) for text in texts])
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(gpt2._SIZES, "tiny", {**gpt2._SIZES["tiny"], **SMALLER_GPT2})
    monkeypatch.setitem(bert_params.SIZES, "tiny", {**bert_params.SIZES["tiny"], **SMALLER_BERT})
    with plugged(SUPPORT / "hashed_cnn.py"):
        yield


def _halves(text: str) -> list[str]:
    words = text.split()
    middle = max(1, len(words) // 2)
    return [part for part in (" ".join(words[:middle]), " ".join(words[middle:])) if part]


@pytest.mark.usefixtures("sentences")
@pytest.mark.parametrize("name", components())
def test_a_built_in_component_conforms(name: str) -> None:
    kind, _, bare = name.partition("/")
    component = registry.REGISTRIES[f"{kind}s"].get(bare)
    # Other tests run mechanisms with other tasks; here one is enough.
    usual = {} if known_partners(kind, bare) or kind != "mechanism" else {"task": "next-word"}
    subject = Subject(
        component, partners=PARTNERS.get(name, usual), expected_failures=FAILS.get(name, {})
    )
    report = check_component(subject)
    assert report.conforms, str(report)
    states = {one.check: one for one in report.outcomes}
    reads_files = getattr(component, "needs_path", False)
    if not reads_files and name not in NEVER_RUN:
        assert states["check_runs"].state == "passed", states["check_runs"].reason
