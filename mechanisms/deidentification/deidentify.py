"""De-identification: labelled or listed entities become placeholders or surrogates, or vanish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.component import Params
from uedp_bench.corpus import Layer
from uedp_bench.errors import InputError, nearest
from uedp_bench.mechanism import CorpusStats, Events, PublishingMechanism
from uedp_bench.mechanisms.deidentification.mentions import Mention, replaced, tidy
from uedp_bench.mechanisms.deidentification.public_list import PublicList

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus, IntArray
    from uedp_bench.run import Run

LISTED = "<LISTED>"
"""Placeholder of what stood on the public list; it has no type."""

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
    public_list: Path | None = Field(
        default=None,
        description="text file of one surface a line (UTF-8): wherever one occurs as whole words, "
        "in any case and labelled or not, it becomes <LISTED> (nothing, if style is remove). The "
        "list must be public",
    )
    only_listed: bool = Field(
        default=False, description="replace what is on public_list, and nothing else"
    )

    @model_validator(mode="after")
    def _list_fits(self) -> DeidentifyParams:
        if not self.only_listed:
            return self
        if self.public_list is None:
            raise ValueError("only_listed is true, but public_list is not given")
        if self.style == "surrogate":
            raise ValueError(
                "style is surrogate, but what is on public_list has no type: with only_listed, "
                "choose placeholder or remove"
            )
        if self.entity_types is not None:
            raise ValueError("entity_types is given, but only_listed replaces no entity by type")
        return self


class Deidentify(PublishingMechanism[DeidentifyParams]):
    """Replaces the entity mentions of every private row with Presidio's anonymizer.

    Then, where a public list is given, all that is on it, labelled or not. Row by row and without
    state: a training mechanism after it keeps its guarantee. By itself it promises nothing.
    """

    name = "deidentify"
    version = 2
    rowwise = True
    carries = frozenset({"entities"})
    source = "Presidio (presidio-anonymizer) on the corpus' entity spans; surrogates by Faker"
    Params = DeidentifyParams

    def reads(self) -> frozenset[str]:
        """Entities, unless it only looks for what is on a list."""
        return frozenset() if self.params.only_listed else frozenset({"entities"})

    def plan(self, stats: CorpusStats) -> Events:
        """Text is published without a differential privacy guarantee."""
        return _EVENTS

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """The corpus with the entities of all rows outside the split `public` replaced.

        Spans of the result are the placeholders or surrogates of types, and the mentions that were
        not asked for where nothing that was replaced overlaps them. What stood on the public list
        has no span: it is no entity any more.

        Raises:
            InputError: if `entity_types` names a type that the corpus does not declare, or
                `public_list` cannot be used.
        """
        chosen = frozenset() if self.params.only_listed else self._chosen(corpus)
        _note_detection(corpus, chosen, run)
        key = run.stream().rng("key").bytes(32)
        anonymizer = (
            _Anonymizer(corpus.entity_types, chosen, self.params.style, key) if chosen else None
        )
        listed = self._listed(corpus.entity_types, chosen)
        texts = list(corpus.texts)
        mentions: list[tuple[int, int, int, int]] = []
        found = _by_row(corpus)
        private = ~corpus.where("public")
        for row, text in enumerate(corpus.texts):
            kept = found.get(row, [])
            if private[row] and anonymizer is not None:
                texts[row], kept = anonymizer(text, kept)
            if private[row] and listed is not None:
                texts[row], kept = _redacted(texts[row], kept, listed, self.params.style)
            mentions += [(row, *mention) for mention in kept]
            if (row + 1) % 1000 == 0 or row + 1 == len(texts):
                run.progress("de-identify", row + 1, len(texts))
        return corpus.with_texts(texts, mentions), _EVENTS

    def _listed(self, types: tuple[str, ...], chosen: frozenset[int]) -> PublicList | None:
        path, field = self.params.public_list, "deidentify.public_list"
        if path is None:
            return None
        listed = PublicList.read(path, field)
        if self.params.style == "placeholder":
            listed.keeps([LISTED, *(_placeholder(types[kind]) for kind in sorted(chosen))], field)
        elif self.params.style == "surrogate":
            listed.keeps([LISTED], field)
        return listed

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


def _note_detection(corpus: Corpus, chosen: frozenset[int], run: Run) -> None:
    """Notes what finds the entities, and where people labelled them too, how much of it.

    Rows that an attack planted do not count: their names are made of random words.
    """
    if corpus.detector is None:
        run.note(entities_from="labels of the source: everything that they name is found")
        return
    from uedp_bench.text.detection import measure

    how = " ".join(filter(None, (corpus.detector.detector, corpus.detector.pipeline)))
    run.note(entities_from=how)
    if (gold := corpus.layers.get("gold")) is not None:
        spans = corpus.entities
        acted = [mention for mention in spans.mentions() if mention[3] in chosen]
        found = Layer.build(corpus.texts, acted, corpus.entity_types)
        rows = ~corpus.where("public") & (corpus.origin >= 0)
        measured = measure(corpus.texts, gold, found, rows)
        run.note(detection=measured.to_dict(), simulation_only=["detection"])


def _redacted(
    text: str, mentions: list[Mention], listed: PublicList, style: str
) -> tuple[str, list[Mention]]:
    """The text without any occurrence of the list."""
    # What is left around a removed piece moves together and may be on the list in turn.
    while where := listed.occurrences(text):
        text, mentions = replaced(text, mentions, where, "" if style == "remove" else LISTED)
        if style == "remove":
            text, mentions = tidy(text, mentions)
    return text, mentions


def _by_row(corpus: Corpus) -> dict[int, list[Mention]]:
    spans = corpus.entities
    rows, first = np.unique(spans.row, return_index=True)
    triples: list[Mention] = list(
        zip(spans.start.tolist(), spans.end.tolist(), spans.type.tolist(), strict=True)
    )
    ends: IntArray = np.append(first, len(spans))[1:]
    return {
        row: triples[at:end]
        for row, at, end in zip(rows.tolist(), first.tolist(), ends.tolist(), strict=True)
    }


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
        return tidy(answer.text, spans) if self._style == "remove" else (answer.text, spans)


def _operator(name: str, style: str, key: bytes) -> Any:
    from presidio_anonymizer.entities import OperatorConfig

    from uedp_bench.mechanisms.deidentification.surrogates import Surrogates

    if style == "remove":
        return OperatorConfig("redact")
    if style == "placeholder":
        return OperatorConfig("replace", {"new_value": _placeholder(name)})
    surrogates = Surrogates(key)
    return OperatorConfig("custom", {"lambda": lambda surface: surrogates(name, surface)})


def _keep() -> Any:
    from presidio_anonymizer.entities import OperatorConfig

    return OperatorConfig("keep")


def _placeholder(entity_type: str) -> str:
    return f"<{'_'.join(entity_type.split())}>"
