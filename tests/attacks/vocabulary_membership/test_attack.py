"""Planted names are found in vocabularies that have them, and in no others."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from toy import toy_run

from uedp_bench.attacks.vocabulary_membership.attack import (
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
    made = Corpus(texts=texts, groups={"user": who}, split=split)
    return made.take(np.arange(len(made)))


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
    there, names = planted(owned)
    counts = Counter(word for text in there.texts for word in text.split())
    owners = there.users if owned else np.arange(len(there))
    for count, group in names.names.items():
        for name in group:
            rows = [i for i, text in enumerate(there.texts) if name in text.split()]
            assert counts[name] == count == len({int(owners[i]) for i in rows})
            assert there.where("train")[rows].all()
    assert not set(names.controls) & set(counts)
    assert len(names.controls) == 30
    again, _ = planted(owned)
    assert again.texts == there.texts
    assert PlantedNames.model_validate_json(names.model_dump_json()) == names


def test_a_vocabulary_of_all_private_words_tells_every_name():
    there, names = planted()
    vocabulary = WordVocabulary.build(there.only("train").texts, 10_000, origin="train split")
    found = leakage(vocabulary, names)
    for count in (1, 10):
        assert found[f"vocabulary_advantage_{count}"].value == 1.0
        assert found[f"vocabulary_auc_{count}"].value == 1.0
    assert found["vocabulary_false_alarms"].value == 0.0
    assert next(iter(found)) == "vocabulary_advantage_10"


def test_a_public_vocabulary_tells_nothing():
    _, names = planted()
    vocabulary = WordVocabulary.build(corpus().texts, 10_000, origin="public split")
    found = leakage(vocabulary, names)
    for count in (1, 10):
        advantage = found[f"vocabulary_advantage_{count}"]
        assert advantage.value == 0.0 and advantage.low < 0.0 < advantage.high
        assert found[f"vocabulary_auc_{count}"].value == 0.5


@pytest.mark.parametrize(
    ("name", "params"),
    [("bert", {"configuration": "tiny"}), ("gpt2", {"vocabulary_size": 1_000})],
)
def test_names_become_pieces_of_a_tokenizer_the_more_often_they_occur(name, params):
    """Words of rows are no rarer than the names, so that a name of ten rows is joined sooner."""
    there, names = planted(users=[1, 30])
    made = models.create(name, params).vocabulary(
        there.only("train").texts, origin="train split", private=True
    )
    found = leakage(made, names, users=[1, 30])
    assert found["vocabulary_advantage_30"].value == 1.0
    assert found["vocabulary_auc_30"].value >= found["vocabulary_auc_1"].value > 0.6
    assert pieces_of(["some"], made)[0] == 1


def test_what_cannot_be_planted_or_attacked_is_said():
    with pytest.raises(InputError, match=r"vocabulary-membership\.users: 41 users"):
        planted(users=[41])
    with pytest.raises(InputError, match=r"users is \(2, 2\)"):
        attack(users=[2, 2])
    assert "vocabulary" in attack().refuses(Vocabularies(None), corpus())
    assert attack().refuses(Vocabularies(WordVocabulary(["a"], origin="")), corpus()) is None
