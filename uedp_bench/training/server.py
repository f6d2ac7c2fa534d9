"""Server steps: they move the shared weights by the noisy estimate of the mean update."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from torch import Tensor

from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.training.clipping import exact_norms
from uedp_bench.training.device import weights_at_once


class ServerStep(Protocol):
    """Policy: one step of the server. It sees noisy estimates only: a step is post-processing."""

    def step(self, theta: Tensor, estimate: Tensor, step: int, rounds: int) -> Tensor:
        """The weights (d,) after a step from `theta` (d,) along the estimate (d,).

        Args:
            theta: the shared weights; not changed.
            estimate: noisy sum of updates over the public denominator.
            step: number of the round, from 0.
            rounds: number of rounds.
        """
        ...


@runtime_checkable
class LayeredStep(Protocol):
    """A `ServerStep` that treats layers apart: it is told their sizes before the first round."""

    def lay_out(self, sizes: Sequence[int]) -> None:
        """Take the weights (d,) as layers of these sizes, in order (`FlatModule.layers`)."""
        ...


@dataclass
class Scheduled(AttributeState):
    """A learning rate; with the schedule "linear" it falls to 0 over the rounds, in equal parts."""

    learning_rate: float = 1.0
    schedule: Literal["constant", "linear"] = field(default="constant", kw_only=True)

    def rate(self, step: int, rounds: int) -> float:
        """The learning rate of a round, counted from 0."""
        left = 1.0 if self.schedule == "constant" else 1.0 - step / rounds
        return self.learning_rate * left


def blocks(*vectors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Split vectors (d,) into blocks, side by side; writing into a block changes its vector.

    What is computed on the way to a step takes the memory of a block in place of that of a vector.
    """
    size = weights_at_once(vectors[0].device)
    return zip(*(torch.split(vector, size) for vector in vectors), strict=True)


@dataclass
class SgdServer(Scheduled):
    """Federated averaging: adds `learning_rate` times the estimate, with momentum if wanted."""

    changing: ClassVar[tuple[str, ...]] = ("_velocity",)
    momentum: float = 0.0
    _velocity: Tensor | None = field(default=None, init=False, repr=False)

    def step(self, theta: Tensor, estimate: Tensor, step: int, rounds: int) -> Tensor:
        """See `ServerStep.step`."""
        moved, rate = torch.empty_like(theta), self.rate(step, rounds)
        if not self.momentum:  # a velocity would be the estimate again
            for weights, along, out in blocks(theta, estimate, moved):
                torch.add(weights, rate * along, out=out)
            return moved
        if self._velocity is None:
            self._velocity = torch.zeros_like(theta)
        for velocity, weights, along, out in blocks(self._velocity, theta, estimate, moved):
            velocity.mul_(self.momentum).add_(along)
            torch.add(weights, rate * velocity, out=out)
        return moved


@dataclass
class AdamServer(Scheduled):
    """Adam on the estimates (Reddi et al. 2021, FedAdam, with bias correction).

    Attributes:
        tau: added to the root of the second moment.
        weight_decay: part of every weight, times the learning rate, that a step takes off it: AdamW
            (Loshchilov and Hutter 2019, arXiv:1711.05101, Algorithm 2). The moments know nothing
            of it, and neither does clipping.
    """

    changing: ClassVar[tuple[str, ...]] = ("_first", "_second", "_count")
    tau: float = field(default=1e-8, kw_only=True)
    weight_decay: float = field(default=0.0, kw_only=True)
    _first: Tensor | None = field(default=None, init=False, repr=False)
    _second: Tensor | None = field(default=None, init=False, repr=False)
    _count: int = field(default=0, init=False, repr=False)

    def step(self, theta: Tensor, estimate: Tensor, step: int, rounds: int) -> Tensor:
        """See `ServerStep.step`."""
        if self._first is None or self._second is None:
            self._first, self._second = torch.zeros_like(theta), torch.zeros_like(theta)
        self._count += 1
        moved, rate = torch.empty_like(theta), self.rate(step, rounds)
        of_mean, of_variance = 1 - 0.9**self._count, 1 - 0.999**self._count
        moments = self._first, self._second
        for first, second, weights, along, out in blocks(*moments, theta, estimate, moved):
            first.mul_(0.9).add_(0.1 * along)
            second.mul_(0.999).add_(0.001 * along**2)
            root = (second / of_variance).sqrt_().add_(self.tau)
            torch.add(weights, (first / of_mean).mul_(rate).div_(root), out=out)
            if self.weight_decay:
                out.sub_(weights, alpha=rate * self.weight_decay)
        return moved


@dataclass
class _Adaptive(Scheduled):
    """Algorithm 2 of Reddi et al. 2021 (arXiv:2003.00295), without bias correction.

    The second moment v starts at tau^2, and a step is rate * m / (sqrt(v) + tau).

    Attributes:
        tau: inverse of the step's adaptivity; the larger, the closer to a plain one (1e-3 in the
            paper).
    """

    changing: ClassVar[tuple[str, ...]] = ("_first", "_second")
    tau: float = field(default=1e-3, kw_only=True)
    _first: Tensor | None = field(default=None, init=False, repr=False)
    _second: Tensor | None = field(default=None, init=False, repr=False)

    def step(self, theta: Tensor, estimate: Tensor, step: int, rounds: int) -> Tensor:
        """See `ServerStep.step`."""
        if self._first is None or self._second is None:
            self._first = torch.zeros_like(theta)
            self._second = torch.full_like(theta, self.tau**2)
        moved, rate = torch.empty_like(theta), self.rate(step, rounds)
        moments = self._first, self._second
        for first, second, weights, along, out in blocks(*moments, theta, estimate, moved):
            first.copy_(self._mean(first, along))
            second.copy_(self._second_moment(second, along**2))
            torch.add(weights, (rate * first).div_(second.sqrt().add_(self.tau)), out=out)
        return moved

    def _mean(self, before: Tensor, estimate: Tensor) -> Tensor:
        raise NotImplementedError

    def _second_moment(self, before: Tensor, squared: Tensor) -> Tensor:
        raise NotImplementedError


@dataclass
class YogiServer(_Adaptive):
    """FedYogi of Reddi et al. 2021, beta1 = 0.9 and beta2 = 0.99.

    The second moment moves by a fixed part of the squared estimate, towards it: after a round of
    large noise it comes down slower than that of Adam.
    """

    def _mean(self, before: Tensor, estimate: Tensor) -> Tensor:
        return 0.9 * before + 0.1 * estimate

    def _second_moment(self, before: Tensor, squared: Tensor) -> Tensor:
        return before - 0.01 * squared * torch.sign(before - squared)


@dataclass
class AdagradServer(_Adaptive):
    """FedAdagrad of Reddi et al. 2021, beta1 = 0: squared estimates add up."""

    def _mean(self, before: Tensor, estimate: Tensor) -> Tensor:
        return estimate

    def _second_moment(self, before: Tensor, squared: Tensor) -> Tensor:
        return before + squared


@dataclass
class LambServer(Scheduled):
    """LAMB on the estimates, for large batches (You et al. 2020, arXiv:1904.00962, Algorithm 2).

    With r Adam's move of a layer (bias-corrected), x its weights and w the decay, the layer moves
    by rate * |x| / |r - w x| * (r - w x). The ratio is 1 where either norm is 0, as in the authors'
    code. A layer is a module that owns weights, its biases among them, as for per-layer clipping.

    Attributes:
        tau: added to the root of the second moment.
        weight_decay: w above.
    """

    changing: ClassVar[tuple[str, ...]] = ("_first", "_second", "_count")
    tau: float = field(default=1e-6, kw_only=True)
    weight_decay: float = field(default=0.01, kw_only=True)
    _sizes: tuple[int, ...] = field(default=(), init=False, repr=False)
    _first: Tensor | None = field(default=None, init=False, repr=False)
    _second: Tensor | None = field(default=None, init=False, repr=False)
    _count: int = field(default=0, init=False, repr=False)

    def lay_out(self, sizes: Sequence[int]) -> None:
        """See `LayeredStep.lay_out`."""
        self._sizes = tuple(sizes)

    def step(self, theta: Tensor, estimate: Tensor, step: int, rounds: int) -> Tensor:
        """See `ServerStep.step`.

        Raises:
            RuntimeError: if it was not told of the layers.
        """
        if sum(self._sizes) != len(theta):
            raise RuntimeError("LAMB steps by layers: call lay_out with their sizes first")
        moved, rate = self._directions(theta, estimate), self.rate(step, rounds)
        layers = (torch.split(vector, list(self._sizes)) for vector in (theta, moved))
        pairs = list(zip(*layers, strict=True))
        lengths = torch.stack([torch.cat([exact_norms(v[None]) for v in pair]) for pair in pairs])
        for (weights, along), (of_now, of_along) in zip(pairs, lengths, strict=True):
            ratio = torch.where((of_now > 0) & (of_along > 0), of_now / of_along, 1.0)
            along.mul_((rate * ratio).to(along)).add_(weights)
        return moved

    def _directions(self, theta: Tensor, estimate: Tensor) -> Tensor:
        """(d,) r - w x."""
        if self._first is None or self._second is None:
            self._first, self._second = torch.zeros_like(theta), torch.zeros_like(theta)
        self._count += 1
        directions = torch.empty_like(theta)
        of_mean, of_variance = 1 - 0.9**self._count, 1 - 0.999**self._count
        moments = self._first, self._second
        for first, second, weights, along, out in blocks(*moments, theta, estimate, directions):
            first.mul_(0.9).add_(0.1 * along)
            second.mul_(0.999).add_(0.001 * along**2)
            root = (second / of_variance).sqrt_().add_(self.tau)
            torch.div(first / of_mean, root, out=out)
            out.sub_(weights, alpha=self.weight_decay)
        return directions
