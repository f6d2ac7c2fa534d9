"""Noise that hides a round's sum, and the events of what it drew."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from uedp_bench.accounting.events import AnyEvent, Gaussian, Repeated
from uedp_bench.accounting.sampler_end_delta import check_coordinates
from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.randomness.noise_checks import check_normal
from uedp_bench.randomness.streams import streams_of_parts
from uedp_bench.training.sampling import RoundSampling

MEASURED = 2**16
"""Numbers of each vector whose noise is measured, at most."""

_BLOCK = 2**16
"""Numbers that are drawn at once; all of them would need twice the memory of the vector."""

_PART = 2**24
"""Numbers of one stream. Results depend on it where vectors are longer."""


class Noise(Protocol):
    """Policy: adds noise to the vector of each round; it may keep a state over rounds.

    Attributes:
        multiplier: standard deviation that it is to add in a round, over how far one unit moves
            the round's vector.
    """

    multiplier: float

    def add(
        self, vector: Tensor, sensitivity: float, step: int, rng: np.random.Generator
    ) -> Tensor:
        """The noisy vector, of the type and on the device of `vector`.

        Args:
            vector: (n,) the sum of clipped updates, and the count behind it where one is asked.
            sensitivity: l2 norm by which one unit moves the vector, at most.
            step: number of the round, from 0.
            rng: secret, of this round and of its noise alone.
        """
        ...

    def events(self, samplings: Sequence[RoundSampling]) -> tuple[AnyEvent, ...]:
        """All rounds so far as events, from the noise that was drawn.

        Args:
            samplings: sampling of the units of each round.
        """
        ...


class GaussianNoise(AttributeState):
    """Gaussian noise that remembers its standard deviations.

    Noise is drawn, scaled and added in float64, on the CPU whatever the device: normal numbers of
    float32 end at 5.77 standard deviations, where one coordinate can tell who took part
    (`accounting.sampler_end_delta`). Two numbers never share a word of random bits where these are
    the operating system's. The noisy vector is rounded to its type after that, which is
    post-processing.

    Vectors of more than 2^24 numbers are drawn in parts of so many, from streams of their own, on
    as many threads as torch has.

    Attributes:
        stds: standard deviation of the noise on each vector so far.
    """

    changing: ClassVar[tuple[str, ...]] = ("stds",)

    def __init__(self) -> None:
        self.stds: list[float] = []

    def add(self, vector: Tensor, std: float, rng: np.random.Generator) -> Tensor:
        """(n,) `vector` plus independent N(0, std^2), of its type and on its device.

        Raises:
            PrivacyError: if the vector does not have this noise afterwards, or is too long for a
                guarantee.
        """
        check_coordinates(len(vector))
        on_cpu = vector.cpu()
        noisy = torch.empty_like(on_cpu)
        values, noisy_values = on_cpu.numpy(), noisy.numpy()

        def fill(start: int, stream: np.random.Generator) -> None:
            end = min(start + _PART, len(values))
            for at in range(start, end, _BLOCK):
                block = slice(at, min(at + _BLOCK, end))
                drawn = stream.standard_normal(block.stop - at)
                drawn *= std
                drawn += values[block]
                noisy_values[block] = drawn

        streams = streams_of_parts(rng, len(values), _PART)
        starts = range(0, len(values), _PART)
        if (side_by_side := min(torch.get_num_threads(), len(streams))) > 1:
            with ThreadPoolExecutor(side_by_side) as threads:
                list(threads.map(fill, starts, streams))
        else:
            for start, stream in zip(starts, streams, strict=False):  # no numbers, no part
                fill(start, stream)
        some = _measured(len(values))
        check_normal(values[some], noisy_values[some], std, "noise on a sum")
        self.stds.append(std)
        return noisy.to(vector)


def _measured(size: int) -> slice:
    """Slice of the measured numbers of a vector: some of every part of it."""
    return slice(None, None, max(1, -(-size // MEASURED)))


class IndependentGaussian:
    """Fresh Gaussian noise in every round.

    Args:
        multiplier: see `Noise`.
    """

    def __init__(self, multiplier: float) -> None:
        self.multiplier = multiplier
        self._source = GaussianNoise()
        self._sensitivities: list[float] = []

    def add(
        self, vector: Tensor, sensitivity: float, step: int, rng: np.random.Generator
    ) -> Tensor:
        """See `Noise.add`."""
        self._sensitivities.append(sensitivity)
        return self._source.add(vector, self.multiplier * sensitivity, rng)

    @property
    def drawn(self) -> list[float]:
        """Deviation of the noise that was drawn over the sensitivity, of each round so far.

        It is `multiplier` itself where rounding is all that differs.
        """
        pairs = zip(self._source.stds, self._sensitivities, strict=True)
        ratios = [std / sensitivity for std, sensitivity in pairs]
        return [self.multiplier if self._same(ratio) else ratio for ratio in ratios]

    def events(self, samplings: Sequence[RoundSampling]) -> tuple[Repeated, ...]:
        """See `Noise.events`: rounds in a row that are alike are one event."""
        pairs = zip(samplings, self.drawn, strict=True)
        rounds = [sampling(Gaussian(noise_multiplier=ratio)) for sampling, ratio in pairs]
        return tuple(
            Repeated(count=len(list(alike)), event=event) for event, alike in groupby(rounds)
        )

    def state_dict(self) -> dict[str, Any]:
        """The noise of all rounds so far, as it was drawn."""
        return {"source": self._source.state_dict(), "sensitivities": self._sensitivities}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Go on after these rounds."""
        self._source.load_state_dict(state["source"])
        self._sensitivities = state["sensitivities"]

    def _same(self, ratio: float) -> bool:
        return math.isclose(ratio, self.multiplier, rel_tol=1e-12, abs_tol=1e-300)
