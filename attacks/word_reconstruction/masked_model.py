"""A masked language model guesses words from the published words around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import InputError

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray

_CONTEXT = 32
"""Published words on either side of the masked one."""

_BATCH = 32


class Case(NamedTuple):
    """One word to be guessed.

    Attributes:
        published: the words of its row as published.
        at: its place among them.
        word: the original word.
    """

    published: Sequence[str]
    at: int
    word: str


class Guesses(NamedTuple):
    """Outcomes of the model's guesses.

    Attributes:
        right: (cases,) True where its most likely token is the original word.
        possible: (cases,) True where the original word is one token of the model at all.
    """

    right: BoolArray
    possible: BoolArray


def masked_guesses(model: str, cases: Sequence[Case], device: str, field: str) -> Guesses:
    """Masks each word, and looks at the most likely token in its place.

    Args:
        model: hub id or local directory of a masked language model of transformers.
        cases: words to guess.
        device: torch device.
        field: the parameter that names the model, for messages.

    Raises:
        InputError: if it cannot be read or has no mask token.
    """
    import torch

    tokenizer, network = _load(model, field)
    network = network.to(device).eval()
    longest = min(int(network.config.max_position_embeddings) - 2, int(tokenizer.model_max_length))
    target = np.array([_one_token(tokenizer, case.word) for case in cases], dtype=np.int64)
    special = torch.tensor(tokenizer.all_special_ids, device=device)
    likeliest = np.full(len(cases), -1, dtype=np.int64)
    for start in range(0, len(cases), _BATCH):
        texts = [_masked(case, tokenizer) for case in cases[start : start + _BATCH]]
        inputs = tokenizer(
            texts, padding=True, truncation=True, max_length=longest, return_tensors="pt"
        ).to(device)
        masked = inputs["input_ids"] == tokenizer.mask_token_id
        with torch.inference_mode():
            logits = network(**inputs).logits
        # A word whose mask fell outside the model's length stays unguessed.
        row, column = masked.nonzero(as_tuple=True)
        scores = logits[row, column].index_fill(1, special, -torch.inf)
        likeliest[start + row.cpu().numpy()] = scores.argmax(1).cpu().numpy()
    return Guesses((target >= 0) & (likeliest == target), target >= 0)


def _load(model: str, field: str) -> tuple[Any, Any]:
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    from uedp_bench.text.pretrained import readable

    with readable(model, field):
        tokenizer = AutoTokenizer.from_pretrained(model)
        network = AutoModelForMaskedLM.from_pretrained(model)
    if tokenizer.mask_token is None:
        raise InputError(f"{field} {model!r} has no mask token; use a masked language model")
    return tokenizer, network


def _one_token(tokenizer: Any, word: str) -> int:
    """Id of a word that is one token inside a text, else -1."""
    ids = tokenizer(f" {word}", add_special_tokens=False)["input_ids"]
    return int(ids[0]) if len(ids) == 1 and ids[0] != tokenizer.unk_token_id else -1


def _masked(case: Case, tokenizer: Any) -> str:
    first = max(0, case.at - _CONTEXT)
    words = list(case.published[first : case.at + _CONTEXT + 1])
    # One mask a text, whatever the text has.
    words = [tokenizer.unk_token if word == tokenizer.mask_token else word for word in words]
    words[case.at - first] = tokenizer.mask_token
    return " ".join(words)
