"""Cross-entropy of every token, with the gradient written out.

On a CPU the output layer takes most of the time, and the backward pass of
`torch.nn.functional.cross_entropy` fills and reads one more table of all logits than it needs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from uedp_bench.models import fast


class _TokenNats(torch.autograd.Function):
    """Works under `torch.func.grad` and `vmap`; has no second derivative."""

    generate_vmap_rule = True

    @staticmethod
    def forward(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        p = torch.softmax(logits, dim=-1)
        # log-sum-exp from the largest logit, whose probability is at least 1 / vocabulary.
        total = logits.amax(dim=-1) - torch.log(p.amax(dim=-1))
        at = targets.clamp(min=0).unsqueeze(-1)
        nats = total - logits.gather(-1, at).squeeze(-1)
        return torch.where(targets < 0, torch.zeros_like(nats), nats), p

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(output[1], inputs[1])
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)  # else autograd fills a table of zeros for `p`

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None]:
        p, targets = ctx.saved_tensors
        scale = torch.where(targets < 0, torch.zeros_like(gradients[0]), gradients[0]).unsqueeze(-1)
        at = targets.clamp(min=0).unsqueeze(-1)
        return (p * scale).scatter_add_(-1, at, -scale), None


def token_nats(logits: Tensor, targets: Tensor) -> Tensor:
    """Negative log-likelihood (...) in nats of targets (...) under logits (..., vocabulary).

    Negative targets are padding: they cost nothing and have no gradient.
    """
    if not fast.is_on():
        log_p = torch.log_softmax(logits, dim=-1)
        nats = -log_p.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        return torch.where(targets < 0, torch.zeros_like(nats), nats)
    return _TokenNats.apply(logits, targets)[0]  # type: ignore[no-any-return, no-untyped-call]
