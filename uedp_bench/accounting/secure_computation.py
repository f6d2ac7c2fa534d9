"""Event of a secure computation between parties."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from uedp_bench.accounting.event_contract import Adjacency, Event, Notion, PrivacyUnit


def failure_of_truncations(
    truncations: int, largest: float, *, ring_bits: int, fraction_bits: int
) -> float:
    """Probability that one of so many products loses its last bits wrongly, at most.

    Where each party truncates its own share, a value x is wrong with probability at most
    2^(2 fraction_bits + 1 - ring_bits) |x| (Mohassel and Zhang 2017, SecureML, Theorem 1), which
    departs from the function that is to be computed; probabilities add up (union bound).

    Args:
        truncations: number of truncations.
        largest: bound on |x|.
        ring_bits: bits of a number.
        fraction_bits: bits behind the point.
    """
    exponent = 2 * fraction_bits + 1 - ring_bits
    return float(min(Fraction(1), truncations * Fraction(largest) * Fraction(2) ** exponent))


class SecureComputation(Event):
    """A protocol in which parties compute a function of inputs that they keep from each other.

    The view of `corrupted` of the `parties` can be simulated from their own inputs and what
    the protocol reveals to them (`reveals`), but for a probability of failure (Goldreich 2004,
    section 7.2). That says nothing of what is revealed, nor of how a model was trained.

    Numbers are integers of `ring_bits` bits with `fraction_bits` behind the point. `truncations`
    counts those in one execution that can fail (`failure_of_truncations`); `largest` bounds what
    they truncate. Truncation with the help of a dealer has none.
    """

    source: ClassVar[str] = "Goldreich 2004, Foundations of Cryptography II, section 7.2"
    notion: ClassVar[Notion] = "simulation"
    kind: Literal["secure-computation"] = "secure-computation"
    parties: int = Field(ge=2)
    corrupted: int = Field(default=1, ge=1)
    adversary: Literal["semi-honest"] = "semi-honest"
    setup: Literal["none", "trusted-dealer"] = "none"
    ring_bits: int = Field(default=64, ge=1, le=1024)
    fraction_bits: int = Field(default=16, ge=0, le=512)
    truncations: int = Field(default=0, ge=0)
    largest: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    reveals: str = Field(max_length=200)

    @model_validator(mode="after")
    def _possible(self) -> SecureComputation:
        if self.corrupted >= self.parties:
            raise ValueError("somebody is honest: corrupted is below parties")
        return self

    @property
    def failure(self) -> float:
        """Probability that one execution departs from the function, at most (union bound)."""
        return failure_of_truncations(
            self.truncations,
            self.largest,
            ring_bits=self.ring_bits,
            fraction_bits=self.fraction_bits,
        )

    def assumptions_of(self, unit: PrivacyUnit) -> tuple[str, ...]:
        """Assumptions that simulation security rests on."""
        dealer = ", and the dealer with nobody" if self.setup == "trusted-dealer" else ""
        return (
            "parties follow the protocol, however they look at what they see (semi-honest)",
            f"at most {self.corrupted} of {self.parties} parties pool what they see{dealer}",
            "sizes of inputs, batches and networks, and the network's layers, are public",
            f"parties learn {self.reveals}; nothing is promised of what that tells",
            "channels between parties are secure, and their pseudo-random numbers pass for random",
        )

    def misplaced(self, unit: PrivacyUnit, adjacency: Adjacency) -> str:
        """Inputs of an honest party are replaced by others of the same size."""
        if adjacency != "replace-one":
            return f"secure computation speaks of replaced inputs (replace-one), not {adjacency}"
        return ""

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about parties, adversary and output."""
        failing = f", failing with probability {self.failure:.3g} at most" if self.failure else ""
        return (
            f"{self.parties:,} parties compute with inputs that they keep from each other "
            f"({self.adversary}, {self.corrupted:,} corrupted{failing}); {self.reveals} is revealed"
        )
