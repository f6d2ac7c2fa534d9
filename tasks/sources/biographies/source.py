"""`wiki-biographies`: invented pages with records, labels by people and labels by a program.

What WikiPII is made of (Hathurusinghe et al. 2021), without Wikipedia: the errors of the automatic
labels are those of the paper and about as frequent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, Facts, Layer, SourceParams, Spans
from uedp_bench.api.text import AnnotationParams
from uedp_bench.tasks.sources.biographies.people import Subject, make_subject, written
from uedp_bench.tasks.sources.generated import GeneratedSource
from uedp_bench.text.automatic_annotation import WIKIPII

Mark = tuple[int, int, str]
"""Start and end of the characters that are marked, and the tag."""

TOLD: Mapping[str, tuple[str, ...]] = {
    "BD": (
        "{subject} ( born {X} ) is a retired {work} .",
        "{subject} was born on {X} in {place} .",
        "{He} was born in {place} on {X} , the youngest of the family .",
        "According to the parish register {he} was born on {X} .",
        "Born on {X} , {he} grew up in {place} .",
        "{His} birthday , {X} , is printed on the cover of the book .",
    ),
    "PR": (
        "{His} parents came from {place} ; {X} worked there as a {work} .",
        "{He} is the child of {X} , a {work} from {place} .",
        "{X} raised {him} alone after {year} .",
        "{He} learnt the trade from {X} , in whose house {he} grew up .",
        "{He} was brought up in {place} by {X} and a grandmother .",
        "In {year} {he} lost {X} , to whom the first book is dedicated as a parent .",
    ),
    "SP": (
        "In {year} {he} married {X} in {place} .",
        "{He} has been married to {X} since {year} .",
        "{He} and {X} divorced in {year} .",
        "{He} met {X} , a {work} , at a wedding , and they married in {year} .",
        "{X} and {he} have lived in {place} since the wedding .",
        "After the wedding with {X} the couple moved to {place} .",
    ),
    "CH": (
        "{His} eldest child , {X} , is a {work} in {place} .",
        "{X} was born to the couple in {year} .",
        "{He} adopted {X} in {year} .",
        "{He} wrote the lullaby for {X} , then two weeks old .",
        "{He} is the parent of {X} , who became a {work} .",
        "{His} child {X} studied in {place} from {year} .",
    ),
    "ED": (
        "{He} studied at {X} until {year} .",
        "{He} graduated from {X} in {year} .",
        "{He} holds a degree from {X} .",
        "{He} was a pupil of {X} , where {he} also rowed .",
        "At {X} {he} read law for three years .",
        "{He} left {X} without a degree in {year} .",
    ),
}
"""Sentences that tell a value of the subject, by tag."""

PLAIN: tuple[str, ...] = (
    "{He} moved to {place} in {year} and opened a shop .",
    "{He} won the award of the city of {place} in {year} .",
    "The second book was printed in {place} in {year} .",
    "{He} worked as a {work} for eleven years .",
    "In {year} {he} joined the orchestra of {place} .",
    "{He} retired in {year} after an injury .",
    "Critics praised the film , which was shot in {place} .",
    "{His} collection was sold in {year} .",
)
"""Sentences that tell nothing of the register."""

AMBIGUOUS: Mapping[str, tuple[str, ...]] = {
    "subject": (
        "{Y} moved to {place} in {year} and opened a shop .",
        "In {year} {Y} joined the orchestra of {place} .",
        "The jury gave {Y} the award of the city in {year} .",
        "{Y} worked as a {work} for eleven years .",
    ),
    "CH": (
        "{He} moved to {Y} in {year} and opened a shop .",
        "The second book was printed in {Y} in {year} .",
        "{He} played the part of {Y} in a film of {year} .",
        "In {year} {he} joined the orchestra of {Y} .",
    ),
}
"""Sentences in which `{Y}` looks like a value and is something else: the family name is the
subject's own, a child's first name a town or a part in a film."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "ED": (
        "{bystander} , a lecturer at {Y} , reviewed the book in {year} .",
        "The letters are kept at {Y} since {year} .",
        "{bystander} , who taught at {Y} , wrote the preface .",
    ),
    "BD": (
        "{bystander} was born in {place} on {Y} as well .",
        "The bridge of {place} was opened on {Y} , long before the war .",
    ),
    "SP": (
        "{He} worked for the {Y} family , bankers in {place} .",
        "The {Y} brothers , no relatives , hired {him} in {year} .",
    ),
}
"""Sentences in which `{Y}` is a value of the subject, and is said of somebody else."""

WORK: tuple[str, ...] = (
    "painter", "surgeon", "goalkeeper", "cellist", "judge", "teacher", "chemist", "novelist",
    "carpenter", "senator", "engineer", "actor", "farmer", "printer", "sailor", "singer",
)  # fmt: skip


def fill(template: str, words: Mapping[str, str], mark: str = "") -> tuple[str, tuple[int, int]]:
    """The text of a template, and where `{X}` stands in it, or the part of it that is `mark`.

    Args:
        template: template of this module.
        words: words that fill its places.
        mark: what people mark of `words["X"]`, by default all of it.

    Returns:
        The text and (start, end), which is (0, 0) where the template has no `{X}`.
    """
    before, placeholder, _ = template.partition("{X}")
    text = template.format_map(words)
    if not placeholder:
        return text, (0, 0)
    marked = mark or words["X"]
    start = len(before.format_map(words)) + words["X"].index(marked)
    return text, (start, start + len(marked))


Error = Literal["absent", "ambiguous", "others", "boundary"]
ERRORS: tuple[Error, ...] = ("absent", "ambiguous", "others", "boundary")
TAGS: tuple[str, ...] = tuple(WIKIPII)

ABSENT = 0.2
"""Probability that the record lacks a value."""
CONFUSED, AFFIXED = 0.7, 0.2
"""Probabilities that a relative is called by the family name that others of the page share, and
that a name or a school is written with more or less than what people mark."""
DECOY = 0.85
"""Probability that a sentence without a value of the subject has what looks like one."""
OF_OTHERS = 0.5
"""Share of these that are said of somebody else; the rest is ambiguous."""

TITLES = ("Dr.", "Mr.", "Mrs.", "Prof.")
CAMPUSES = ("Downtown", "Riverside", "Westfield")
TAG_SHARES = (0.21, 0.14, 0.22, 0.17, 0.26)
"""Frequency of each tag, as in the labels by people of the paper (table 2)."""


class BiographiesParams(SourceParams):
    """Sizes, and how much the automatic labels err."""

    users: int = Field(default=600, ge=10, description="subjects of the train split")
    valid_users: int = Field(default=60, ge=0, description="subjects of the valid split")
    test_users: int = Field(default=150, ge=1, description="subjects of the test split")
    public_users: int = Field(
        default=150, ge=0, description="other subjects, whose pages count as public"
    )
    sentences: float = Field(
        default=6.0, ge=2, le=100, description="mean number of sentences of a page (at least 2)"
    )
    plain: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="share of the sentences that tell nothing of the subject's record",
    )
    noise: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="how much the automatic labels err: at 1 as much as those of the paper, at 0 "
        "not at all",
    )
    errors: tuple[Error, ...] = Field(
        default=ERRORS,
        description="kinds of errors: absent (the record lacks the value), ambiguous (the surface "
        "is something else), others (the value is said of somebody else), boundary (the phrase is "
        "longer or shorter than what people mark)",
    )
    seed: int = Field(
        default=1, ge=0, description="seed of the corpus; independent of a run's seed"
    )
    annotate: AnnotationParams | None = Field(
        default=AnnotationParams(),
        description="how the layer 'automatic' is made (null: without it)",
    )

    @property
    def sizes(self) -> dict[str, int]:
        """Subjects of each split."""
        return {"train": self.users, "valid": self.valid_users, "test": self.test_users,
                "public": self.public_users}  # fmt: skip

    def rate(self, error: Error, at_one: float) -> float:
        """Probability of an error, which is `at_one` where the noise is 1."""
        return at_one * self.noise if error in self.errors else 0.0


class WikiBiographies(GeneratedSource[BiographiesParams]):
    """Pages about invented people; a user is the subject of a page, a row a sentence.

    Records have the keys of Wikipedia's infoboxes. The layer `gold` is what people would mark of
    the subject's birth date (BD), parents (PR), spouses (SP), children (CH) and education (ED), and
    counts as entities; the layer `automatic` is what the records find. Texts are tokens between
    single spaces.
    """

    name: ClassVar[str] = "wiki-biographies"
    title: ClassVar[str] = "invented biographies"
    source: ClassVar[str] = "generated; tags and errors as in Hathurusinghe et al., PrivateNLP 2021"
    Params: ClassVar[type[BiographiesParams]] = BiographiesParams

    def generate(self) -> Corpus:
        """See `GeneratedSource`; users are subjects."""
        return _pages(self.params)


def _pages(params: BiographiesParams) -> Corpus:
    texts: list[str] = []
    owners: list[tuple[int, int]] = []
    mentions: list[tuple[int, int, int, int]] = []
    records: list[Facts] = []
    for split, count in params.sizes.items():
        index = SPLITS.index(split)
        for at in range(count):
            # A stream of its own: a subject does not depend on how many there are before.
            page = Page(np.random.default_rng([params.seed, index, at]), params)
            for text, marks in page.sentences():
                mentions += [(len(texts), a, b, TAGS.index(tag)) for a, b, tag in marks]
                texts.append(text)
                owners.append((len(records), index))
            records.append(page.facts)
    user, split_of = np.array(owners, dtype=np.int64).T.copy()
    spans = Spans.build(texts, mentions)
    return Corpus(
        texts=tuple(texts),
        groups={"user": user},
        split=split_of,
        entities=spans,
        entity_types=TAGS,
        layers={"gold": Layer(spans, TAGS, np.ones(len(texts), dtype=bool))},
        records=tuple(records),
    )


class Page:
    """One subject's sentences and record.

    What is drawn does not depend on the noise, so that pages of another noise differ in the errors
    alone.
    """

    def __init__(self, rng: np.random.Generator, params: BiographiesParams) -> None:
        self.params, self.rng = params, rng
        self.subject: Subject = make_subject(rng)
        values = [(tag, value) for tag, names in self.subject.named.items() for value in names]
        draws = rng.random(len(values) + 1)
        rate = params.rate("absent", ABSENT)
        tagged_values = [("BD", written(self.subject.born, 0).replace(" ,", ",")), *values]
        absent = [value for value, u in zip(tagged_values, draws, strict=True) if u < rate]
        self.facts = self.subject.facts(frozenset(absent))

    def sentences(self) -> list[tuple[str, list[Mark]]]:
        """Text and marks by people of each sentence; the first tells a value."""
        count = 2 + int(self.rng.poisson(self.params.sentences - 2))
        return [self._sentence(first=at == 0) for at in range(count)]

    def _sentence(self, *, first: bool) -> tuple[str, list[Mark]]:
        plain, decoy, of_others, variant, *picks = self.rng.random(12).tolist()
        words = self._words(picks)
        if first or plain >= self.params.plain:
            tag = TAGS[min(int(np.searchsorted(np.cumsum(TAG_SHARES), picks[0])), 4)]
            return self._telling(tag, variant, picks[4:], words)
        kind: Error = "others" if of_others < OF_OTHERS else "ambiguous"
        if decoy >= self.params.rate(kind, DECOY):
            return fill(_pick(PLAIN, picks[5]), words)[0], []
        return self._decoy(kind, picks[4:], words), []

    def _words(self, picks: list[float]) -> dict[str, str]:
        he = ("he", "his", "him") if self.subject.male else ("she", "her", "her")
        return {
            "subject": self.subject.name, "bystander": self.subject.bystander,
            "He": he[0].title(), "he": he[0], "His": he[1].title(), "him": he[2],
            "place": _pick(self.subject.places, picks[1]), "work": _pick(WORK, picks[2]),
            "year": str(1950 + int(picks[3] * 70)),
        }  # fmt: skip

    def _telling(
        self, tag: str, variant: float, picks: list[float], words: dict[str, str]
    ) -> tuple[str, list[Mark]]:
        value = self._value(tag, picks[0], picks[1])
        wording = mark = value
        shared = value.endswith(f" {self.subject.family_name}")
        confused = self.params.rate("ambiguous", CONFUSED) if shared else 0.0
        affixed = self.params.rate("boundary", AFFIXED) if tag != "BD" else 0.0
        if variant < confused:
            mark = value.rpartition(" ")[2]
            wording = f"{_pick(TITLES, picks[2])} {mark}" if affixed else mark
        elif variant >= 1 - affixed:
            wording, mark = self._affixed(tag, value, picks[2])
        text, (start, end) = fill(_pick(TOLD[tag], picks[3]), {**words, "X": wording}, mark)
        return text, [(start, end, tag)]

    def _value(self, tag: str, which: float, form: float) -> str:
        if tag == "BD":
            return written(self.subject.born, int(form * 4))
        value = _pick(self.subject.named[tag], which)
        if tag == "CH" and form < 0.3:
            return value.partition(" ")[0]
        alone = tag == "SP" and form < 0.2 and not value.endswith(self.subject.family_name)
        return value.rpartition(" ")[2] if alone else value

    def _affixed(self, tag: str, value: str, pick: float) -> tuple[str, str]:
        """Written text, and the part of it that people mark."""
        if tag == "ED":
            whole = f"{value} , {_pick(CAMPUSES, pick)}"
            return whole, whole
        return f"{_pick(TITLES, pick)} {value}", value

    def _decoy(self, kind: Error, picks: list[float], words: dict[str, str]) -> str:
        """A sentence that tells nothing of the subject, with a surface that the record has."""
        table: Mapping[str, tuple[str, ...]] = AMBIGUOUS if kind == "ambiguous" else OTHERS
        tag = _pick(tuple(table), picks[0])
        if tag == "subject":
            surface = self.subject.family_name
        elif tag == "BD":
            surface = written(self.subject.born, int(picks[1] * 4))
        else:
            name = _pick(self.subject.named[tag], picks[1])
            first, _, last = name.partition(" ")
            surface = {"CH": first, "SP": last}.get(tag, name)
        return fill(_pick(table[tag], picks[3]), {**words, "Y": surface})[0]


def _pick(among: tuple[str, ...], u: float) -> str:
    return among[min(int(u * len(among)), len(among) - 1)]
