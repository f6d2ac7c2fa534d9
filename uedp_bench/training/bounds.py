"""Bounds on one unit's share of a round's sum: the contract, fixed bounds and an adaptive one.

A bound is a policy. Before a round it says its limits; the engine enforces them, whatever a unit
sends. After the round it is shown what the noise made of the round, and nothing else: neither
updates nor their norms nor sums without noise ever reach a bound. So whatever a bound computes for
the next round is post-processing, and is as public as the model.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.errors import PrivacyError


@dataclass(frozen=True)
class Count:
    """Asks for the noisy number of units of a round whose update is no longer than `below`.

    The count is paid for: it shares the noise of the round, see `docs/proofs.md`, section 11.

    Attributes:
        below: an l2 norm.
        noise: standard deviation of the noise on the count; above half the noise multiplier.
    """

    below: float
    noise: float


@dataclass(frozen=True)
class Limits:
    """Limits of one unit's contribution to a round: numbers that are public before it.

    Attributes:
        total: l2 norm of a unit's update; infinity bounds nothing, and then nothing is promised.
        layers: l2 norms of its layers, one for each; their squares add up to at most the square
            of `total`. Empty: the update is clipped as a whole.
        rows: l2 norm of each row's own update before they are added up and clipped to `total`;
            None: rows are not looked at one by one.
        count: noisy count that the bound needs of this round; None for none.
    """

    total: float
    layers: tuple[float, ...] = ()
    rows: float | None = None
    count: Count | None = None


@dataclass(frozen=True)
class Seen:
    """Noisy numbers of a round that a bound sees, and nothing else.

    Attributes:
        total: (d,) noisy sum of clipped updates.
        count: noisy sum, over the units that took part, of 1/2 where the update was no longer
            than `Count.below` and of -1/2 where it was longer; None where none was asked for.
            Divided by the expected number of units, plus 1/2, it estimates their fraction.
    """

    total: Tensor
    count: float | None


@dataclass(frozen=True)
class NetworkLayer:
    """Parameters of one module of a network, which lie side by side in an update.

    Attributes:
        name: name of the module.
        size: number of weights.
    """

    name: str
    size: int


class Bound(Protocol):
    """Policy: what one unit may add to the sum of each round."""

    def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
        """The limits of a round.

        Args:
            step: number of the round, from 0.
            layers: layers of the network, in the order of an update.
        """
        ...

    def learn(self, step: int, seen: Seen) -> None:
        """Look at the noisy outcome of a round."""
        ...


class _Fixed(AttributeState):
    """A bound that learns nothing."""

    def learn(self, step: int, seen: Seen) -> None:
        """See `Bound.learn`."""


@dataclass(frozen=True)
class FlatBound(_Fixed):
    """Every update is clipped to one l2 norm (McMahan et al. 2018, flat clipping)."""

    total: float

    def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
        """See `Bound.limits`."""
        return Limits(self.total)


@dataclass(frozen=True)
class Unbounded(_Fixed):
    """Nothing is clipped and nothing is promised; noise is in units of 1."""

    def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
        """See `Bound.limits`."""
        return Limits(math.inf)


@dataclass(frozen=True)
class TwoLevelBound(_Fixed):
    """Every row's own update is clipped to `rows`, their sum to `total` (`training.clipping`)."""

    total: float
    rows: float

    def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
        """See `Bound.limits`."""
        return Limits(self.total, rows=self.rows)


@dataclass(frozen=True)
class PerLayerBound(_Fixed):
    """Every layer is clipped to a norm of its own (McMahan et al. 2018, section 2.3).

    Attributes:
        total: bound on the whole update: the root of the sum of squared bounds.
        shares: (layers,) positive shares of the square of `total`, in any unit; None: the same for
            every layer, as in the paper.
    """

    total: float
    shares: tuple[float, ...] | None = None

    def limits(self, step: int, layers: Sequence[NetworkLayer]) -> Limits:
        """See `Bound.limits`.

        Raises:
            PrivacyError: if there are not as many shares as layers.
        """
        shares = (1.0,) * len(layers) if self.shares is None else self.shares
        if len(shares) != len(layers):
            names = ", ".join(layer.name for layer in layers)
            raise PrivacyError(f"{len(shares)} shares for {len(layers)} layers: {names}")
        whole = math.fsum(shares)
        bounds = tuple(self.total * math.sqrt(share / whole) for share in shares)
        return Limits(self.total, layers=bounds)


def check_limits(limits: Limits, layers: Sequence[NetworkLayer], noise_multiplier: float) -> None:
    """Refuse limits that nothing can be proven of.

    Raises:
        PrivacyError: naming the limit, its value and what is allowed.
    """
    total, count = limits.total, limits.count
    if not total > 0.0:
        raise PrivacyError(f"the clip bound of a round is {total}; it must be above 0")
    if limits.layers:
        if len(limits.layers) != len(layers) or not all(bound > 0.0 for bound in limits.layers):
            raise PrivacyError(
                f"bounds of layers are {limits.layers}; each of {len(layers)} needs one above 0"
            )
        whole = math.sqrt(math.fsum(bound**2 for bound in limits.layers))
        if not whole <= total * (1.0 + 1e-9):
            raise PrivacyError(
                f"bounds of layers allow an update of norm {whole:g}, above the total {total:g}"
            )
    if count is not None and not (
        count.below > 0.0 and count.noise > noise_multiplier / 2.0 and math.isfinite(total)
    ):
        raise PrivacyError(
            f"a count below {count.below:g} with noise {count.noise:g} beside clip bound "
            f"{total:g}: the count's noise must be above half the noise multiplier "
            f"{noise_multiplier:g}, and both bounds above 0"
        )


@dataclass
class AdaptiveBound(AttributeState):
    """Moves the bound C by C <- C exp(-rate (b - quantile)), b the noisy fraction no longer than C.

    Andrew, Thakkar, McMahan, Ramaswamy 2021, "Differentially private learning with adaptive
    clipping" (arXiv:1905.03871), Algorithm 1.

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
