"""Parameters with which a run of a component is over in a second."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from uedp_bench.components.component import Component
from uedp_bench.errors import InputError

COMMON: Mapping[str, Any] = {
    "rounds": 2,
    "steps": 2,
    "epochs": 1,
    "users_per_round": 12,
    "batch_size": 16,
    "attacker_hidden": 4,
    "hidden": 4,
    "samples": 4,
    "references": 20,
    "held_out_users": 10,
    "shadow_models": 1,
    "reference_rows": 40,
}
"""Values by the names that such parameters usually have."""

SOURCE: Mapping[str, Any] = {
    "name": "embedded",
    "params": {
        "users": 60, "valid_users": 10, "test_users": 8, "public_users": 12, "sentences": 2,
    },
}  # fmt: skip
"""Source of the rows of small runs."""

PAIRS: Mapping[str, Any] = {
    "name": "parallel-embedded",
    "params": {
        "documents": 6, "valid_documents": 1, "test_documents": 2, "sentences": 3,
        "test_sentences_each": 2, "general_pairs": 80, "untranslated": 4, "medicines": 3,
    },
}  # fmt: skip

RECORDS: Mapping[str, Any] = {"name": "wiki-biographies", "params": {
    "users": 60, "valid_users": 4, "test_users": 6, "public_users": 8, "sentences": 4,
}}  # fmt: skip

CLIENTS: Mapping[str, Any] = {"count": 3, "by": "user"}

MODELS: Mapping[str, Any] = {
    "lstm-small": {"vocabulary_size": 80, "units": 4, "embedding": 4},
    "cifg-lstm": {"vocabulary_size": 80, "units": 4, "embedding": 4},
    "awd-lstm": {"vocabulary_size": 80, "units": 4, "embedding": 4},
    "gpt2": {"vocabulary_size": 257},
    "bilstm": {"vocabulary_size": 80, "units": 4, "embedding_size": 4},
    "bert": {"configuration": "tiny"},
    "tfidf": {"vocabulary_size": 80},
    "transformer-small": {
        "vocabulary_size": 300, "layers": 1, "width": 8, "inner": 6, "heads": 2,
    },
}  # fmt: skip
"""Small networks, by the names of models."""

_LEARNS = {"hidden": 16, "epochs": 12, "batch_size": 32, "learning_rate": 0.03}

_PARAMS: Mapping[str, Mapping[str, Any]] = {
    "mechanism/deepcandidate": {
        "epsilon": 2.0,
        "candidates": 8,
        "candidate_sentences": 2,
        "clusters": 2,
        "projections": 3,
    },
    "mechanism/dp-ftrl": {"users_per_round": 2, "rounds": 4},
    "mechanism/dpnr": {"epsilon": 5.0, "dimension": 8},
    "mechanism/dp-vocabulary": {"epsilon": 200.0, "vocabulary_delta": 0.001},
    "mechanism/federated-dp-sgd": {"batch_size": 4, "local_steps": 1},
    "mechanism/k-document": {"documents": 2},
    "mechanism/phrase-union": {"noise_multiplier": 0.05, "most": 5},
    "mechanism/truncation": {"epsilon": 2.0},
    "mechanism/uedp-group": {"noise_multiplier": 1.0},
    "mechanism/uedp-spread": {"noise_multiplier": 1.0},
    "attack/annotation-leak": {"subjects": 8, "facts": 16, "decoys": 1},
    "attack/attribute-inference": _LEARNS,
    "attack/embedding-inversion": _LEARNS,
    "attack/audit": {"canaries": 20},
    "attack/model-extraction": {"queries": 20, "test_rows": 20},
    "attack/transcript": {"executions": 8},
    "attack/secret-sharer": {"p_u": [0.2], "p_e": [0.5], "canaries": 2, "entity_canaries": 2},
    "model/marian": {"pretrained": "a-folder"},
    # A path is never looked for in the hub, which a machine may not reach.
    "model/sentence-encoder": {"pretrained": "./a-folder"},
    "model/text-cnn": {"pretrained": "./a-folder"},
    "task/pretrained-tagging": {
        "max_tokens": 24,
        "labelled": {"name": "embedded", "params": {**SOURCE["params"], "seed": 2}},
    },
    "source/embedded": SOURCE["params"],
    "source/parallel-embedded": PAIRS["params"],
    **{f"model/{name}": params for name, params in MODELS.items()},
}
"""Parameters of built-in components that name them in their own way, or have no defaults."""

_PARTNERS: Mapping[str, Mapping[str, Any]] = {
    "mechanism/cyclic": {"clients": CLIENTS},
    "mechanism/federated-dp-sgd": {"clients": CLIENTS},
    "mechanism/pooled": {"clients": CLIENTS},
    "mechanism/adversarial": {"task": "text-classification"},
    "mechanism/deepcandidate": {"task": "text-classification"},
    "mechanism/dpnr": {"task": "text-classification"},
    "mechanism/majority": {"task": "text-classification"},
    "mechanism/mpc": {"task": "text-classification"},
    "mechanism/trained-elsewhere": {"task": "next-word", "model": "checkpoint"},
    "mechanism/truncation": {"task": "text-classification"},
    "model/checkpoint": {"task": "next-word", "mechanism": "trained-elsewhere"},
    "mechanism/k-document": {"task": "translation", "source": PAIRS},
    "mechanism/phrase-fragments": {"task": "translation", "source": PAIRS},
    "mechanism/phrase-union": {"task": "translation", "source": PAIRS},
    "attack/annotation-leak": {"task": "tagging", "source": RECORDS},
    "attack/fragment-reassembly": {
        "task": "translation", "source": PAIRS, "mechanism": "phrase-fragments",
    },
    "attack/word-reconstruction": {"mechanism": "metric-dp"},
    "task/translation": {"source": PAIRS},
    "task/pii-detection": {"mechanism": "deidentify"},
    "task/word-substitution": {"mechanism": "metric-dp"},
}  # fmt: skip
"""Partners of built-in components that the usual small run does not fit."""


def known_params(kind: str, name: str, folder: Path) -> dict[str, Any]:
    """Parameters of a built-in component; those of words get a file of vectors in the folder."""
    params = dict(_PARAMS.get(f"{kind}/{name}", {}))
    if f"{kind}/{name}" in ("mechanism/metric-dp", "mechanism/vickrey"):
        params |= {"epsilon": 5.0, "embedding": str(word_vectors(folder))}
    if f"{kind}/{name}" == "mechanism/sanitized-elsewhere":
        params["path"] = str(sanitized_rows(folder))
    if f"{kind}/{name}" == "model/checkpoint":
        params["pretrained"] = str(saved_model(folder))
    return params


def known_partners(kind: str, name: str) -> dict[str, Any]:
    """Partners of a built-in component in a small run."""
    return dict(_PARTNERS.get(f"{kind}/{name}", {}))


def fitted(
    component: type[Component[Any]], usual: Mapping[str, Any], chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """Fill in small parameters: chosen ones, then usual ones, then common ones.

    Common values that do not fit beside the others are left out one by one.
    """
    params = {**usual, **chosen}
    for name, value in COMMON.items():
        if name in component.Params.model_fields and name not in params:
            more = {**params, name: value}
            if _fits(component, more) or not _fits(component, params):
                params = more
    return params


def _fits(component: type[Component[Any]], params: Mapping[str, Any]) -> bool:
    try:
        component.create(params)
    except InputError:
        return False
    return True


def saved_model(folder: Path) -> Path:
    """A tiny causal language model of bytes with its tokenizer, as the library saves them."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    from uedp_bench.text.pretrained import no_progress_bars

    where = folder / "checkpoint"
    if where.is_dir():
        return where
    letters = ["<end>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE({letter: at for at, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    sizes = {"vocab_size": len(letters), "n_layer": 1, "n_head": 2, "n_embd": 8}
    config = GPT2Config(**sizes, n_positions=256, bos_token_id=0, eos_token_id=0)
    with torch.random.fork_rng(devices=[]), no_progress_bars():
        torch.manual_seed(1)
        GPT2LMHeadModel(config).save_pretrained(where)
    ends = {"bos_token": letters[0], "eos_token": letters[0]}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **ends).save_pretrained(where)
    return where


_WORDS = "the a to of my is was and in i we you it for on with have had this that at"


def word_vectors(folder: Path) -> Path:
    """A small file of vectors of words that the embedded corpus uses."""
    file = folder / "vectors.txt"
    words = enumerate(_WORDS.split())
    lines = (f"{word} {at % 5}.0 {at // 5}.5 {at % 3}.25" for at, word in words)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def sanitized_rows(folder: Path) -> Path:
    """A file of another tool for the rows of any small source: all of them say nearly the same."""
    file = folder / "sanitized.csv"
    sentences = ("we saw it", "they had a plan", "it was late and we went home")
    lines = (f"{row},{sentences[row % 3]} today" for row in range(2000))
    file.write_text("\n".join(["id,text", *lines]) + "\n", encoding="utf-8")
    return file
