"""Gap between theorem B and known data sets: the table of docs/proofs.md, section 5.

    python benchmarks/theorem_b_gap.py

At the noise that theorem B needs for epsilon 8 at delta 1e-5, the largest epsilon of any of a
family of neighbouring data sets: other users' updates go from `after - rho` to `after`, for many
values of `after`, and the protected user's from 0 to 1.

A proof is as good as its distance from the worst data sets that are known. Laws here are mixtures
of normal laws on the line, as of a round in which all updates are parallel; what two data sets of
that kind attain, no accountant of the mechanism may undercut.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from uedp_bench.accounting.events import Protected, TwoLevelUserEntityGaussian
from uedp_bench.accounting.noise_search import group_noise
from uedp_bench.errors import InputError

Array = npt.NDArray[np.float64]

_REACH = 11.0  # noise deviations beyond the outermost centres
_CELLS = 60_000
_SIZE = 1 << 18  # losses told apart in a composition


@dataclass(frozen=True)
class Law:
    """A mixture of N(centre, s^2).

    Attributes:
        weights: (n,) probabilities.
        centres: (n,) means of the normal laws.
    """

    weights: Array
    centres: Array


def epsilon_attained(
    upper: Law, lower: Law, noise: float, rounds: int, delta: float, *, step: float = 2e-3
) -> float:
    """A lower bound of the epsilon of `upper` from `lower`, drawn afresh in every round.

    Masses of cells of the line are post-processing, and losses are rounded down, so both can only
    lower it; they are composed by a Fourier transform.

    Args:
        upper: law of one round without its noise, on one data set.
        lower: law on the other data set.
        noise: standard deviation of the noise.
        rounds: number of rounds.
        delta: delta of the bound, in (0, 1); rounding shows below 1e-12.
        step: step of the grid of losses, in nats.

    Raises:
        InputError: if losses need more than 2^18 grid steps.
    """
    from scipy.fft import irfft, rfft
    from scipy.special import ndtr

    ends = np.concatenate([upper.centres, lower.centres])
    edges = np.linspace(ends.min() - _REACH * noise, ends.max() + _REACH * noise, _CELLS + 1)
    masses = []
    for law in (upper, lower):
        total: Array = np.zeros(_CELLS)
        for weight, centre in zip(law.weights, law.centres, strict=True):
            total += weight * np.diff(ndtr((edges - centre) / noise))
        masses.append(total)
    kept = (masses[0] > 1e-25) & (masses[1] > 1e-300)
    loss = np.floor(np.log(masses[0][kept] / masses[1][kept]) / step).astype(np.int64)
    counts = np.bincount(loss - loss.min(), masses[0][kept])
    if counts.size >= _SIZE:
        raise InputError(f"step is {step}; losses span {counts.size} of them: take a larger one")
    start = int(rounds * (counts @ np.arange(counts.size)) - _SIZE / 2)
    composed = np.roll(irfft(rfft(counts, _SIZE) ** rounds, _SIZE), -(start % _SIZE))
    composed = np.maximum(composed, 0.0)
    losses = step * (rounds * loss.min() + start + np.arange(_SIZE))

    def divergence(epsilon: float) -> float:
        above = losses > epsilon
        return float(-np.expm1(epsilon - losses[above]) @ composed[above])

    low, high = 0.0, float(losses[-1])
    while high - low > 1e-4:
        middle = (low + high) / 2.0
        low, high = (middle, high) if divergence(middle) > delta else (low, middle)
    return low


def two_level_laws(spread: int, rate: float, moves: float, after: float) -> tuple[Law, Law]:
    """Laws of a round of two-level clipping with and without the group (docs/proofs.md, section 5).

    `spread` users send `after` where the entity is present, and `moves` less where it is not; the
    protected user sends 1. All their gradients are parallel.

    Args:
        spread: number of users beside the protected one (k).
        rate: probability of each user's coin (q).
        moves: largest move of a user's update (rho = m c).
        after: update of a user with the entity, in [moves - 1, 1].

    Raises:
        InputError: if an update would be longer than 1.
    """
    from scipy.special import bdtrc

    if not moves - 1.0 <= after <= 1.0:
        raise InputError(f"after is {after}; it must lie between {moves - 1.0} and 1")
    number = np.arange(spread + 1.0)
    beyond = [1.0, *(bdtrc(n, spread, rate) if n < spread else 0.0 for n in range(spread + 1))]
    coins: Array = -np.diff(np.array(beyond, dtype=np.float64))
    both: Array = np.outer(np.array([1.0 - rate, rate]), coins).ravel()
    present: Array = np.add.outer(np.arange(2.0), after * number).ravel()
    return Law(both, present), Law(coins, (after - moves) * number)


DELTA, TARGET, ROUNDS = 1e-5, 8.0, 60
ROWS = ((1, 0.1, 1 / 6), (3, 0.1, 1 / 6), (10, 0.1, 1 / 6), (3, 0.1, 0.5), (3, 0.1, 1.0))
"""Other users k, rate q, and how far their updates move, rho."""


def largest(spread: int, rate: float, moves: float, noise: float) -> tuple[float, float]:
    """The largest epsilon of the family, and where others' updates are then."""
    candidates = []
    for after in np.linspace(moves - 1.0, 1.0, 9):
        present, absent = two_level_laws(spread, rate, moves, float(after))
        for upper, lower in ((present, absent), (absent, present)):
            candidates.append((epsilon_attained(upper, lower, noise, ROUNDS, DELTA), float(after)))
    return max(candidates)


def main() -> None:
    """Print the table."""
    print("| other users k | rate q | rho | noise | proven | attained | where others send |")
    print("|---|---|---|---|---|---|---|")
    for spread, rate, moves in ROWS:
        event = TwoLevelUserEntityGaussian(
            rate=rate, noise_multiplier=0.0, users=spread + 1, sentence_bound=moves
        )
        noise = group_noise(event, ROUNDS, Protected(spread=spread), (TARGET, DELTA))
        epsilon, after = largest(spread, rate, moves, noise)
        print(f"| {spread} | {rate} | {moves:.3g} | {noise:.4f} | {TARGET:g} | {epsilon:.2f} | "
              f"{after - moves:.3g} to {after:.3g} |")  # fmt: skip


if __name__ == "__main__":
    main()
