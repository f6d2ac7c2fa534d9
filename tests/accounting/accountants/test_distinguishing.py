"""Attacks on explicit data sets: a million draws each way never beat what the accountant says.

The attacker knows both data sets and decides by the likelihood ratio of all rounds, which is the
best attack there is; the share that it wins is the exact delta, up to sampling error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from uedp_bench.accounting.accountants.user_entity import AnyRound, user_entity_epsilon
from uedp_bench.accounting.events import (
    Protected,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)

Array = NDArray[np.float64]
DRAWS = 1_000_000
FEWER = 300_000  # on data that are not the worst
BATCH = 100_000


@dataclass(frozen=True)
class Game:
    """Two data sets as the vectors that are sampled, each with its own coin, and the noise."""

    present: Array
    absent: Array
    rate: float
    noise: float
    rounds: int
    draws: int = DRAWS

    def _sums(self, vectors: Array, rng: np.random.Generator) -> Array:
        coins = rng.random((BATCH, self.rounds, len(vectors))) < self.rate
        shape = (BATCH, self.rounds, self.present.shape[1])
        return coins.astype(float) @ vectors + self.noise * rng.standard_normal(shape)

    def _log_density(self, sums: Array, vectors: Array) -> Array:
        """Over that of the noise alone, all rounds together: a mixture over every set of coins."""
        coins = np.array(list(product([0.0, 1.0], repeat=len(vectors))))
        taken = coins.sum(axis=1)
        chances = self.rate**taken * (1.0 - self.rate) ** (len(vectors) - taken)
        # Sets with one sum are one centre.
        centres, which = np.unique((coins @ vectors).round(12), axis=0, return_inverse=True)
        weights = np.log(np.bincount(which.reshape(-1), chances))
        exponents = sums @ (centres.T / self.noise**2)
        exponents += weights - (centres**2).sum(axis=1) / (2 * self.noise**2)
        top = exponents.max(axis=2, keepdims=True)
        each = np.log(np.exp(exponents - top).sum(axis=2)) + top[..., 0]
        return np.asarray(each.sum(axis=1))

    def wins(self, epsilon: float, seed: int) -> Iterator[tuple[float, float]]:
        """P(A) - e^epsilon Q(A) of the best set A, and its standard error, of both directions."""
        rng = np.random.default_rng(seed)
        hits = np.zeros((2, 2))  # by direction, of those drawn from the present and the absent
        for _ in range(self.draws // BATCH):
            for side, vectors in enumerate((self.present, self.absent)):
                sums = self._sums(vectors, rng)
                ratio = self._log_density(sums, self.present)
                ratio -= self._log_density(sums, self.absent)
                hits[0, side] += (ratio > epsilon).sum()
                hits[1, side] += (-ratio > epsilon).sum()
        for p, q in (hits[0] / self.draws, hits[1, ::-1] / self.draws):
            error = math.sqrt((p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q)) / self.draws)
            yield p - math.exp(epsilon) * q, error


def _attack(game: Game, event: AnyRound, spread: int, delta: float, seed: int) -> float:
    """The larger delta of both directions at the accountant's epsilon; never above delta."""
    epsilon = user_entity_epsilon(((event, game.rounds),), Protected(spread=spread), delta)
    best = 0.0
    for won, error in game.wins(epsilon, seed):
        assert error < delta / 5
        assert won <= delta + 4 * error
        best = max(best, won)
    return best


def _direction(rng: np.random.Generator, size: int) -> Array:
    vector = rng.standard_normal(size)
    return np.asarray(vector / np.linalg.norm(vector))


def _ball(rng: np.random.Generator, count: int, size: int) -> Array:
    return np.array([rng.random() ** 0.2 * _direction(rng, size) for _ in range(count)])


@pytest.mark.parametrize(
    ("spread", "rate", "noise", "rounds", "delta"),
    [(0, 0.3, 1.0, 2, 0.05), (1, 0.3, 1.5, 1, 0.01), (2, 0.2, 2.0, 3, 0.1)],
)
def test_one_level_clipping_is_attained(
    spread: int, rate: float, noise: float, rounds: int, delta: float
) -> None:
    """Updates of norm 1 along one line, turned round where the entity is not there."""
    line = _direction(np.random.default_rng(spread), 3)
    game = Game(np.tile(line, (spread + 1, 1)), np.tile(-line, (spread, 1)), rate, noise, rounds)
    event = UserEntityGaussian(rate=rate, noise_multiplier=noise, users=9)
    assert _attack(game, event, spread, delta, seed=1) >= 0.9 * delta


@pytest.mark.parametrize("seed", [0, 1])
def test_one_level_clipping_on_other_data(seed: int) -> None:
    rng = np.random.default_rng(seed)
    absent, rate, noise = _ball(rng, 2, 3), 0.3, 0.8
    present = np.vstack([_ball(rng, 2, 3), _direction(rng, 3)])
    event = UserEntityGaussian(rate=rate, noise_multiplier=noise, users=9)
    won = _attack(Game(present, absent, rate, noise, 2, FEWER), event, 2, 0.05, seed)
    assert won < 0.045  # the worst case is not the usual one


def _clip(vector: Array, bound: float) -> Array:
    return vector * min(1.0, bound / float(np.linalg.norm(vector)))


@pytest.mark.parametrize("seed", [2])
def test_two_level_clipping(seed: int) -> None:
    """Users of three sentences; the first mentions the entity, at two other users too."""
    rng = np.random.default_rng(seed)
    bound, rate, noise, rounds = 0.4, 0.3, 0.7, 2

    def update(gradients: Array) -> Array:
        return _clip(np.sum([_clip(g, bound) for g in gradients], axis=0), 1.0)

    common = _direction(rng, 3)  # a baseline betrays how many of the others took part
    gradients = 0.3 * rng.standard_normal((3, 3, 3)) + common
    gradients[:, 0] = 3.0 * _direction(rng, 3)
    present = np.array([update(user) for user in gradients])
    absent = np.array([update(user[1:]) for user in gradients[1:]])
    assert np.all(np.linalg.norm(present[1:] - absent, axis=1) <= bound + 1e-12)
    event = TwoLevelUserEntityGaussian(
        rate=rate, noise_multiplier=noise, users=9, sentence_bound=bound
    )
    assert _attack(Game(present, absent, rate, noise, rounds, FEWER), event, 2, 0.05, seed) > 0.0


@pytest.mark.parametrize(("baseline", "at_least"), [(0.0, 0.01), (0.95, 0.042)])
def test_two_level_clipping_on_nearly_worst_data(baseline: float, at_least: float) -> None:
    """Each of two others moves along the protected user's line, at a baseline across it.

    The larger the baseline, the better the sum tells who took part, which theorem B gives away.
    """
    bound, rate, noise = 0.5, 0.3, 0.3
    other = [bound / 2, baseline]
    present = np.array([[1.0, 0.0], other, other])
    absent = present[1:] - [bound, 0.0]
    event = TwoLevelUserEntityGaussian(
        rate=rate, noise_multiplier=noise, users=9, sentence_bound=bound
    )
    assert _attack(Game(present, absent, rate, noise, 2, FEWER), event, 2, 0.05, 4) > at_least


@pytest.mark.parametrize("delta", [0.01, 0.1])
def test_sentence_sampling_is_attained(delta: float) -> None:
    """Two sentences of the user and two of others, with one gradient."""
    rate, noise, rounds = 0.3, 1.5, 2
    game = Game(np.tile([0.6, 0.8], (4, 1)), np.zeros((0, 2)), rate, noise, rounds)
    event = SentenceSampledGaussian(
        rate=rate, noise_multiplier=noise, users=9, sentences_per_user=2
    )
    assert _attack(game, event, 2, delta, seed=5) >= 0.9 * delta


def test_sentence_sampling_on_other_data() -> None:
    """Sentences that stay are in both sums, and teach nothing."""
    rng, rate, noise = np.random.default_rng(6), 0.3, 0.8
    line = _direction(rng, 3)
    vectors = [_clip(line + 0.2 * rng.standard_normal(3), 1.0) for _ in range(5)]
    present, stay = np.array(vectors), np.array(vectors[3:])
    event = SentenceSampledGaussian(
        rate=rate, noise_multiplier=noise, users=9, sentences_per_user=2
    )
    assert 0.004 < _attack(Game(present, stay, rate, noise, 2, FEWER), event, 1, 0.05, 6) < 0.05
