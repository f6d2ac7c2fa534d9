"""A causal language model of `transformers` behind the interface of this package's networks."""

from __future__ import annotations

import copy
import inspect
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from uedp_bench.text.pretrained import no_progress_bars


class TransformerNetwork(nn.Module):
    """Logits of tokens, right-padded, under the causal mask.

    The wrapped network stays in evaluation mode, so that no dropout is ever drawn. Position ids
    are given for every row: ids of one row for all would give per-example gradients of the
    position embedding a batch of one.

    Args:
        network: a causal language model of `transformers`.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network: Any = network.eval()
        self._positions = "position_ids" in inspect.signature(network.forward).parameters

    def train(self, mode: bool = True) -> TransformerNetwork:
        """Sets the mode of this module, not of the wrapped network."""
        self.training = mode
        return self

    def forward(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Logits (rows, length, vocabulary) of ids (rows, length); seeds have nothing to do."""
        return self._run(tokens, 0, use_cache=False).logits  # type: ignore[no-any-return]

    def prefix_state(self, tokens: Tensor) -> tuple[Any, int]:
        """Keys and values after the tokens (1, length), for `resume`."""
        return self._run(tokens, 0, use_cache=True).past_key_values, tokens.shape[1]

    def resume(self, tokens: Tensor, state: tuple[Any, int]) -> Tensor:
        """Logits of tokens (rows, length) that all follow the prefix of `state`."""
        cache, length = state
        cache = copy.deepcopy(cache)  # the library appends to it
        cache.batch_repeat_interleave(tokens.shape[0])
        out = self._run(tokens, length, use_cache=True, past_key_values=cache)
        return out.logits  # type: ignore[no-any-return]

    def save(self, folder: Path) -> None:
        """Writes configuration and weights in the library's format."""
        with no_progress_bars():
            self.network.save_pretrained(folder)

    def _run(self, tokens: Tensor, start: int, **options: Any) -> Any:
        if self._positions:
            positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
            options["position_ids"] = positions.expand(tokens.shape[0], -1)
        return self.network(input_ids=tokens, **options)
