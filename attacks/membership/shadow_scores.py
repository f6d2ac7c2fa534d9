"""Membership scores beside shadow models; high means member.

Loss: Yeom et al. 2018. Calibrated: Watson et al. 2022, "On the Importance of Difficulty Calibration
in Membership Inference Attacks". LiRA: Carlini et al. 2022, "Membership Inference Attacks From
First Principles" (online, offline, and one variance for few models). RMIA: Zarifzadeh, Liu and
Shokri 2024, "Low-Cost High-Power Membership Inference Attacks" (its offline form).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.api import InputError

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, FloatArray, IntArray

LEAST_LOGP = -100.0
"""Log-probabilities below this (nats) count as this: infinite ones do not compare."""

SMALLEST_STD = 1e-6
"""Standard deviations below this count as this, not as zero."""

OWN_VARIANCE = 32
"""A record has a variance of its own where it has so many models on a side, else all share one."""


def true_logprobs(logprobs: FloatArray, labels: IntArray) -> FloatArray:
    """(records,) log-probability (nats) of the true class.

    Args:
        logprobs: (records, classes) log-probabilities.
        labels: (records,) true classes.

    Raises:
        InputError: for NaN, fewer than two classes or a label that is no class.
    """
    _check(logprobs, labels)
    return np.maximum(logprobs[np.arange(len(labels)), labels], LEAST_LOGP)


def logit_confidence(logprobs: FloatArray, labels: IntArray) -> FloatArray:
    """(records,) log of the odds p / (1 - p) of the true class; arguments as `true_logprobs`.

    From the log-probabilities of the other classes: 1 - p has no digits left where p is near 1.
    """
    from scipy.special import logsumexp

    true = true_logprobs(logprobs, labels)
    others = np.array(logprobs, dtype=np.float64)
    others[np.arange(len(labels)), labels] = -np.inf
    return true - np.maximum(logsumexp(others, axis=1), LEAST_LOGP)


def _check(logprobs: FloatArray, labels: IntArray) -> None:
    rows, classes = logprobs.shape
    if classes < 2:
        raise InputError(f"membership: a classifier of {classes} classes tells nothing; 2 at least")
    if len(labels) != rows or labels.min(initial=0) < 0 or labels.max(initial=0) >= classes:
        raise InputError(f"membership: {len(labels)} labels for {rows} rows of {classes} classes")
    bad = np.flatnonzero(np.isnan(logprobs).any(axis=1))
    if len(bad):
        raise InputError(f"membership: the log-probabilities of record {bad[0]} are NaN")


# ------------------------------------------------------------------------------------------- LiRA


class Normal(NamedTuple):
    """A normal law for each record.

    Attributes:
        mean: (records,).
        std: (records,) standard deviation.
    """

    mean: FloatArray
    std: FloatArray

    def logpdf(self, values: FloatArray) -> FloatArray:
        """(records,) log density."""
        z = (values - self.mean) / self.std
        return np.asarray(-0.5 * z**2 - np.log(self.std) - 0.5 * math.log(2.0 * math.pi))


def fit_normal(values: FloatArray, chosen: BoolArray, own_variance: bool) -> Normal:
    """The law of each record's score under some of the models.

    Args:
        values: (models, records) scores.
        chosen: (models, records) which models count for a record. A record without any gets the
            mean of the other records' parameters.
        own_variance: False for one variance, pooled over the records, each with its own mean.

    Raises:
        InputError: if no record has a model.
    """
    count = chosen.sum(axis=0)
    if not count.any():
        raise InputError("membership: no shadow model for any record")
    some, size = count > 0, np.maximum(count, 1)
    mean = np.where(chosen, values, 0.0).sum(axis=0) / size
    squares = np.where(chosen, (values - mean) ** 2, 0.0).sum(axis=0)
    if own_variance:
        std = np.sqrt(squares / size)
        std = np.where(some, std, std[some].mean())
    else:
        freedom = int(count.sum() - some.sum())
        # One model a record says nothing of the variance, and a common one only scales the score.
        std = np.full(len(count), math.sqrt(squares.sum() / freedom) if freedom else 1.0)
    return Normal(np.where(some, mean, mean[some].mean()), np.maximum(std, SMALLEST_STD))


def lira(target: FloatArray, shadows: FloatArray, inside: BoolArray) -> FloatArray:
    """(records,) online LiRA: log-likelihood ratio of `in` against `out`.

    Args:
        target: (records,) logit confidences under the release.
        shadows: (models, records) the same under shadow models.
        inside: (models, records) True where a model was trained on the record.
    """
    laws = [
        fit_normal(shadows, side, int(side.sum(axis=0).min()) >= OWN_VARIANCE)
        for side in (inside, ~inside)
    ]
    return laws[0].logpdf(target) - laws[1].logpdf(target)


def lira_offline(target: FloatArray, shadows: FloatArray, outside: BoolArray) -> FloatArray:
    """(records,) offline LiRA: how far the release is *above* models that did not see the record.

    One-sided, in standard deviations: a monotone function of the p-value. Arguments as in `lira`.
    """
    law = fit_normal(shadows, outside, int(outside.sum(axis=0).min()) >= OWN_VARIANCE)
    return np.asarray((target - law.mean) / law.std)


def calibrated(target: FloatArray, shadows: FloatArray, outside: BoolArray) -> FloatArray:
    """(records,) how far the release is above the mean of models that did not see the record.

    Arguments as in `lira`; every record has a model that did not see it.
    """
    return np.asarray(target - np.where(outside, shadows, 0.0).sum(axis=0) / outside.sum(axis=0))


LEAST_GAP = 1e-9
"""Gaps between models with and without a unit are at least this: who is in never scores lower."""


def lira_shrunk(
    target: FloatArray, shadows: FloatArray, inside: BoolArray, sizes: FloatArray
) -> FloatArray:
    """(units,) LiRA for few models: each unit's gap is drawn to the mean gap as far as it is noise.

    With few models the difference of a unit's mean with it and without it is mostly noise under
    differential privacy, and mostly signal without. Empirical Bayes tells the two apart: gaps are
    normal around a common mean, with a variance that is what they vary by beyond their own noise.

    Args:
        target: (units,) mean log-probability, or log odds, of a record or a user under the release.
        shadows: (models, units) the same under shadow models.
        inside: (models, units) True where a model was trained on the unit.
        sizes: (units,) what a unit's value is the mean of: tokens, records or 1. Noise of a value
            has a variance of one over that.

    Raises:
        InputError: if no unit has models on both sides.
    """
    sides = np.stack([inside, ~inside])
    counts = sides.sum(axis=1)
    both = (counts > 0).all(axis=0)
    if not both.any():
        raise InputError("membership: no unit has shadow models with and without it")
    means = np.where(sides, shadows, 0.0).sum(axis=1) / np.maximum(counts, 1)
    gaps = means[0] - means[1]
    squares = np.where(sides, (shadows - means[:, None]) ** 2, 0.0).sum(axis=(0, 1)) * sizes
    freedom = np.maximum(counts - 1, 0).sum()
    if freedom:
        noise = squares.sum() / freedom
    else:  # one pair a unit: what its gap is beyond the common one
        some = gaps[both]
        noise = float(np.mean((some - some.mean()) ** 2 * sizes[both])) / 2.0
    scatter = np.maximum(noise, SMALLEST_STD**2) / sizes
    models = counts.sum(axis=0)
    of_gap = scatter * models / np.maximum(counts.prod(axis=0), 1)
    common = float(np.average(gaps[both], weights=1.0 / of_gap[both]))
    beyond = max(0.0, float(np.mean((gaps[both] - common) ** 2 - of_gap[both])))
    own = np.where(both, (gaps - common) * beyond / (beyond + of_gap), 0.0)
    gap = np.maximum(common + own, LEAST_GAP)
    without = (counts[1] * means[1] + counts[0] * (means[0] - gap)) / models
    score = (target - without) * gap - gap**2 / 2.0
    return np.asarray(score / (scatter * (1.0 + 1.0 / models)))


# ------------------------------------------------------------------------------------------- RMIA


def offline_slope(inside: FloatArray, outside: FloatArray) -> float:
    """`a` of RMIA, in [0, 1]: training on a record multiplies 1 - p of its class by so much.

    Least squares over records that shadow models saw and did not see. The release under attack, and
    who is a member of it, are not looked at.

    Args:
        inside: (records,) mean probability under models that saw the record.
        outside: (records,) the same under models that did not.
    """
    rest = 1.0 - outside
    scale = float(rest @ rest)
    slope = float(rest @ (1.0 - inside)) / scale if scale > 0.0 else 1.0
    return min(max(slope, 0.0), 1.0)


class Confidence(NamedTuple):
    """Probabilities of the true class, of records or of population rows.

    Attributes:
        target: (rows,) under the release.
        outside: (rows,) mean under models that did not see the row.
    """

    target: FloatArray
    outside: FloatArray

    def ratio(self, slope: float) -> FloatArray:
        """(rows,) p(row | release) / p(row), where p_in is taken to be a p_out + 1 - a."""
        marginal = ((1.0 + slope) * self.outside + (1.0 - slope)) / 2.0
        return np.asarray(self.target / marginal)


def rmia(records: Confidence, population: Confidence, slope: float) -> FloatArray:
    """(records,) share of the population rows over which the record's likelihood ratio wins.

    That is, of rows z with ratio(x) / ratio(z) > 1 (gamma = 1, as in the reference implementation).

    Args:
        records: to score.
        population: rows that neither the release nor any shadow model saw.
        slope: `a`, see `offline_slope`.
    """
    beaten = np.sort(population.ratio(slope))
    return np.searchsorted(beaten, records.ratio(slope), side="left") / len(beaten)


def without_ties(shares: FloatArray, ratios: FloatArray, size: int) -> FloatArray:
    """(records,) RMIA scores that order records of equal score by their own likelihood ratio.

    As a larger population would: the score is a monotone function of that ratio. With few rows,
    many records beat all of them, and no threshold at a low false-positive rate could tell these
    apart.

    Args:
        shares: (records,) scores of `rmia`.
        ratios: (records,) likelihood ratios of the records, at least 0.
        size: population rows, of which a share counts multiples.
    """
    return np.asarray(shares + ratios / (1.0 + ratios) / (2.0 * size))
