"""Links of documents to their authors, by similarity or by a language model that compares them.

The language model links people in the manner of Lermen et al. 2026 (arXiv:2602.16800): retrieval
by similarity, then reasoning about the ten nearest, then abstention.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.api.statistics import fraction_estimate
from uedp_bench.api.text import normal_surface
from uedp_bench.attacks._language_model import LanguageModel, excerpt

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, Estimate, FloatArray, IntArray, Run

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


CANDIDATES = 10
PRECISION = 0.9

_QUESTION = """Text of an unknown person:

{texts}

Texts of {count} people, the most similar first:

{candidates}

Which of them wrote the text of the unknown person? Reply with one JSON object and nothing else, \
such as {{"author": 1, "confidence": 0.5}}. The author is a number from 1 to {count}, or 0 if \
nobody fits; the confidence is from 0 to 1."""


class Links(NamedTuple):
    """Judgements about people.

    Attributes:
        correct: (people,) True where the model named the author.
        nearest: (people,) True where the most similar candidate is the author.
        confidence: (people,) of the judgement, -1 where nobody was named.
    """

    correct: BoolArray
    nearest: BoolArray
    confidence: FloatArray


def judge(
    model: LanguageModel,
    known_texts: Sequence[Sequence[str]],
    hidden: Sequence[Sequence[str]],
    truth: IntArray,
    run: Run,
) -> Links:
    """Ask the model about each person.

    Args:
        model: to ask.
        known_texts: texts of each candidate author.
        hidden: texts of each person to link; a person without any is not linked.
        truth: (people,) index of the author.
        run: shows progress.
    """
    joined = ["\n".join(texts) for texts in known_texts]
    profiles = TextProfiles(joined, np.arange(len(known_texts)), len(known_texts))
    near = np.concatenate([
        np.argsort(-np.round(block, 9), axis=1, kind="stable")[:, :CANDIDATES]
        for block in profiles.similarities(["\n".join(texts) for texts in hidden])
    ])  # fmt: skip
    half = model.params.characters // 2
    named = np.full(len(hidden), -1, dtype=np.int64)
    confidence = np.full(len(hidden), -1.0)
    published = np.array([any(text.strip() for text in texts) for texts in hidden])

    def read(answer: dict[str, Any]) -> tuple[int, float] | None:
        author, sure = answer.get("author"), answer.get("confidence", 0)
        if type(author) is not int or not 0 <= author <= near.shape[1]:
            return None
        return author, sure if type(sure) in (int, float) and 0 <= sure <= 1 else 0.0

    for person in np.flatnonzero(published).tolist():
        run.progress("reidentify: people", person, len(hidden))
        shown = [
            f"[{number}] {excerpt(known_texts[author], half // CANDIDATES)}"
            for number, author in enumerate(near[person].tolist(), start=1)
        ]
        question = _QUESTION.format(
            texts=excerpt(hidden[person], half), count=len(shown), candidates="\n\n".join(shown)
        )
        answer = model.ask(question, read)
        if answer is not None and answer[0] > 0:
            named[person], confidence[person] = near[person, answer[0] - 1], answer[1]
    return Links(named == truth, (near[:, 0] == truth) & published, confidence)


def link_metrics(links: Links, suffix: str, rng: np.random.Generator) -> dict[str, Estimate]:
    """Shares of people who are linked, and linked by a model that is right nine times in ten.

    Args:
        links: judgements.
        suffix: of the names of the metrics.
        rng: draws the half of the people on which the confidence needed is fixed.
    """
    people = len(links.correct)
    order = rng.permutation(people)
    fixed, scored = order[: people // 2], order[people // 2 :]
    least = np.inf
    for level in np.unique(links.confidence[fixed][links.confidence[fixed] >= 0]):
        if links.correct[fixed][links.confidence[fixed] >= level].mean() >= PRECISION:
            least = float(level)
            break
    sure = links.correct[scored] & (links.confidence[scored] >= least)
    return {
        f"recall_at_1_llm{suffix}": fraction_estimate(int(links.correct.sum()), people),
        f"recall_at_1_person{suffix}": fraction_estimate(int(links.nearest.sum()), people),
        f"recall_at_90_precision{suffix}": fraction_estimate(int(sure.sum()), len(scored)),
    }
