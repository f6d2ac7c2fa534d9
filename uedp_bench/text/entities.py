"""Entities found by software, for sources whose text has no gold labels.

Three detectors: the entities of a spaCy pipeline; Presidio's recognisers (patterns with check sums,
on top of the names that a spaCy pipeline finds where one is given); and a public list of English
names, which needs no software (`listed_names`). Results of the first two are cached on disk,
because they take minutes on real corpora: in `$UEDP_BENCH_CACHE`, else in `~/.cache/uedp-bench`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.components.component import PRESIDIO
from uedp_bench.corpus import Corpus, IntArray, Layer, Spans
from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.errors import InputError, nearest
from uedp_bench.io.folders import cache_folder
from uedp_bench.io.sealed_files import load_arrays, save_arrays

if TYPE_CHECKING:
    from presidio_analyzer import AnalyzerEngine
    from spacy.language import Language


_WORD = re.compile(r"[^\W\d_]+(?:['’]t\b)?")  # don't is one word, and Anna's is not


def listed_names(text: str) -> list[tuple[int, int]]:
    """(start, end) of every listed first name in a text, with the last name behind it.

    A name is a word in the list's own spelling (Anna, not anna or ANNA). A last name counts only
    directly behind a first name, after one space. Nicknames, other languages and typing errors are
    missed; words that are names too (Will, May, Grace) are taken for names.
    """
    first, last = _lists()
    words = list(_WORD.finditer(text))
    spans: list[tuple[int, int]] = []
    for number, word in enumerate(words):
        if word[0] not in first or (spans and word.start() < spans[-1][1]):
            continue
        behind = words[number + 1] if number + 1 < len(words) else None
        joined = behind and text[word.end() : behind.start()] == " " and behind[0] in last
        spans.append((word.start(), behind.end() if behind and joined else word.end()))
    return spans


@cache
def _lists() -> tuple[frozenset[str], frozenset[str]]:
    """First and last names of Faker's locale en_US: public lists of the US census."""
    from faker.providers.person.en_US import Provider

    return frozenset(Provider.first_names), frozenset(Provider.last_names)


MIN_SCORE = 0.35
"""Presidio's results below this confidence are left out: bare digit patterns score 0.01 to 0.3."""

_DETECTION_FIELDS = ("detector", "pipeline", "entity_types")  # parameters of every detection
PERSON = "PERSON"
"""Type of names on the list."""

_FORMAT = 1  # of the cached files; raised when the same key would mean something else


Mention = tuple[int, int, int]
"""Start, end, index into the types of a detector or a corpus."""


class Detection(NamedTuple):
    """Mentions that a detector found.

    Attributes:
        types: all types that it can find, sorted.
        mentions: (mentions, 4) row, start, end, index into `types`; no two overlap.
    """

    types: tuple[str, ...]
    mentions: IntArray


def add_entities(corpus: Corpus, params: DetectionParams, *, gold: bool = False) -> Corpus:
    """Add detected entities to a corpus, restricted to the types of the parameters.

    Args:
        corpus: corpus with mentions of its own, or none.
        params: parameters of the detector.
        gold: True if the corpus' own mentions are labels by people: with a detector they no longer
            count as entities, and are kept as the layer "gold" to measure it. Otherwise they are
            mentions of the source itself, and stay beside mentions that the detector adds.

    Raises:
        InputError: for a missing pipeline, or a type that neither corpus nor detector knows.
        MissingExtraError: if Presidio is not installed.
    """
    detection = detect(corpus.texts, params)
    aside = gold and params.detector != "none"
    entities = Spans.none() if aside else corpus.entities
    own_types = () if aside else corpus.entity_types
    own = entities.table()
    available = tuple(sorted({*own_types, *detection.types}))
    types = available if params.entity_types is None else tuple(sorted(set(params.entity_types)))
    for kind in types:
        if kind not in available:
            near = nearest(kind, available)
            hint = f"did you mean {near!r}?" if near else f"known: {', '.join(available) or 'none'}"
            raise InputError(f"entity_types: no type {kind!r} here; {hint}")
    apart = _of_types(_apart(detection.mentions, own), detection.types, types)
    if types != own_types:
        entities = Spans.build(corpus.texts, _of_types(own, own_types, types))
    if len(apart):
        entities = entities.followed_by(corpus.texts, apart)
    out = replace(corpus, entities=entities, entity_types=types)
    if params.detector == "none":
        return out
    labelled = Layer(corpus.entities, corpus.entity_types, np.ones(len(corpus), dtype=bool))
    return replace(
        out,
        detector=DetectionParams(**{name: getattr(params, name) for name in _DETECTION_FIELDS}),
        layers={"gold": labelled, **corpus.layers} if aside else corpus.layers,
    )


def found_in(texts: Sequence[str], params: DetectionParams) -> Layer:
    """Detect entities in texts, as a layer; every row is complete.

    Raises:
        InputError, MissingExtraError: as `detect`.
    """
    detection = detect(texts, params)
    return Layer.build(texts, detection.mentions, detection.types)


def detected_in(corpus: Corpus, texts: Sequence[str]) -> list[list[Mention]]:
    """Apply the detector of a corpus to other texts, for the types that count in the corpus.

    Args:
        corpus: corpus with a detector.
        texts: any texts.

    Returns:
        Mentions of each text: start, end, index into `corpus.entity_types`.

    Raises:
        InputError: if the corpus has no detector.
    """
    if corpus.detector is None:
        raise InputError("the entities of this corpus are the source's own: it has no detector")
    detection, out = detect(texts, corpus.detector), list[list[Mention]]([] for _ in texts)
    chosen = _of_types(detection.mentions, detection.types, corpus.entity_types)
    for row, start, end, kind in chosen.tolist():
        out[row].append((start, end, kind))
    return out


def _of_types(mentions: IntArray, names: Sequence[str], types: Sequence[str]) -> IntArray:
    """The mentions (row, start, end, index into `names`) of `types`, with indexes into these."""
    at = {name: index for index, name in enumerate(types)}
    number = np.array([at.get(name, -1) for name in names], dtype=np.int64)
    out = mentions.copy()
    out[:, 3] = number[mentions[:, 3]]
    return out[out[:, 3] >= 0]


def _apart(detected: IntArray, own: IntArray) -> IntArray:
    """Select mentions of `detected` that overlap none of `own`."""
    if not len(detected):
        return detected
    taken: dict[int, list[tuple[int, int]]] = {}
    for row, start, end, _ in own.tolist():
        taken.setdefault(row, []).append((start, end))
    keep = [
        all(end <= a or b <= start for a, b in taken.get(row, ()))
        for row, start, end, _ in detected.tolist()
    ]
    apart: IntArray = detected[np.array(keep, dtype=bool)]
    return apart


def detect(texts: Sequence[str], params: DetectionParams) -> Detection:
    """Detect all entities in texts, from the cache if it has them.

    Raises:
        InputError: for a missing pipeline, or one that recognises no entities.
        MissingExtraError: if Presidio is not installed.
    """
    if params.detector == "none":
        return Detection((), np.empty((0, 4), dtype=np.int64))
    if params.detector == "names":
        listed = [(row, *span, 0) for row, text in enumerate(texts) for span in listed_names(text)]
        return Detection((PERSON,), np.array(listed, dtype=np.int64).reshape(-1, 4))
    for needed in PRESIDIO if params.detector == "presidio" else ():
        needed.check()
    file = cache_folder() / "entities" / f"{_key(texts, params)}.npz"
    cached = load_arrays(file, _read)
    if cached is not None:
        return cached
    run = _spacy_entities if params.detector == "spacy" else _presidio_entities
    types, rows = run(texts, params.pipeline)
    table = [(row, *mention) for row, mentions in enumerate(rows) for mention in mentions]
    detection = Detection(types, np.array(table, dtype=np.int64).reshape(-1, 4))
    names = np.array(types, dtype=np.str_)
    save_arrays(file, "detected entities", types=names, mentions=detection.mentions)
    return detection


def _key(texts: Sequence[str], params: DetectionParams) -> str:
    """Hash of the texts and of everything that decides what is found in them."""
    software = [version("spacy")]
    if params.detector == "presidio":
        software.append(version("presidio-analyzer"))
    pipeline = None if params.pipeline is None else pipeline_identity(params.pipeline)
    head = [_FORMAT, params.detector, software, pipeline, MIN_SCORE]
    digest = hashlib.sha256(json.dumps(head).encode())
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def pipeline_identity(pipeline: str) -> list[str]:
    """Name and version of an installed pipeline, or a hash of the files of one in a folder.

    Raises:
        InputError: if there is neither; the message has the command that installs it.
    """
    folder = Path(pipeline)
    if (folder / "config.cfg").is_file():
        digest = hashlib.sha256()
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(file.relative_to(folder).as_posix().encode() + b"\0")
            digest.update(hashlib.sha256(file.read_bytes()).digest())
        return ["folder", digest.hexdigest()]
    if folder.exists() or len(folder.parts) != 1:
        raise InputError(f"pipeline: {pipeline} is not the folder of a spaCy pipeline (config.cfg)")
    try:
        return [pipeline, version(pipeline)]
    except (PackageNotFoundError, ValueError):
        raise InputError(
            f"pipeline: no spaCy pipeline named {pipeline!r} is installed; install it with: "
            f"python -m spacy download {pipeline}"
        ) from None


def _read(data: Mapping[str, Any]) -> Detection:
    return Detection(tuple(data["types"].tolist()), data["mentions"].astype(np.int64))


def _spacy_entities(
    texts: Sequence[str], pipeline: str | None
) -> tuple[tuple[str, ...], Iterator[list[Mention]]]:
    nlp = _pipeline(pipeline)
    types = _labels(nlp)
    if not types:
        raise InputError(f"pipeline: {pipeline} has no component that recognises entities")
    at = {name: index for index, name in enumerate(types)}
    return types, (
        [(ent.start_char, ent.end_char, at[ent.label_]) for ent in doc.ents]
        for doc in nlp.pipe(texts)
    )


def _presidio_entities(
    texts: Sequence[str], pipeline: str | None
) -> tuple[tuple[str, ...], Iterator[list[Mention]]]:
    nlp = _pipeline(pipeline)
    analyzer = _analyzer(nlp)
    types = tuple(sorted(analyzer.get_supported_entities(nlp.lang)))
    at = {name: index for index, name in enumerate(types)}
    batches = analyzer.nlp_engine.process_batch(texts, nlp.lang, batch_size=256)
    return types, (
        _best(analyzer.analyze(text, nlp.lang, score_threshold=MIN_SCORE, nlp_artifacts=seen), at)
        for text, seen in batches
    )


def _best(results: Sequence[Any], at: dict[str, int]) -> list[Mention]:
    """Results without overlaps: the most confident first, then the longest."""
    chosen: list[Mention] = []
    order = sorted(results, key=lambda r: (-r.score, r.start - r.end, r.start, r.entity_type))
    for result in order:
        if all(result.end <= start or end <= result.start for start, end, _ in chosen):
            chosen.append((result.start, result.end, at[result.entity_type]))
    return sorted(chosen)


def _pipeline(pipeline: str | None) -> Language:
    import spacy

    return spacy.blank("en") if pipeline is None else spacy.load(pipeline)


def _labels(nlp: Language) -> tuple[str, ...]:
    """Types that the components which assign `doc.ents` declare, sorted."""
    names = [name for name in nlp.pipe_names if "doc.ents" in nlp.get_pipe_meta(name).assigns]
    return tuple(sorted({label for name in names for label in nlp.pipe_labels.get(name, ())}))


def _analyzer(nlp: Language) -> AnalyzerEngine:
    """Presidio's analyzer over a given pipeline, which works without a network."""
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NerModelConfiguration, SpacyNlpEngine

    presidio_types = NerModelConfiguration().model_to_presidio_entity_mapping or {}
    unmapped = [label for label in _labels(nlp) if label not in presidio_types]
    engine = SpacyNlpEngine(
        ner_model_configuration=NerModelConfiguration(labels_to_ignore=unmapped)
    )
    engine.nlp = {nlp.lang: nlp}  # loaded already: Presidio would download what it does not find
    analyzer = AnalyzerEngine(nlp_engine=engine, supported_languages=[nlp.lang])
    if not _labels(nlp):
        analyzer.registry.remove_recognizer("SpacyRecognizer")
    if any(
        presidio_types.name == "EmailRecognizer" for presidio_types in analyzer.registry.recognizers
    ):
        analyzer.registry.remove_recognizer("EmailRecognizer")
        analyzer.registry.add_recognizer(_email_recognizer(nlp.lang))
    return analyzer


def _email_recognizer(language: str) -> Any:
    """Presidio's e-mail recogniser with the suffix list that is installed, not a fresh one."""
    import tldextract
    from presidio_analyzer.predefined_recognizers import EmailRecognizer

    extract = tldextract.TLDExtract(suffix_list_urls=(), cache_dir=None)

    class InstalledSuffixes(EmailRecognizer):  # type: ignore[misc, unused-ignore]
        """Never asks the network."""

        def validate_result(self, pattern_text: str) -> bool:
            """True if the domain ends in a public suffix."""
            return bool(extract(pattern_text).fqdn)

    return InstalledSuffixes(supported_language=language)
