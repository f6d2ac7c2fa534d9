"""Linking documents to their authors by similarity: profiles, ranks and recall."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.corpus import normal_surface

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray

WORD_NGRAMS, CHARACTER_NGRAMS = (1, 2), (3, 5)
FEATURES = 2**18
"""Hashed n-grams of each kind; words and characters weigh the same."""

BLOCK = 512
"""Documents that are compared with all authors at once: bounds memory, not results."""

_DIGITS = 9
"""Similarities are rounded to so many digits, so that equal ones are equal in any block."""


class Division(NamedTuple):
    """Rows that the attacker knows, and rows to link.

    Attributes:
        authors: (authors,) user ids, sorted.
        known_rows: rows of the corpus that the attacker has.
        hidden: rows of the corpus whose published versions are linked.
    """

    authors: IntArray
    known_rows: IntArray
    hidden: IntArray


def divide(
    corpus: Corpus, usable: BoolArray, share: float, most: tuple[int, int], rng: np.random.Generator
) -> Division:
    """Draws authors, and of each the rows that the attacker knows.

    What is drawn for a row or an author does not depend on what else is usable.

    Args:
        corpus: original text.
        usable: (rows,) rows that may be known or linked.
        share: share of an author's rows that are known, rounded, at least one and not all.
        most: authors, and rows of each, at most.
        rng: random generator for the draws.
    """
    order_of_row, order_of_user = rng.random(len(corpus)), rng.random(corpus.user_count)
    authors, each = most
    rows = np.flatnonzero(usable & (corpus.users >= 0))
    rows = rows[np.bincount(corpus.users[rows], minlength=1)[corpus.users[rows]] >= 2]
    able = np.unique(corpus.users[rows])
    chosen = np.sort(able[np.argsort(order_of_user[able])[:authors]])
    rows = rows[np.isin(corpus.users[rows], chosen)]
    rows = rows[np.lexsort([order_of_row[rows], corpus.users[rows]])]
    owner = np.searchsorted(chosen, corpus.users[rows])
    counts = np.bincount(owner, minlength=len(chosen))
    place = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    used = np.minimum(counts, each)
    known_count = np.clip(np.rint(share * used).astype(np.int64), 1, np.maximum(used - 1, 1))
    is_known, kept = place < known_count[owner], place < used[owner]
    return Division(chosen, np.sort(rows[is_known]), np.sort(rows[kept & ~is_known]))


class TextProfiles:
    """TF-IDF of word and character n-grams; a profile is all of an author's text as one document.

    Weights are learnt from the profiles: what few authors write counts most.

    Args:
        texts: known documents.
        owner: (documents,) index of each one's author.
        authors: number of authors.
    """

    def __init__(self, texts: Sequence[str], owner: IntArray, authors: int) -> None:
        from sklearn.feature_extraction.text import TfidfTransformer

        self._weights = [TfidfTransformer(sublinear_tf=True) for _ in range(2)]
        self._profiles = [
            weights.fit_transform(_sums(counts, owner, authors))
            for weights, counts in zip(self._weights, self._hashed(texts), strict=True)
        ]

    def similarities(self, texts: Sequence[str]) -> Iterator[FloatArray]:
        """Blocks (documents, authors) of the mean of the two cosines."""
        for start in range(0, len(texts), BLOCK):
            hashed = self._hashed(texts[start : start + BLOCK])
            yield sum(
                (weights.transform(counts) @ profiles.T).toarray() / len(self._weights)
                for weights, counts, profiles in zip(
                    self._weights, hashed, self._profiles, strict=True
                )
            )

    @staticmethod
    def _hashed(texts: Sequence[str]) -> list[Any]:
        """Sparse counts (documents, n-grams) of words and of characters."""
        from sklearn.feature_extraction.text import HashingVectorizer

        options: dict[str, Any] = {
            "n_features": FEATURES,
            "alternate_sign": False,
            "norm": None,
            "dtype": np.float64,
            "preprocessor": normal_surface,
        }
        # Every token counts, one letter and placeholders among them.
        words = HashingVectorizer(ngram_range=WORD_NGRAMS, tokenizer=str.split, **options)
        characters = HashingVectorizer(ngram_range=CHARACTER_NGRAMS, analyzer="char_wb", **options)
        return [words.transform(texts), characters.transform(texts)]


class VectorProfiles:
    """Cosine of representations; a profile is the mean of an author's, each of length 1.

    Args:
        vectors: (documents, d) of what the attacker knows.
        owner: (documents,) index of each one's author.
        authors: number of authors.
    """

    def __init__(self, vectors: FloatArray, owner: IntArray, authors: int) -> None:
        sums = np.zeros((authors, vectors.shape[1]))
        np.add.at(sums, owner, _unit(vectors))
        self._profiles = _unit(sums)

    def similarities(self, vectors: FloatArray) -> Iterator[FloatArray]:
        """Blocks (documents, authors) of cosines."""
        for start in range(0, len(vectors), BLOCK):
            yield _unit(vectors[start : start + BLOCK]) @ self._profiles.T


def _unit(vectors: FloatArray) -> FloatArray:
    if np.isnan(vectors).any():
        raise InputError("reidentify: a representation is NaN")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    # A zero vector has no direction: it is as far from everything.
    return np.asarray(vectors / np.where(norms > 0, norms, 1.0), dtype=np.float64)


def _sums(documents: Any, owner: IntArray, authors: int) -> Any:
    """(authors, features) sparse sums of the documents of each author."""
    from scipy.sparse import csr_array

    ones = np.ones(len(owner))
    belongs = csr_array((ones, (owner, np.arange(len(owner)))), shape=(authors, len(owner)))
    return belongs @ documents


def recalls(blocks: Iterator[FloatArray], truth: IntArray, ranks: Sequence[int]) -> FloatArray:
    """(documents, ranks) probability that the author is among the k most similar.

    Ties are broken by chance: where nothing tells authors apart, this is k / authors.

    Args:
        blocks: (documents of a block, authors) similarities, in order.
        truth: (documents,) index of each one's author.
        ranks: values of k.
    """
    out, start = [], 0
    for block in blocks:
        rounded = np.round(block, _DIGITS)
        if np.isnan(rounded).any():
            raise InputError("reidentify: a similarity is NaN")
        own = rounded[np.arange(len(block)), truth[start : start + len(block)]][:, None]
        above, tied = (rounded > own).sum(axis=1), (rounded == own).sum(axis=1)
        out.append(np.clip((np.array(ranks)[None] - above[:, None]) / tied[:, None], 0.0, 1.0))
        start += len(block)
    return np.concatenate(out)
