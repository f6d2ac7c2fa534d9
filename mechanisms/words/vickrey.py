"""The Vickrey mechanism: one of the k other words that are nearest to the noisy vector."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats
from uedp_bench.api.events import Claim
from uedp_bench.mechanisms.words.substitution import KEPT, WordMechanism, WordParams

if TYPE_CHECKING:
    from uedp_bench.api import FloatArray, IntArray
    from uedp_bench.mechanisms.words.substitution import Search

EXCLUDED = (
    "candidates is others: the input word is left out after the noise, so a word is never "
    "published as itself and the odds of that output between two words are unbounded; the proof "
    "of Theorem 1 holds for candidates that do not depend on the input (candidates=all)"
)


class VickreyParams(WordParams):
    """Parameters of the Vickrey mechanism."""

    t: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="weight of the second nearest word (Algorithm 1); 0.5 if rates is not given",
    )
    rates: tuple[Annotated[float, Field(ge=0)], ...] | None = Field(
        default=None,
        min_length=1,
        description="t_1, ..., t_k: choose among k words as Algorithm 3 does, in place of t",
    )
    candidates: Literal["others", "all"] = Field(
        default="others",
        description="others: all words but the input word, as Algorithms 1 and 3 are printed; all: "
        "the input word too, as their proofs suppose",
    )

    @model_validator(mode="after")
    def _one_rule(self) -> VickreyParams:
        if self.rates is not None and self.t is not None:
            raise ValueError("t and rates are both given: t is of Algorithm 1, rates of 3")
        return self


class Vickrey(WordMechanism[VickreyParams]):
    """Every word of a private row becomes one of the words nearest to its vector plus noise.

    With `t` the nearest or the second nearest, with `rates` one of the k nearest; the odds depend
    on their distances to the noisy vector.
    """

    name = "vickrey"
    version = 2
    unit = "word"
    source = "Xu et al. 2021 (PrivateNLP), Algorithms 1 and 3, Theorems 1 and 2"
    Params = VickreyParams

    def choose(
        self, search: Search, word: IntArray, noisy: FloatArray, coin: FloatArray
    ) -> IntArray:
        """One of the k nearest candidates, by the odds of Algorithm 1 or 3."""
        p = self.params
        k = 2 if p.rates is None else len(p.rates)
        nearest, distance = search(noisy, k, word if p.candidates == "others" else None)
        t = 0.5 if p.t is None else p.t
        odds = _first_or_second(t, distance) if p.rates is None else _k(p.rates, distance)
        rank = np.minimum((coin[:, None] >= np.cumsum(odds, axis=1)).sum(axis=1), k - 1)
        chosen: IntArray = nearest[np.arange(len(nearest)), rank]
        return chosen

    def candidates(self) -> int:
        """k, and the input word."""
        k = 2 if self.params.rates is None else len(self.params.rates)
        return k + (self.params.candidates == "others")

    def unproven(self) -> str:
        """The candidates, or words that pass unchanged."""
        reasons = [EXCLUDED] if self.params.candidates == "others" else []
        return "; ".join([*reasons, *([KEPT] if self.params.unknown == "keep" else [])])

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Epsilon per unit of distance, whatever the candidates."""
        excluded = EXCLUDED if self.params.candidates == "others" else ""
        note = "; ".join(filter(None, (excluded, self._approximate())))
        theorem = 1 if self.params.rates is None else 2
        source = f"Xu et al. 2021, Theorem {theorem}"
        return tuple(
            claim.model_copy(update={"source": source, "note": note})
            for claim in self._system(self.params.epsilon).claims()
        )


def _first_or_second(t: float, distance: FloatArray) -> FloatArray:
    """(n, 2) odds of Algorithm 1, line 6, given the distances (n, 2)."""
    near, far = t * distance[:, 0], (1.0 - t) * distance[:, 1]
    total = near + far
    # Where both terms vanish the odds are those of equal distances, or their limit at t = 0, 1.
    first = np.divide(far, total, out=np.full(len(total), 1.0 - t), where=total > 0)
    return np.stack([first, 1.0 - first], axis=1)


def _k(rates: tuple[float, ...], distance: FloatArray) -> FloatArray:
    """(n, k) odds of Algorithm 3, line 6, given the distances (n, k)."""
    exponent = -np.array(rates) * distance
    weight = np.exp(exponent - exponent.max(axis=1, keepdims=True))
    odds: FloatArray = weight / weight.sum(axis=1, keepdims=True)
    return odds
