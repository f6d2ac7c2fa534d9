"""The layer `automatic`: places where texts say what records already know.

Hathurusinghe, Nejadgholi and Bolic, A Privacy-Preserving Approach to Extraction of Personal
Information through Automatic Annotation and Federated Learning, PrivateNLP 2021, section 2; keys
and tags of table 1. Phrases that could be a value of a register are found by patterns, which need
no model (dates and runs of capitalised words), or as the entities of a spaCy pipeline; each is
compared and marked as a whole. The marks of a row are a function of the row's text and the records
of its own user: guarantees rest on that (docs/proofs.md, section 16).

Dates are compared as dates: "August 4, 1961", "4 August 1961", "4 Aug. 1961" and "1961-08-04" are
one. Numbers with slashes or full stops are left alone: which number is the month depends on the
country.
"""

from __future__ import annotations

import datetime
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple, Self

import numpy as np
from pydantic import Field, field_validator, model_validator
from rapidfuzz import fuzz

from uedp_bench.components.component import Params, Requirement, of_detector
from uedp_bench.corpus import Corpus, Facts, Layer
from uedp_bench.corpus.entity_detection import (
    DECLARES,
    DetectionParams,
    check_declared,
    pipeline_refusals,
)
from uedp_bench.corpus.keys import normal_surface
from uedp_bench.errors import InputError
from uedp_bench.text.entities import detect

Kind = Literal["date", "person", "organisation", "place"]
"""Kind of a value, which decides its comparison with a phrase of a text."""


class RecordTag(Params):
    """Records whose values a tag marks."""

    keys: tuple[str, ...] = Field(
        min_length=1, description="keys of the records whose values it marks; case does not matter"
    )
    kind: Kind = Field(
        description="what the values are: dates agree as dates, persons by parts of their names, "
        "the others as a whole"
    )


WIKIPII: Mapping[str, RecordTag] = {
    "BD": RecordTag(keys=("Born", "Born:"), kind="date"),
    "PR": RecordTag(
        keys=("Parent", "Parent(s)", "Parents", "Father", "Father's name", "Mother",
              "Mother's name"),
        kind="person",
    ),
    "SP": RecordTag(keys=("Spouse", "Spouse(s)", "Spouses"), kind="person"),
    "CH": RecordTag(keys=("Children",), kind="person"),
    "ED": RecordTag(
        keys=("Education", "High school", "High school:", "Law School", "School", "Schools",
              "College", "College(s)", "Colleges", "Alma mater", "Almat mater"),
        kind="organisation",
    ),
}  # fmt: skip
"""Tags of the paper: birth date, parents, spouses, children and education. Its table 1, as it is
printed."""


def normalise_key(key: str) -> str:
    """A key in one case and with single spaces, without the colon at its end."""
    return normal_surface(key.replace("’", "'")).rstrip(" :")


def tags_by_key(tags: Mapping[str, RecordTag]) -> dict[str, str]:
    """RecordTag by normalised key.

    Raises:
        ValueError: if a key belongs to two tags.
    """
    tag_names: dict[str, str] = {}
    for name, tag in tags.items():
        for key in tag.keys:
            other = tag_names.setdefault(normalise_key(key), name)
            if other != name:
                raise ValueError(f"the key {key!r} belongs to two tags, {other} and {name}")
    return tag_names


_NAMES = ("January", "February", "March", "April", "May", "June", "July", "August", "September",
          "October", "November", "December")  # fmt: skip
_NUMBERS = {name[:3].casefold(): at for at, name in enumerate(_NAMES, start=1)}
_MONTH = rf"(?P<{{0}}>(?:{'|'.join(_NAMES)})|(?:{'|'.join(n[:3] for n in _NAMES)}|Sept)\b\.?)"
_DAY = r"(?P<{0}>\d{{1,2}})(?:st|nd|rd|th)?"
_FORMS = (
    r"(?P<y1>\d{4})-(?P<m1>\d{2})-(?P<d1>\d{2})",
    rf"{_DAY.format('d2')}\s+(?:of\s+)?{_MONTH.format('m2')}(?:\s*,)?\s+(?P<y2>\d{{4}})",
    rf"{_MONTH.format('m3')}\s+{_DAY.format('d3')}\s*,?\s+(?P<y3>\d{{4}})",
    rf"{_MONTH.format('m4')}(?:\s*,)?\s+(?P<y4>\d{{4}})",
    r"(?P<y5>[12]\d{3})",
)
_DATE = re.compile(rf"(?<![\w/.,-])(?:{'|'.join(_FORMS)})(?!\w|[/.,-]\d)", re.IGNORECASE)


class Date(NamedTuple):
    """A date, of which day and month may be unknown (0)."""

    year: int
    month: int = 0
    day: int = 0

    def tells(self, other: Date) -> bool:
        """True if this date is `other`, at least as exact.

        The year alone does not tell a birthday; a day in 1961 tells the year.
        """
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True) if theirs)


def find_dates(text: str) -> list[tuple[int, int, Date]]:
    """(start, end, date) of every date in a text that has a year; impossible days are none."""
    dates = []
    for match in _DATE.finditer(text):
        fields = {name[0]: value for name, value in match.groupdict().items() if value}
        date = Date(int(fields["y"]), _month(fields.get("m", "0")), int(fields.get("d", 0)))
        if _possible(date):
            dates.append((*match.span(), date))
    return dates


def _month(text: str) -> int:
    return int(text) if text.isdigit() else _NUMBERS[text[:3].casefold()]


def _possible(date: Date) -> bool:
    try:
        datetime.date(date.year, date.month or 1, date.day or 1)
    except ValueError:
        return False
    return True


PART = 0.99
"""Largest closeness of a part of a name to the name: the name itself is closer."""

TITLES = frozenset({"dame", "dr", "judge", "lady", "lord", "madame", "miss", "monsieur", "mr",
                    "mrs", "ms", "prof", "professor", "sir"})  # fmt: skip
"""Words before names that are no part of them."""

_BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")


def closeness(kind: Kind, value: str, phrase: str) -> float:
    """Closeness of a phrase to a value.

    Args:
        kind: kind of the value. Dates are equal or are not. A person may be called by a part of the
            name, such as the family name. Others are compared as a whole.
        value: value of the register; brackets do not count, except in dates.
        phrase: phrase of the text.
    """
    if kind == "date":
        dates, value_dates = find_dates(phrase), find_dates(value)
        return float(any(one.tells(other) for *_, one in dates for *_, other in value_dates))
    named = words_of_name(_BRACKETS.sub(" ", value))
    words = words_of_name(phrase)
    if not named or not words:
        return 0.0
    whole = similarity(" ".join(named), " ".join(words))
    if kind != "person" or len(words) >= len(named):
        return whole
    return max(whole, min(PART, _part(named, words)))


def similarity(first: str, second: str) -> float:
    """1 for equal texts, 0 for texts without a common character.

    Twice the length of the longest common subsequence over the sum of both lengths.
    """
    return float(fuzz.ratio(first, second)) / 100


@lru_cache(maxsize=65_536)
def words_of_name(name: str) -> tuple[str, ...]:
    """Words of a name in one case, without accents, titles in front of it and an article."""
    letters = unicodedata.normalize("NFKD", normal_surface(name.replace("’", "'")))
    plain = "".join(letter for letter in letters if not unicodedata.combining(letter))
    words = [word.strip(".,;:'\"“”") for word in plain.split()]
    words = [word for word in words if word]
    while len(words) > 1 and words[0] in TITLES | {"the"}:
        del words[0]
    return tuple(words)


def _part(named: Sequence[str], words: Sequence[str]) -> float:
    """Mean closeness of the phrase's words to words of the name.

    No word of the name counts twice. An initial stands for its word, but not alone.
    """
    if all(len(word) == 1 for word in words):
        return 0.0
    left, total = list(named), 0.0
    for word in words:
        close = [_word(other, word) for other in left]
        best = max(range(len(left)), key=close.__getitem__)
        total += close[best]
        del left[best]
    return total / len(words)


def _word(named: str, word: str) -> float:
    return float(named.startswith(word)) if len(word) == 1 else similarity(named, word)


# --------------------------------------------------------------- phrases of a text, and their marks

NAMED: frozenset[Kind] = frozenset({"person", "organisation", "place"})
"""Kinds that a run of capitalised words may name."""

LABELS: dict[str, frozenset[Kind]] = {
    "DATE": frozenset({"date"}),
    "FAC": frozenset({"organisation", "place"}),
    "GPE": frozenset({"place"}),
    "LOC": frozenset({"place"}),
    "ORG": frozenset({"organisation"}),
    "PER": frozenset({"person"}),
    "PERSON": frozenset({"person"}),
}
"""Kinds by type of spaCy's pipelines; other types are no candidates."""

_WORD = re.compile(
    r"(?:(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr)\.|[^\W\d_]\.(?:-?[^\W\d_]\.)*"
    r"|[^\W\d_]+(?:[-'’](?!s\b)[^\W\d_]+)*)"
)
_JOINS = frozenset({
    "af", "al", "bin", "da", "das", "de", "del", "den", "der", "des", "di", "do", "dos", "du", "el",
    "la", "le", "of", "the", "van", "von", "y", "zu",
})  # fmt: skip
_OF = "of"
# Words that a sentence starts with, and no name does.
_STARTS = frozenset({
    "a", "after", "all", "also", "an", "and", "as", "at", "before", "both", "but", "by", "during",
    "following", "for", "from", "he", "her", "his", "if", "in", "it", "its", "later", "no", "of",
    "on", "one", "our", "she", "since", "some", "that", "the", "their", "then", "there", "these",
    "they", "this", "those", "through", "to", "under", "until", "when", "where", "which", "while",
    "who", "with",
})  # fmt: skip


class Candidate(NamedTuple):
    """A phrase.

    Attributes:
        start, end: place in characters.
        kinds: possible kinds.
    """

    start: int
    end: int
    kinds: frozenset[Kind]


def by_patterns(text: str) -> list[Candidate]:
    """Dates with a year, and runs of capitalised words.

    A run may hold small words such as "van der" and "of the" between its names; what "of"
    separates in it are candidates too. Scripts without capital letters have no runs.
    """
    dates = [Candidate(start, end, frozenset({"date"})) for start, end, _ in find_dates(text)]
    return [*dates, *(Candidate(*span, NAMED) for span in _runs(text))]


def _runs(text: str) -> Iterator[tuple[int, int]]:
    words = list(_WORD.finditer(text))
    run: list[re.Match[str]] = []
    for at, word in enumerate(words):
        if run and text[words[at - 1].end() : word.start()].strip(" ") != "":
            yield from _pieces(run)
            run = []
        if word[0][0].isupper():
            if run or word[0].casefold() not in _STARTS:
                run.append(word)
        elif run and word[0] in _JOINS:
            run.append(word)
        else:
            yield from _pieces(run)
            run = []
    yield from _pieces(run)


def _pieces(run: list[re.Match[str]]) -> Iterator[tuple[int, int]]:
    """A run, and what "of" separates in it, without small words at their ends."""
    parts = [list(part) for of, part in groupby(run, lambda word: word[0] == _OF) if not of]
    for piece in [run, *parts] if len(parts) > 1 else [run]:
        named = [at for at, word in enumerate(piece) if word[0][0].isupper()]
        if named:
            yield piece[named[0]].start(), piece[named[-1]].end()


def by_pipeline(texts: Sequence[str], pipeline: str) -> list[list[Candidate]]:
    """Entities that a spaCy pipeline finds in each text, of types that `LABELS` knows.

    Raises:
        InputError: for a missing pipeline, or one that recognises no entities.
        MissingExtraError: if spaCy is not installed.
    """
    detection = detect(texts, DetectionParams(detector="spacy", pipeline=pipeline))
    out: list[list[Candidate]] = [[] for _ in texts]
    for row, start, end, kind in detection.mentions.tolist():
        kinds = LABELS.get(detection.types[kind])
        if kinds:
            out[row].append(Candidate(start, end, kinds))
    return out


AUTOMATIC = "automatic"
"""Name of the layer."""


class AnnotationParams(Params):
    """Parameters of marks in texts by records."""

    tags: dict[str, RecordTag] = Field(
        default=dict(WIKIPII),
        min_length=1,
        description="tags, each with the keys of the records whose values it marks and with what "
        "these are: date, person, organisation or place (default: the five tags of WikiPII)",
    )
    threshold: float = Field(
        default=0.85, gt=0, le=1, description="a value marks the phrase closest to it, if it is "
        "at least so close (1: equal)",
    )  # fmt: skip
    candidates: Literal["patterns", "spacy"] = Field(
        default="patterns",
        description="phrases that values are compared with: dates and runs of capitalised words, "
        "or the entities of a spaCy pipeline",
    )
    pipeline: str | None = Field(
        default=None,
        description="spaCy pipeline, by the name of an installed package or as a folder",
    )
    pipeline_is_public: bool = Field(default=False, description=DECLARES)
    only_marked_rows: bool = Field(
        default=False, description="rows without a mark do not count as annotated, as in the paper"
    )

    def requires(self) -> tuple[Requirement, ...]:
        """Packages of the pipeline."""
        return (*super().requires(), *of_detector(self.candidates, self.pipeline))

    @field_validator("tags")
    @classmethod
    def _no_key_twice(cls, value: dict[str, RecordTag]) -> dict[str, RecordTag]:
        tags_by_key(value)
        return value

    @model_validator(mode="after")
    def _pipeline_fits(self) -> Self:
        if (self.candidates == "spacy") != (self.pipeline is not None):
            raise ValueError("candidates 'spacy' needs a pipeline, and 'patterns' has none")
        check_declared(self.pipeline, self.pipeline_is_public)
        return self

    def refusals(self) -> tuple[str, ...]:
        """Reasons why nothing can be proven of training on the marks; empty if something can."""
        return pipeline_refusals(
            self.pipeline, self.pipeline_is_public, "the annotation of a row",
            "annotate.pipeline_is_public",
        )  # fmt: skip


def annotate(corpus: Corpus, params: AnnotationParams) -> Corpus:
    """Add the layer `automatic` to a corpus.

    Rows of users whose records have a value for a tag are annotated; all others are not, for a word
    that is not marked there may be one that nobody looked for.

    Raises:
        InputError: if the corpus has no records; for a missing pipeline.
        MissingExtraError: if spaCy is needed and not installed.
    """
    if corpus.records is None:
        raise InputError(
            "source.annotate: the source has no records of its users to annotate texts by; "
            "sources that have: wiki-biographies, tab, text and hub with records"
        )
    values = [values_of(facts, params.tags) for facts in corpus.records]
    rows = [
        row
        for row, user in enumerate(corpus.users.tolist())
        if 0 <= user < len(values) and values[user]
    ]
    texts = [corpus.texts[row] for row in rows]
    mentions = []
    names = tuple(params.tags)
    complete = np.zeros(len(corpus), dtype=bool)
    for row, text, candidates in zip(rows, texts, _candidates(texts, params), strict=True):
        marks = marks_of(text, values[corpus.users[row]], candidates, params)
        mentions += [(row, start, end, names.index(tag)) for start, end, tag in marks]
        complete[row] = bool(marks) or not params.only_marked_rows
    layer = Layer.build(corpus.texts, mentions, names, complete)
    return replace(corpus, layers={**corpus.layers, AUTOMATIC: layer})


def _candidates(texts: Sequence[str], params: AnnotationParams) -> list[list[Candidate]]:
    if params.pipeline is None:
        return [by_patterns(text) for text in texts]
    return by_pipeline(texts, params.pipeline)


def values_of(facts: Facts, tags: Mapping[str, RecordTag]) -> list[tuple[str, str]]:
    """(tag, value) of the facts whose key belongs to a tag, each once."""
    by_key = tags_by_key(tags)
    pairs = (
        (by_key[normalise_key(key)], value)
        for key, values in facts.items()
        if normalise_key(key) in by_key
        for value in values
    )
    return list(dict.fromkeys(pairs))


def marks_of(
    text: str,
    values: Sequence[tuple[str, str]],
    candidates: Sequence[Candidate],
    params: AnnotationParams,
) -> list[tuple[int, int, str]]:
    """Mark one text: (start, end, tag) of each mark, in order.

    Each value marks the phrases that are closest to it, where they are at least `threshold` close.
    The closest pairs come first, of equally close ones the longest value; a word that has a tag
    gets no other.
    """
    pairs: list[tuple[float, int, str, Candidate]] = []
    for tag, value in values:
        kind = params.tags[tag].kind
        close = [
            (closeness(kind, value, text[one.start : one.end]), one)
            for one in candidates
            if kind in one.kinds
        ]
        best = max((close_by for close_by, _ in close), default=0.0)
        if best >= params.threshold:
            pairs += [(best, len(value), tag, one) for close_by, one in close if close_by == best]
    marks: list[tuple[int, int, str]] = []
    for _, _, tag, one in sorted(pairs, key=lambda pair: (-pair[0], -pair[1])):
        if all(one.end <= start or end <= one.start for start, end, _ in marks):
            marks.append((one.start, one.end, tag))
    return sorted(marks)
