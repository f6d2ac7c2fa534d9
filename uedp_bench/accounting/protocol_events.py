"""Events of whole protocols: disjoint parts of the data, noisy histograms, secure computation."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from uedp_bench.accounting.event_contract import Adjacency, AnyEvent, Event, Notion, PrivacyUnit
from uedp_bench.accounting.events import NonPrivate

_MOST_NAMED = 8
"""Most different parts that a sentence names."""


def _of_a_part(event: Event) -> Event:
    """Refuse what no part can hold."""
    if isinstance(event, NonPrivate):
        raise ValueError("'non-private' stands by itself, and not inside of another event")
    if _holds_parts(event):
        raise ValueError("parts of parts are parts: write them side by side")
    return event


def _holds_parts(event: Event) -> bool:
    inner = getattr(event, "event", None)
    return isinstance(event, Parallel) or (isinstance(inner, Event) and _holds_parts(inner))


class Parallel(Event):
    """Every unit lies in exactly one part of the data, and meets the events of that part alone.

    The proof of composition is in docs/proofs.md, section 12.

    The assignment of units to parts is public, or independent of all data, and stays the same
    wherever the event is repeated. Parts may interact: what one of them does may depend on what the
    others have released. Clients with a mechanism each are parts, and so are the rounds of one
    client if each of them uses rows that no other round uses.

    `parts` holds the events of each part, in order. `replaced_inside` says that a unit that is
    replaced stays in its part; without it nothing is proven under replace-one, for a unit that
    moves leaves one part and joins another.
    """

    kind: Literal["parallel"] = "parallel"
    parts: Annotated[
        tuple[tuple[Annotated[AnyEvent, AfterValidator(_of_a_part)], ...], ...], Field(min_length=1)
    ]
    replaced_inside: bool = False

    def disjoint(self) -> tuple[tuple[Event, ...], ...]:
        """The parts."""
        return self.parts

    def refusal(self, adjacency: Adjacency) -> str:
        """Refuse replace-one, unless a replaced unit is known to stay in its part."""
        if adjacency == "replace-one" and not self.replaced_inside:
            return (
                "parallel parts are not accounted for replace-one unless a replaced unit stays in "
                "its part (replaced_inside)"
            )
        return ""

    def misplaced(self, unit: PrivacyUnit, adjacency: Adjacency) -> str:
        """Refuse entities, which several parts may mention."""
        if unit in ("entity", "user-entity"):
            return f"parallel parts do not protect {unit}: several parts may mention an entity"
        return ""

    def text(self, unit: PrivacyUnit) -> str:
        """Number of parts, with the events of each kind of part."""
        counts: dict[str, int] = {}
        for part in self.parts:
            inside = "; then ".join(event.text(unit) for event in part) or "nothing"
            counts[inside] = counts.get(inside, 0) + 1
        clauses = [f"in {count:,} of them: {inside}" for inside, count in counts.items()]
        left = len(clauses) - _MOST_NAMED
        more = [f"and {left:,} more that differ"] if left > 0 else []
        each = "; ".join([*clauses[:_MOST_NAMED], *more])
        return f"each {unit} is in one of {len(self.parts):,} parts of the data; {each}"


MOST_WORDS = 10**12
"""Most occurrences of words that a unit may have."""

_SAFETY = 1.0 + 1e-9
"""The threshold lies this much higher than it must, so that rounding does not lower it."""


class NoisyHistogram(Event):
    """Laplace noise on every count above 0, and words whose noisy count exceeds the threshold.

    Every word that somebody has gets noise of its own, of the scale `scale`, and words whose noisy
    count exceeds the threshold are released with it. A unit has `words` occurrences of words, at
    most, so that counts that others share move by so much in l1. What only the unit has is released
    with a probability that the threshold makes small (proof: docs/proofs.md, section 20).
    """

    kind: Literal["noisy-histogram"] = "noisy-histogram"
    scale: float = Field(gt=0.0, allow_inf_nan=False)
    words: int = Field(ge=1, le=MOST_WORDS)
    threshold: float = Field(ge=1.0, allow_inf_nan=False)

    def text(self, unit: PrivacyUnit) -> str:
        """Sentence about counts, noise and threshold."""
        return (
            f"words are counted, at most {self.words:,} of each {unit}; each count gets Laplace "
            f"noise of scale {self.scale:g}, and those above {self.threshold:g} are released"
        )


def seen_alone(scale: float, words: int, threshold: float) -> float:
    """The probability that some word that one unit alone has is released, at most.

    A word that it has c times passes with at most exp((c - threshold) / scale) / 2. The sum over
    words with `words` occurrences in all is largest where all are different, or all are the same.

    Args:
        scale: scale of the Laplace noise.
        words: most occurrences of words that the unit has.
        threshold: threshold that a noisy count must exceed.
    """
    log = _worst_words(scale, words) - (threshold - 1.0) / scale - math.log(2.0)
    if math.isnan(log):  # both quotients by a tiny scale are infinite: their difference is not
        log = (words - threshold) / scale
    return math.exp(min(log, 0.0))


def histogram_threshold(scale: float, words: int, delta: float) -> float:
    """The smallest threshold at which `seen_alone` is `delta` at most, and not below 1.

    Args:
        scale: scale of the Laplace noise.
        words: most occurrences of words that a unit has.
        delta: bound on `seen_alone`, in (0, 1).
    """
    needed = 1.0 + scale * (_worst_words(scale, words) - math.log(2.0 * delta))
    return max(needed, 1.0) * _SAFETY


def _worst_words(scale: float, words: int) -> float:
    """The logarithm of max(L, e^((L - 1) / b)): L different words, or one that occurs L times."""
    return max(math.log(words), (words - 1) / scale)


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
        # A run answers every question, and each truncates anew.
        counted = "no more computations are made than the events count, for each may fail"
        return (
            *((counted,) if self.truncations else ()),
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
