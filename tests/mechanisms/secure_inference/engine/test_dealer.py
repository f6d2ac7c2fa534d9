"""What a dealer hands out: equations hold, seeds decide, and nothing is taken twice."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from uedp_bench.errors import PrivacyError
from uedp_bench.mechanisms.secure_inference.engine import dealer
from uedp_bench.mechanisms.secure_inference.engine.dealer import (
    CLIENT,
    SERVER,
    Dealer,
    Expansion,
    Spec,
    Supply,
    mask_of_weights,
    seeds_of,
    unpack,
)
from uedp_bench.mechanisms.secure_inference.engine.layers import product
from uedp_bench.randomness import Stream

STREAM = Stream(b"s" * 32)


def handed_out(correlation, weights=None):
    """Both parties' numbers of one correlation."""
    seeds = seeds_of(STREAM)
    supplies = [Supply(party, seed) for party, seed in enumerate(seeds)]
    supplies[SERVER].begin(0, Dealer(STREAM, weights or {}).deal(0, [correlation]))
    supplies[CLIENT].begin(0)
    return [supply.take(correlation) for supply in supplies]


def test_products_of_shared_numbers():
    server, client = handed_out(dealer.multiplication((1000,)))
    a, b, c = (x + y for x, y in zip(server, client, strict=True))
    assert torch.equal(c, a * b)


def test_conjunctions_of_shared_and_of_owned_bits():
    words = Spec((2, 50), torch.int32)
    server, client = handed_out(dealer.conjunction(Spec((1, 50), torch.int32), words))
    a, b, c = (x ^ y for x, y in zip(server, client, strict=True))
    assert torch.equal(c, a & b)
    (a, c0), (b, c1) = handed_out(dealer.owned_conjunction(words))
    assert torch.equal(c0 ^ c1, a & b)


def test_choices_and_truncations():
    server, client = handed_out(dealer.choice(2, 21))
    a, r, ar = (server[at] + client[at] for at in (0, 2, 3))
    assert torch.equal(r, unpack(server[1] ^ client[1], 21))
    assert set(r.tolist()) == {0, 1}
    assert torch.equal(ar, a * r)
    r, upper, top = (x + y for x, y in zip(*handed_out(dealer.truncation((99,), 16)), strict=True))
    assert torch.equal((upper << 16) + (r & 0xFFFF) + (top << 63), r)
    assert (upper >= 0).all()


def test_the_mask_of_weights_is_one_for_all_batches():
    shape = (3, 4)
    correlation = dealer.linear("dense", (5, 4), (5, 3), lambda x, w: product(x, w.T))
    (c0,), (a, c1) = handed_out(correlation, {"dense": shape})
    b = mask_of_weights(seeds_of(STREAM)[SERVER], "dense", shape)
    assert torch.equal(c0 + c1, product(a, b.T))


def test_every_number_is_taken_once():
    triple = dealer.multiplication((3,))
    supply = Supply(CLIENT, STREAM)
    with pytest.raises(PrivacyError, match=r"masks.*taken"):
        supply.take(triple)
    supply.begin(0)
    taken = [supply.take(triple), supply.take(triple)]
    supply.begin(1)
    taken.append(supply.take(triple))
    assert supply.taken == {0: 2, 1: 1}
    numbers = torch.stack([x for tensors in taken for x in tensors]).flatten()
    assert len(numbers.unique()) == len(numbers)
    for batch in (0, 1):
        with pytest.raises(PrivacyError, match=r"batch \d.*used"):
            supply.begin(batch)


def test_expansion_is_the_counter_mode_of_aes_under_a_key_for_each_name():
    seed, size = Stream(b"k" * 32), (1 << 18) + 24
    for name, same in ((("a", 1), True), (("a", 2), False)):
        aes = Cipher(algorithms.AES(seed.child(*name).key), modes.CTR(bytes(16))).encryptor()
        stream = Expansion(seed, "a", 1)
        for length in (8, size, 3):  # what is drawn goes on where it stopped
            (expansion,) = stream.draw([Spec((length,), torch.uint8)])
            expected = aes.update(bytes(-(-length // 8) * 8))[:length]
            assert (expected == expansion.numpy().tobytes()) is same


def test_expanded_numbers_do_not_overlap():
    specs = [Spec((3,), torch.uint8), Spec((5,)), Spec((7,), torch.int32), Spec((2, 2))]
    parts = Expansion(STREAM, "x").draw(specs)
    assert [(tuple(x.shape), x.dtype) for x in parts] == specs
    starts = [(x.data_ptr(), x.data_ptr() + x.nbytes) for x in parts]
    assert all(end <= start for (_, end), (start, _) in pairwise(starts))
