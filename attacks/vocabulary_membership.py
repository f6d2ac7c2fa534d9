"""Vocabulary membership: is a rare name of the training text a word, or a piece, of a release?"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import Attack, Estimate, InputError, Leakage, Metric, Params, Planted
from uedp_bench.api.capabilities import Tokenised
from uedp_bench.api.statistics import Scores, auc_estimate, fraction_estimate
from uedp_bench.api.text import normal_surface, or_alone
from uedp_bench.attacks._planting import inserted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uedp_bench.api import Corpus, IntArray, Release, Run
    from uedp_bench.api.networks import Vocabulary

_CONSONANTS, _VOWELS = "bdfghklmnprstvz", "aeiou"
_SYLLABLES = 4
_UNREAD = 1_000
"""Pieces of a name that the vocabulary does not know, as far as ranks go."""


class VocabularyMembershipParams(Params):
    """Parameters of `vocabulary-membership`: how many names, in the text of how many users."""

    users: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(1, 10),
        min_length=1,
        description="users who have each planted name once; one group of names for each number",
    )
    names: int = Field(default=20, ge=2, description="planted names in each group")
    controls: int = Field(default=200, ge=2, description="names that nobody has")

    @model_validator(mode="after")
    def _once(self) -> VocabularyMembershipParams:
        if len(set(self.users)) < len(self.users):
            raise ValueError(f"users is {self.users}: give each number once")
        return self


class PlantedNames(Planted):
    """Names, and how many users have each.

    Attributes:
        names: planted ones, by the number of users who have each.
        controls: names that nobody has.
    """

    names: dict[int, tuple[str, ...]] = Field(default_factory=dict)
    controls: tuple[str, ...] = ()


class VocabularyMembership(Attack[VocabularyMembershipParams]):
    """Tells from the vocabulary of a release alone which names the training text has.

    Names are drawn as other names are, which nobody has: four syllables at random. Each planted
    name is inserted once into a row of so many users. The adversary says that a name was there
    where it is one token of the vocabulary (alone, or behind a space). Fewer pieces rank higher.
    """

    name = "vocabulary-membership"
    source = "Hoory et al. 2021, section 3.2 (what a vocabulary of private text shows)"
    Params = VocabularyMembershipParams
    metrics = (
        Metric("vocabulary_advantage_*", "names in vocabulary, advantage", "share of planted names "
               "of so many users that are one token, less the share of names that nobody has",
               "lower", low=-1.0, high=1.0, no_leak=0.0),
        Metric.share("vocabulary_auc_*", "names in vocabulary, AUC", "of telling planted names "
                     "from names that nobody has by the number of their pieces", "lower",
                     no_leak=0.5),
        Metric.rate("vocabulary_found_*", "names in vocabulary", "share of planted names of so "
                    "many users that are one token", "lower"),
        Metric.rate("vocabulary_false_alarms", "names in vocabulary, of nobody", "share of names "
                    "that nobody has that are one token"),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Tokenised,)
    planted_type = PlantedNames

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedNames]:
        """Inserts names into training rows, one row of each user who is to have it.

        Raises:
            InputError: if the train split has too few users whose rows nothing was planted in.
        """
        p = self.params
        free = np.flatnonzero(corpus.where("train") & (corpus.origin >= 0))
        owners = or_alone(corpus.users)[free]
        authors = np.unique(owners)
        if len(authors) < max(p.users):
            raise InputError(
                f"{self.name}.users: {max(p.users)} users of the train split are to have a name, "
                f"and {len(authors)} have rows that nothing else was planted in"
            )
        new_names = _names(len(p.users) * p.names + p.controls, corpus, rng)
        # One row of each user, another one for each name.
        order = np.lexsort([rng.random(len(free)), owners])
        rows, owners = free[order], owners[order]
        starts = np.searchsorted(owners, authors)
        sizes = np.diff([*starts, len(owners)])
        pieces, planted = [], {}
        for count in p.users:
            planted[count] = tuple(new_names.pop() for _ in range(p.names))
            for name in planted[count]:
                users = rng.choice(len(authors), count, replace=False)
                hit: IntArray = rows[starts[users] + rng.integers(sizes[users])]
                pieces.append((name, hit))
        return inserted(corpus, pieces, rng), PlantedNames(names=planted, controls=tuple(new_names))

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """See `Attack`: a release without a vocabulary."""
        if _vocabulary(release) is None:
            return "the release has no vocabulary: its encoder is frozen, or reads vectors"
        return None

    def run(self, release: Release, planted: PlantedNames, corpus: Corpus, run: Run) -> Leakage:
        """Looks every name up."""
        vocabulary = _vocabulary(release)
        if vocabulary is None:
            raise InputError(f"{self.name} needs a vocabulary, not a {type(release).__name__}")
        without = pieces_of(planted.controls, vocabulary)
        rng = run.shared(self.name, "bootstrap")
        metrics: dict[str, Estimate] = {}
        details = []
        for count, names in sorted(planted.names.items(), reverse=True):  # the headline comes first
            pieces = pieces_of(names, vocabulary)
            metrics[f"vocabulary_advantage_{count}"] = _advantage(pieces, without)
            metrics[f"vocabulary_auc_{count}"] = auc_estimate(
                _ranked(pieces), _ranked(without), rng
            )
            metrics[f"vocabulary_found_{count}"] = _share(pieces)
            details.append({
                "users": count, "names": list(names),
                "pieces": [_piece_count(one) for one in pieces],
            })  # fmt: skip
        metrics["vocabulary_false_alarms"] = _share(without)
        return Leakage(metrics, {
            "planted": details,
            "control_pieces": [_piece_count(one) for one in without],
            "vocabulary": {
                "size": vocabulary.size, "origin": vocabulary.origin, "private": vocabulary.private,
            },
        })  # fmt: skip


def _vocabulary(release: Release) -> Vocabulary | None:
    """Vocabulary of the release; None where it reads vectors, or its encoder is frozen."""
    return release.vocabulary if isinstance(release, Tokenised) else None


def pieces_of(names: Sequence[str], vocabulary: Vocabulary) -> IntArray:
    """(names,) tokens of each name, alone or behind a space; `_UNREAD` where one is unknown."""
    counts = []
    for texts in (list(names), [f" {name}" for name in names]):
        rows = vocabulary.encode(texts)
        readable = [bool(row) and vocabulary.unknown not in row for row in rows]
        counts.append([len(r) if k else _UNREAD for r, k in zip(rows, readable, strict=True)])
    fewest: IntArray = np.array(counts, dtype=np.int64).min(axis=0)
    return fewest


def _names(count: int, corpus: Corpus, rng: np.random.Generator) -> list[str]:
    """Different names that no row of the corpus has, in any case."""
    used = {word for text in corpus.texts for word in normal_surface(text).split()}
    names: dict[str, None] = {}
    while len(names) < count:
        name = "".join(
            _CONSONANTS[rng.integers(len(_CONSONANTS))] + _VOWELS[rng.integers(len(_VOWELS))]
            for _ in range(_SYLLABLES)
        )
        if name not in used:
            names[name] = None
    return list(names)


def _piece_count(pieces: int) -> int | None:
    return None if pieces == _UNREAD else int(pieces)


def _share(pieces: IntArray) -> Estimate:
    return fraction_estimate(int((pieces == 1).sum()), len(pieces))


def _ranked(pieces: IntArray) -> Scores:
    """Fewer pieces rank higher; every name is a unit of its own."""
    return Scores(-pieces.astype(np.float64), np.arange(len(pieces)))


def _advantage(planted: IntArray, without: IntArray) -> Estimate:
    """Share of planted names less share of controls that are one token.

    The interval of two shares' difference is made of theirs (Newcombe 1998, method 10), here the
    exact ones.
    """
    one, other = _share(planted), _share(without)
    value = one.value - other.value

    def beyond(upper: Estimate, lower: Estimate) -> float:
        return math.hypot((upper.high or 0.0) - upper.value, lower.value - (lower.low or 0.0))

    low, high = value - beyond(other, one), value + beyond(one, other)
    return Estimate(value=value, low=low, high=high)
