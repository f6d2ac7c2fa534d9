"""Samplers draw at the rate that their event states."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from uedp_bench.accounting.events import Gaussian
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.training.sampling import (
    CyclicCohorts,
    FixedSizeSampler,
    Guarded,
    Participation,
    PoissonSampler,
    Sampled,
    TakingPart,
)


def test_poisson_rates_are_right_and_coins_independent() -> None:
    population, rate, rounds = 200, 0.07, 2_000
    sampler, rng = PoissonSampler(population, rate), np.random.default_rng(0)
    drawn = np.zeros((rounds, population), dtype=bool)
    for i in range(rounds):
        drawn[i, sampler.draw(rng).units] = True
    assert stats.binomtest(int(drawn.sum()), rounds * population, rate).pvalue > 1e-3
    # Numbers taking part are Binomial: a fixed-size sampler has no variance at all.
    sizes = drawn.sum(axis=1)
    expected = population * rate * (1 - rate)
    low, high = stats.chi2.ppf([1e-4, 1 - 1e-4], rounds - 1) / (rounds - 1)
    assert low < sizes.var(ddof=1) / expected < high
    pairs = (drawn[:, :-1] & drawn[:, 1:]).sum()
    assert stats.binomtest(int(pairs), rounds * (population - 1), rate**2).pvalue > 1e-3


def test_rates_zero_and_one() -> None:
    rng = np.random.default_rng(0)
    assert len(PoissonSampler(50, 0.0).draw(rng).units) == 0
    assert len(PoissonSampler(50, 1.0).draw(rng).units) == 50


def test_fixed_size_is_exact_uniform_and_without_replacement() -> None:
    sampler, rng = FixedSizeSampler(30, 10), np.random.default_rng(0)
    counts = np.zeros(30)
    for _ in range(3_000):
        drawn = sampler.draw(rng).units
        assert len(np.unique(drawn)) == 10
        counts[drawn] += 1
    assert stats.chisquare(counts).pvalue > 1e-3


def test_events_say_what_is_done() -> None:
    gaussian = Gaussian(noise_multiplier=1.0)
    assert PoissonSampler(100, 0.1).event(gaussian).kind == "poisson-sampled"
    fixed = FixedSizeSampler(100, 10).event(gaussian)
    assert (fixed.kind, fixed.population, fixed.sample) == ("fixed-size-sampled", 100, 10)


def test_a_round_cannot_need_more_users_than_there_are() -> None:
    with pytest.raises(InputError, match="11 users"):
        FixedSizeSampler(10, 11)


RNG = np.random.default_rng(0)
GAUSSIAN = Gaussian(noise_multiplier=1.0)


class Scripted:
    """Draws what it was given."""

    def __init__(self, *rounds: list[int]) -> None:
        self._rounds = list(rounds)

    def draw(self, rng: np.random.Generator) -> TakingPart:
        return TakingPart(np.array(self._rounds.pop(0), dtype=np.int64), self.event)

    def event(self, gaussian: Gaussian) -> Sampled:
        return gaussian


def test_cohorts_take_part_in_turns_and_draw_nothing() -> None:
    sampler = CyclicCohorts(np.array([2, 0, 2, 1]), 3)
    rounds = [sampler.draw(None).units.tolist() for _ in range(7)]  # type: ignore[arg-type]
    assert rounds == [[1], [3], [0, 2], [1], [3], [0, 2], [1]]
    with pytest.raises(PrivacyError, match=r"cohort.* 0 to 2"):
        CyclicCohorts(np.array([3]), 3)


def test_a_round_by_itself_is_one_in_which_anybody_may_be() -> None:
    schedule = Participation(separation=2, participations=1, population=4)
    guarded = Guarded(CyclicCohorts(np.array([0, 1]), 2), schedule, 2)
    assert guarded.draw(RNG).sampling is schedule
    assert guarded.event(GAUSSIAN) == schedule(GAUSSIAN) == GAUSSIAN


@pytest.mark.parametrize(
    ("rounds", "message"),
    [
        ([[0, 1], [1]], "round 1: .* 3 rounds"),
        ([[0], [1], [0]], "round 2: .* 3 rounds"),
        ([[0], [], [], [0], [], [], [0]], "round 6: .* 2 times"),
        ([[1, 1]], "round 0: .*twice"),
    ],
)
def test_a_sampler_that_breaks_the_schedule_is_refused(
    rounds: list[list[int]], message: str
) -> None:
    guarded = Guarded(Scripted(*rounds), Participation(3, 2, 2), 2)
    for _ in rounds[:-1]:
        guarded.draw(RNG)
    with pytest.raises(PrivacyError, match=message):
        guarded.draw(RNG)


def test_what_keeps_the_schedule_passes() -> None:
    rounds = [[0], [1], [], [0], [1], []]
    guarded = Guarded(Scripted(*rounds), Participation(3, 2, 2), 2)
    assert [guarded.draw(RNG).units.tolist() for _ in rounds] == rounds
