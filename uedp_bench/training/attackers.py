"""Attackers of private variables that a classifier is trained against."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from uedp_bench.corpus import IntArray


class Attackers(nn.Module):
    """One multilayer perceptron a private variable, each from the representation alone.

    Args:
        width: d, size of the representation.
        classes: number of classes by name of the variable.
        hidden: units of the hidden layer, ReLU.
        seed: seed of the initial weights.
    """

    def __init__(self, width: int, classes: Mapping[str, int], hidden: int, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.networks = nn.ModuleList(
                nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, count))
                for count in classes.values()
            )

    def start(self, learning_rate: float) -> None:
        """Make the optimiser; call it when the weights are on their device."""
        self.optimizer = torch.optim.Adam(self.parameters(), lr=learning_rate)

    def truth(self, values: Mapping[str, IntArray], rows: IntArray) -> list[Tensor]:
        """(rows,) values of each variable on the device, -1 for unknown."""
        device = next(self.parameters()).device
        return [torch.from_numpy(each[rows]).to(device) for each in values.values()]

    def step(self, z: Tensor, private: list[Tensor]) -> None:
        """One step on the mean cross-entropy of the known values; `z` gets no gradient."""
        fixed = z.detach()
        loss = fixed.new_zeros(())
        for network, truth in zip(self.networks, private, strict=True):
            has_value = truth >= 0
            if has_value.any():
                loss = loss + nn.functional.cross_entropy(
                    network(fixed[has_value]), truth[has_value]
                )
        if not loss.requires_grad:
            return
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        self.optimizer.step()

    def fooling_nats(self, z: Tensor, private: list[Tensor]) -> Tensor:
        """(rows,) sums over variables of -log P(not z | r), 0 for unknown values.

        Its gradient reaches `z` and, unused, the attackers: `step` clears theirs.
        """
        total = z.new_zeros(len(z))
        for network, truth in zip(self.networks, private, strict=True):
            logits = network(z)
            target = truth.clamp(min=0)[:, None]
            others = logits.scatter(1, target, float("-inf"))
            nats = torch.logsumexp(logits, dim=1) - torch.logsumexp(others, dim=1)
            total = total + torch.where(truth >= 0, nats, 0.0)
        return total
