"""Networks that see what they may not see are refused, on random tokens."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from uedp_bench.errors import InputError
from uedp_bench.models.networks.probes import LONGEST, Probe, log_probabilities

VOCABULARY: Any = SimpleNamespace(begin=0, end=1, size=20, unknown=2)


class Network(nn.Module):
    """A table of token vectors, mixed over places by a matrix or a function of all rows.

    Args:
        mix: maps vectors (rows, length, size) to vectors.
        scale: of all logits.
    """

    def __init__(self, mix: Any, scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(20, 8)
        self.places = nn.Embedding(12, 8)
        self.out = nn.Linear(8, 20)
        self.mix, self.scale = mix, scale

    def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
        vectors = self.table(tokens) + self.places(torch.arange(tokens.shape[1]))
        return self.out(self.mix(vectors)) * self.scale


def probe(module: nn.Module, limit: int | None = 12, outputs: Any = None) -> Probe:
    return Probe("net 'x'", module, outputs or log_probabilities(module), VOCABULARY, limit)


def before(vectors: Tensor) -> Tensor:
    return vectors.cumsum(dim=1)


def one_token_ahead(vectors: Tensor) -> Tensor:
    return vectors + 1e-2 * vectors.roll(-1, dims=1)


def all_rows(vectors: Tensor) -> Tensor:
    return before(vectors) + vectors.mean(dim=0, keepdim=True)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_one_token_ahead_is_seen_at_any_scale(scale: float) -> None:
    probe(Network(before, scale)).check_causal()
    with pytest.raises(InputError, match=r"net 'x' .*tokens.*log-prob"):
        probe(Network(one_token_ahead, scale)).check_causal()


def test_barred_tokens_hide_nothing() -> None:
    class Barred(Network):
        def forward(self, tokens: Tensor, lengths: Tensor | None = None) -> Tensor:
            logits = super().forward(tokens)
            return torch.cat([logits[..., :-2], torch.full_like(logits[..., -2:], -1e9)], dim=-1)

    probe(Barred(before)).check_causal()
    probe(Barred(before)).check_rows()
    with pytest.raises(InputError, match=r"net 'x' .*tokens"):
        probe(Barred(one_token_ahead)).check_causal()
    with pytest.raises(InputError, match=r"net 'x' .*row alone|net 'x' .*longer row"):
        probe(Barred(all_rows)).check_padding()


def test_rows_that_depend_on_each_other_are_refused() -> None:
    probe(Network(before)).check_rows()
    with pytest.raises(InputError, match=r"net 'x' .*longer row"):
        probe(Network(all_rows)).check_padding()


def test_errors_of_batches_and_of_long_rows_are_named() -> None:
    def no_batches(tokens: Tensor, lengths: Tensor) -> Tensor:
        if len(tokens) > 1:
            raise ValueError("Cannot handle batch sizes > 1")
        return tokens.double()

    module = Network(before)
    with pytest.raises(InputError, match=r"net 'x' .*lengths: Cannot"):
        probe(module, outputs=no_batches).check_padding()
    with pytest.raises(InputError, match=r"net 'x' .*13 tokens.*max_length"):
        probe(module, limit=13).check_longest()
    probe(module, limit=LONGEST + 1).check_longest()  # is not tried


def test_a_probe_changes_neither_mode_nor_random_state() -> None:
    module = Network(before)
    module.train()
    state = torch.random.get_rng_state()
    probe(module).check_causal()
    probe(module).check_rows()
    assert module.training
    assert torch.equal(state, torch.random.get_rng_state())


def test_not_a_number_is_refused() -> None:
    with pytest.raises(InputError):
        probe(Network(lambda vectors: vectors * float("nan"))).check_causal()


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_short_limits_are_probed(limit: int) -> None:
    probe(Network(before), limit).check_causal()
    probe(Network(before), limit).check_rows()
