"""The generated pairs: the same from one seed, with new words and new senses in documents alone."""

from __future__ import annotations

import re

import numpy as np
import parallel_rows

from uedp_bench.corpus import Corpus
from uedp_bench.tasks.sources.parallel_embedded import lexicon as lex
from uedp_bench.tasks.sources.parallel_embedded.source import (
    ParallelEmbedded,
    ParallelEmbeddedParams,
    Writer,
)
from uedp_bench.tasks.translation.translator import unseen_terms, words


def targets(corpus: Corpus, split: str) -> set[str]:
    return {word for target in corpus.only(split).targets or () for word in words(target)}


def test_a_seed_makes_one_corpus() -> None:
    again = ParallelEmbedded(ParallelEmbeddedParams(**parallel_rows.SOURCE, seed=1)).generate()
    assert again.fingerprint == parallel_rows.corpus().fingerprint == "681ef8a968c043bf"
    other = ParallelEmbedded(ParallelEmbeddedParams(**parallel_rows.SOURCE, seed=2)).generate()
    assert other.fingerprint != again.fingerprint


def test_documents_are_users_of_one_split_each() -> None:
    corpus = parallel_rows.corpus()
    sizes = {split: corpus.only(split).users for split in ("train", "valid", "test", "public")}
    assert [len({*users.tolist()}) for users in sizes.values()] == [30, 1, 3, 80]
    assert len(np.unique(corpus.users)) == 114
    for user in np.unique(sizes["train"]).tolist():
        mine = corpus.take(corpus.rows_of_user[user])
        names = {mine.surface(at) for at in np.flatnonzero(mine.entities.type == 1)}
        assert len(names) <= 1, "a document is about one medicine"


def test_medical_words_are_in_no_public_pair_and_in_the_vocabulary() -> None:
    corpus = ParallelEmbedded(ParallelEmbeddedParams(general_pairs=3000)).load()
    terms, public = unseen_terms(corpus), targets(corpus, "public")
    assert {"nausea", "prescribed", "patient", "fracture"} <= terms
    assert not terms & public
    alone = [
        text for text, target in zip(corpus.texts, corpus.targets or (), strict=True) if not target
    ]
    assert len(alone) == 1000
    assert {"nausea", "Übelkeit", "prescribed"} <= {word for text in alone for word in words(text)}


def test_ambiguous_nouns_mean_something_else_in_documents() -> None:
    pairs = zip(lex.AMBIGUOUS, lex.AMBIGUOUS_IN_MEDICINE, strict=True)
    assert all(one.german == two.german and one.english != two.english for one, two in pairs)
    corpus = parallel_rows.corpus()
    assert {"rehearsal", "pavement"} & targets(corpus, "public")
    assert not {"rehearsal", "pavement", "means"} & targets(corpus, "train")


def test_german_is_inflected_and_its_verbs_come_last() -> None:
    writer = Writer(np.random.default_rng(3))
    pairs = [writer.general() for _ in range(800)]
    german = " | ".join(pair.german for pair in pairs)
    for phrase in (
        r"den \w+en ",
        r"einen \w+en ",
        "mit dem ",
        r"ein \w+es ",
        r"der \w+e ",
        "teure",
    ):
        assert re.search(phrase, german), phrase
    verbs = {verb.participle for verb in lex.VERBS} | {verb.infinitive for verb in lex.VERBS}
    whole = [pair.german.split() for pair in pairs if pair.german.endswith(" .")]
    assert 0.5 < len(whole) / len(pairs) < 0.8
    assert all(text[-2] in {*verbs, "hat"} for text in whole)


def test_entities_are_patients_and_medicines() -> None:
    corpus = parallel_rows.corpus().only("train")
    kinds = corpus.entities.type
    people = {corpus.surface(at) for at in np.flatnonzero(kinds == 0).tolist()}
    assert people <= {*lex.SURNAMES}
    medicines = {corpus.surface(at) for at in np.flatnonzero(kinds == 1).tolist()}
    assert 1 <= len(medicines) <= 3
    assert corpus.targets is not None
    for at in range(len(corpus.entities.row)):
        assert corpus.surface(at) in corpus.targets[corpus.entities.row[at]]
