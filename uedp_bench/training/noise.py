"""Noise that hides a round's sum, drawn anew or correlated over rounds, and its events."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.events import AnyEvent, Gaussian, NonPrivate, Repeated
from uedp_bench.accounting.sampler_end_delta import check_coordinates
from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.corpus import FloatArray
from uedp_bench.errors import PrivacyError
from uedp_bench.randomness import check_normal, streams_of_parts
from uedp_bench.training.sampling import Participation, RoundSampling

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


class BandedNoise:
    """Row t of C^-1 Z in round t, C banded, lower-triangular and Toeplitz (docs/proofs.md, 13).

    With coefficients c_0, ..., c_(b-1) that is (Z_t - c_1 N_(t-1) - ... - c_(b-1) N_(t-b+1)) / c_0,
    N the rows before: so many of them are kept, in float64 on the CPU. Whoever knows them takes the
    noise off every round, so they are as secret as a seed; a checkpoint of a training holds them.

    All is in units of the sensitivity of each round, which may follow from earlier outcomes. Z
    comes from `GaussianNoise`.

    Args:
        coefficients: (b,) of C, the first above 0.
        multiplier: deviation of Z; that of a round's noise is larger by the norm of a row of C^-1.

    """

    def __init__(self, coefficients: Sequence[float], multiplier: float) -> None:
        self.multiplier = multiplier
        self._source = GaussianNoise()
        self._coefficients = tuple(coefficients)
        self._rows: deque[FloatArray] = deque(maxlen=len(self._coefficients) - 1)

    @property
    def drawn(self) -> list[float]:
        """Deviation of Z in each round so far."""
        return self._source.stds

    def add(
        self, vector: Tensor, sensitivity: float, step: int, rng: np.random.Generator
    ) -> Tensor:
        """See `Noise.add`.

        Raises:
            PrivacyError: if rounds are not added to one after the other, each once, or vectors are
                not all of one length.
        """
        if step != len(self.drawn):
            raise PrivacyError(
                f"noise of round {step} is asked for after {len(self.drawn)} rounds: correlated "
                "noise is drawn once for each round, in their order"
            )
        zero = torch.zeros(len(vector), dtype=torch.float64)
        row = self._source.add(zero, self.multiplier, rng).numpy()
        for coefficient, before in zip(self._coefficients[1:], self._rows, strict=False):
            if len(before) != len(row):
                raise PrivacyError(
                    f"round {step} has {len(row)} numbers, and a round before had {len(before)}: "
                    "correlated noise needs the same vector in every round"
                )
            row -= coefficient * before
        row /= self._coefficients[0]
        self._rows.appendleft(row)
        noisy = row * sensitivity
        noisy += vector.cpu().numpy()
        return torch.from_numpy(noisy).to(vector)

    def state_dict(self) -> dict[str, Any]:
        """The rows that later rounds take off, and the noise of all rounds so far."""
        rows = [torch.from_numpy(row) for row in self._rows]
        return {"source": self._source.state_dict(), "rows": rows}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Go on after these rounds."""
        self._source.load_state_dict(state["source"])
        self._rows.clear()
        self._rows.extend(row.numpy() for row in state["rows"])

    def events(self, samplings: Sequence[RoundSampling]) -> tuple[AnyEvent, ...]:
        """See `Noise.events`: all rounds are one event, of the least noise that any of them drew.

        Only a sampler that enforces a schedule tells one: rounds drawn in any other way are worth
        nothing here.
        """
        if not self.drawn:
            return ()
        schedules = {
            sampling if isinstance(sampling, Participation) else None for sampling in samplings
        }
        schedule = schedules.pop()
        if schedules or schedule is None:
            return (
                NonPrivate(
                    reason="noise is correlated over rounds, and no schedule kept the rounds of a "
                    "unit apart"
                ),
            )
        return (
            BandedFactorization(
                rounds=len(self.drawn),
                coefficients=self._coefficients,
                noise_multiplier=min(self.drawn),
                separation=schedule.separation,
                participations=schedule.participations,
                population=schedule.population,
            ),
        )
