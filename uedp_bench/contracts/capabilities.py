"""Capabilities: questions of adversaries and tasks to a release, and the vocabulary of its text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray, Spans
from uedp_bench.errors import CapabilityError, PluginError

Question = Callable[[Any, Corpus], FloatArray]
"""Function that asks a release about a few rows; the answer is an array of numbers."""


class Capability(NamedTuple):
    """Kind of questions that a release can answer.

    Attributes:
        kind: protocol of the capability.
        question: question to a saved release; None for releases that the run makes anew.
    """

    kind: type
    question: Question | None


_CAPABILITIES: dict[str, Capability] = {}
K = TypeVar("K", bound=type)


def capability(question: Question | None) -> Callable[[K], K]:
    """Declare a runtime-checkable protocol as a capability.

    Args:
        question: question to a release with this capability before it is saved and after it is
            loaded again: both must answer alike. None for releases that nobody saves.

    Raises:
        PluginError: if a built-in capability has the name.
    """

    def declare(kind: K) -> K:
        present = _CAPABILITIES.get(kind.__name__)
        home = "" if present is None else present.kind.__module__
        if home.startswith("uedp_bench.") and home != kind.__module__:
            raise PluginError(
                f"{kind.__module__} declares the capability {kind.__name__}, which "
                f"{home} has: give it another name"
            )
        _CAPABILITIES[kind.__name__] = Capability(kind, question)
        return kind

    return declare


def declared_capabilities() -> tuple[Capability, ...]:
    """All capabilities, in the order in which messages list them."""
    return tuple(_CAPABILITIES.values())


def capabilities(release: object) -> tuple[str, ...]:
    """Names of the capabilities that an object offers."""
    return tuple(name for name, each in _CAPABILITIES.items() if isinstance(release, each.kind))


class TokenScores(NamedTuple):
    """Token log-probabilities (nats) of one text under the release, one entry per target token.

    Attributes:
        logp: (tokens,) log-probability of each target token given those before it.
        mean: (tokens,) expectation of log p under the model's own next-token distribution.
        std: (tokens,) standard deviation of log p under it (mean, std: Min-K%++).
        correct: (tokens,) True where the target is the most likely token.
    """

    logp: FloatArray
    mean: FloatArray
    std: FloatArray
    correct: NDArray[np.bool_]


@capability(lambda release, rows: _logprobs(release.token_logprobs(rows.texts)))
@runtime_checkable
class Scorer(Protocol):
    """Release that scores texts."""

    def token_logprobs(self, texts: Sequence[str]) -> list[TokenScores]:
        """Scores of every text; a text has its tokens and one end token as targets.

        A masked model has those tokens that it hides, each given all others of the text.
        """
        ...


@capability(lambda release, rows: release.filler_losses("", "", rows.texts))
@runtime_checkable
class Completer(Protocol):
    """Release that scores fillings of a gap in a text."""

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> FloatArray:
        """(fillers,) negative log-likelihood (nats) of `filler` and `after`, given `before`.

        For a masked model: of `filler` alone, given `before` and `after`.
        """
        ...


@capability(lambda release, rows: release.next_logprobs([release.encode(rows.texts[0])[:1]]))
@runtime_checkable
class Generator(Protocol):
    """Release that predicts the next token."""

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


@capability(lambda release, rows: release.class_logprobs(rows))
@runtime_checkable
class Classifier(Protocol):
    """Release that predicts classes of rows, for the owner of their text.

    Rows that a mechanism perturbs at inference get noise of their own, keyed by `Corpus.keys`: a
    row gets the same noise twice, two rows of one text do not.
    """

    def class_logprobs(self, corpus: Corpus) -> FloatArray:
        """(rows, classes) log-probabilities (nats) of the corpus' classes for each row."""
        ...


@capability(lambda release, rows: np.asarray(release.labels(rows), dtype=np.float64))
@runtime_checkable
class LabelOnly(Protocol):
    """Release that predicts classes of rows and nothing else: no probabilities, no scores.

    A `Classifier` says more; `class_labels` works with either.
    """

    def labels(self, corpus: Corpus) -> IntArray:
        """(rows,) number of the class of each row."""
        ...


@capability(lambda release, rows: release.representations(rows))
@runtime_checkable
class Encoder(Protocol):
    """Release that shows representations of rows, which leave the owner's device."""

    def representations(self, corpus: Corpus) -> FloatArray:
        """(rows, d) representations as released; noise as in `Classifier`."""
        ...


@capability(
    lambda release, rows: release.row_losses(rows.take(np.flatnonzero(release.scorable(rows))))
)
@runtime_checkable
class RowScorer(Protocol):
    """Release that computes the loss of a row, as training does (`TrainedRelease`)."""

    def row_losses(self, corpus: Corpus) -> FloatArray:
        """(rows,) negative log-likelihood (nats) of each row's predictions.

        A row with several targets has the mean of theirs, which is what training minimises. The
        loss of a row depends on that row alone. No noise is drawn: anybody with the weights
        computes it.

        Raises:
            InputError: for a row that is not `scorable`.
        """
        ...

    def scorable(self, corpus: Corpus) -> BoolArray:
        """(rows,) True where a row has a target, such as a label."""
        ...


@capability(lambda release, rows: release.predictions(rows))
@runtime_checkable
class Predictor(Protocol):
    """Release whose predictions of a row are numbers."""

    def predictions(self, corpus: Corpus) -> FloatArray:
        """(rows, ...) predictions, each of which depends on the text of its row alone."""
        ...


@capability(lambda release, rows: _span_table(release.spans(rows)))
@runtime_checkable
class Tagger(Protocol):
    """Release that finds entities in texts. Its losses are those of a `RowScorer`.

    Attributes:
        types: names of the types that it tells apart.
    """

    @property
    def types(self) -> tuple[str, ...]:
        """Names of the types."""
        ...

    def spans(self, corpus: Corpus) -> Spans:
        """Find entities, by row and place, with numbers of `types`.

        Spans of a row depend on the text of that row alone; annotations of the corpus are not read.
        No two spans of a row overlap.
        """
        ...


@capability(lambda release, rows: _as_numbers(release.translate(rows.texts)))
@runtime_checkable
class Translator(Protocol):
    """Release that translates texts."""

    def translate(self, texts: Sequence[str]) -> list[str]:
        """Translate each text; the translation depends on that text alone.

        Tags that mark fragments in training are never in it.
        """
        ...


@capability(lambda release, rows: release.pair_losses(rows.texts, rows.targets or rows.texts))
@runtime_checkable
class PairScorer(Protocol):
    """Release that scores any translation of a text.

    It takes texts, not a corpus: an attacker tries many translations of one text. The losses
    of rows as training computes them, means over tokens, are those of a `RowScorer`.
    """

    def pair_losses(self, texts: Sequence[str], targets: Sequence[str]) -> FloatArray:
        """(pairs,) negative log-likelihood (nats) of each target, and of its end, given the text.

        It is the sum over the tokens of the target.
        """
        ...


class Vocabulary(Protocol):
    """Text to token ids and back; made from public text unless its origin says otherwise.

    Attributes:
        size: number of token ids.
        begin, end: ids that start and end every row.
        unknown: id of words outside the vocabulary, or None where there are none (byte-level).
        origin: origin in words; "private" text makes every proven epsilon infinite.
        fingerprint: equal for equal vocabularies: only such perplexities per token compare.
    """

    size: int
    begin: int
    end: int
    unknown: int | None
    origin: str
    private: bool

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits."""
        ...

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, without begin and end."""
        ...

    def decode(self, tokens: Sequence[int]) -> str:
        """Text of token ids; begin and end are left out."""
        ...

    def save(self, folder: Path) -> None:
        """Write the vocabulary; `Model.load_vocabulary` reads it."""
        ...


@runtime_checkable
class Tokenised(Protocol):
    """Release that reads text by a vocabulary."""

    @property
    def vocabulary(self) -> Vocabulary:
        """Its vocabulary."""
        ...


def class_labels(release: object, corpus: Corpus) -> IntArray:
    """(rows,) number of the class that a `Classifier` or `LabelOnly` release gives each row.

    Raises:
        CapabilityError: for a release that is neither.
    """
    if isinstance(release, LabelOnly):
        return np.asarray(release.labels(corpus), dtype=np.int64)
    if isinstance(release, Classifier):
        return np.asarray(release.class_logprobs(corpus).argmax(axis=1), dtype=np.int64)
    raise CapabilityError(
        f"a {type(release).__name__} tells no classes: it is no Classifier and no LabelOnly"
    )


def _logprobs(scores: Sequence[TokenScores]) -> FloatArray:
    return np.concatenate([score.logp for score in scores])


def _span_table(spans: Spans) -> FloatArray:
    """(spans, 4) row, start, end and type, as numbers that compare."""
    return np.array(spans.mentions(), dtype=np.float64).reshape(-1, 4)


def _as_numbers(texts: Sequence[str]) -> FloatArray:
    """(characters,) texts as numbers that compare, each with an end."""
    return np.array([ord(sign) for text in texts for sign in f"{text}\0"], dtype=np.float64)
