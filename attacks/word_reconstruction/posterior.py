"""Guesses of a word: by Bayes' rule from its substitute, by a masked model from its context."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import FloatArray, InputError, IntArray
from uedp_bench.text.word_occurrences import Prior

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior g of equation (3), with the channel f estimated by sampling it.

    g(w | v) = pi(w) f(v | w) / sum of pi(u) f(v | u) over all words u; the numerator that is
    printed has v and w in each other's place. The adversary knows nothing of a
    substitute that no sample had: the posterior is the prior.

    Attributes:
        prior: pi.
        key: (pairs,) substitute * support + place of the word in the support, rising.
        probability: (pairs,) g.
        seen: (vocabulary,) True where a sample had the substitute.
        guess: (vocabulary,) place of the most likely word.
    """

    prior: Prior
    key: IntArray
    probability: FloatArray
    seen: np.ndarray[tuple[int], np.dtype[np.bool_]]
    guess: IntArray

    @staticmethod
    def estimate(prior: Prior, drawn: IntArray, vocabulary: int) -> Posterior:
        """From substitutes (support, draws) of the words of the prior, equally many of each."""
        support, draws = drawn.shape
        key, count = np.unique(drawn * support + np.arange(support)[:, None], return_counts=True)
        substitute, place = np.divmod(key, support)
        joint = prior.weight[place] * count / draws
        total = np.bincount(substitute, weights=joint, minlength=vocabulary)
        probability = joint / total[substitute]
        # The best word of each substitute comes last among its pairs; the first wins a tie.
        order = np.lexsort((-place, probability, substitute))
        last = np.flatnonzero(np.diff(substitute[order], append=-1))
        guess = np.full(vocabulary, int(prior.weight.argmax()), dtype=np.int64)
        guess[substitute[order][last]] = place[order][last]
        return Posterior(prior, key, probability, total > 0, guess)

    def errors(self, drawn: IntArray) -> tuple[FloatArray, FloatArray]:
        """(support,) twice: share of substitutes (support, draws) whose word is guessed wrongly.

        First by an adversary who draws the guess from the posterior (equation 4), then by one who
        guesses the most likely word.
        """
        support = len(self.prior.words)
        place = np.arange(support)[:, None]
        wanted = drawn * support + place
        at = np.minimum(np.searchsorted(self.key, wanted), len(self.key) - 1)
        probability_of_truth = np.where(self.key[at] == wanted, self.probability[at], 0.0)
        right = np.where(self.seen[drawn], probability_of_truth, self.prior.weight[:, None])
        return (1.0 - right).mean(axis=1), (self.guess[drawn] != place).mean(axis=1)


def guess_errors(prior: Prior, drawn: IntArray, guess: IntArray) -> FloatArray:
    """(support,) errors of one who guesses the word `guess[v]` for the substitute v."""
    wrong: FloatArray = (guess[drawn] != prior.words[:, None]).mean(axis=1)
    return wrong


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
    from transformers import AutoModelForMaskedLM

    from uedp_bench.text.pretrained import readable, tokenizer_of

    tokenizer = tokenizer_of(model, field)
    with readable(model, field):
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
