"""Planted names are found in vocabularies that have them, and in no others."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from toy import toy_run

from uedp_bench.attacks.vocabulary_membership import (
    PlantedNames,
    VocabularyMembership,
    pieces_of,
)
from uedp_bench.components.registry import models
from uedp_bench.contracts.release import Release
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.models.word_vocabularies import WordVocabulary

USERS = 40


def corpus(users=True) -> Corpus:
    texts = tuple(f"some words of row {i} are here" for i in range(3 * USERS))
    who = np.repeat(np.arange(USERS), 3) if users else np.full(3 * USERS, -1)
    split = np.zeros(3 * USERS, dtype=np.int64)
    split[-6:] = 2
    whole = Corpus(texts=texts, groups={"user": who}, split=split)
    return whole.take(np.arange(len(whole)))


def attack(**params) -> VocabularyMembership:
    return VocabularyMembership.create({"users": [1, 10], "names": 5, "controls": 30, **params})


def planted(owned=True, **params):
    return attack(**params).plant(corpus(owned), np.random.default_rng(0))


class Vocabularies(Release):
    """A release that is a vocabulary and nothing else."""

    def __init__(self, vocabulary) -> None:
        self.vocabulary = vocabulary

    def save(self, folder):
        raise NotImplementedError


def leakage(vocabulary, names, **params):
    return attack(**params).run(Vocabularies(vocabulary), names, corpus(), toy_run()).metrics


@pytest.mark.parametrize("owned", [True, False])
def test_every_name_is_in_one_row_of_as_many_users_and_controls_are_in_none(owned):
    planted_corpus, names = planted(owned)
    counts = Counter(word for text in planted_corpus.texts for word in text.split())
    owners = planted_corpus.users if owned else np.arange(len(planted_corpus))
    for count, group in names.names.items():
        for name in group:
            rows = [i for i, text in enumerate(planted_corpus.texts) if name in text.split()]
            assert counts[name] == count == len({int(owners[i]) for i in rows})
            assert planted_corpus.where("train")[rows].all()
    assert not set(names.controls) & set(counts)
    assert len(names.controls) == 30
    again, _ = planted(owned)
    assert again.texts == planted_corpus.texts
    assert PlantedNames.model_validate_json(names.model_dump_json()) == names


def test_a_vocabulary_of_all_private_words_tells_every_name():
    planted_corpus, names = planted()
    vocabulary = WordVocabulary.build(
        planted_corpus.only("train").texts, 10_000, origin="train split"
    )
    metrics = leakage(vocabulary, names)
    for count in (1, 10):
        assert metrics[f"vocabulary_advantage_{count}"].value == 1.0
        assert metrics[f"vocabulary_auc_{count}"].value == 1.0
    assert metrics["vocabulary_false_alarms"].value == 0.0
    assert next(iter(metrics)) == "vocabulary_advantage_10"


def test_a_public_vocabulary_tells_nothing():
    _, names = planted()
    vocabulary = WordVocabulary.build(corpus().texts, 10_000, origin="public split")
    metrics = leakage(vocabulary, names)
    for count in (1, 10):
        advantage = metrics[f"vocabulary_advantage_{count}"]
        assert advantage.value == 0.0 and advantage.low < 0.0 < advantage.high
        assert metrics[f"vocabulary_auc_{count}"].value == 0.5


@pytest.mark.parametrize(
    ("name", "params"),
    [("bert", {"configuration": "tiny"}), ("gpt2", {"vocabulary_size": 1_000})],
)
def test_names_become_pieces_of_a_tokenizer_the_more_often_they_occur(name, params):
    """Words of rows are no rarer than the names, so that a name of ten rows is joined sooner."""
    planted_corpus, names = planted(users=[1, 30])
    vocabulary = models.create(name, params).vocabulary(
        planted_corpus.only("train").texts, origin="train split", private=True
    )
    metrics = leakage(vocabulary, names, users=[1, 30])
    assert metrics["vocabulary_advantage_30"].value == 1.0
    assert metrics["vocabulary_auc_30"].value >= metrics["vocabulary_auc_1"].value > 0.6
    assert pieces_of(["some"], vocabulary)[0] == 1


def test_what_cannot_be_planted_or_attacked_is_said():
    with pytest.raises(InputError, match=r"vocabulary-membership\.users: 41 users"):
        planted(users=[41])
    with pytest.raises(InputError, match=r"users is \(2, 2\)"):
        attack(users=[2, 2])
    assert "vocabulary" in attack().refuses(Vocabularies(None), corpus())
    assert attack().refuses(Vocabularies(WordVocabulary(["a"], origin="")), corpus()) is None
