"""Noise of a round that takes part of the noise of the rounds before off again."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uedp_bench.accounting.banded_factorization import BandedFactorization
from uedp_bench.accounting.events import AnyEvent, NonPrivate
from uedp_bench.corpus import FloatArray
from uedp_bench.errors import PrivacyError
from uedp_bench.training.noise import GaussianNoise
from uedp_bench.training.sampling import Participation, RoundSampling


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
