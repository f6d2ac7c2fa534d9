"""Search for the noise, the rate or the number of rounds that meets a target epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from uedp_bench.accounting import sampler_end_delta as beyond
from uedp_bench.accounting.event_contract import Protected
from uedp_bench.accounting.events import GroupRound, SentenceSampledGaussian
from uedp_bench.errors import InputError

_PRECISION = 1e-4
"""Relative width of the interval that is searched down to; the end that meets the target counts."""

_NEAR = 1.003
"""The first step from a value that is nearly right."""

_LARGEST = 1e9
"""Largest value that is tried; its inverse is the smallest."""


def smallest_noise(
    epsilon_of: Callable[[float], float],
    target: float,
    coarse: Callable[[float], float] | None = None,
) -> float:
    """The smallest noise multiplier with `epsilon_of(noise) <= target`, rounded up.

    Args:
        epsilon_of: decreasing function; may be infinite, may be 0, may jump.
        target: target epsilon, positive.
        coarse: quick approximation of `epsilon_of`, where the search begins.

    Returns:
        A noise multiplier that meets the target, within 1e-4 relative of the smallest; 1e-9 where
        even that does.

    Raises:
        InputError: if no noise multiplier up to 1e9 meets the target.
    """
    near = None
    if coarse is not None:
        with suppress(InputError):
            near = largest_value(lambda inverse: coarse(1.0 / inverse), target)
    return 1.0 / largest_value(lambda inverse: epsilon_of(1.0 / inverse), target, near=near)


def largest_value(
    epsilon_of: Callable[[float], float],
    target: float,
    upper: float = _LARGEST,
    near: float | None = None,
) -> float:
    """The largest value in (0, `upper`] with `epsilon_of(value) <= target`, rounded down.

    Args:
        epsilon_of: increasing function; may be infinite, may be 0, may jump.
        target: target epsilon, positive.
        upper: the largest value that is allowed.
        near: begin of the search; the closer, the sooner it ends.

    Returns:
        A value that was found to meet the target, within 1e-4 relative of the largest.

    Raises:
        InputError: if no value down to 1e-9 meets the target.
    """
    bracket = _Bracket(target)
    growth = 4.0 if near is None else _NEAR
    step = min(1.0 if near is None else near, upper)
    if bracket.meets(step, epsilon_of(step)):
        while bracket.high is None:
            if bracket.low == upper:
                return upper
            step = min(growth * bracket.low, upper)
            growth = min(growth**4, 4.0)
            bracket.meets(step, epsilon_of(step))
    else:
        while bracket.low == 0.0:
            if step <= 1.0 / _LARGEST:
                raise InputError(f"nothing reaches epsilon {target}")
            step = max(step / growth, 1.0 / _LARGEST)
            growth = min(growth**4, 4.0)
            bracket.meets(step, epsilon_of(step))
    while bracket.width() > _PRECISION:
        middle = bracket.guess()
        bracket.meets(middle, epsilon_of(middle))
    return bracket.low


def largest_count(epsilon_of: Callable[[int], float], target: float, upper: int) -> int:
    """The largest whole number in [1, `upper`] with `epsilon_of(count) <= target`.

    Args:
        epsilon_of: increasing function; may be infinite, may jump.
        target: target epsilon, positive.
        upper: the largest number that is allowed.

    Raises:
        InputError: if not even 1 meets the target.
    """
    bracket = _Bracket(target)
    if not bracket.meets(1, epsilon_of(1)):
        raise InputError(f"even 1 does not reach epsilon {target}")
    while bracket.high is None:
        if bracket.low == upper:
            return upper
        step = min(4 * int(bracket.low), upper)
        bracket.meets(step, epsilon_of(step))
    while bracket.high - bracket.low > 1:
        low, high = int(bracket.low), int(bracket.high)
        middle = min(max(round(bracket.guess()), low + 1), high - 1)
        bracket.meets(middle, epsilon_of(middle))
    return int(bracket.low)


class _Bracket:
    """Two values around the place where an increasing epsilon passes the target.

    ln epsilon is nearly a line in the logarithm of noise, rate or rounds, so the next guess is
    where that line passes the target; every evaluation composes distributions, so few are made.
    Every third guess halves the bracket, whatever the curve looks like.

    Attributes:
        low: the largest value known to meet the target; 0 before the first.
        high: the smallest known not to; None before the first.
    """

    def __init__(self, target: float) -> None:
        if not target > 0.0:
            raise InputError(f"epsilon is {target}; it must be above 0")
        self.low: float = 0.0
        self.high: float | None = None
        self._target = target
        self._at_low, self._at_high = 0.0, math.inf
        self._turn = 0

    def meets(self, value: float, epsilon: float) -> bool:
        """Take in one evaluation; True if it meets the target.

        Raises:
            ValueError: if epsilon is NaN.
        """
        if math.isnan(epsilon):
            raise ValueError(f"epsilon at {value} is NaN")
        if epsilon <= self._target:
            self.low, self._at_low = value, epsilon
            return True
        self.high, self._at_high = value, epsilon
        return False

    def width(self) -> float:
        """Width of the bracket, relative to its lower end."""
        return math.inf if self.high is None else self.high / self.low - 1.0

    def guess(self) -> float:
        """A value strictly inside the bracket."""
        high = math.inf if self.high is None else self.high
        self._turn += 1
        share = 0.5
        finite = 0.0 < self._at_low < self._at_high < math.inf
        if self._turn % 3 and finite:
            share = math.log(self._target / self._at_low) / math.log(self._at_high / self._at_low)
            # A little beyond the line on either side in turn, so that the bracket closes; the
            # narrower it is, the straighter the line.
            beyond = 0.02 * min(1.0, self.width())
            share = min(max(share + (beyond if self._turn % 3 == 1 else -beyond), 1e-3), 0.999)
        ratio: float = (high / self.low) ** share
        return self.low * ratio


DIGITS = 5
"""Significant digits of a value that is printed."""


def at_least(value: float) -> float:
    """The value rounded up to `DIGITS` digits, so that a noise that is printed meets its target."""
    return _rounded(value, math.ceil)


def at_most(value: float) -> float:
    """The value rounded down to `DIGITS` digits, for what epsilon grows with."""
    return _rounded(value, math.floor)


def _rounded(value: float, way: Callable[[float], int]) -> float:
    if value == 0.0 or not math.isfinite(value):
        return value
    if float(f"{value:.{DIGITS}g}") == value:
        return value
    unit = DIGITS - 1 - math.floor(math.log10(abs(value)))
    return float(f"{way(value * 10.0**unit)}e{-unit}")


@lru_cache(maxsize=256)
def group_noise(
    event: GroupRound, rounds: int, point: Protected, target: tuple[float, float]
) -> float:
    """The noise multiplier of such rounds that meets a target at one point of the curve.

    Args:
        event: event of one round; its own noise does not count.
        rounds: number of rounds.
        point: the protected point.
        target: (epsilon, delta).
    """
    from uedp_bench.accounting.accountants.privacy_loss_grid import STEPS
    from uedp_bench.accounting.accountants.user_entity import COARSE, user_entity_epsilon

    epsilon, delta = target

    def epsilon_of(noise: float, steps: int = STEPS) -> float:
        noisy = event.model_copy(update={"noise_multiplier": noise})
        moves = [(beyond.moved(noisy, "add-or-remove", point), rounds)]
        return beyond.within(
            delta,
            lambda ideal: user_entity_epsilon(((noisy, rounds),), point, ideal, steps),
            lambda ideal_epsilon: beyond.mass(moves, ideal_epsilon),
        )

    return smallest_noise(epsilon_of, epsilon, lambda noise: epsilon_of(noise, COARSE))


def sentence_noise(
    rate: float, rounds: int, sentences_per_user: int, point: Protected, target: tuple[float, float]
) -> float:
    """Noise of sentence sampling, in units of the clip bound of one sentence.

    Args:
        rate: sampling rate of sentences in a round.
        rounds: number of rounds.
        sentences_per_user: most sentences of a user (n).
        point: the protected point.
        target: (epsilon, delta).
    """
    event = SentenceSampledGaussian(
        rate=rate, noise_multiplier=0.0, sentences_per_user=sentences_per_user,
        users=point.spread + 1,
    )  # fmt: skip
    return group_noise(event, rounds, point, target)
