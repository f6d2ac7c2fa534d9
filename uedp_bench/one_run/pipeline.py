"""A list of mechanisms is itself a mechanism: vocabulary, publishing, training, serving."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from uedp_bench.accounting.event_contract import COMPUTATION
from uedp_bench.accounting.events import Claim, NonPrivate, PrivacyEvent
from uedp_bench.components.component import possible_numbers
from uedp_bench.contracts.learner import Rows
from uedp_bench.contracts.mechanism import (
    Elsewhere,
    Events,
    Mechanism,
    PublishingMechanism,
    RepresentationMechanism,
    ServingMechanism,
    TrainingMechanism,
    VocabularyMechanism,
)
from uedp_bench.contracts.results import UNPROTECTED
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import CONTENT
from uedp_bench.errors import InputError

ORDER: tuple[type[Mechanism[Any]], ...] = (
    VocabularyMechanism,
    PublishingMechanism,
    TrainingMechanism,
    ServingMechanism,
)


class TrainingStage(NamedTuple):
    """A private stage of the task, and the mechanism that trains it.

    Attributes:
        name: name of the mechanism, numbered from the second stage that it trains. It marks events
            and keys secret streams.
        trainer: the mechanism.
        rows: rows that it trains on.
    """

    name: str
    trainer: TrainingMechanism[Any]
    rows: Rows = "source"

    def sizes(self, stats: CorpusStats) -> CorpusStats:
        """Public sizes of the rows that it trains on."""
        if self.rows == "source":
            return stats
        if stats.downstream is None:
            raise RuntimeError("nobody gave the sizes of the task's second source")
        return stats.downstream

    def events(self, events: Sequence[PrivacyEvent]) -> Events:
        """The events of its training, marked with its name.

        A mechanism may have marked them with its own name, which several stages may share.
        """
        own = (
            event.model_copy(update={"stage": ""}) if event.stage == self.trainer.name else event
            for event in events
        )
        return _with_stage(self.name, tuple(own))


class Promises(NamedTuple):
    """Promises of a pipeline, before it acts.

    Attributes:
        events: see `Pipeline.plan`.
        claims: see `Pipeline.claims`.
        refusals: see `Pipeline.refusals`.
    """

    events: Events
    claims: tuple[Claim, ...]
    refusals: tuple[str, ...]


@dataclass(frozen=True)
class Pipeline:
    """Mechanisms in the order in which they act.

    Attributes:
        parts: mechanisms of the spec.
        training: the private stages of the task. Each is trained by a mechanism of its own where
            as many were given as there are stages, else by the only one, and without noise where
            none was given.
        vocabulary: mechanism that chooses the vocabulary, if one does.
        publishers: mechanisms that publish text or vectors.
        servers: mechanisms at inference.
        elsewhere: declaration of training that happened before the run, where it did.
    """

    parts: tuple[Mechanism[Any], ...]
    training: tuple[TrainingStage, ...]
    vocabulary: VocabularyMechanism[Any] | None
    publishers: tuple[PublishingMechanism[Any], ...]
    servers: tuple[ServingMechanism[Any], ...]
    elsewhere: Elsewhere | None

    @staticmethod
    def build(
        parts: Sequence[Mechanism[Any]],
        default: TrainingMechanism[Any],
        stages: Sequence[Rows] = ("source",),
    ) -> Pipeline:
        """Check that the mechanisms fit together, and to the task.

        Args:
            parts: the mechanisms.
            default: trains where none of them does.
            stages: rows of each private stage of the task.

        Raises:
            InputError: for none at all, a wrong order, two vocabularies, or training mechanisms
                that are neither one nor as many as there are private stages.
        """
        if not parts:
            raise InputError(f"a run needs at least one mechanism ({UNPROTECTED} is one)")
        places = [_place(part) for part in parts]
        for i in range(1, len(parts)):
            if places[i] < places[i - 1]:
                raise InputError(
                    f"mechanisms act in the order vocabulary, publishing, training, serving; "
                    f"{parts[i].name} cannot come after {parts[i - 1].name}"
                )
        choosers = [part for part in parts if isinstance(part, VocabularyMechanism)]
        if len(choosers) > 1:
            names = " and ".join(part.name for part in choosers)
            raise InputError(f"two vocabulary mechanisms do not compose: {names}")
        publishers = [part for part in parts if isinstance(part, PublishingMechanism)]
        for part in publishers:
            if not part.carries <= {*CONTENT}:
                unknown = sorted(part.carries - {*CONTENT})[0]
                raise InputError(
                    f"{part.name} carries {unknown!r}, which is no content column of a corpus: "
                    f"{', '.join(sorted(CONTENT))}"
                )
        trainers_of_spec = [part for part in parts if isinstance(part, TrainingMechanism)]
        _check_trainers(trainers_of_spec, stages)
        trainers = trainers_of_spec
        if len(trainers) != len(stages):
            trainers = (trainers_of_spec or [default]) * len(stages)
        numbered_names = numbered([trainer.name for trainer in trainers])
        elsewhere = [one.elsewhere for one in trainers if one.elsewhere is not None]
        return Pipeline(
            tuple(parts),
            tuple(map(TrainingStage, numbered_names, trainers, stages)),
            choosers[0] if choosers else None,
            tuple(publishers),
            tuple(part for part in parts if isinstance(part, ServingMechanism)),
            elsewhere[0] if elsewhere else None,
        )

    @cached_property
    def trainers(self) -> tuple[TrainingMechanism[Any], ...]:
        """The mechanism of each private stage; one that trains several stands there as often."""
        return tuple(stage.trainer for stage in self.training)

    def stage_of(self, part: Mechanism[Any]) -> str:
        """The stage of a part that publishes, serves or chooses the vocabulary.

        It is the part's name, numbered where it is not unique.
        """
        names = numbered([other.name for other in self.parts])
        return next(name for name, other in zip(names, self.parts, strict=True) if other is part)

    def staged(self, part: Mechanism[Any], events: Sequence[PrivacyEvent]) -> Events:
        """The events of such a part marked with its stage; marked ones stay as they are."""
        return _with_stage(self.stage_of(part), events)

    def promises(self, stats: CorpusStats) -> Promises:
        """Promises of all parts, from parameters and public sizes alone."""
        return Promises(self.plan(stats), self.claims(stats), self.refusals(stats))

    def plan(self, stats: CorpusStats) -> Events:
        """Events that a run of all parts will emit; what pre-processing hides is not released."""
        with possible_numbers(self._names):
            chosen = () if self.vocabulary is None else self.vocabulary.plan(stats)
            published = [part.plan(stats) for part in self.publishers]
            # A server that trains for itself plans and emits everything when it trains.
            last = [part for part in self.servers if not isinstance(part, TrainingMechanism)]
            served = [e for part in last for e in self.staged(part, part.plan(stats))]
            trained = [stage.trainer.plan(stage.sizes(stats)) for stage in self.training]
            return (*self.released(chosen, published, trained), *served)

    def released(
        self,
        vocabulary: Events,
        events_of_publishers: Sequence[Events],
        events_of_stages: Sequence[Events],
    ) -> Events:
        """Events of the release, given those of choosing the vocabulary, publishing and training.

        A publisher that maps each row by itself is mere pre-processing for a training mechanism
        that protects: nothing but the trained model is released, and neighbouring corpora stay
        neighbours. Then its own events do not count; those of what it uses always do
        (`PublishingMechanism.inherited`). Conversely, training that promises nothing only processes
        what was published, and costs no unit that all of publishing protects. Where one private
        stage protects and another does not, everything counts.

        Args:
            vocabulary: events of choosing the vocabulary.
            events_of_publishers: events of each publisher.
            events_of_stages: events of training each private stage.

        Returns:
            The events, each marked with its stage.
        """
        published = [
            event
            for part, events in zip(self.publishers, events_of_publishers, strict=True)
            for event in self.staged(part, events)
        ]
        trained = [
            event
            for stage, events in zip(self.training, events_of_stages, strict=True)
            for event in stage.events(events)
        ]
        hidden = self._all_train_privately and all(part.rowwise for part in self.publishers)
        chosen = () if self.vocabulary is None else self.staged(self.vocabulary, vocabulary)
        before = (*self._inherited(), *chosen)
        trained = [_with_paid_vocabulary(event, [one.stage for one in chosen]) for event in trained]
        if not self._some_train_privately and _all_protect(published):
            return (*before, *published)
        return (*before, *(() if hidden else published), *trained)

    def _inherited(self) -> Events:
        """Events of making what publishers use; they are released, whatever is hidden."""
        return tuple(
            event.model_copy(update={"stage": f"{self.stage_of(part)}: {event.stage or 'made'}"})
            for part in self.publishers
            for event in part.inherited()
        )

    @property
    def _some_train_privately(self) -> bool:
        return any(trainer.unit is not None for trainer in self.trainers)

    @property
    def _all_train_privately(self) -> bool:
        return self._some_train_privately and all(t.unit is not None for t in self.trainers)

    @property
    def shows_published(self) -> bool:
        """True if what publishers make is released, not only models that training protects."""
        return bool(self.publishers) and not self._all_train_privately

    def only_processes(self, stats: CorpusStats) -> bool:
        """True if vocabulary and training only see text already protected by a publisher."""
        published = [event for part in self.publishers for event in part.plan(stats)]
        chosen = () if self.vocabulary is None else self.vocabulary.plan(stats)
        unprotected = not chosen and not self._some_train_privately
        return unprotected and _all_protect(published)

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Claims of all parts.

        A paper claims something for one training, or for one vocabulary: nothing is claimed for
        several trainings in a row, nor for a vocabulary together with what follows it.
        """
        several = len(self.training) > 1 or bool(self.vocabulary and self.vocabulary.plan(stats))
        with possible_numbers(self._names):
            return tuple(
                claim
                for part, sizes in self._with_sizes(stats)
                if not (several and isinstance(part, TrainingMechanism | VocabularyMechanism))
                for claim in part.claims(sizes)
            )

    @property
    def _names(self) -> str:
        return " + ".join(part.name for part in self.parts)

    def _with_sizes(self, stats: CorpusStats) -> Iterator[tuple[Mechanism[Any], CorpusStats]]:
        """Every part with the sizes of the rows that it acts on, once for each of its stages."""
        for part in (*self.parts, *(t for t in self.trainers[:1] if t not in self.parts)):
            if isinstance(part, TrainingMechanism):
                yield from (
                    (part, stage.sizes(stats)) for stage in self.training if stage.trainer is part
                )
            else:
                yield part, stats

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """Reasons of all parts for which `proven` refuses, and of their composition."""
        refusals_of_parts = (part.refusals(sizes) for part, sizes in self._with_sizes(stats))
        reasons = list(dict.fromkeys(reason for reasons in refusals_of_parts for reason in reasons))
        if self._some_train_privately:
            reasons += [
                f"{part.name} does not map each row by itself, so rows of the training corpus no "
                "longer belong to one user"
                for part in self.publishers
                if not part.rowwise
            ]
        return (*reasons, *self._other_elements())

    def _other_elements(self) -> tuple[str, ...]:
        """Reasons why guarantees for elements of a text do not compose with what follows.

        What a part protects may be no element of the text that an earlier part has read.
        """
        at_inference = [part.name for part in self.publishers if part.at_inference]
        sending = [each for each in self.trainers if isinstance(each, RepresentationMechanism)]
        if sending and at_inference:
            return tuple(
                f"{trainer.name} drops the words that {at_inference[-1]} published, and a word of "
                f"the text may be several of these or none: set {trainer.name}.word_dropout to 0"
                for trainer in dict.fromkeys(sending)
                if trainer.channel().word_dropout > 0
            )
        if self._all_train_privately:
            return ()
        return tuple(
            f"{part.name} protects a sentence of what {self.publishers[0].name} published, and a "
            "sentence of the text may be several of these"
            for part in self.publishers[1:]
            if part.unit == "sentence"
        )


def _with_stage(stage: str, events: Sequence[PrivacyEvent]) -> Events:
    """The events with the name of their stage; those that have one keep it."""
    return tuple(
        event if event.stage else event.model_copy(update={"stage": stage}) for event in events
    )


_PUBLIC_START = "vocabulary and initial weights do not depend on private text"
"""Assumption of trainers; see `_with_paid_vocabulary`."""


def _with_paid_vocabulary(event: PrivacyEvent, stages: Sequence[str]) -> PrivacyEvent:
    """Event of training, whose assumption says that the vocabulary was paid for where it was."""
    if not stages:
        return event
    paid = f"{_PUBLIC_START} beyond what {stages[0]} is charged for"
    assumptions = tuple(text.replace(_PUBLIC_START, paid) for text in event.assumptions)
    return event.model_copy(update={"assumptions": assumptions})


def _check_trainers(trainers: Sequence[TrainingMechanism[Any]], stages: Sequence[Rows]) -> None:
    names = " and ".join(trainer.name for trainer in trainers)
    if not stages and any(trainer.unit is not None for trainer in trainers):
        raise InputError(f"the task has no private stage for {names} to train: leave it out")
    if len(trainers) > 1 and len(stages) <= 1:
        raise InputError(f"two training mechanisms do not compose: {names}")
    if len(trainers) > 1 and len(trainers) != len(stages):
        raise InputError(
            f"the task has {len(stages)} private stages, and {len(trainers)} mechanisms to train "
            f"them are given ({names}): name one for all of them, or one for each"
        )


def numbered(names: Sequence[str]) -> list[str]:
    """Every name, the second of its kind followed by 2 and so on: names of stages."""
    before = [names[:at].count(name) for at, name in enumerate(names)]
    return [name if n == 0 else f"{name} {n + 1}" for name, n in zip(names, before, strict=True)]


def _all_protect(published: Sequence[PrivacyEvent]) -> bool:
    """True if something was published, and none of it without protection.

    Computation that nobody sees protects nothing of what it publishes.
    """
    of_data = [event for event in published if event.unit != COMPUTATION]
    return bool(of_data) and not any(isinstance(e.event, NonPrivate) for e in of_data)


def _place(part: Mechanism[Any]) -> int:
    # A server that trains for itself acts first when it trains.
    for place, kind in enumerate(ORDER):
        if isinstance(part, kind):
            return place
    raise InputError(
        f"{part.name} acts at no stage: derive it from one of the four stages' classes"
    )
