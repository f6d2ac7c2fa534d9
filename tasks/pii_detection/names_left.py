"""Labelled names that still stand in a text after de-identification."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from uedp_bench.api import Estimate
from uedp_bench.api.statistics import ratio_estimate
from uedp_bench.corpus import Corpus, Layer, or_alone
from uedp_bench.text.comparison import NormalWord, normal_words, without_accents


class NamesLeft(NamedTuple):
    """Labelled names in published texts.

    Attributes:
        utility: `names_left` and `rows_left`, shares with intervals over users.
        details: counts, of all and by type.
    """

    utility: dict[str, Estimate]
    details: dict[str, Any]


def names_left(
    corpus: Corpus, gold: Layer, published: Corpus, rng: np.random.Generator
) -> NamesLeft | None:
    """Labelled mentions whose words still stand, in their order, in what was made of their row.

    Words are compared in their normal form, without accents and without the signs between them:
    "José_Núñez" and "jose nunez" are one name. What begins or ends where a word does must do so
    again: "Ann" is not left in "annual". A name that is left once counts for all its mentions in
    the row, as it does for a reader.

    Args:
        corpus: original.
        gold: what people labelled in it; rows that it does not annotate completely, rows that an
            attack planted and public rows are left out.
        published: what was made of it; `origin` says of which row each was made.
        rng: random generator for the resampling.

    Returns:
        None where no row with a label was published as text.
    """
    if published.vectors is not None:
        return None
    texts: dict[int, list[_Letters]] = {}
    for text, origin in zip(published.texts, published.origin.tolist(), strict=True):
        if origin >= 0:
            texts.setdefault(origin, []).append(_Letters.read(text))
    counts = gold.rows & ~corpus.where("public") & (corpus.origin >= 0)
    names = [
        (row, kind, int(corpus.origin[row]), _Name.read(corpus.texts[row], start, end))
        for row, start, end, kind in gold.spans.mentions()
        if counts[row] and int(corpus.origin[row]) in texts
    ]
    if not names:
        return None
    left = np.array([any(text.holds(name) for text in texts[at]) for _, _, at, name in names])
    rows = np.array([row for row, *_ in names])
    users = or_alone(corpus.users)
    distinct, place = np.unique(rows, return_inverse=True)
    by_row = np.bincount(place, weights=left, minlength=len(distinct)) > 0
    utility = {
        "names_left": _share(left, users[rows], rng),
        "rows_left": _share(by_row, users[distinct], rng),
    }
    kinds = np.array([kind for _, kind, *_ in names])
    by_type = {
        name: {"mentions": int((kinds == at).sum()), "left": int(left[kinds == at].sum())}
        for at, name in enumerate(gold.types)
        if (kinds == at).any()
    }
    return NamesLeft(utility, {
        "mentions": len(names),
        "mentions_left": int(left.sum()),
        "rows": len(distinct),
        "rows_left": int(by_row.sum()),
        "types": by_type,
    })  # fmt: skip


class _Name(NamedTuple):
    """A labelled mention.

    Attributes:
        letters: letters of its words, in their normal form; its other signs where it has no word.
        begins, ends: a word of its row begins where it does, and ends where it does.
    """

    letters: str
    begins: bool
    ends: bool

    @classmethod
    def read(cls, text: str, start: int, end: int) -> _Name:
        """The mention between two places of a text."""
        words = normal_words(text)
        return cls(
            _joined(normal_words(text[start:end])),
            begins=not any(word.start < start < word.end for word in words),
            ends=not any(word.start < end < word.end for word in words),
        )


class _Letters(NamedTuple):
    """Letters of all words of a text, and those of all its signs.

    Attributes:
        words: letters of words, joined.
        edges: places where a word begins or ends.
        signs: forms of words and other signs, joined.
    """

    words: str
    edges: frozenset[int]
    signs: str

    @classmethod
    def read(cls, text: str) -> _Letters:
        """The letters of a text."""
        words = normal_words(text)
        forms = [without_accents(word.form) for word in words if word.is_name]
        ends = np.cumsum([0, *map(len, forms)]).tolist()
        return cls("".join(forms), frozenset(ends), "".join(word.form for word in words))

    def holds(self, name: _Name) -> bool:
        """True if the name stands in the text."""
        if not name.letters:
            return False
        if not name.letters[0].isalnum():
            return name.letters in self.signs
        at = self.words.find(name.letters)
        while at >= 0:
            end = at + len(name.letters)
            if (at in self.edges or not name.begins) and (end in self.edges or not name.ends):
                return True
            at = self.words.find(name.letters, at + 1)
        return False


def _joined(words: tuple[NormalWord, ...]) -> str:
    named = [without_accents(word.form) for word in words if word.is_name]
    return "".join(named or [word.form for word in words])


def _share(hits: Any, owners: Any, rng: np.random.Generator) -> Estimate:
    return ratio_estimate(hits.astype(np.float64), np.ones(len(hits)), rng, owners)
