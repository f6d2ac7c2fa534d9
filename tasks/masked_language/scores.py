"""Scores of predicting words of test rows, each hidden once with all its pieces."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.api import BoolArray, FloatArray, InputError, IntArray, Utility
from uedp_bench.api.capabilities import MaskFiller
from uedp_bench.api.text import or_alone
from uedp_bench.models.word_rows import pieces_of
from uedp_bench.tasks.language.ngrams import NGramModel
from uedp_bench.tasks.masked_language.masks import uniforms
from uedp_bench.tasks.tokens.rows import TextRows, perplexity, ratio

if TYPE_CHECKING:
    from uedp_bench.api import Corpus
    from uedp_bench.api.networks import MaskedVocabulary
    from uedp_bench.tasks.masked_language.masked_model import MaskedReader

_BINS: Mapping[str, tuple[int, float]] = {
    "frequent": (0, 100),
    "middle": (100, 1000),
    "rare": (1000, np.inf),
}
"""Ranks of words in public text, from 0 and below the second number, by the name of the bin."""

_TURN = 7
"""Purpose of the numbers that say in which pass a word is hidden."""


@dataclass(frozen=True, eq=False)
class WordPieces:
    """Words of rows as pieces, in windows of whole words that a model reads at once.

    Attributes:
        words: words of the texts, row after row.
        row: (words,) of each.
        pieces: pieces of each word, one at least.
        windows: first word of each window, and the number of words as the last entry.
    """

    words: tuple[str, ...]
    row: IntArray
    pieces: tuple[tuple[int, ...], ...]
    windows: IntArray

    @staticmethod
    def from_texts(texts: Sequence[str], reader: MaskedReader) -> WordPieces:
        """The words of texts; pieces of a word past the model's limit are left out."""
        rows = [text.split() for text in texts]
        room = reader.room
        pieces_by_word = pieces_of(rows, reader.vocabulary)
        words: list[str] = []
        row: list[int] = []
        pieces: list[tuple[int, ...]] = []
        windows: list[int] = []
        for number, of_row in enumerate(rows):
            used = room
            for at, word in enumerate(of_row):
                cut = tuple(pieces_by_word[min(at, 1), word][:room])
                if at == 0 or used + len(cut) > room:
                    windows.append(len(words))
                    used = 0
                used += len(cut)
                words.append(word)
                row.append(number)
                pieces.append(cut)
        return WordPieces(
            tuple(words),
            np.array(row, dtype=np.int64),
            tuple(pieces),
            np.array([*windows, len(words)], dtype=np.int64),
        )

    @cached_property
    def lengths(self) -> IntArray:
        """(words,) pieces of each."""
        return np.array([len(word) for word in self.pieces], dtype=np.int64)

    def rows_of_pieces(self, vocabulary: MaskedVocabulary) -> TextRows:
        """Windows as rows of pieces, without begin and end."""
        rows = [
            [token for word in self.pieces[a:b] for token in word]
            for a, b in zip(self.windows[:-1], self.windows[1:], strict=True)
        ]
        return TextRows.build(rows, vocabulary)

    def turns(self, rate: float, enough: int) -> list[tuple[int, IntArray]]:
        """Window and words of passes that hide a share of the words each.

        Each word is in one of all passes, every one of them as likely; it depends on its window.

        Args:
            rate: share of the words of a window.
            enough: number of words after which no further pass is made.
        """
        passes = max(1, round(1.0 / rate))
        pass_count = min(passes, -(-enough * passes // len(self.words)))
        hidden_words = []
        for number, (a, b) in enumerate(zip(self.windows[:-1], self.windows[1:], strict=True)):
            text = " ".join(self.words[a:b]).encode("utf-8", "replace")
            drawn = uniforms(np.array([zlib.crc32(text)]), _TURN, int(b - a) + 1)[0]
            turn = np.empty(b - a, dtype=np.int64)
            turn[np.argsort(drawn[1:])] = np.arange(b - a) + int(drawn[0] * passes)
            hidden_words += [
                (number, a + np.flatnonzero(turn % passes == number_of_pass))
                for number_of_pass in range(pass_count)
            ]
        return [(number, words) for number, words in hidden_words if len(words)]


def score_masked(release: MaskFiller, reader: MaskedReader, corpus: Corpus, enough: int) -> Utility:
    """Metrics of `masked-language-model`, with intervals over users, and their details.

    Args:
        release: release to score.
        reader: reads rows as the task says.
        corpus: original corpus; words of the split `test` are hidden.
        enough: words that are hidden, at least, if there are so many.

    Raises:
        InputError: if it has no test row with a word.
    """
    test = corpus.only("test")
    read, vocabulary = WordPieces.from_texts(test.texts, reader), reader.vocabulary
    if not read.words:
        raise InputError("the corpus has no row with a word in the split 'test' to score")
    scored, nats, right = _predicted(release, read, reader.rate, enough)
    users = or_alone(test.users)[read.row[scored]]
    unknown = -1 if vocabulary.unknown is None else vocabulary.unknown
    pieces = [read.pieces[word] for word in scored.tolist()]
    in_vocabulary, lengths = (
        np.array([unknown not in word for word in pieces]),
        read.lengths[scored],
    )
    train = WordPieces.from_texts(corpus.only("train").texts, reader)
    one, two = (_ngram_nats(order, train, read, vocabulary)[scored] for order in (1, 2))
    most = _most_frequent(train, unknown)
    every, words = np.ones_like(in_vocabulary), [read.words[word] for word in scored.tolist()]
    spelt = np.log(256.0) * np.array([len(word.encode("utf-8", "replace")) + 1 for word in words])
    metrics = {
        "pseudo_perplexity": perplexity(nats, every, users),
        "pseudo_perplexity_open": perplexity(nats + spelt * ~in_vocabulary, every, users),
        "pseudo_perplexity_piece": perplexity(nats, lengths, users),
        "oov_rate": ratio(~in_vocabulary, every, users),
        "unigram_perplexity": perplexity(one, every, users),
        "bigram_perplexity": perplexity(two, every, users),
    }
    if in_vocabulary.any():
        constant = np.array([word == most for word in pieces])
        metrics["pseudo_perplexity_known"] = perplexity(
            np.where(in_vocabulary, nats, 0.0), in_vocabulary, users
        )
        metrics["accuracy"] = ratio(right & in_vocabulary, in_vocabulary, users)
        metrics["constant_accuracy"] = ratio(constant, in_vocabulary, users)
    for name, members in _bins(words, corpus).items():
        if (selected := members & in_vocabulary).any():
            metrics[f"{name}_accuracy"] = ratio(right & selected, selected, users)
    details = {"words": len(read.words), "scored_words": len(scored)}
    return Utility(metrics, {**details, "pieces_per_word": float(read.lengths.mean())})


def _predicted(
    release: MaskFiller, read: WordPieces, rate: float, enough: int
) -> tuple[IntArray, FloatArray, BoolArray]:
    """(scored words,) numbers of words, and nats of each, hidden with all its pieces.

    The last is True where all pieces are right.
    """
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(read.lengths)])
    rows, hidden, hidden_words = [], [], []
    for window, words in read.turns(rate, enough):
        a, b = read.windows[window], read.windows[window + 1]
        rows.append([token for word in read.pieces[a:b] for token in word])
        places = [np.arange(starts[word], starts[word + 1]) for word in words]
        hidden.append(np.concatenate(places) - starts[a])
        hidden_words.append(words)
    nats, wrong = np.zeros(len(read.words)), np.zeros(len(read.words))
    for words, scores in zip(hidden_words, release.masked_logprobs(rows, hidden), strict=True):
        of_pieces = np.repeat(words, read.lengths[words])
        np.subtract.at(nats, of_pieces, scores.logp)
        np.add.at(wrong, of_pieces, ~scores.correct)
    scored: IntArray = np.sort(np.concatenate(hidden_words))
    return scored, nats[scored], wrong[scored] == 0


def _ngram_nats(
    order: int, train: WordPieces, test: WordPieces, vocabulary: MaskedVocabulary
) -> FloatArray:
    """(words,) nats under a model of piece sequences; every tenth window chooses its weights."""
    rows = train.rows_of_pieces(vocabulary)
    every = np.arange(len(rows))
    chosen = every % 10 == 0 if len(rows) > 1 else every >= 0
    kept = ~chosen if len(rows) > 1 else chosen
    counted, weighed = (_some(rows, which) for which in (kept, chosen))
    nats = NGramModel(order, vocabulary.size, counted, weighed).nats(
        test.rows_of_pieces(vocabulary)
    )
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(test.lengths)])[:-1]
    return np.add.reduceat(nats, starts)


def _some(rows: TextRows, which: BoolArray) -> TextRows:
    inside = np.repeat(which, rows.lengths)
    offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(rows.lengths[which])])
    return TextRows(rows.flat[inside], offsets, rows.begin, rows.padding)


def _most_frequent(train: WordPieces, unknown: int) -> tuple[int, ...]:
    counts = Counter(word for word in train.pieces if unknown not in word)
    return max(counts, key=lambda word: (counts[word], word), default=())


def _bins(words: Sequence[str], corpus: Corpus) -> dict[str, BoolArray]:
    """(words,) which are in each bin; none where there is no public text."""
    public = corpus.only("public")
    if not len(public):
        return {}
    counts = Counter(word for text in public.texts for word in text.lower().split())
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    ranks = {word: rank for rank, word in enumerate(ranked)}
    rank = np.array([ranks.get(word.lower(), len(ranks)) for word in words])
    # A word that public text lacks is rare, however few words that has.
    unseen = rank == len(ranks)
    return {
        name: ((low <= rank) & (rank < high) & ~unseen) | (unseen & np.isinf(high))
        for name, (low, high) in _BINS.items()
    }
