"""Scores of tokens: log-probabilities of a release, and perplexities with intervals over users."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from uedp_bench.corpus import BoolArray, FloatArray, IntArray
from uedp_bench.errors import UedpBenchError

if TYPE_CHECKING:
    from torch import Tensor

    from uedp_bench.contracts.results import Estimate

_BOOTSTRAP_SEED = 2022

IN_CACHE = 2**17
"""Logits that a CPU reads at once: it reads each ten times, and a whole batch leaves its cache."""


def token_columns(
    logits: Tensor, targets: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """(tokens,) columns of `TokenScores`, of logits (tokens, vocabulary) and targets (tokens,).

    Raises:
        UedpBenchError: if a log-probability is NaN.
    """
    size = max(1, len(logits))
    if logits.device.type == "cpu":
        size = max(1, IN_CACHE // max(logits.shape[1], 1))
    starts = range(0, max(len(logits), 1), size)
    parts = [_columns(logits[at : at + size], targets[at : at + size]) for at in starts]
    logp, mean, std, correct = (np.concatenate(column) for column in zip(*parts, strict=True))
    return logp, mean, std, correct


def _columns(
    logits: Tensor, targets: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    import torch

    wanted = torch.from_numpy(targets).to(logits.device)[:, None]
    logs = torch.log_softmax(logits.float(), dim=-1)
    p = logs.exp()
    # 0 log 0 = 0: an impossible token adds nothing to an expectation.
    logs_or_0 = torch.where(p > 0, logs, torch.zeros_like(logs))
    mean = (p * logs_or_0).sum(dim=-1)
    std = (p * (logs_or_0 - mean[:, None]) ** 2).sum(dim=-1).sqrt()
    columns = (logs.gather(1, wanted)[:, 0], mean, std)
    logp, mean_logp, std_logp = (no_nan(each.double().cpu().numpy()) for each in columns)
    return logp, mean_logp, std_logp, (logs.argmax(dim=-1) == wanted[:, 0]).cpu().numpy()


def no_nan(values: FloatArray) -> FloatArray:
    """The values.

    Raises:
        UedpBenchError: if one is NaN.
    """
    if np.isnan(values).any():
        raise UedpBenchError("the released model gives NaN: its weights or logits are not finite")
    return values


def ratio(top: ArrayLike, bottom: ArrayLike, users: IntArray) -> Estimate:
    """Ratio of sums; every metric sees the same resamples of users."""
    from uedp_bench.statistics.intervals import ratio_estimate

    return ratio_estimate(top, bottom, np.random.default_rng(_BOOTSTRAP_SEED), users)


def perplexity(nats: ArrayLike, divisor: ArrayLike, users: IntArray) -> Estimate:
    """Exp of the ratio of nats to what they are divided by."""
    from uedp_bench.contracts.results import Estimate

    rate = ratio(nats, divisor, users)
    with np.errstate(over="ignore"):  # a broken model may be infinitely surprised
        low, high = (None if x is None else float(np.exp(x)) for x in (rate.low, rate.high))
        return Estimate(value=float(np.exp(rate.value)), low=low, high=high)
