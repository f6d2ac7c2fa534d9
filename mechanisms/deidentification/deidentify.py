"""De-identification: labelled or listed entities become placeholders or surrogates, or vanish."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import CorpusStats, Events, InputError, Layer, PublishingMechanism
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.api.text import Edit, Rewriting
from uedp_bench.errors import nearest
from uedp_bench.mechanisms.deidentification.detector import (
    OWN,
    DetectorParams,
    acting_on,
    detector_refusals,
    found_by,
    name_of,
    trained_tagger,
    with_own_entities,
)
from uedp_bench.mechanisms.deidentification.mentions import (
    Mention,
    PublicList,
    composed,
    replaced,
    tidy,
    tidying,
)

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, IntArray, Run
    from uedp_bench.api.capabilities import EntityDetector

_LIST = "deidentify.public_list"

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


class DeidentifyParams(DetectorParams):
    """Detector of entities, the types to replace, and their replacements."""

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
        if self.detector != "corpus":
            raise ValueError("a detector is given, but only_listed replaces nothing that it finds")
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
    carries = frozenset({"entities", "layers"})
    source = "Presidio (presidio-anonymizer) on the corpus' entity spans; surrogates by Faker"
    Params = DeidentifyParams

    def reads(self) -> frozenset[str]:
        """Entities, unless it looks for what is on a list, or has a detector of its own."""
        own = self.params.only_listed or self.params.detector != "corpus"
        return frozenset() if own else frozenset({"entities"})

    def inherited(self) -> Events:
        """Events that made the tagger that it uses."""
        tagger = trained_tagger(self.params)
        return () if tagger is None else tagger.inherited()

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """Why nothing can be proven of what the tagger or pipeline that it uses has seen."""
        return detector_refusals(self.params)

    def check_files(self) -> None:
        """Refuses a public list that is no text, or has no surface.

        Raises:
            InputError: as `PublicList.read`.
        """
        if self.params.public_list is not None:
            PublicList.read(self.params.public_list, _LIST)

    def entity_detector(self) -> EntityDetector:
        """Detector of the pieces that it replaces, for any text."""
        return _Detector(self)

    def plan(self, stats: CorpusStats) -> Events:
        """Text is published without a differential privacy guarantee."""
        return _EVENTS

    def publish(self, corpus: Corpus, run: Run) -> tuple[Corpus, Events]:
        """The corpus with the entities of all rows outside the split `public` replaced.

        Spans of the result are the placeholders or surrogates of types, and the mentions that were
        not asked for where nothing that was replaced overlaps them. What stood on the public list
        has no span: it is no entity any more. Layers follow what is left of their text.

        Raises:
            InputError: if `entity_types` names a type that the corpus does not declare, or
                `public_list` cannot be used.
        """
        if self.params.detector != "corpus":
            acting = acting_on(corpus, found_by(self.params, corpus))
            return with_own_entities(self._published(acting, run), corpus), _EVENTS
        return self._published(corpus, run), _EVENTS

    def _published(self, corpus: Corpus, run: Run) -> Corpus:
        """Corpus with its entities replaced, from any detector."""
        chosen = frozenset() if self.params.only_listed else self._chosen(corpus.entity_types)
        _note_detection(corpus, chosen, run, name_of(self.params))
        key = run.stream().rng("key").bytes(32)
        anonymizer = None
        if chosen:
            anonymizer = _Anonymizer(corpus.entity_types, chosen, self.params.style, key)
            anonymizer.follows = bool(corpus.layers)
        listed = self._listed(corpus.entity_types, chosen)
        published = Rewriting(corpus)
        mentions: list[tuple[int, int, int, int]] = []
        mentions_by_row = _by_row(corpus)
        private = ~corpus.where("public")
        for row, text in enumerate(corpus.texts):
            changed = _Changed(text, mentions_by_row.get(row, []), [])
            if private[row] and anonymizer is not None:
                changed = anonymizer(changed)
            if private[row] and listed is not None:
                changed = _redacted(changed, listed, self.params.style)
            if changed.edits:
                published.edited(row, changed.text, changed.edits)
            mentions += [(row, *mention) for mention in changed.mentions]
            if (row + 1) % 1000 == 0 or row + 1 == len(corpus):
                run.progress("de-identify", row + 1, len(corpus))
        return published.corpus(mentions)

    def _listed(self, types: tuple[str, ...], chosen: frozenset[int]) -> PublicList | None:
        path, field = self.params.public_list, _LIST
        if path is None:
            return None
        listed = PublicList.read(path, field)
        if self.params.style == "placeholder":
            listed.keeps([LISTED, *(_placeholder(types[kind]) for kind in sorted(chosen))], field)
        elif self.params.style == "surrogate":
            listed.keeps([LISTED], field)
        return listed

    def _chosen(self, types: tuple[str, ...]) -> frozenset[int]:
        wanted = self.params.entity_types
        if wanted is None:
            return frozenset(range(len(types)))
        own = self.params.detector
        for name in wanted:
            if name not in types:
                finder = "corpus" if own == "corpus" else f"detector {own}"
                near = nearest(name, types)
                hint = f"did you mean {near!r}? " if near else ""
                raise InputError(
                    f"deidentify.entity_types: the {finder} has no type {name!r}; {hint}"
                    f"types: {', '.join(types) or 'none'}"
                )
        return frozenset(types.index(name) for name in wanted)

    def _finding(self, corpus: Corpus) -> Layer:
        """Spans of original text that it replaces; surfaces on the list have the type LISTED."""
        p = self.params
        detected = Layer.build(corpus.texts, (), ()) if p.only_listed else found_by(p, corpus)
        chosen = self._chosen(detected.types) if not p.only_listed else frozenset[int]()
        acted = [mention for mention in detected.spans.mentions() if mention[3] in chosen]
        types = detected.types
        if p.public_list is not None:
            listed = PublicList.read(p.public_list, _LIST)
            types = (*types, LISTED)
            taken: dict[int, list[tuple[int, int]]] = {}
            for row, start, end, _ in acted:
                taken.setdefault(row, []).append((start, end))
            acted += [
                (row, start, end, len(types) - 1)
                for row, text in enumerate(corpus.texts)
                for start, end in listed.occurrences(text)
                if all(end <= a or b <= start for a, b in taken.get(row, ()))
            ]
        return Layer.build(corpus.texts, acted, types)


class _Detector(NamedTuple):
    """See `EntityDetector`."""

    mechanism: Deidentify

    def find(self, corpus: Corpus) -> Layer:
        """The spans of each text that the mechanism replaces."""
        return self.mechanism._finding(corpus)


def _note_detection(corpus: Corpus, chosen: frozenset[int], run: Run, detector: str) -> None:
    """Notes the detector, and its recall where people labelled entities too.

    Rows that an attack planted do not count: their names are made of random words.
    """
    gold = corpus.layers.get("gold")
    if detector == "corpus":
        if corpus.detector is None:
            run.note(entities_from="labels of the source: everything that they name is found")
            return
        detector = " ".join(filter(None, (corpus.detector.detector, corpus.detector.pipeline)))
    elif gold is None and corpus.detector is None and OWN in corpus.layers:
        gold = corpus.layers[OWN]
    run.note(entities_from=detector)
    if gold is not None and not gold.spans.lost:
        from uedp_bench.text.detection import measure

        acted = [mention for mention in corpus.entities.mentions() if mention[3] in chosen]
        replaced = Layer.build(corpus.texts, acted, corpus.entity_types)
        rows = ~corpus.where("public") & (corpus.origin >= 0)
        measured = measure(corpus.texts, gold, replaced, rows)
        run.note(detection=measured.to_dict(), simulation_only=["detection"])


class _Changed(NamedTuple):
    """A text, the mentions in it, and what was done to the text of the source to make it."""

    text: str
    mentions: list[Mention]
    edits: list[Edit]

    def tidied(self) -> _Changed:
        """Copy with single spaces and none at its ends."""
        text, mentions = tidy(self.text, self.mentions)
        return _Changed(text, mentions, composed(self.edits, tidying(self.text)))


def _redacted(changed: _Changed, listed: PublicList, style: str) -> _Changed:
    """The text without any occurrence of the list."""
    by = "" if style == "remove" else LISTED
    # What is left around a removed piece moves together and may be on the list in turn.
    while where := listed.occurrences(changed.text):
        text, mentions = replaced(changed.text, changed.mentions, where, by)
        edits = [(start, end, len(by)) for start, end in where]
        changed = _Changed(text, mentions, composed(changed.edits, edits))
        if style == "remove":
            changed = changed.tidied()
    return changed


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
    """Presidio's engine with one operator a type.

    Attributes:
        follows: its edits say where each mention went; else that the whole text is another.
    """

    def __init__(
        self, types: tuple[str, ...], chosen: frozenset[int], style: str, key: bytes
    ) -> None:
        from presidio_anonymizer import AnonymizerEngine
        from presidio_anonymizer.entities import ConflictResolutionStrategy, RecognizerResult

        self._engine: Any = AnonymizerEngine()
        self._result: Any = RecognizerResult
        # What two overlapping mentions cover is replaced in full.
        self._conflicts: Any = ConflictResolutionStrategy.REMOVE_INTERSECTIONS
        self._types, self._chosen, self._style, self.follows = types, chosen, style, True
        # A type's index is its name here: Presidio's defaults by name must not match.
        self._operators = {
            str(index): _operator(name, style, key) if index in chosen else _keep()
            for index, name in enumerate(types)
        }
        self._nothing = {operator: _keep() for operator in self._operators}

    def __call__(self, changed: _Changed) -> _Changed:
        """The text of the source without its mentions of the chosen types."""
        text, mentions, _ = changed
        masked = [mention for mention in mentions if mention[2] in self._chosen]
        if not masked:
            return changed
        kept = [
            (start, end, kind)
            for start, end, kind in mentions
            if kind not in self._chosen
            and all(end <= first or last <= start for first, last, _ in masked)
        ]
        answer = self._answer(text, masked + kept, self._operators)
        items = list(reversed(answer.items))
        edits = [(0, len(text), len(answer.text))]
        if self.follows:
            # Where nothing is replaced, the engine says what it would replace.
            operations = reversed(self._answer(text, masked + kept, self._nothing).items)
            edits = [
                (old.start, old.end, new.end - new.start)
                for old, new in zip(operations, items, strict=True)
                if int(new.entity_type) in self._chosen
            ]
        spans = [
            (item.start, item.end, int(item.entity_type)) for item in items if item.end > item.start
        ]
        anonymised = _Changed(answer.text, spans, edits)
        return anonymised.tidied() if self._style == "remove" else anonymised

    def _answer(self, text: str, mentions: list[Mention], operators: dict[str, Any]) -> Any:
        return self._engine.anonymize(
            text,
            [self._result(str(kind), start, end, 1.0) for start, end, kind in mentions],
            dict(operators),
            conflict_resolution=self._conflicts,
            merge_entities_with_spaces=False,
        )


def _operator(name: str, style: str, key: bytes) -> Any:
    from presidio_anonymizer.entities import OperatorConfig

    from uedp_bench.mechanisms.deidentification.mentions import Surrogates

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
