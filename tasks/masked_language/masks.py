"""Hidden tokens of a row, and their replacements, drawn from the seed of the row."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.api import BoolArray, FloatArray, IntArray
from uedp_bench.tasks.tokens.rows import IGNORED

if TYPE_CHECKING:
    from uedp_bench.api.networks import MaskedVocabulary

SHOWN_AS_MASK, SHOWN_AS_ANY = 0.8, 0.1
"""Shares of the hidden tokens for which the mask, and a token drawn at random, stand. The rest
stays as it is (Devlin et al. 2019, section 3.1)."""

_PLACE, _SHOW, _DRAW = 0, 1, 2
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


class Hidden(NamedTuple):
    """Rows with hidden tokens.

    Attributes:
        tokens: (rows, length) ids as the network reads them.
        places: (rows, most hidden tokens of a row) positions of hidden tokens, 0 in the padding.
        targets: (rows, most hidden tokens of a row) the tokens that were there.
    """

    tokens: IntArray
    places: IntArray
    targets: IntArray


def hidden_counts(lengths: IntArray, rate: float) -> IntArray:
    """(rows,) how many of so many tokens are hidden: the rounded share, and one at least.

    A row without tokens has none.
    """
    shares: IntArray = np.floor(rate * lengths + 0.5).astype(np.int64)
    return np.minimum(np.maximum(shares, 1), lengths)


def hide(
    tokens: IntArray, lengths: IntArray, seeds: IntArray, rate: float, vocabulary: MaskedVocabulary
) -> Hidden:
    """Hides tokens of rows.

    What happens to row i depends on its own tokens and on `seeds[i]` alone: on no other row, and
    not on the padding. A fixed number of tokens is hidden, at places drawn without replacement.

    Args:
        tokens: (rows, length) ids, padded on the right; the first of a row and its last stay.
        lengths: (rows,) tokens of each row, two at least.
        seeds: (rows,) 63 bits each.
        rate: share of the tokens that are hidden.
        vocabulary: vocabulary of the tokens.
    """
    room = tokens.shape[1] - 2
    inside = np.arange(room) < lengths[:, None] - 2
    counts = hidden_counts(lengths - 2, rate)
    order = np.where(inside, uniforms(seeds, _PLACE, room), 2.0)
    first = np.argsort(order, axis=1, kind="stable")[:, : int(counts.max(initial=0))]
    if not first.shape[1]:  # one place of padding: tables without columns have no rows to tell
        first = np.zeros((len(tokens), 1), dtype=np.int64)
    used = np.arange(first.shape[1]) < counts[:, None]
    places = np.where(used, 1 + first, 0)
    true_tokens = np.take_along_axis(tokens, places, axis=1)
    # By position, not by rank among the hidden ones: what is drawn for a place is the place's own.
    show, draw = (
        np.take_along_axis(uniforms(seeds, what, tokens.shape[1]), places, axis=1)
        for what in (_SHOW, _DRAW)
    )
    words = _drawn(draw, vocabulary)
    kept = np.where(show < SHOWN_AS_MASK + SHOWN_AS_ANY, words, true_tokens)
    shown = np.where(show < SHOWN_AS_MASK, vocabulary.mask, kept)
    seen = tokens.copy()
    rows = np.broadcast_to(np.arange(len(tokens))[:, None], places.shape)
    seen[rows[used], places[used]] = shown[used]
    return Hidden(seen, places, np.where(used, true_tokens, IGNORED))


def uniforms(seeds: IntArray, what: int, columns: int) -> FloatArray:
    """(rows, columns) numbers in [0, 1): of a row's seed, a purpose and a column (SplitMix64)."""
    with np.errstate(over="ignore"):
        start = _mixed(_mixed(seeds.astype(np.uint64)) + np.uint64(what) * _GOLDEN)
        mixed = _mixed(start[:, None] + np.arange(1, columns + 1, dtype=np.uint64) * _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    x = x + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _drawn(uniform: FloatArray, vocabulary: MaskedVocabulary) -> IntArray:
    """Tokens of numbers in [0, 1), each that is part of texts equally likely."""
    drawable: BoolArray = np.ones(vocabulary.size, dtype=bool)
    drawable[[token for token in vocabulary.special if token < vocabulary.size]] = False
    tokens = np.flatnonzero(drawable)
    return np.asarray(tokens[(uniform * len(tokens)).astype(np.int64)], dtype=np.int64)
