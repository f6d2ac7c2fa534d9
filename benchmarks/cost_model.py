"""The law of what a round costs, fitted to measurements, and how sure it is.

    seconds = a calls + b FLOPs + c bytes + d weights
    memory = e + f held

Calls, FLOPs and bytes are what the round asks for (`cost_counting`); weights are those of the
network, for each of which a round draws noise. Held is what tensors hold at most. No term is
negative. Errors count in proportion: a round that takes twice as long may be off by twice as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

Floats = NDArray[np.float64]

TERMS = ("calls", "flops", "bytes", "parameters")
"""Terms of the law, by what is counted."""

MEMORY = ("one", "held")
"""Terms of the law of memory, which is fitted alike: what each training adds, and a MB held."""

DRAWS, CONFIDENCE = 1_000, 0.95
"""Resamples of the points for an interval, and its confidence."""


@dataclass(frozen=True)
class Fit:
    """A law.

    Attributes:
        terms: (terms,) seconds a call, a FLOP, a byte and a weight.
        resampled: (draws, terms) the same, fitted to points that were drawn with replacement.
        spread: (points,) measured over fitted seconds.
    """

    terms: Floats
    resampled: Floats
    spread: Floats

    def seconds(self, counts: Floats) -> Floats:
        """(n,) seconds of rounds with these counts (n, terms)."""
        found: Floats = counts @ self.terms
        return found

    def interval(self, counts: Floats) -> Floats:
        """(2, n) intervals of the mean seconds of such rounds: from the fit alone."""
        return interval_of(counts @ self.resampled.T)

    def of_new(self, counts: Floats) -> Floats:
        """(2, n) intervals of a new round's seconds: of the fit, and of points around it."""
        rng = np.random.default_rng(1)
        means = counts @ self.resampled.T
        return interval_of(means * rng.choice(self.spread, size=means.shape))


def interval_of(values: Floats) -> Floats:
    """(2, n) ends of the interval of (n, resamples) values."""
    tail = (1 - CONFIDENCE) / 2
    found: Floats = np.quantile(values, [tail, 1 - tail], axis=-1)
    return found


def table(counts: Sequence[Mapping[str, float]], terms: Sequence[str] = TERMS) -> Floats:
    """(n, terms) counts as the fit wants them."""
    return np.array([[float(each[name]) for name in terms] for each in counts])


def fitted(counts: Floats, seconds: Floats, draws: int = DRAWS, seed: int = 0) -> Fit:
    """Fits the law by non-negative least squares in relative error.

    Args:
        counts: (points, terms).
        seconds: (points,) measured.
        draws: resamples.
        seed: of the resamples.

    Raises:
        ValueError: if a measurement is not positive, or there are no more points than terms.
    """
    if len(seconds) <= counts.shape[1]:
        raise ValueError(f"{len(seconds)} points cannot tell {counts.shape[1]} terms")
    if not (seconds > 0).all():
        raise ValueError("a round took no time: measure longer ones")
    terms = _solved(counts, seconds)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(len(seconds), size=(draws, len(seconds)))
    resampled = np.array([_solved(counts[rows], seconds[rows]) for rows in drawn])
    spread = seconds / (counts @ terms)
    # Points that were fitted lie closer than new ones: as many degrees of freedom are spent.
    spent = int((terms > 0).sum())
    wider = np.sqrt(len(seconds) / max(len(seconds) - spent, 1))
    return Fit(terms, resampled, np.maximum(1 + (spread - 1) * wider, 0.05))


def _solved(counts: Floats, seconds: Floats) -> Floats:
    relative = counts / seconds[:, None]
    scale = np.linalg.norm(relative, axis=0)
    scale[scale == 0] = 1.0
    found, _ = nnls(relative / scale, np.ones(len(seconds)))
    terms: Floats = found / scale
    return terms
