"""Rounds as they were run, said as rounds for a user together with an entity."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from uedp_bench.accounting.events import AnyEvent, GroupRound
from uedp_bench.api.events import PoissonSampled, Repeated


def as_group_rounds(
    rounds: Sequence[AnyEvent], of: Callable[[float, float], GroupRound]
) -> tuple[AnyEvent, ...]:
    """Rounds whose epsilon is a curve over who else mentions the entity.

    Independent coins give such a round. Anything else is told as it is: it differs from every plan,
    and no accountant of users together with entities takes it.

    Args:
        rounds: rounds of `train_federated`.
        of: makes a round of its sampling rate and its noise multiplier.
    """
    return tuple(_as_group(event, of) for event in rounds)


def _as_group(event: AnyEvent, of: Callable[[float, float], GroupRound]) -> AnyEvent:
    if not (isinstance(event, Repeated) and isinstance(event.event, PoissonSampled)):
        return event
    drawn = event.event
    return Repeated(count=event.count, event=of(drawn.rate, drawn.event.noise_multiplier))
