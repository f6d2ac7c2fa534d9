"""The contract of mechanisms: a way to protect text, at one of four stages."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from uedp_bench.accounting.events import Claim, PrivacyEvent, PrivacyUnit
from uedp_bench.components.component import Component, P, named
from uedp_bench.contracts.release import Release
from uedp_bench.errors import CapabilityError

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn

    from uedp_bench.accounting.published_systems import Reading
    from uedp_bench.contracts.learner import Learner
    from uedp_bench.contracts.release import EntityDetector
    from uedp_bench.contracts.run_context import Run
    from uedp_bench.contracts.source import CorpusStats
    from uedp_bench.contracts.task import Task, WordCounts
    from uedp_bench.corpus import Corpus
    from uedp_bench.randomness import Stream
    from uedp_bench.text.word_occurrences import WordChannel

Events = tuple[PrivacyEvent, ...]
"""Uses of private data, in order; empty if it was not used."""


@dataclass(frozen=True)
class PublicUnits:
    """Number of units that a guarantee is about, after every public cut of the data.

    Attributes:
        unit: counted unit, and the parameter that declares it.
        declared: the public number that noise and sampling are planned for.
        sampled: units of a round if so many train (in expectation); None where rounds draw
            something else.
        independent: True if units draw coins of their own: fewer units make smaller rounds.
        at_least_all: True if the proof needs a number that is not below the real one.
    """

    unit: Literal["users", "clients", "records"]
    declared: int
    sampled: float | None
    independent: bool = True
    at_least_all: bool = True

    def expected(self, units: int) -> float | None:
        """Expected units of a round if `units` units train."""
        if self.sampled is None or not self.independent:
            return self.sampled
        return self.sampled * units / self.declared


class Mechanism(Component[P]):
    """Base of all mechanisms.

    Attributes:
        unit: the privacy unit of its guarantee; None if it promises nothing.
        fresh_noise: True if all numbers that protect are drawn from the run's streams for that, so
            that runs of other parameters or seeds share none. Choosing among trained models is
            only charged for if every mechanism declares it.
        data_set: parameters that decide by chance which private sentences count (caps). A
            guarantee for a user together with an entity is about those alone.
        takes_delta: True if a parameter `epsilon` is the target that its noise is chosen for, at
            `delta`, for which a spec fills in the delta of the run where it is None.
        unprotected: True if it shows what can be had, and what leaks, without protection: a board
            compares its other rows with a row that this mechanism alone made.
    """

    unit: ClassVar[PrivacyUnit | None] = None
    fresh_noise: ClassVar[bool] = False
    data_set: ClassVar[tuple[str, ...]] = ()
    takes_delta: ClassVar[bool] = False
    unprotected: ClassVar[bool] = False

    @property
    def protects(self) -> PrivacyUnit | None:
        """The unit of its guarantee at these parameters."""
        return self.unit

    @abstractmethod
    def plan(self, stats: CorpusStats) -> Events:
        """The events that a run will emit, from parameters and public sizes alone."""

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Claims of its paper at these parameters; nothing by default."""
        return ()

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """Reasons why `proven` must refuse at these parameters; empty if it need not."""
        return ()

    def units(self, stats: CorpusStats) -> PublicUnits | None:
        """Number of units that its guarantee is about; None if it depends on no such number."""
        return None

    def noise(self, stats: CorpusStats) -> float | None:
        """Noise multiplier: as given, or chosen for a target epsilon; None of other mechanisms."""
        return None

    def readings(self) -> tuple[Reading, ...]:
        """Epsilon at further points that make it comparable; none by default."""
        return ()


class VocabularyMechanism(Mechanism[P]):
    """Mechanism that chooses words of private text, from which alone the vocabulary is made.

    One that plans no event sees public rows only.
    """

    @abstractmethod
    def choose(
        self, corpus: Corpus, words: Sequence[Sequence[str]], run: Run
    ) -> tuple[WordCounts, Events]:
        """Choose words that may be seen, with counts; return them with the events of the choice.

        Args:
            corpus: rows of the splits train, valid and public.
            words: words of each row, as the model reads them (`Task.words`): those of a row depend
                on that row alone.
            run: the run.
        """


class PublishingMechanism(Mechanism[P]):
    """Mechanism that publishes protected text or vectors; the number of rows may change.

    Attributes:
        rowwise: True if an output row depends on its input row and public data only. Only such a
            mechanism is taken for mere pre-processing of a mechanism that protects.
        at_inference: True if test inputs pass through it too.
        carries: content columns that still mean something in what it publishes, of
            `uedp_bench.corpus.CONTENT`. All others are dropped after it, and where it has a `unit`,
            those that neither a mechanism after it nor the task reads. Labels, attributes, groups
            and splits always stay. `uedp_bench.corpus.Rewriting` moves entities and layers along.
    """

    rowwise: ClassVar[bool] = False
    at_inference: ClassVar[bool] = False
    carries: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """Make the protected corpus (same splits); return it with the events.

        A mechanism on representations sets `Corpus.vectors`, and its texts become empty. Public
        rows are published too: text stays as it is, vectors are those of text that needs no
        protection.
        """

    def word_channel(self, run: Run) -> WordChannel | None:
        """The mechanism as an adversary can run it, if it replaces words one by one."""
        return None

    def entity_detector(self) -> EntityDetector | None:
        """Detector of the pieces of text that it replaces; None if it looks for none."""
        return None

    def inherited(self) -> Events:
        """Events of people's data in its resources, such as a trained detector.

        They compose with those of every run, whatever pre-processing hides: its resources were
        learnt from people, who may be those of the corpus.
        """
        return ()


@dataclass(frozen=True)
class Elsewhere:
    """Training that happened before the run.

    Attributes:
        coins: the file by which attacks planted before it (`uedp-bench plant`); None if none did:
            rows of the split `train` were trained on, rows of `held_out` were not.
    """

    coins: Path | None = None


class TrainingMechanism(Mechanism[P]):
    """Mechanism that trains a learner.

    Attributes:
        shows: sentence about the private data that parties of its protocol see beside the release;
            empty if that is nothing, or updates alone.
    """

    shows: ClassVar[str] = ""

    @property
    def elsewhere(self) -> Elsewhere | None:
        """Training before the run, if the model comes trained and `train` releases it as it is.

        The corpus is then attacked as it was trained on: nothing is planted in the run, no model
        before training is known, and none can be trained in the same way. None by default.
        """
        return None

    @abstractmethod
    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Train the module on rows of the split `train` only; return it with the events.

        `corpus` is `learner.corpus`: row numbers are those of `learner.batch`.
        """


class ServingMechanism(Mechanism[P]):
    """Mechanism that answers queries to a finished release (secure computation).

    A class that is a `TrainingMechanism` as well trains for its work at inference: its `train`
    emits all its events, and `serve` none.
    """

    def cannot_serve(self, task: Task[Any], before: Sequence[Mechanism[Any]]) -> str | None:
        """Reason why it cannot answer for a task's network; None if it can, or nobody knows yet.

        Runs are refused for it before any data are read. It is not called where something was
        published, for the task may then train another network than its model.

        Args:
            task: task with its model.
            before: mechanisms of the run that act before it.
        """
        return None

    def check_learner(self, learner: Learner) -> None:
        """Refuse the network of a learner if no weights would make it right.

        It is called before anything is trained, with the learner of the last stage, for the first
        mechanism at inference; `serve` refuses what depends on the weights.

        Raises:
            CapabilityError: if it cannot answer for such a release.
            InputError: if a parameter does not fit to it; the message names the value that does.
        """

    @abstractmethod
    def serve(self, release: Release, run: Run) -> Release:
        """Make the release as its users see it; its events are those of `release`, then its own."""

    def serve_again(self, release: Release) -> Release:
        """Make the release as its users see it from a saved and loaded release.

        A mechanism whose release is a `ServedRelease` has this method. Numbers that hide something
        are drawn from the operating system: those of the run were used.

        Raises:
            TypeError: of mechanisms whose releases save themselves.
        """
        raise TypeError(f"{self.name} does not serve a release that was saved")


class RepresentationChannel(Protocol):
    """Channel of a representation between the encoder and the head.

    Attributes:
        word_dropout: probability that a word is dropped before its text is encoded.
    """

    word_dropout: float

    def perturb(self, z: Tensor, rngs: Sequence[np.random.Generator]) -> Tensor:
        """Perturb (rows, d) representations; row i depends on row i and noise of `rngs[i]` only."""
        ...


@runtime_checkable
class SplitRelease(Protocol):
    """Release of a `SplitLearner`: a mechanism can perturb the representation between its parts."""

    def through(self, mechanism: RepresentationMechanism[Any], noise: Stream) -> Release:
        """The release with the channel of `mechanism` between its parts; `noise` has its draws."""
        ...


class RepresentationMechanism(TrainingMechanism[P], ServingMechanism[P]):
    """Mechanism that trains a `SplitLearner` with a channel, and keeps the channel at inference."""

    @abstractmethod
    def channel(self) -> RepresentationChannel:
        """The channel at these parameters."""

    def serve(self, release: Release, run: Run) -> Release:
        """Make the release with the channel between its encoder and its head.

        Raises:
            CapabilityError: if the release has no two such parts.
        """
        if not isinstance(release, SplitRelease):
            raise CapabilityError(
                f"{self.name} perturbs representations between an encoder and a head, and a "
                f"{type(release).__name__} has none: use it for text-classification"
            )
        return release.through(self, run.stream("inference"))


# ---------------------------------------------------------------------- releases behind a mechanism


_SERVED = "served.json"
"""File beside those of the release behind; it names the mechanism and its parameters."""


class ServedRelease(Release):
    """Base of releases behind a protocol, which offer less than the release behind.

    The release behind and the parameters of the mechanism are saved, never its randomness: loaded
    again, the mechanism draws anew (`ServingMechanism.serve_again`).

    Args:
        behind: release before the mechanism; no adversary sees it.
        mechanism: mechanism that answers.
    """

    def __init__(self, behind: Release, mechanism: ServingMechanism[Any]) -> None:
        self.behind, self.mechanism = behind, mechanism
        self.events, self.target = behind.events, behind.target
        self.classes, self.takes_vectors = behind.classes, behind.takes_vectors

    def save(self, folder: Path) -> None:
        """See `Release`."""
        self.behind.save(folder)
        text = json.dumps(named(self.mechanism), indent=1)
        (folder / _SERVED).write_text(text, encoding="utf-8")


def served_again(release: Release, folder: Path) -> Release:
    """Put a release that was loaded from a folder behind the mechanism that it names, if any."""
    if not (folder / _SERVED).is_file():
        return release
    from uedp_bench.components.registry import mechanisms

    record = json.loads((folder / _SERVED).read_text(encoding="utf-8"))
    mechanism: ServingMechanism[Any] = mechanisms.create(record["name"], record["params"])
    return mechanism.serve_again(release)
