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
from uedp_bench.corpus import Corpus, FloatArray, IntArray


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
class Classifier(Protocol):
    """Can be asked for the class of a row, as the owner of its text would ask.

    Rows that a mechanism perturbs at inference get noise of their own, keyed by `Corpus.keys`: a
    row that is asked for twice gets the same noise, two rows of one text do not.
    """

    def class_logprobs(self, corpus: Corpus) -> FloatArray:
        """(rows, classes) log-probabilities (nats) of the corpus' classes for each row."""
        ...


@runtime_checkable
class Encoder(Protocol):
    """Shows the representation of a row: what leaves the owner's device and an attacker sees."""

    def representations(self, corpus: Corpus) -> FloatArray:
        """(rows, d) as released; noise as in `Classifier`."""
        ...


@runtime_checkable
class Published(Protocol):
    """The protected corpus itself was published.

    Attributes:
        published: its rows; `origin` says from which source row each was made. Test rows are among
            them where inputs are protected too.
    """

    published: Corpus


class WordChannel(Protocol):
    """A mechanism that replaces words one by one, as an adversary who knows it can run it."""

    @property
    def words(self) -> tuple[str, ...]:
        """The public vocabulary; words outside it are not substituted."""
        ...

    @property
    def vectors(self) -> NDArray[np.float32]:
        """(words, d) their public vectors."""
        ...

    def split(self, text: str) -> list[str]:
        """The words of a text as the mechanism sees them, those that it does not know included."""
        ...

    def find(self, word: str) -> int:
        """Index of a word as the mechanism looks it up, -1 for one that it does not know."""
        ...

    def sample(self, words: IntArray, rng: np.random.Generator) -> IntArray:
        """(n,) a fresh substitute for each of the words (n,), indexes into `words`."""
        ...


@runtime_checkable
class Channel(Protocol):
    """Words were replaced one by one.

    Attributes:
        word_channel: how.
    """

    word_channel: WordChannel


@runtime_checkable
class Updates(Protocol):
    """Shows by how much private training moved the weights."""

    def update(self) -> NDArray[np.float32]:
        """(d,) final minus initial weights, in the order of the module's trainable parameters."""
        ...


CAPABILITIES: tuple[type, ...] = (
    Scorer, Completer, Generator, Classifier, Encoder, Published, Channel, Updates,
)  # fmt: skip
"""Capabilities in the order in which messages list them."""


class Release:
    """Base of everything that is released.

    Attributes:
        events: what happened to private data to make it; the accountants' only input.
        view: what the adversary sees, in words ("model weights", "sanitised text").
        published, word_channel: see `Published` and `Channel`; set by the runner, and missing where
            nothing was published.
        inputs: rows as they enter the model, where mechanisms perturb inputs and what they make is
            not published; set by the runner. It is no part of what is released, but classes and
            representations of inputs are those of these.
    """

    view: ClassVar[str] = "model"
    events: tuple[PrivacyEvent, ...] = ()
    published: Corpus
    word_channel: WordChannel
    inputs: Corpus

    @property
    def draws_noise(self) -> bool:
        """Says whether what `save` writes holds the key of noise that is drawn when asked."""
        return False

    def save(self, folder: Path) -> None:
        """Writes everything that is needed to ask the release again."""
        raise TypeError(f"{type(self).__name__} cannot be saved")


class PublishedOnly(Release):
    """Published text or vectors, and no model."""

    view = "published corpus"

    def save(self, folder: Path) -> None:
        """Nothing but the published corpus was released, and any run makes it again."""


def capabilities(release: object) -> tuple[str, ...]:
    """Names of the capabilities that an object offers."""
    return tuple(kind.__name__ for kind in CAPABILITIES if isinstance(release, kind))
