"""De-identification: labelled entities become placeholders or surrogates, or disappear."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.component import Params
from uedp_bench.errors import InputError, nearest
from uedp_bench.mechanism import CorpusStats, Events, PublishingMechanism

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus, IntArray
    from uedp_bench.run import Run

Mention = tuple[int, int, int]
"""(start, end, type index) of a mention in one text."""

_EVENTS = (
    PrivacyEvent(
        unit="entity",
        event=NonPrivate(
            reason="de-identification is deterministic given the text: everything that it does "
            "not detect is published"
        ),
    ),
)


class DeidentifyParams(Params):
    """What replaces an entity, and which entities."""

    style: Literal["placeholder", "surrogate", "remove"] = Field(
        default="placeholder",
        description="placeholder: the entity's type in angle brackets; surrogate: an invented "
        "entity of the same type (Faker); remove: nothing",
    )
    entity_types: tuple[str, ...] | None = Field(
        default=None, description="types that are replaced; by default all that the corpus has"
    )


class Deidentify(PublishingMechanism[DeidentifyParams]):
    """Replaces the entity mentions of every private row with Presidio's anonymizer.

    Row by row and without state: a training mechanism after it keeps its guarantee. By itself it
    promises nothing.
    """

    name = "deidentify"
    source = "Presidio (presidio-anonymizer) on the corpus' entity spans; surrogates by Faker"
    Params = DeidentifyParams

    def plan(self, stats: CorpusStats) -> Events:
        """Text is published without a differential privacy guarantee."""
        return _EVENTS

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """The corpus with the entities of all rows outside the split `public` replaced.

        Spans of the result are the placeholders or surrogates, and the mentions of types that
        were not asked for where nothing that was replaced overlaps them.

        Raises:
            InputError: if `entity_types` names a type that the corpus does not declare.
        """
        chosen = self._chosen(corpus)
        anonymizer = _Anonymizer(
            corpus.entity_types, chosen, self.params.style, run.rng("deidentify", "key").bytes(32)
        )
        texts = list(corpus.texts)
        public = corpus.where("public")
        mentions: list[tuple[int, int, int, int]] = []
        rows = _by_row(corpus)
        for done, (row, found) in enumerate(rows, start=1):
            kept = found
            if not public[row]:
                texts[row], kept = anonymizer(texts[row], found)
            mentions += [(row, *mention) for mention in kept]
            if done % 1000 == 0 or done == len(rows):
                run.progress("de-identify", done, len(rows))
        return corpus.with_texts(texts, mentions), _EVENTS

    def _chosen(self, corpus: Corpus) -> frozenset[int]:
        wanted, known = self.params.entity_types, corpus.entity_types
        if wanted is None:
            return frozenset(range(len(known)))
        for name in wanted:
            if name not in known:
                near = nearest(name, known)
                hint = f"did you mean {near!r}? " if near else ""
                raise InputError(
                    f"deidentify.entity_types: the corpus has no type {name!r}; {hint}"
                    f"types: {', '.join(known) or 'none'}"
                )
        return frozenset(known.index(name) for name in wanted)


def _by_row(corpus: Corpus) -> list[tuple[int, list[Mention]]]:
    spans = corpus.entities
    rows, first = np.unique(spans.row, return_index=True)
    triples: list[Mention] = list(
        zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)
    )
    ends: IntArray = np.append(first[1:], len(spans))
    return [
        (row, triples[at:end])
        for row, at, end in zip(rows.tolist(), first.tolist(), ends.tolist(), strict=True)
    ]


class _Anonymizer:
    """Presidio's engine with one operator a type; called with a text and its mentions."""

    def __init__(
        self, types: tuple[str, ...], chosen: frozenset[int], style: str, key: bytes
    ) -> None:
        from presidio_anonymizer import AnonymizerEngine
        from presidio_anonymizer.entities import ConflictResolutionStrategy, RecognizerResult

        self._engine: Any = AnonymizerEngine()
        self._result: Any = RecognizerResult
        # What two overlapping mentions cover is replaced in full.
        self._conflicts: Any = ConflictResolutionStrategy.REMOVE_INTERSECTIONS
        self._types, self._chosen, self._style = types, chosen, style
        # A type's index is its name here: Presidio's defaults by name must not match.
        self._operators = {
            str(index): _operator(name, style, key) if index in chosen else _keep()
            for index, name in enumerate(types)
        }

    def __call__(self, text: str, mentions: list[Mention]) -> tuple[str, list[Mention]]:
        masked = [mention for mention in mentions if mention[2] in self._chosen]
        if not masked:
            return text, mentions
        kept = [
            (start, end, kind)
            for start, end, kind in mentions
            if kind not in self._chosen
            and all(end <= first or last <= start for first, last, _ in masked)
        ]
        answer = self._engine.anonymize(
            text,
            [self._result(str(kind), start, end, 1.0) for start, end, kind in masked + kept],
            dict(self._operators),
            conflict_resolution=self._conflicts,
            merge_entities_with_spaces=False,
        )
        spans = [
            (item.start, item.end, int(item.entity_type))
            for item in reversed(answer.items)
            if item.end > item.start
        ]
        return _tidy(answer.text, spans) if self._style == "remove" else (answer.text, spans)


def _operator(name: str, style: str, key: bytes) -> Any:
    from presidio_anonymizer.entities import OperatorConfig

    from uedp_bench.mechanisms._surrogates import Surrogates

    if style == "remove":
        return OperatorConfig("redact")
    if style == "placeholder":
        return OperatorConfig("replace", {"new_value": f"<{'_'.join(name.split())}>"})
    surrogates = Surrogates(key)
    return OperatorConfig("custom", {"lambda": lambda surface: surrogates(name, surface)})


def _keep() -> Any:
    from presidio_anonymizer.entities import OperatorConfig

    return OperatorConfig("keep")


def _tidy(text: str, spans: list[Mention]) -> tuple[str, list[Mention]]:
    """The text with single spaces and none at its ends, and its spans moved along."""
    moved = []
    for start, end, kind in spans:
        before = " ".join(text[:start].split())
        first = len(before) + (1 if before and text[start - 1].isspace() else 0)
        moved.append((first, first + len(" ".join(text[start:end].split())), kind))
    return " ".join(text.split()), moved
