"""Runs a protocol between two parties on numbers that are shared by chance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine.dealer import Dealer, Recorder, Supply, seeds_of
from uedp_bench.mechanisms.secure_inference.engine.program import dry_run
from uedp_bench.mechanisms.secure_inference.engine.protocol import Bits, Party, Steps
from uedp_bench.mechanisms.secure_inference.engine.sessions import Meter, in_step
from uedp_bench.randomness import Stream

LOWEST, HIGHEST = -(2**63), 2**63 - 1
Protocol = Callable[..., Steps[Any]]


def anything(*shape: int, seed: int = 0) -> Tensor:
    """Uniform elements of the ring."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(LOWEST, HIGHEST, shape, generator=generator)


def both(
    protocol: Protocol, *values: Tensor, seed: int = 0, **options: Any
) -> tuple[Any, Any, Meter]:
    """What the server and the client end with, and what they sent.

    Args:
        protocol: called with a party and its share of each value.
        values: int64; shared anew for each seed.
        seed: of shares and of the dealer.
        options: of `Party`.
    """
    stream = Stream(seed.to_bytes(32, "little"))
    recorder = Recorder()
    dry_run(protocol(Party(recorder, **options), *map(torch.zeros_like, values)))
    supplies = [Supply(party, each) for party, each in enumerate(seeds_of(stream))]
    supplies[0].begin(0, Dealer(stream, {}).deal(0, recorder.correlations))
    supplies[1].begin(0)
    ours = [anything(*x.shape, seed=seed + 1 + at) for at, x in enumerate(values)]
    theirs = [x - a for x, a in zip(values, ours, strict=True)]
    meter = Meter()
    server, client = (
        protocol(Party(supply, **options), *shares)
        for supply, shares in zip(supplies, (ours, theirs), strict=True)
    )
    return *in_step(server, client, meter), meter


def computed(protocol: Protocol, *values: Tensor, **options: Any) -> Tensor:
    """The number, or the bit, that both ends make."""
    server, client, _ = both(protocol, *values, **options)
    if isinstance(server, Bits):
        from uedp_bench.mechanisms.secure_inference.engine.dealer import unpack

        return unpack(server.packed ^ client.packed, server.size)
    return server + client
