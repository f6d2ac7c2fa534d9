"""Error rate and median of each lower bound on epsilon.

Scores are N(0, 1) for non-members and N(mu, 1) for members: those of a Gaussian mechanism of
sensitivity mu, whose epsilon is known. At mu = 0 any bound above 0 is a false alarm, elsewhere any
bound above the true epsilon; a valid bound has at most 5 % of either. Two yardsticks stand beside:
the best threshold without paying for its choice, and a threshold chosen on half of the scores.

    python benchmarks/lower_bounds.py [--trials 1000] [--scores 500] [--delta 1e-5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import numpy as np
from dp_accounting import get_epsilon_gaussian
from scipy.special import betaincinv

from uedp_bench.bounds.lower_bounds import METHODS, FloatArray, epsilon_lower_bound
from uedp_bench.bounds.one_run import Guesses, best_one_run

SHIFTS = (0.0, 1.155, 1.666, 4.0)
CONFIDENCE = 0.95
Bound = Callable[[FloatArray, FloatArray], float]


def at_thresholds(
    members: FloatArray, others: FloatArray, thresholds: FloatArray, delta: float
) -> FloatArray:
    """Clopper-Pearson bound on log((TPR - delta) / FPR) at each threshold, as if it were fixed."""
    tail = (1.0 - CONFIDENCE) / 2.0
    hits, false = ((side[None, :] > thresholds[:, None]).sum(1) for side in (members, others))
    low = np.where(hits, betaincinv(np.maximum(hits, 1), len(members) - hits + 1, tail), 0.0)
    high = np.where(
        false < len(others),
        betaincinv(false + 1, np.maximum(len(others) - false, 1), 1.0 - tail),
        1.0,
    )
    return np.log(np.maximum(low - delta, 1e-300)) - np.log(high)


def best_unpaid(members: FloatArray, others: FloatArray, *, delta: float) -> float:
    """The largest bound over all thresholds, both ways: not valid."""
    both = np.concatenate([members, others])
    above = at_thresholds(members, others, both, delta)
    below = at_thresholds(-others, -members, -both, delta)
    return max(0.0, float(above.max()), float(below.max()))


def most_guesses_unpaid(members: FloatArray, others: FloatArray, *, delta: float) -> float:
    """The largest one-run bound over all numbers of guesses: not valid."""
    scores = np.concatenate([others, members])
    right = np.cumsum((np.arange(len(scores)) >= len(others))[np.argsort(-scores)])
    ways = Guesses(np.arange(1, len(scores) + 1), right)
    return best_one_run(len(scores), ways, delta, 1.0 - CONFIDENCE)


def split_half(members: FloatArray, others: FloatArray, *, delta: float) -> float:
    """The threshold that is best on the even scores, tested on the odd ones: valid."""
    both = np.concatenate([members[::2], others[::2]])
    best = both[at_thresholds(members[::2], others[::2], both, delta).argmax()]
    return max(0.0, float(at_thresholds(members[1::2], others[1::2], best[None], delta)[0]))


def measure(
    bound: Bound, mu: float, truth: float, options: argparse.Namespace
) -> tuple[float, float]:
    """Share of trials above the truth, and the median bound."""
    rng = np.random.default_rng(options.seed)
    shape = (options.trials, options.scores)
    pairs = zip(rng.normal(mu, 1.0, shape), rng.normal(0.0, 1.0, shape), strict=True)
    bounds = np.array([bound(*pair) for pair in pairs])
    return float((bounds > truth).mean()), float(np.median(bounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--scores", type=int, default=500, help="on each side")
    parser.add_argument("--delta", type=float, default=1e-5)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    bounds: dict[str, Bound] = {
        method: partial(epsilon_lower_bound, delta=options.delta, method=method)
        for method in METHODS
    }
    bounds["split in halves"] = partial(split_half, delta=options.delta)
    bounds["best threshold, unpaid"] = partial(best_unpaid, delta=options.delta)
    bounds["one-run, best number of guesses, unpaid"] = partial(
        most_guesses_unpaid, delta=options.delta
    )
    truths = {mu: get_epsilon_gaussian(1.0 / mu, options.delta) if mu else 0.0 for mu in SHIFTS}
    heads = [f"mu {mu:g}, epsilon {truth:.2f}" for mu, truth in truths.items()]
    print(f"| share above the truth; median | {' | '.join(heads)} |")
    print("|---|" + "---|" * len(heads))
    for name, bound in bounds.items():
        measured = (measure(bound, mu, truth, options) for mu, truth in truths.items())
        cells = [f"{above:.1%}; {median:.2f}" for above, median in measured]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
