"""A list of mechanisms is itself a mechanism: vocabulary, publishing, training, serving."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uedp_bench.accounting.events import Claim, NonPrivate, PrivacyEvent
from uedp_bench.corpus import CONTENT
from uedp_bench.errors import InputError
from uedp_bench.mechanism import (
    CorpusStats,
    Events,
    Mechanism,
    PublishingMechanism,
    RepresentationMechanism,
    ServingMechanism,
    TrainingMechanism,
    VocabularyMechanism,
)

STAGES: tuple[type[Mechanism[Any]], ...] = (
    VocabularyMechanism,
    PublishingMechanism,
    TrainingMechanism,
    ServingMechanism,
)


@dataclass(frozen=True)
class Pipeline:
    """Mechanisms in the order in which they act.

    Attributes:
        parts: as given.
        trainer: the training mechanism; training without noise where none was given.
    """

    parts: tuple[Mechanism[Any], ...]
    trainer: TrainingMechanism[Any]

    @staticmethod
    def build(parts: Sequence[Mechanism[Any]], default: TrainingMechanism[Any]) -> Pipeline:
        """Checks that the mechanisms fit together.

        Raises:
            InputError: for none at all, a wrong order, or two vocabularies or two trainings.
        """
        if not parts:
            raise InputError("a run needs at least one mechanism (noiseless is one)")
        stages = [_stage(part) for part in parts]
        for i in range(1, len(parts)):
            if stages[i] < stages[i - 1]:
                raise InputError(
                    f"mechanisms act in the order vocabulary, publishing, training, serving; "
                    f"{parts[i].name} cannot come after {parts[i - 1].name}"
                )
        for kind, word in ((VocabularyMechanism, "vocabulary"), (TrainingMechanism, "training")):
            same = [part.name for part in parts if isinstance(part, kind)]
            if len(same) > 1:
                raise InputError(f"two {word} mechanisms do not compose: {' and '.join(same)}")
        for part in parts:
            if isinstance(part, PublishingMechanism) and not part.carries <= {*CONTENT}:
                unknown = sorted(part.carries - {*CONTENT})[0]
                raise InputError(
                    f"{part.name} carries {unknown!r}, which is no content column of a corpus: "
                    f"{', '.join(sorted(CONTENT))}"
                )
        trainers = [part for part in parts if isinstance(part, TrainingMechanism)]
        return Pipeline(tuple(parts), trainers[0] if trainers else default)

    @property
    def vocabulary(self) -> VocabularyMechanism[Any] | None:
        """The mechanism that chooses the vocabulary, if one does."""
        found = [part for part in self.parts if isinstance(part, VocabularyMechanism)]
        return found[0] if found else None

    @property
    def publishers(self) -> tuple[PublishingMechanism[Any], ...]:
        """The mechanisms that publish text or vectors."""
        return tuple(part for part in self.parts if isinstance(part, PublishingMechanism))

    @property
    def servers(self) -> tuple[ServingMechanism[Any], ...]:
        """The mechanisms at inference."""
        return tuple(part for part in self.parts if isinstance(part, ServingMechanism))

    def stage_of(self, part: Mechanism[Any]) -> str:
        """What the events of a part are marked with: its name, numbered where it is not unique."""
        parts = self.parts if self.trainer in self.parts else (*self.parts, self.trainer)
        same = [other for other in parts if other.name == part.name]
        place = next(i for i, other in enumerate(same) if other is part)
        return part.name if place == 0 else f"{part.name} {place + 1}"

    def staged(self, part: Mechanism[Any], events: Sequence[PrivacyEvent]) -> Events:
        """The events of a part marked with its stage; marked ones stay as they are."""
        stage = self.stage_of(part)
        return tuple(
            event if event.stage else event.model_copy(update={"stage": stage}) for event in events
        )

    def plan(self, stats: CorpusStats) -> Events:
        """Events that a run of all parts will emit; what pre-processing hides is not released."""
        chosen = () if self.vocabulary is None else self.vocabulary.plan(stats)
        published = [e for part in self.publishers for e in self.staged(part, part.plan(stats))]
        # What trains for its own serving plans, and emits, everything when it trains.
        last = [part for part in self.servers if not isinstance(part, TrainingMechanism)]
        served = [e for part in last for e in self.staged(part, part.plan(stats))]
        return (*self.released(chosen, published, self.trainer.plan(stats)), *served)

    def released(
        self, vocabulary: Events, published: Sequence[PrivacyEvent], trained: Events
    ) -> Events:
        """Events of the release, given those of choosing the vocabulary, publishing and training.

        A publisher that maps each row by itself is mere pre-processing for a training mechanism
        that protects: nothing but the trained model is released, and neighbouring corpora stay
        neighbours. Then its own events do not count. Conversely, training that promises nothing
        only processes what was published, and costs no unit that all of publishing protects.

        Args:
            vocabulary: what choosing the vocabulary emitted.
            published: what publishing emitted, marked by `staged`, for there may be several.
            trained: what training emitted.

        Returns:
            The events, each marked with its stage.
        """
        protects = self.trainer.unit is not None
        hidden = protects and all(part.rowwise for part in self.publishers)
        chosen = () if self.vocabulary is None else self.staged(self.vocabulary, vocabulary)
        if not protects and _all_protect(published):
            return (*chosen, *published)
        return (*chosen, *(() if hidden else published), *self.staged(self.trainer, trained))

    @property
    def shows_published(self) -> bool:
        """True if what publishers make is released, not only a model that training protects."""
        return bool(self.publishers) and self.trainer.unit is None

    def only_processes(self, stats: CorpusStats) -> bool:
        """True if vocabulary and trainer only see text already protected by a publisher."""
        published = [event for part in self.publishers for event in part.plan(stats)]
        unprotected = self.vocabulary is None and self.trainer.unit is None
        return unprotected and _all_protect(published)

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Claims of all parts."""
        parts = self.parts if self.trainer in self.parts else (*self.parts, self.trainer)
        return tuple(claim for part in parts for claim in part.claims(stats))

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """Reasons of all parts for which `proven` refuses, and of their composition."""
        reasons = [reason for part in self.parts for reason in part.refusals(stats)]
        if self.trainer.unit is not None:
            reasons += [
                f"{part.name} does not map each row by itself, so rows of the training corpus no "
                "longer belong to one user"
                for part in self.publishers
                if not part.rowwise
            ]
        return (*reasons, *self._other_elements())

    def _other_elements(self) -> tuple[str, ...]:
        """Why guarantees for elements of a text do not compose, of publishers and what follows.

        What a part protects may be no element of the text that an earlier part has read.
        """
        at_inference = [part.name for part in self.publishers if part.at_inference]
        trainer, reasons = self.trainer, list[str]()
        if isinstance(trainer, RepresentationMechanism) and at_inference:
            if trainer.channel().word_dropout > 0:
                reasons.append(
                    f"{trainer.name} drops the words that {at_inference[-1]} published, and a word "
                    f"of the text may be several of these or none: set {trainer.name}.word_dropout "
                    "to 0"
                )
        elif trainer.unit is None:
            reasons += [
                f"{part.name} protects a sentence of what {self.publishers[0].name} published, and "
                "a sentence of the text may be several of these"
                for part in self.publishers[1:]
                if part.unit == "sentence"
            ]
        return tuple(reasons)


def _all_protect(published: Sequence[PrivacyEvent]) -> bool:
    """True if something was published, and none of it without protection."""
    return bool(published) and not any(isinstance(e.event, NonPrivate) for e in published)


def _stage(part: Mechanism[Any]) -> int:
    # What trains for its own serving acts first when it trains.
    for stage, kind in enumerate(STAGES):
        if isinstance(part, kind):
            return stage
    raise InputError(
        f"{part.name} acts at no stage: derive it from one of the four stages' classes"
    )
