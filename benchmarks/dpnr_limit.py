"""Limits of any classifier's accuracy through DPNR's noise, beside the published accuracies.

The limit is an upper bound over all encoders, texts, trainings and classifiers. It judges printed
accuracies, and is no part of any guarantee.

The first table sets the limit beside Table 2 of Lyu, He and Li 2020: k = 768 coordinates in [0, 1],
Laplace noise of scale 1/epsilon on each. The second gives the limit for two equally frequent
classes at a proven total epsilon, by number of coordinates. Accuracies are in percent.

    python benchmarks/dpnr_limit.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from uedp_bench.errors import InputError

_CELLS = 400
"""Grid cells of one coordinate's privacy loss."""


def two_class_limit(dimension: int, scale: float, share: float) -> float:
    """Accuracy of the best classifier of two classes, each at an opposite corner of the cube.

    It bounds every encoder's: noise on closer coordinates is a garbling of noise on coordinates 1
    apart, and texts of a class that lie at several points are mixtures, which are no easier (the
    best accuracy is convex in the pair of distributions). It is reached by an encoder that knows
    the class, and it is the sum of the larger of share f and (1 - share) g, f and g the densities
    at the corners: 1 - share + the hockey-stick divergence of share f and (1 - share) g.

    Args:
        dimension: number of coordinates (k).
        scale: scale b of the noise, 1/epsilon of a coordinate.
        share: share of one class, in [0, 1].

    Raises:
        InputError: for numbers out of range.
    """
    _check(dimension, scale, (share, 1.0 - share))
    return 1.0 - share + _excess(_divergence(dimension, scale, 1.0), share, 1.0 - share)


def accuracy_limit(dimension: int, scale: float, shares: Sequence[float]) -> float:
    """An upper bound on the accuracy of any classifier of several classes.

    The smaller of two bounds:

    * A helper who knows the class c names two classes: c and the most frequent one, or, where c is
      the most frequent, that and another drawn by the shares of the others. With help two classes
      at a time are told apart, each as `two_class_limit` says: in sum the two-class limit of the
      most frequent class against the rest. It is good where noise is small.
    * With q the density at the centre of the cube and any g >= 0, the sum over outputs of the
      largest share[c] f[c] is at most g + sum over c of the hockey-stick divergence of share[c]
      f[c] and g q, and that is largest where f[c] is at a corner, 1/2 from the centre in each
      coordinate. It is good where noise is large: no noise leaves less than the largest share.

    Args:
        dimension: number of coordinates (k).
        scale: scale b of the noise, 1/epsilon of a coordinate.
        shares: shares of the classes; they add up to 1.

    Raises:
        InputError: for numbers out of range, or shares that do not add up to 1.
    """
    _check(dimension, scale, shares)
    if abs(math.fsum(shares) - 1.0) > 1e-6:
        raise InputError(f"shares: {list(shares)} add up to {math.fsum(shares):g}, not to 1")
    helped = two_class_limit(dimension, scale, max(shares))
    divergence = _divergence(dimension, scale, 0.5)

    def bound(weight: float) -> float:
        return weight + math.fsum(_excess(divergence, share, weight) for share in shares)

    return min(1.0, helped, _least(bound, min(s for s in shares if s > 0) / 1e3, 1.0))


def at_most(largest: float) -> tuple[float, ...]:
    """The shares that make `accuracy_limit` largest where the largest share is all that is known.

    Both bounds grow if probability moves from a smaller share to a larger one, so as many classes
    as fit have the largest share, and one has the rest.

    Args:
        largest: largest share of a class, in (0, 1].
    """
    if not 0.0 < largest <= 1.0:
        raise InputError(f"largest is {largest}; it must be above 0 and at most 1")
    full = int(1.0 / largest + 1e-12)
    rest = 1.0 - full * largest
    return (largest,) * full + ((rest,) if rest > 1e-12 else ())


Divergence = Callable[[float], float]


def _excess(divergence: Divergence, share: float, weight: float) -> float:
    """The sum over outputs of (share f - weight g)+, which `divergence(ln(weight / share))` is."""
    if share == 0.0:
        return 0.0
    if weight == 0.0:
        return share
    epsilon = math.log(weight / share)
    if epsilon >= 0.0:
        return share * divergence(epsilon)
    # (s f - w g)+ = s f - w g + (w g - s f)+, and the pair is the same the other way round.
    return share - weight + weight * divergence(-epsilon)


@lru_cache(maxsize=64)
def _divergence(dimension: int, scale: float, distance: float) -> Divergence:
    """Hockey-stick divergence at epsilon >= 0 of two points so far apart in each coordinate.

    From dp-accounting's pessimistic privacy loss distributions, so never too small.
    """
    from dp_accounting.pld import privacy_loss_distribution

    loss = distance / scale
    one = privacy_loss_distribution.from_laplace_mechanism(
        parameter=scale,
        sensitivity=distance,
        value_discretization_interval=loss / _CELLS,
        use_connect_dots=True,
    )
    composed = one.self_compose(dimension)

    @lru_cache(maxsize=4096)
    def divergence(epsilon: float) -> float:
        return float(composed.get_delta_for_epsilon(epsilon))

    return divergence


def _least(bound: Callable[[float], float], low: float, high: float) -> float:
    """The least value of a convex function, by golden sections on a logarithmic scale.

    Any value is a bound, so that an imprecise search is a slightly larger one.
    """
    ratio = (5**0.5 - 1) / 2
    left, right = math.log(low), math.log(high)
    best = min(bound(low), bound(high))
    while right - left > 1e-4:
        first, second = right - ratio * (right - left), left + ratio * (right - left)
        at_first, at_second = bound(math.exp(first)), bound(math.exp(second))
        best = min(best, at_first, at_second)
        left, right = (left, second) if at_first < at_second else (first, right)
    return best


def _check(dimension: int, scale: float, shares: Sequence[float]) -> None:
    if dimension < 1:
        raise InputError(f"dimension is {dimension}; it must be at least 1")
    if not (math.isfinite(scale) and scale > 0.0):
        raise InputError(f"scale is {scale}; it must be finite and above 0")
    if not shares or not all(0.0 <= share <= 1.0 for share in shares):
        raise InputError(f"shares: {list(shares)}; each must lie between 0 and 1")


SHARES = {
    # Trustpilot US and blogs: the paper prints the largest share alone (Table 4, majority).
    "tp-us": at_most(0.7940),
    # AG: classes of the authors' own file, all splits.
    "ag": tuple(count / 14571 for count in (8446, 5412, 607, 106)),
    "blog": at_most(0.3416),
}
PRINTED = {0.05: (85.65, 80.87, 96.69), 0.1: (85.52, 80.78, 96.39)}
"""Table 2: accuracy of the three sets by epsilon, word dropout 0."""

TEST_ROWS = (2767, 1457, 887)
TOTALS = (4.0, 8.0, 16.0, 38.4)
DIMENSIONS = (2, 16, 128, 384, 768)


def main() -> None:
    """Print both tables, and by how many standard errors an accuracy exceeds its limit."""
    print(f"| ε | {' | '.join(f'{name} printed | limit' for name in SHARES)} |")
    print("|---|" + "---|---|" * len(SHARES))
    excesses = []
    for epsilon, accuracies in PRINTED.items():
        limits = [100 * accuracy_limit(768, 1.0 / epsilon, shares) for shares in SHARES.values()]
        pairs = list(zip(accuracies, limits, strict=True))
        print(f"| {epsilon} | {' | '.join(f'{a} | {limit:.2f}' for a, limit in pairs)} |")
        for name, (accuracy, limit), rows in zip(SHARES, pairs, TEST_ROWS, strict=True):
            error = (accuracy * (100 - accuracy) / rows) ** 0.5
            if accuracy > limit:
                excesses.append(f"{name} at {epsilon}: {(accuracy - limit) / error:.1f}")
    print(f"\nstandard errors above the limit: {', '.join(excesses)}\n")
    print(f"| total ε | {' | '.join(f'k = {k}' for k in DIMENSIONS)} |")
    print("|---|" + "---|" * len(DIMENSIONS))
    for total in TOTALS:
        cells = [f"{100 * two_class_limit(k, k / total, 0.5):.1f}" for k in DIMENSIONS]
        print(f"| {total:g} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
