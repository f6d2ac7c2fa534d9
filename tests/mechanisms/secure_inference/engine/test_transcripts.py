"""What a party holds and sees: nothing of the other's, and numbers that look like chance."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from secure_networks import LENGTH, small, texts
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine.compile import SecureConfig, compile_network
from uedp_bench.mechanisms.secure_inference.engine.dealer import CLIENT, SERVER, seeds_of
from uedp_bench.mechanisms.secure_inference.engine.layers import encode
from uedp_bench.mechanisms.secure_inference.engine.program import Program
from uedp_bench.randomness import Stream

STREAM = Stream(b"t" * 32)


def served(stream=STREAM, **options):
    return compile_network(small(), (1, LENGTH), SecureConfig(stream=stream, **options))


def reachable(thing: Any, seen: set[int] | None = None) -> list[Any]:
    """Everything that an object holds."""
    seen = set() if seen is None else seen
    if id(thing) in seen or isinstance(thing, str | int | float | type | None):
        return []
    seen.add(id(thing))
    if isinstance(thing, Tensor | bytes):
        return [thing]
    inside = list(thing) if isinstance(thing, list | tuple | set) else []
    if isinstance(thing, dict):
        inside = list(thing.values())
    inside += list(getattr(thing, "__dict__", {}).values())
    return list(itertools.chain.from_iterable(reachable(each, seen) for each in inside))


def test_no_party_holds_what_is_the_others(monkeypatch):
    parties, make = [], Program.party
    monkeypatch.setattr(
        Program, "party", lambda *args, **kw: parties.append(make(*args, **kw)) or parties[-1]
    )
    network, inputs = served(), texts(4)
    network.infer(inputs, transcript_of=SERVER)
    parties = [party for party in parties if party.supply.taken]
    held = [reachable(party) for party in parties]
    assert [party.supply.party for party in parties] == [SERVER, CLIENT]
    assert not any(isinstance(x, Tensor) for x in reachable(network.program))
    keys = [seed.key for seed in seeds_of(STREAM)]
    weights = {name: encode(x) for name, x in small().named_parameters()}
    assert any(torch.equal(weights["2.weight"], x) for x in held[SERVER] if isinstance(x, Tensor))
    for party in (SERVER, CLIENT):
        assert keys[party] in held[party]
        assert keys[1 - party] not in held[party]
        assert STREAM.key not in held[party]
    secrets = {*weights["2.weight"].flatten().tolist()}
    for message in held[CLIENT]:
        if isinstance(message, Tensor):
            assert not any(torch.equal(message, x) for x in weights.values())
            assert message.is_meta or not secrets & {*message.flatten().tolist()}
    for message in held[SERVER]:
        if isinstance(message, Tensor):
            assert not (message.shape == inputs.shape and (message == encode(inputs)).any())


@pytest.mark.parametrize("party", [SERVER, CLIENT])
@pytest.mark.parametrize(
    ("value", "options"),
    [(0.0, {}), (8.0, {}), (0.0, {"value_range": 2.0**20, "keep_sigmoid": True})],
)
def test_opened_values_are_uniform(party, value, options):
    inputs = torch.full((24, 1, LENGTH), value)  # as far from chance as can be
    opened = served(**options).infer(inputs, transcript_of=party).opened
    of_each = [np.frombuffer(x.numpy().tobytes(), np.uint8) for x in opened]
    assert min(map(len, of_each)) > 0
    whole = np.concatenate(of_each)
    assert len(whole) > 10_000
    assert stats.chisquare(np.bincount(whole, minlength=256)).pvalue > 1e-3
    low = [stats.chisquare(np.bincount(x >> 4, minlength=16)).pvalue for x in of_each
           if len(x) >= 160]  # fmt: skip
    assert stats.kstest(low, "uniform").pvalue > 1e-3


def test_masks_are_fresh_in_every_batch_and_their_reuse_shows():
    first, second = texts(1, seed=5), texts(1, seed=6)
    moved = encode(second) - encode(first)

    def difference(one, other):
        a, b = (x.infer(y, transcript_of=SERVER).opened for x, y in zip(one, other, strict=True))
        return next(y - x for x, y in zip(a, b, strict=True) if x.shape == first.shape)

    network = served()
    assert not (difference((network, network), (first, second)) == moved).any()
    # Two networks with one stream begin at the same mask: what is opened tells the difference.
    assert torch.equal(difference((served(), served()), (first, second)), moved)
    unlike = served(Stream(b"u" * 32))
    assert not (difference((served(), unlike), (first, second)) == moved).any()


def test_streams_decide_nothing_but_rounding():
    inputs = texts(30)
    answers = [served(stream).infer(inputs) for stream in (STREAM, None, None)]
    assert all(torch.equal(answers[0].labels, each.labels) for each in answers)


def test_two_processes_give_the_same_bits():
    inputs = texts(7)
    one, two = (
        served(processes=apart, batch_rows=5).infer(inputs, transcript_of=CLIENT)
        for apart in (False, True)
    )
    assert torch.equal(one.labels, two.labels)
    assert len(one.opened) == len(two.opened) > 0
    assert all(map(torch.equal, one.opened, two.opened))
    assert one.traffic.rounds == two.traffic.rounds
    assert one.traffic.bytes_party == two.traffic.bytes_party
