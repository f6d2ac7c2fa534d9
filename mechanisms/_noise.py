"""Noise on single texts and sums, and noisy unions of sets.

Functions that draw noise also return what it was drawn with. Events of what happened are made of
these numbers, never of parameters: a mechanism that draws less noise than it planned emits another
event, and nothing is proven. The noise itself is measured too (`randomness`): numbers
that do not have it stop the run.

In a union, voters share votes of norm 1 among their items, and sums get noise. Gopi et al. 2020
(arXiv:2002.09745), weighted Gaussian; proof: docs/proofs.md, theorem K.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from uedp_bench.accounting.sampler_end_delta import check_coordinates
from uedp_bench.api import InputError
from uedp_bench.api.events import ApproximateDP, Gaussian, PrivacyEvent
from uedp_bench.randomness import check_gumbel, check_laplace, check_normal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from uedp_bench.accounting.events import PrivacyUnit
    from uedp_bench.api import Corpus, Events, FloatArray, IntArray, Run


def add_laplace(
    values: FloatArray, widths: FloatArray, scales: FloatArray, rngs: Sequence[np.random.Generator]
) -> tuple[FloatArray, float]:
    """Rows plus Laplace noise, and the epsilon of the row that it protects least.

    Args:
        values: (rows, d).
        widths: (rows, d) how far a change of what is protected moves a coordinate, at most.
        scales: (rows, d) of the noise; 0 adds none.
        rngs: one a row.

    Raises:
        PrivacyError: if the rows do not have this noise.
    """
    noise = [rng.laplace(0.0, each) for rng, each in zip(rngs, scales, strict=True)]
    moves = widths > 0
    worth = np.divide(widths, scales, out=np.zeros_like(widths), where=moves & (scales > 0))
    worth[moves & (scales <= 0)] = np.inf
    noisy: FloatArray = values + np.array(noise).reshape(values.shape)
    check_laplace(values, noisy, scales, "Laplace noise on vectors")
    return noisy, float(worth.sum(axis=1).max(initial=0.0))


def add_normal(
    values: FloatArray, deviation: float, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Numbers plus independent normal noise, and the deviation that it was drawn with.

    Args:
        values: (n,).
        deviation: deviation of the noise.
        rng: secret, and for these numbers alone.

    Raises:
        PrivacyError: if the numbers do not have this noise.
    """
    noisy: FloatArray = values + rng.normal(0.0, deviation, len(values))
    check_normal(values, noisy, deviation, "normal noise on sums")
    return noisy, deviation


def add_laplace_noise(
    values: FloatArray, scale: float, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Numbers plus independent Laplace noise, and the scale that it was drawn with.

    Args:
        values: (n,).
        scale: scale of the noise.
        rng: secret, and for these numbers alone.

    Raises:
        PrivacyError: if the numbers do not have this noise.
    """
    noisy: FloatArray = values + rng.laplace(0.0, scale, len(values))
    check_laplace(values, noisy, scale, "Laplace noise on counts")
    return noisy, scale


def choose_by_score(
    scores: IntArray | FloatArray,
    factor: float,
    sensitivity: float,
    rngs: Sequence[np.random.Generator],
) -> tuple[IntArray, float]:
    """(rows,) choices of the exponential mechanism, and their epsilon.

    A choice of score u has odds e^(factor u): the largest of factor u plus standard Gumbel noise is
    drawn with these odds.

    Args:
        scores: (rows, choices).
        factor: factor of the scores.
        sensitivity: how far a change of what is protected moves a score, at most.
        rngs: one a row.

    Raises:
        PrivacyError: if the scores do not have this noise.
    """
    noise = np.stack([rng.gumbel(size=scores.shape[1]) for rng in rngs])
    check_gumbel(noise, "Gumbel noise on scores")
    return (factor * scores + noise).argmax(axis=1), 2.0 * factor * sensitivity


def spent(drawn: Iterable[float], planned: float) -> float:
    """Largest epsilon of the drawn noise; the planned one if they differ by rounding alone.

    Args:
        drawn: epsilon of each call that drew noise; empty where nothing was published.
        planned: planned epsilon.
    """
    most = max(drawn, default=planned)
    return planned if math.isclose(most, planned, rel_tol=1e-9) else most


_SAFETY = 1.0 + 1e-9
"""The threshold lies this much higher than it must, so that rounding does not lower it."""


@cache
def threshold_for(noise: float, most: int, delta: float) -> float:
    """The smallest threshold that items of one voter pass with probability `delta` at most.

    Args:
        noise: deviation of the noise on each sum of votes.
        most: items that a voter votes for, at most.
        delta: in (0, 1).

    Returns:
        max over t of 1 / sqrt(t) + noise * z_t, where all of t normal numbers are below z_t with
        probability 1 - delta (Gopi et al. 2020, arXiv:2002.09745, Theorem 5.1); not below 1.
    """
    from scipy.special import ndtri_exp

    t = np.arange(1, most + 1, dtype=np.float64)
    # log(1 - delta) / t is the logarithm of what each number is below with.
    needed = 1.0 / np.sqrt(t) + noise * ndtri_exp(math.log1p(-delta) / t)
    return max(float(needed.max()), 1.0) * _SAFETY


@cache
def unseen_mass(noise: float, most: int, threshold: float) -> float:
    """The probability that some item of one voter passes a threshold, at most.

    Args:
        noise: deviation of the noise on each sum of votes.
        most: items that a voter votes for, at most.
        threshold: bound that a noisy sum must exceed.
    """
    from scipy.special import log_ndtr

    t = np.arange(1, most + 1, dtype=np.float64)
    stays = t * log_ndtr((threshold - 1.0 / np.sqrt(t)) / noise)
    return float(-np.expm1(stays.min()))


Item = TypeVar("Item", bound=Any)
"""Whatever is voted for: it hashes and has an order."""

VotingUnit = Literal["user", "record"]
"""Voter: everything that a user wrote (a document), or a row."""

Choice = Literal["random", "frequent"]
"""Items for which a voter with too many of them votes: any, or its most frequent ones."""


class UnionRecord(NamedTuple):
    """Protection of one voter's votes: as it is planned, or as it was applied.

    Attributes:
        noise: deviation of the noise on each sum, over the norm of a voter's votes.
        most: items that a voter votes for, at most.
        threshold: lower bound on the noisy sum of a released item.
    """

    noise: float
    most: int
    threshold: float

    def events(self, unit: PrivacyUnit, about: tuple[str, ...], unseen: str) -> Events:
        """A noisy sum of vectors of norm 1, and items that only one voter has.

        Args:
            unit: unit that votes.
            about: assumptions of the noisy sum.
            unseen: noun for the items of one voter alone.
        """
        mass = unseen_mass(self.noise, self.most, self.threshold) if self.noise > 0.0 else 1.0
        return (
            PrivacyEvent(unit=unit, event=Gaussian(noise_multiplier=self.noise), assumptions=about),
            PrivacyEvent(
                unit=unit,
                event=ApproximateDP(epsilon=0.0, delta=mass),
                assumptions=(
                    f"{unseen} that one voter alone has pass the threshold {self.threshold:.6g} "
                    f"with probability {mass:.3g} at most (docs/proofs.md, noisy unions of sets)",
                ),
            ),
        )


class NoisyUnion(NamedTuple):
    """Cap, weights and noise of votes.

    Attributes:
        noise: deviation of the noise on each sum of votes; those of a voter have norm 1.
        most: m: items that a voter votes for, at most.
        choose: choice among them.
        delta_unseen: with which items that one voter alone has pass, at most.
    """

    noise: float
    most: int
    choose: Choice
    delta_unseen: float

    @property
    def threshold(self) -> float:
        """Threshold that a noisy sum of votes must exceed."""
        return threshold_for(self.noise, self.most, self.delta_unseen)

    @property
    def planned(self) -> UnionRecord:
        """The record of a union that does what these numbers say."""
        return UnionRecord(self.noise, self.most, self.threshold)

    def released(
        self, voters: Mapping[int, Mapping[Item, int]], run: Run
    ) -> tuple[dict[Item, float], UnionRecord, int]:
        """Items that pass the threshold, in order, with their noisy sums.

        Args:
            voters: count of each item of each voter.
            run: gives the draws of every voter and the noise.

        Returns:
            that; the record of noise, votes and threshold as they were applied; and how many items
            had a vote, which is private.

        Raises:
            PrivacyError: if the sums do not have the noise that was to be added.
        """
        drawn = run.fresh("votes")
        sums: dict[Item, float] = {}
        norm, most = 0.0, 0
        for voter, counts in voters.items():
            votes = self.votes(counts, drawn.rng(voter))
            norm = max(norm, math.sqrt(math.fsum(vote * vote for vote in votes.values())))
            most = max(most, len(votes))
            for item, weight in votes.items():
                sums[item] = sums.get(item, 0.0) + weight
        voted = sorted(sums)
        check_coordinates(len(voted))
        clear = np.array([sums[item] for item in voted])
        noisy, noise = add_normal(clear, self.noise, run.rng("noise"))
        passed = passing(zip(voted, noisy.tolist(), strict=True), self.threshold)
        # Votes of a norm above 1 are hidden by less noise; a norm of 1 is one up to rounding.
        excess = norm if norm > 1.0 + 1e-9 else 1.0
        record = UnionRecord(
            noise / excess, max(self.most, most), min([self.threshold, *passed.values()])
        )
        return passed, record, len(voted)

    def votes(self, counts: Mapping[Item, int], rng: np.random.Generator) -> dict[Item, float]:
        """The votes of one voter: a vector of norm 1, or of norm 0 where it has no item.

        Args:
            counts: count of each of its items.
            rng: random generator of its own.
        """
        items = sorted(counts)
        order = rng.permutation(len(items)).tolist()
        if self.choose == "frequent":
            order.sort(key=lambda at: -counts[items[at]])  # ties stay in random order
        chosen = order[: self.most]
        weight = 1.0 / math.sqrt(len(chosen)) if chosen else 0.0
        return {items[at]: weight for at in chosen}


def passing(noisy: Iterable[tuple[Item, float]], threshold: float) -> dict[Item, float]:
    """Items whose noisy sum exceeds a threshold, with it, in their order."""
    return {item: total for item, total in noisy if total > threshold}


def voters_of_rows(corpus: Corpus, rows: IntArray, unit: VotingUnit, name: str) -> IntArray:
    """(rows given,) who votes in each of some rows: its user, or its key.

    Args:
        corpus: corpus of the rows.
        rows: their numbers; they may repeat.
        unit: unit that votes.
        name: name of the mechanism, for the message.

    Raises:
        InputError: if users vote and a row has none.
    """
    voters: IntArray = (corpus.users if unit == "user" else corpus.keys)[rows]
    if unit == "user" and (voters < 0).any():
        raise InputError(
            f"{name}.unit is user, and {len(set(rows[voters < 0].tolist()))} rows have no "
            "user; set unit to record"
        )
    return voters


def items_of_voters(voters: IntArray, items: Iterable[Item]) -> dict[int, dict[Item, int]]:
    """Count the items of each voter.

    Args:
        voters: (items,) who has each item.
        items: all occurrences.
    """
    counts_of_voters: dict[int, dict[Item, int]] = {}
    for voter, item in zip(voters.tolist(), items, strict=True):
        counts = counts_of_voters.setdefault(voter, {})
        counts[item] = counts.get(item, 0) + 1
    return counts_of_voters
