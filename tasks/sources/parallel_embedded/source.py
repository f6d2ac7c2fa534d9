"""`parallel-embedded`: pairs of sentences whose grammar a small transformer learns in a minute."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.corpus import SPLITS, Corpus, Mention, Spans
from uedp_bench.source import SourceParams
from uedp_bench.tasks.sources.generated import GeneratedSource
from uedp_bench.tasks.sources.parallel_embedded.lexicon import SURNAMES, Words
from uedp_bench.tasks.sources.parallel_embedded.sentences import Writer

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
                told = [writer.medical(medicine, patient) for _ in range(sentences)]
                rows.document(split, told, medicine)
        general = self._writer("public")
        for _ in range(p.general_pairs):
            rows.document("public", [general.general()])
        alone = self._writer("untranslated")
        for at in range(p.untranslated):
            pair = alone.medical(medicines[at % len(medicines)], alone.person())
            rows.document("public", [Words(pair[at % 2], "")])
        return rows.corpus()

    def _writer(self, use: str) -> Writer:
        key = [self.params.seed, *use.encode()]
        return Writer(np.random.default_rng(key))


def _different_products(count: int, writer: Writer) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found.setdefault(writer.product())
    return list(found)


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
