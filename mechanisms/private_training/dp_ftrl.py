"""User-level DP without trusted sampling: noise that a banded matrix correlates over rounds.

DP-FTRL (Kairouz et al. 2021, arXiv:2103.00039) with a banded factorisation (Choquette-Choo et al.
2023, arXiv:2306.08153). Statement, proof and limits: `docs/mechanisms/dp-ftrl.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats, Events, InputError, PublicUnits
from uedp_bench.api.events import (
    AnyEvent,
    BandedFactorization,
    Claim,
    Gaussian,
    PrivacyEvent,
    Protected,
)
from uedp_bench.api.text import owner_numbers, users_of
from uedp_bench.mechanisms.private_training.parameters import CLIPPED, FederatedParams
from uedp_bench.mechanisms.private_training.target import TargetMechanism, TargetParams
from uedp_bench.mechanisms.private_training.users import (
    capped_weights,
    public_users,
    size_refusals,
    units_of,
)

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Index, Run
    from uedp_bench.api.networks import Learner
    from uedp_bench.api.sampling import Participation, Sampler

ASSUMPTIONS = (
    "number of users, cohorts, rounds, clip bound, weights' cap, coefficients and noise are public "
    "constants",
    "a user's cohort is drawn for it alone, whoever else is there",
    "every user's update is clipped after local training, whatever its data",
    "vocabulary and initial weights do not depend on private text",
)

MOST_BANDS = 16
"""Bands where none are asked for: each costs a copy of the weights in float64."""


class DPFTRLParams(FederatedParams, TargetParams):
    """Parameters of rounds of cohorts in turns, and of the matrix."""

    rounds: int = Field(default=60, ge=1, le=1_000_000, description="rounds T")
    noise_multiplier: float | None = Field(
        default=1.0,
        ge=0,
        description="z: noise over clip before the matrix correlates it, with columns of norm 1",
    )
    bands: int | None = Field(
        default=None,
        ge=1,
        description="b: rounds over which noise is correlated, no more than there are cohorts; 1: "
        "independent; default: all cohorts, at most 16",
    )
    protected_spread: int = Field(
        default=3,
        ge=0,
        description="k: other users that mention the entity, at most, for which the guarantee of a "
        "user together with an entity is given",
    )

    @model_validator(mode="after")
    def _one_bound(self) -> DPFTRLParams:
        if self.clip_policy == "adaptive":
            raise ValueError(
                "clip_policy is 'adaptive', but the noise of a round takes off that of earlier "
                "rounds only at one clip bound; take 'flat' or 'per-layer'"
            )
        return self


class DPFTRL(TargetMechanism[DPFTRLParams]):
    """Cohorts take part in turns; the noise of a round takes off part of that of rounds before."""

    name = "dp-ftrl"
    version = 2
    unit = "user"
    fresh_noise = True
    source = "Choquette-Choo et al. 2023 (arXiv:2306.08153), sections 3 and 4"
    Params = DPFTRLParams

    def plan(self, stats: CorpusStats) -> Events:
        """All rounds as one event, for a user alone and for a user together with an entity."""
        return self.planned(stats, self.noise(stats))

    def planned(self, stats: CorpusStats, noise: float) -> Events:
        """See `TargetMechanism`."""
        schedule = self._schedule(public_users(self.params, stats, self.name))
        return self._events((
            BandedFactorization(
                rounds=self.params.rounds,
                coefficients=self._coefficients(schedule.separation),
                noise_multiplier=noise,
                separation=schedule.separation,
                participations=schedule.participations,
                population=schedule.population,
            ),
        ))  # fmt: skip

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """One Gaussian mechanism, where a user's data turn into zeros."""
        event = self.plan(stats)[0].event
        if not isinstance(event, BandedFactorization):
            return ()
        return (
            Claim(
                unit="user",
                adjacency="zero-out",
                event=Gaussian(noise_multiplier=event.noise_multiplier / event.sensitivity),
                accountant="pld",
                source="Choquette-Choo et al. 2023 (arXiv:2306.08153), section 4",
            ),
        )

    def units(self, stats: CorpusStats) -> PublicUnits:
        """Users of the train split, in cohorts that each of them draws."""
        return units_of(self.params, stats, self.name)

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """The number of users, which decides about the cohorts, must be public."""
        return size_refusals(self.params.users, stats, self.name)

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains on the users of the training split, one cohort a round."""
        from uedp_bench.api.training import BandedNoise, Federation, train_federated

        p, units, noise = self.params, users_of(corpus), self.noise(run.stats)
        users = public_users(p, run.stats, self.name)
        # If more users train than declared, more than users - 1 others might mention an entity.
        schedule = replace(self._schedule(users), population=max(users, len(units)))
        trained = train_federated(
            Federation(
                rounds=p.rounds,
                units=units,
                sampler=self._sampler(corpus, units, schedule, run),
                local=p.local("mean"),
                bound=p.bound(p.clip, noise, users / schedule.separation),
                noise=BandedNoise(self._coefficients(schedule.separation), noise),
                # Expected users of a cohort, a public constant.
                denominator=users / schedule.separation,
                server=p.server(),
                unit_weights=capped_weights(units.counts, p.user_cap),
                rows_per_unit=p.rows_per_user,
                clients=True,
            ),
            learner,
            run,
        )
        return trained.module, self._events(trained.rounds)

    def _schedule(self, users: int) -> Participation:
        """Cohorts of about `users_per_round` in turns."""
        from uedp_bench.api.sampling import Participation

        cohorts = users // self.params.users_per_round
        return Participation(
            separation=cohorts, participations=-(-self.params.rounds // cohorts), population=users
        )

    def _sampler(self, corpus: Corpus, units: Index, schedule: Participation, run: Run) -> Sampler:
        from uedp_bench.api.sampling import CyclicCohorts, Guarded

        cohorts = schedule.separation
        # A number of each user's own: that somebody comes or goes moves nobody else (C8).
        numbers = owner_numbers(corpus, run.seed, self.name, "cohorts")
        drawn = np.floor(numbers[units.rows[units.offsets[:-1]]] * cohorts).astype(np.int64)
        return Guarded(CyclicCohorts(drawn, cohorts), schedule, len(units))

    def _coefficients(self, cohorts: int) -> tuple[float, ...]:
        p = self.params
        bands = min(cohorts, MOST_BANDS) if p.bands is None else p.bands
        if bands > cohorts:
            raise InputError(
                f"{self.name}.bands is {bands}, but rounds of one user are only {cohorts} apart; "
                f"choose at most {cohorts}, or fewer users_per_round"
            )
        return least_error(p.rounds, min(bands, p.rounds))

    def _events(self, rounds: Sequence[AnyEvent]) -> Events:
        point = Protected(spread=self.params.protected_spread)
        assumptions = (*ASSUMPTIONS, *CLIPPED[self.params.clip_policy])
        return tuple(
            # Marked, so that both are known to be about one release.
            PrivacyEvent(
                unit=unit, event=event, assumptions=assumptions, protected=at, stage=self.name
            )
            for event in rounds
            for unit, at in (("user", None), ("user-entity", point))
        )


# Server steps add up the noisy sums of all rounds, so that the weights after round t carry row t of
# A C^-1 Z: A is the matrix of ones below and on the diagonal, Z independent noise, and C the lower-
# triangular Toeplitz matrix whose first column begins with the coefficients. In power series modulo
# x^n, C is c(x) and A C^-1 is 1 / ((1 - x) c(x)). No matrix is ever built.

DIGITS = 6
"""Decimals of a coefficient: fewer than an optimiser's last digits, which depend on the machine."""

_LEAST_RATIO = 1e-3


def square_root(bands: int) -> NDArray[np.float64]:
    """(bands,) the first coefficients of the square root of A: (1 - x)^(-1/2).

    It is optimal for the largest error over all rounds where every unit takes part once and nothing
    is cut off (Fichtenberger et al. 2023, arXiv:2202.11205; Dvijotham et al. 2024,
    arXiv:2404.16706); cut off, it is the banded square root (Kalinin and Lampert 2024,
    arXiv:2405.13763).
    """
    k = np.arange(1, bands, dtype=np.float64)
    return np.concatenate([[1.0], np.cumprod(1.0 - 0.5 / k)])


@lru_cache(maxsize=64)
def least_error(rounds: int, bands: int) -> tuple[float, ...]:
    """(bands,) coefficients of norm 1 whose mean squared error over all rounds is the smallest.

    `squared_errors`, averaged over rounds, is minimised by L-BFGS from the square root, with its
    exact gradient (McKenna 2024, arXiv:2405.15913, section 3). A unit's columns do not overlap, so
    the number of its participations only multiplies the error, and the optimum is the same for any.

    Sought are the ratios of neighbouring coefficients, none above 1: then no root of c lies inside
    the unit circle (Enestrom and Kakeya), and C^-1 does not grow without bound on the way.

    Args:
        rounds: n.
        bands: b, at most n.
    """
    from scipy.optimize import minimize

    coefficients = square_root(bands)
    if bands > 1:
        best = minimize(
            _log_error,
            coefficients[1:] / coefficients[:-1],
            args=(rounds,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(_LEAST_RATIO, 1.0)] * (bands - 1),
            tol=1e-10,
        )
        coefficients = _of_ratios(best.x)
    return tuple(np.round(coefficients / np.linalg.norm(coefficients), DIGITS).tolist())


def squared_errors(coefficients: Sequence[float], rounds: int) -> NDArray[np.float64]:
    """(rounds,) expected squared noise in a weight after each round, in units of the clip bound.

    For Z of deviation 1 over the largest norm of a column: so matrices compare at one privacy of
    units that take part once.
    """
    column = np.asarray(coefficients, dtype=np.float64)
    return np.asarray(np.cumsum(_sums(column, rounds) ** 2) * (column @ column))


def _sums(coefficients: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """(rounds,) first column of A C^-1."""
    return _divided(np.ones(rounds), coefficients)


def _divided(series: NDArray[np.float64], coefficients: NDArray[np.float64]) -> NDArray[np.float64]:
    """The power series over that of the coefficients, as many terms."""
    from scipy.signal import lfilter

    return np.asarray(lfilter([1.0], coefficients, series))


def _of_ratios(ratios: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coefficients (1, r_1, r_1 r_2, ...)."""
    return np.concatenate([[1.0], np.cumprod(ratios)])


def _log_error(ratios: NDArray[np.float64], rounds: int) -> tuple[float, list[float]]:
    """Logarithm of the mean of `squared_errors` at these ratios, and its gradient."""
    coefficients = _of_ratios(ratios)
    sums = _sums(coefficients, rounds)
    # Entry t of the column is in rounds - t of the prefix sums.
    weighted = sums * (rounds - np.arange(rounds)) / rounds
    error, norm = float(weighted @ sums), float(coefficients @ coefficients)
    # d sums / d c_j is -x^j sums / c.
    slopes = _divided(sums, coefficients)
    by_sums = np.asarray([weighted[j:] @ slopes[: rounds - j] for j in range(len(coefficients))])
    gradient = 2.0 * (coefficients / norm - by_sums / error)
    # A ratio is in its coefficient and in all behind it.
    behind = np.cumsum((gradient * coefficients)[:0:-1])[::-1]
    return float(np.log(error * norm)), (behind / ratios).tolist()
