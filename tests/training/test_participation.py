"""A schedule in the open: cohorts in turns, and a guard that no sampler gets past."""

from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.accounting.events import Gaussian
from uedp_bench.errors import PrivacyError
from uedp_bench.training.participation import CyclicCohorts, Guarded, Participation
from uedp_bench.training.sampling import Sampled, TakingPart

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
    ("rounds", "said"),
    [
        ([[0, 1], [1]], "round 1: .* 3 rounds"),
        ([[0], [1], [0]], "round 2: .* 3 rounds"),
        ([[0], [], [], [0], [], [], [0]], "round 6: .* 2 times"),
        ([[1, 1]], "round 0: .*twice"),
    ],
)
def test_a_sampler_that_breaks_the_schedule_is_refused(rounds: list[list[int]], said: str) -> None:
    guarded = Guarded(Scripted(*rounds), Participation(3, 2, 2), 2)
    for _ in rounds[:-1]:
        guarded.draw(RNG)
    with pytest.raises(PrivacyError, match=said):
        guarded.draw(RNG)


def test_what_keeps_the_schedule_passes() -> None:
    rounds = [[0], [1], [], [0], [1], []]
    guarded = Guarded(Scripted(*rounds), Participation(3, 2, 2), 2)
    assert [guarded.draw(RNG).units.tolist() for _ in rounds] == rounds
