"""TF-IDF vectors as a network's encoder: nothing in it is trained."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uedp_bench.corpus import FloatArray
from uedp_bench.models.vocabularies.terms import SPECIALS


class TfidfNetwork(nn.Module):
    """(1 + ln count) times the weight of every term of a row, scaled to length 1.

    A batch is dense, (rows, terms); texts stay lists of token ids, so that a corpus is never held
    as such a table.

    Args:
        weights: (terms,) inverse document frequencies, from public text.
    """

    normalised = True

    def __init__(self, weights: FloatArray) -> None:
        super().__init__()
        self.width = len(weights)
        self.weights: Tensor
        self.register_buffer("weights", torch.as_tensor(weights, dtype=torch.float32))

    def forward(self, tokens: Tensor, lengths: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, terms); a row without any known term is 0. See `TextEncoder`."""
        inside = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
        terms = inside & (tokens >= SPECIALS)
        empty = torch.zeros(tokens.shape[0], self.width, device=tokens.device)
        at = (tokens - SPECIALS).clamp(min=0)
        counts = empty.scatter_add(1, at, terms.to(empty.dtype))
        # ln 0 would be -inf, and 0 of it NaN: absent terms are left out before the logarithm.
        frequency = torch.where(counts > 0, 1.0 + counts.clamp(min=1.0).log(), empty)
        weighted = frequency * self.weights
        return nn.functional.normalize(weighted, dim=1)
