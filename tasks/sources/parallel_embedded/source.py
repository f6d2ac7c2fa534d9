"""`parallel-embedded`: pairs of sentences whose grammar a small transformer learns in a minute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple, TypeVar

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, Mention, SourceParams, Spans
from uedp_bench.tasks.sources.generated import GeneratedSource
from uedp_bench.tasks.sources.parallel_embedded import lexicon as lex
from uedp_bench.tasks.sources.parallel_embedded.lexicon import SURNAMES, Noun, Verb, Words

T = TypeVar("T")

DEFINITE: Final = {
    "nominative": {"m": "der", "f": "die", "n": "das"},
    "accusative": {"m": "den", "f": "die", "n": "das"},
    "dative": {"m": "dem", "f": "der", "n": "dem"},
}
INDEFINITE: Final = {
    "nominative": {"m": "ein", "f": "eine", "n": "ein"},
    "accusative": {"m": "einen", "f": "eine", "n": "ein"},
    "dative": {"m": "einem", "f": "einer", "n": "einem"},
}
_STRONG: Final = {
    "nominative": {"m": "er", "f": "e", "n": "es"},
    "accusative": {"m": "en", "f": "e", "n": "es"},
}

_OF_PEOPLE: Final = lex.ADJECTIVES[:5]

PHRASES = 0.35
"""Share of general texts that are entries of a phrase book, not sentences."""


class Topic(NamedTuple):
    """Vocabulary of the sentences of one topic.

    Attributes:
        people: subjects of sentences.
        things: objects of sentences.
        adjectives: adjectives of things.
        verbs: verbs of sentences.
    """

    people: Sequence[Noun]
    things: Sequence[Noun]
    adjectives: Sequence[Words]
    verbs: Sequence[Verb]


GENERAL: Final = Topic(
    lex.PEOPLE, (*lex.THINGS, *lex.AMBIGUOUS, *lex.AMBIGUOUS), lex.ADJECTIVES, lex.VERBS
)
MEDICAL: Final = Topic(
    (*lex.PATIENTS, *lex.PEOPLE[-4:]),
    (*lex.MEDICINES, *lex.AMBIGUOUS_IN_MEDICINE),
    (*lex.MEDICAL_ADJECTIVES, *lex.ADJECTIVES[:4]),
    (*lex.TREATMENTS, *lex.VERBS[-1:], *lex.VERBS[12:14]),
)


def joined(*parts: Words) -> Words:
    """The words of parts, one after the other."""
    return Words(
        " ".join(part.german for part in parts if part.german),
        " ".join(part.english for part in parts if part.english),
    )


@dataclass(frozen=True, eq=False)
class Writer:
    """Writes sentences; all that is random comes from one generator.

    Attributes:
        rng: draws every choice.
    """

    rng: np.random.Generator

    def general(self) -> Words:
        """A sentence of everyday life, or an entry of a phrase book."""
        if self._happens(PHRASES):
            return self._entry(GENERAL)
        return self.sentence(GENERAL, self.product)

    def medical(self, medicine: str, patient: Words) -> Words:
        """A sentence of a medical document.

        Args:
            medicine: name of the product that the document is about.
            patient: title and name of the person that it is about.
        """
        kind, name = self.rng.random(), Words(medicine, medicine)
        if kind < 0.6:
            return self.sentence(MEDICAL, lambda: medicine)
        topic, effect = MEDICAL, self._any(lex.SIDE_EFFECTS)
        if kind < 0.75:
            suffered = self._noun(effect, "accusative", lex.MEDICAL_ADJECTIVES, 0.5, 0.3)
            return Words(
                f"{patient.german} hat nach der Einnahme von {medicine} über {suffered.german} "
                "geklagt .",
                f"{patient.english} complained of {suffered.english} after taking {medicine} .",
            )
        if kind < 0.9:
            whom = self._noun(self._any(lex.PATIENTS), "dative", (), 0.0)
            seen = self._noun(effect, "nominative", lex.MEDICAL_ADJECTIVES, 0.5, 0.2)
            return Words(
                f"bei {whom.german} wurde nach {medicine} {seen.german} beobachtet .",
                f"{seen.english} was observed in {whom.english} after {medicine} .",
            )
        verb = self._any(lex.TREATMENTS)
        other = self._noun(self._any(topic.things), "dative", lex.MEDICAL_ADJECTIVES, 0.3)
        return joined(
            name,
            Words("darf nicht mit", f"must not be {verb.done} with"),
            other,
            Words(f"{verb.participle} werden .", "."),
        )

    def sentence(self, topic: Topic, product: Callable[[], str]) -> Words:
        """A sentence of the grammar that all topics share.

        Args:
            topic: topic of the sentence.
            product: names a product where the sentence has one.
        """
        subject = (
            self.person()
            if self._happens(0.25)
            else self._noun(self._any(topic.people), "nominative", _OF_PEOPLE, 0.2)
        )
        thing, verb = self._object(topic, product, 0.4), self._any(topic.verbs)
        more = self._more(topic, product) if self._happens(0.35) else Words("", "")
        time, kind = self._any(lex.TIMES), self.rng.random()
        if kind < 0.3:
            when = time if self._happens(0.5) else Words("", "")
            german = joined(subject, Words("hat", ""), when, thing, more)
            english = joined(subject, Words("", verb.past), thing, more, when)
            return Words(f"{german.german} {verb.participle} .", f"{english.english} .")
        if kind < 0.5:
            german = joined(time, Words("hat", ""), subject, thing, more)
            english = joined(time, Words("", ","), subject, Words("", verb.past), thing, more)
            return Words(f"{german.german} {verb.participle} .", f"{english.english} .")
        if kind < 0.7:
            modal = self._any(lex.MODALS)
            german = joined(subject, modal, thing, more)
            english = joined(subject, modal, Words("", verb.to), thing, more)
            return Words(f"{german.german} {verb.infinitive} .", f"{english.english} .")
        return self._with_clause(topic, subject, thing, verb)

    def person(self) -> Words:
        """Somebody with title and name."""
        name = self._any(lex.SURNAMES)
        titles = Words("Herr", "Mr") if self._happens(0.5) else Words("Frau", "Ms")
        return joined(titles, Words(name, name))

    def product(self) -> str:
        """The name of a product that nobody knows."""
        start = "".join(self._any(lex.PRODUCT_STARTS) for _ in range(2))
        return (start + self._any(lex.PRODUCT_ENDS)).capitalize()

    def _with_clause(self, topic: Topic, subject: Words, thing: Words, verb: Verb) -> Words:
        who = self._noun(self._any(topic.people), "nominative", _OF_PEOPLE, 0.1)
        what = self._noun(self._any(topic.things), "accusative", topic.adjectives, 0.1)
        why, did = self._any(lex.CONJUNCTIONS), self._any(topic.verbs)
        german = joined(subject, Words("hat", ""), thing, Words(f"{verb.participle} ,", ""), why)
        english = joined(subject, Words("", verb.past), thing, why, who, Words("", did.past), what)
        return Words(
            f"{joined(german, who, what).german} {did.participle} hat .", f"{english.english} ."
        )

    def _entry(self, topic: Topic) -> Words:
        """A piece of a sentence, without a full stop."""
        verb, kind = self._any(topic.verbs), self.rng.integers(6)
        case = "accusative" if kind > 2 else "nominative"
        thing = self._noun(self._any((*topic.people, *topic.things)), case, topic.adjectives, 0.5)
        if self._happens(0.15):
            name = self.product()
            thing = Words(name, name)
        if kind == 0:
            return thing
        if kind == 1:
            return joined(thing, self._place(topic, 0.4))
        if kind == 2:
            return self._place(topic, 0.4)
        if kind == 3:
            return Words(f"{thing.german} {verb.participle}", f"{verb.past} {thing.english}")
        if kind == 4:
            return Words(f"{thing.german} {verb.infinitive}", f"{verb.to} {thing.english}")
        return self._any(lex.TIMES)

    def _object(self, topic: Topic, product: Callable[[], str], described: float) -> Words:
        if self._happens(0.2):
            name = product()
            return Words(name, name)
        return self._noun(self._any(topic.things), "accusative", topic.adjectives, described)

    def _more(self, topic: Topic, product: Callable[[], str]) -> Words:
        if self._happens(0.4):
            name = product()
            return Words(f"mit {name}", f"with {name}")
        return self._place(topic, 0.2)

    def _place(self, topic: Topic, described: float) -> Words:
        german, english, case = self._any(lex.PREPOSITIONS)
        noun = self._any((*topic.people, *topic.things))
        return joined(Words(german, english), self._noun(noun, case, topic.adjectives, described))

    def _noun(
        self, noun: Noun, case: str, adjectives: Sequence[Words], described: float,
        definite: float = 0.7,
    ) -> Words:  # fmt: skip
        """A noun with its article, and with an adjective with probability `described`."""
        is_definite = self._happens(definite)
        adjective = self._any(adjectives) if self._happens(described) else None
        article = (DEFINITE if is_definite else INDEFINITE)[case][noun.gender]
        english = noun.english if adjective is None else f"{adjective.english} {noun.english}"
        if adjective is None:
            german = noun.german
        else:
            ending = _ending(case, noun.gender, definite=is_definite)
            stem = "teur" if adjective.german == "teuer" else adjective.german
            german = f"{stem}{ending} {noun.german}"
        before = "the" if is_definite else "an" if english[0] in "aeiou" else "a"
        return Words(f"{article} {german}", f"{before} {english}")

    def _any(self, choices: Sequence[T]) -> T:
        return choices[int(self.rng.integers(len(choices)))]

    def _happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)


def _ending(case: str, gender: str, *, definite: bool) -> str:
    """The ending of an adjective after an article."""
    if case == "dative":
        return "en"
    if definite:
        return "en" if (case, gender) == ("accusative", "m") else "e"
    return _STRONG[case][gender]


ENTITY_TYPES = ("PERSON", "MEDICINE")
_TITLES = frozenset({"Herr", "Frau"})


class ParallelEmbeddedParams(SourceParams):
    """Parameters of `parallel-embedded`."""

    documents: int = Field(default=150, ge=2, description="private documents for training")
    valid_documents: int = Field(default=5, ge=0, description="documents of the split valid")
    test_documents: int = Field(default=20, ge=1, description="documents of the split test")
    sentences: int = Field(default=15, ge=1, description="pairs of a training document")
    test_sentences_each: int = Field(
        default=10, ge=1, description="pairs of a document of the splits valid and test"
    )
    general_pairs: int = Field(
        default=8000, ge=0, description="public pairs about everyday life, phrases among them"
    )
    untranslated: int = Field(
        default=1000,
        ge=0,
        description="public medical sentences in one language alone, half of them in each: they "
        "have no translation, and vocabularies know their words",
    )
    medicines: int = Field(default=25, ge=1, le=400, description="products that documents name")
    seed: int = Field(
        default=1, ge=0, description="seed of the corpus; independent of a run's seed"
    )


class ParallelEmbedded(GeneratedSource[ParallelEmbeddedParams]):
    """Invented medical documents in German and English, beside public text of everyday life.

    A user is a document about one medicine and one patient. Its medical words are in no public
    pair, and fourteen of its nouns mean something else in public; both languages share a grammar
    of few patterns, in which German verbs come last. Entities are patients and medicines.
    """

    name: ClassVar[str] = "parallel-embedded"
    title: ClassVar[str] = "invented medical documents"
    source: ClassVar[str] = "generated; the scenario of Kim, Bisazza and Turkmen 2021, section 2"
    Params: ClassVar[type[ParallelEmbeddedParams]] = ParallelEmbeddedParams

    def generate(self) -> Corpus:
        """See `GeneratedSource`."""
        p, rows = self.params, _Rows()
        sizes = {
            "train": (p.documents, p.sentences),
            "valid": (p.valid_documents, p.test_sentences_each),
            "test": (p.test_documents, p.test_sentences_each),
        }
        medicines = _different_products(p.medicines, self._writer("medicines"))
        for split, (documents, sentences) in sizes.items():
            writer = self._writer(split)
            for _ in range(documents):
                medicine = medicines[int(writer.rng.integers(len(medicines)))]
                patient = writer.person()
                document = [writer.medical(medicine, patient) for _ in range(sentences)]
                rows.document(split, document, medicine)
        general = self._writer("public")
        for _ in range(p.general_pairs):
            rows.document("public", [general.general()])
        alone = self._writer("untranslated")
        for at in range(p.untranslated):
            pair = alone.medical(medicines[at % len(medicines)], alone.person())
            rows.document("public", [Words(pair[at % 2], "")])
        return rows.corpus()

    def _writer(self, use: str) -> Writer:
        return Writer(np.random.default_rng([self.params.seed, *use.encode()]))


def _different_products(count: int, writer: Writer) -> list[str]:
    products: dict[str, None] = {}
    while len(products) < count:
        products.setdefault(writer.product())
    return list(products)


class _Rows:
    """Columns of the corpus so far."""

    def __init__(self) -> None:
        self._pairs: list[Words] = []
        self._users: list[int] = []
        self._splits: list[int] = []
        self._mentions: list[Mention] = []
        self._documents = 0

    def document(self, split: str, pairs: list[Words], medicine: str | None = None) -> None:
        """Adds a document."""
        for pair in pairs:
            at, before = 0, ""
            for word in pair.german.split():
                if word == medicine:
                    self._mentions.append((len(self._pairs), at, at + len(word), 1))
                elif word in SURNAMES and before in _TITLES:
                    self._mentions.append((len(self._pairs), at, at + len(word), 0))
                at, before = at + len(word) + 1, word
            self._pairs.append(pair)
            self._users.append(self._documents)
            self._splits.append(SPLITS.index(split))
        self._documents += 1

    def corpus(self) -> Corpus:
        """The corpus of all documents."""
        texts = tuple(pair.german for pair in self._pairs)
        return Corpus(
            texts=texts,
            groups={"user": np.array(self._users, dtype=np.int64)},
            split=np.array(self._splits, dtype=np.int64),
            entities=Spans.build(texts, self._mentions),
            entity_types=ENTITY_TYPES,
            targets=tuple(pair.english for pair in self._pairs),
        )
