"""A plug-in file: randomized response (Warner 1965), an event and what it is worth."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from uedp_bench.api.events import (
    DiscretePair,
    Event,
    Neighbours,
    events,
    loss_pairs,
    renyi_divergences,
)


@events.register
class RandomizedResponse(Event):
    """A bit of every unit is released, and is true with probability `truth`, else flipped."""

    source = "Warner 1965"
    kind: Literal["randomized-response"] = "randomized-response"
    truth: float = Field(gt=0.5, lt=1.0)


@loss_pairs.register(RandomizedResponse)
def bits(event: RandomizedResponse, neighbours: Neighbours) -> tuple[DiscretePair, DiscretePair]:
    """Bits of two neighbours, whichever of them is which."""
    pair = DiscretePair([event.truth, 1.0 - event.truth], [1.0 - event.truth, event.truth])
    return pair, pair


@events.register
class Curve(Event):
    """Anything with Renyi divergences of `slope` times the order (zero-concentrated privacy)."""

    kind: Literal["curve"] = "curve"
    slope: float = Field(gt=0.0)


@renyi_divergences.register(Curve)
def line(event, neighbours, orders):
    return event.slope * orders
