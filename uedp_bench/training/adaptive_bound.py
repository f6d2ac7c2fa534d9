"""A clip bound that follows a quantile of the updates' norms, by a noisy count.

Andrew, Thakkar, McMahan, Ramaswamy 2021, "Differentially private learning with adaptive clipping"
(arXiv:1905.03871), Algorithm 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.training.bounds import Count, Limits, NetworkLayer, Seen


@dataclass
class AdaptiveBound(AttributeState):
    """Moves the bound C by C <- C exp(-rate (b - quantile)), b the noisy fraction no longer than C.

    Attributes:
        total: C, before the first round its start.
        quantile: gamma, the fraction of units whose updates are to be left as they are.
        expected: m, public number of units that take part in a round, in expectation.
        rate: eta_C, how fast C moves (0.2 in the paper).
        count_noise: sigma_b, standard deviation of the noise on the count (m / 20 in the paper).
    """

    changing: ClassVar[tuple[str, ...]] = ("total",)
    total: float
    quantile: float
    expected: float
    rate: float
    count_noise: float

    def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
        """See `Bound.limits`."""
        return Limits(self.total, count=Count(self.total, self.count_noise))

    def learn(self, step: int, seen: Seen) -> None:
        """See `Bound.learn`.

        Raises:
            RuntimeError: if there is no count, which `limits` asks for in every round.
        """
        if seen.count is None:
            raise RuntimeError("an adaptive bound needs the count that it asked for")
        fraction = 0.5 + seen.count / self.expected
        self.total *= math.exp(-self.rate * (fraction - self.quantile))
