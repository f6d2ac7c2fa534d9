"""Our events as those of dp-accounting, which takes over a second to import."""

from __future__ import annotations

import math
from typing import Any

from uedp_bench.accounting.events import (
    AnyEvent,
    FixedSizeSampled,
    Gaussian,
    NonPrivate,
    PoissonSampled,
    Repeated,
)
from uedp_bench.errors import PrivacyError


def to_dp_event(event: AnyEvent, *, sensitivity: float = 1.0) -> Any:
    """The `dp_accounting.DpEvent` with the same meaning.

    Args:
        event: any but rounds that speak of entities and local noise, for which it has none.
        sensitivity: the noise multiplier is divided by it: 2 where the accountant does not itself
            double the sensitivity of replacing one unit.

    Raises:
        PrivacyError: if dp-accounting has no such event.
    """
    import dp_accounting as dp

    if isinstance(event, NonPrivate):
        return dp.NonPrivateDpEvent()
    if isinstance(event, Repeated):
        if event.count == 0:
            return dp.NoOpDpEvent()
        return dp.SelfComposedDpEvent(
            to_dp_event(event.event, sensitivity=sensitivity), event.count
        )
    if isinstance(event, Gaussian):
        if math.isinf(event.noise_multiplier):
            return dp.NoOpDpEvent()
        return dp.GaussianDpEvent(event.noise_multiplier / sensitivity)
    if isinstance(event, PoissonSampled | FixedSizeSampled):
        inner = to_dp_event(event.event, sensitivity=sensitivity)
        if isinstance(inner, dp.NoOpDpEvent):
            return inner
        if isinstance(event, PoissonSampled):
            return dp.PoissonSampledDpEvent(event.rate, inner)
        return dp.SampledWithoutReplacementDpEvent(event.population, event.sample, inner)
    raise PrivacyError(f"dp-accounting has no event for {event.kind!r}")
