"""Words that an adversary read in published text, for readers of a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from uedp_bench.attacks.word_reconstruction.aligned_words import AlignedRow
from uedp_bench.attacks.word_reconstruction.posterior import Posterior
from uedp_bench.corpus import Corpus, normal_surface
from uedp_bench.release import WordChannel
from uedp_bench.results import MOST_SAMPLES, Sample

Guess = Callable[[str], str | None]
"""The word that an adversary takes a published word for; None where it has no guess."""


def itself(published: str) -> str:
    """The guess of one who knows no channel, in the form in which guesses are compared."""
    return normal_surface(published)


def most_likely(posterior: Posterior, channel: WordChannel) -> Guess:
    """The guess of one who knows the channel and how frequent words are."""
    words = posterior.prior.words

    def guess(published: str) -> str | None:
        found = channel.find(published)
        return None if found < 0 else channel.words[int(words[posterior.guess[found]])]

    return guess


def known(channel: WordChannel) -> Guess:
    """How the channel writes a word that it knows."""

    def form(word: str) -> str | None:
        found = channel.find(word)
        return None if found < 0 else channel.words[found]

    return form


def rarest_read(
    corpus: Corpus, rows: Sequence[AlignedRow], guess: Guess, form: Guess
) -> tuple[Sample, ...]:
    """The rarest words that the adversary read right, each once, of a row each.

    Args:
        corpus: the private text.
        rows: with the published words.
        guess: of the adversary.
        form: how a private word is written where guesses are compared; None for an unknown one.
    """
    count = Counter(word for row in rows for word in row.original)
    right = [
        (count[word], word, row, row.published[at])
        for row in rows
        for word, at in zip(row.original, row.at, strict=True)
        if (read := guess(row.published[at])) is not None and read == form(word)
    ]
    right.sort(key=lambda one: one[:2])
    found: dict[str, Sample] = {}
    shown: set[int] = set()
    for _, word, row, published in right:
        if word not in found and row.row not in shown:
            shown.add(row.row)
            found[word] = Sample(
                private=corpus.texts[row.row],
                seen=" ".join(row.published),
                read=word if word == published else f"{word} (where {published} stands)",
            )
        if len(found) == MOST_SAMPLES:
            break
    return tuple(found.values())
