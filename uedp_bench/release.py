"""The release: what leaves the protected side, and what an adversary can ask of it.

Capabilities are protocols with one distinctive method each. A task's learner returns an object
that offers some of them; the runner pairs attacks with releases by these names alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uedp_bench.accounting.events import PrivacyEvent
from uedp_bench.corpus import Corpus, FloatArray


class TokenScores(NamedTuple):
    """Token log-probabilities (nats) of one text under the release, one entry per target token.

    Attributes:
        logp: (tokens,) log-probability of each target token given those before it.
        mean: (tokens,) expectation of log p under the model's own next-token distribution.
        std: (tokens,) standard deviation of log p under it (mean, std: Min-K%++).
        correct: (tokens,) whether the target is the most likely token.
    """

    logp: FloatArray
    mean: FloatArray
    std: FloatArray
    correct: NDArray[np.bool_]


@runtime_checkable
class Scorer(Protocol):
    """Can be asked how likely a text is."""

    def token_logprobs(self, texts: Sequence[str]) -> list[TokenScores]:
        """Scores of every text; a text has its tokens and one end token as targets."""
        ...


@runtime_checkable
class Completer(Protocol):
    """Can be asked how likely fillings of a gap in a text are."""

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> FloatArray:
        """(fillers,) negative log-likelihood (nats) of `filler` and `after`, given `before`."""
        ...


@runtime_checkable
class Generator(Protocol):
    """Can be asked for the next token."""

    def next_logprobs(self, prefixes: Sequence[Sequence[int]]) -> FloatArray:
        """(prefixes, vocabulary) log-probabilities after token-id prefixes of equal length.

        Prefixes are without the begin token; the release adds it.
        """
        ...

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, without begin and end."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids."""
        ...


@runtime_checkable
class Published(Protocol):
    """The protected corpus itself was published."""

    @property
    def corpus(self) -> Corpus:
        """The published corpus."""
        ...


@runtime_checkable
class Updates(Protocol):
    """Shows by how much private training moved the weights."""

    def update(self) -> NDArray[np.float32]:
        """(d,) final minus initial weights, in the order of the module's trainable parameters."""
        ...


CAPABILITIES: tuple[type, ...] = (Scorer, Completer, Generator, Published, Updates)
"""Capabilities in the order in which messages list them."""


class Release:
    """Base of everything that is released.

    Attributes:
        events: what happened to private data to make it; the accountants' only input.
        view: what the adversary sees, in words ("model weights", "sanitised text").
    """

    view: ClassVar[str] = "model"
    events: tuple[PrivacyEvent, ...] = ()

    def save(self, folder: Path) -> None:
        """Writes everything that is needed to ask the release again."""
        raise TypeError(f"{type(self).__name__} cannot be saved")


def capabilities(release: object) -> tuple[str, ...]:
    """Names of the capabilities that an object offers."""
    return tuple(kind.__name__ for kind in CAPABILITIES if isinstance(release, kind))
