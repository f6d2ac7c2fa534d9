"""Counted words make the vocabulary that the counted texts make, and nothing else enters."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from uedp_bench.components.registry import models, tasks
from uedp_bench.contracts.task import WordCounts
from uedp_bench.corpus import Corpus
from uedp_bench.errors import CapabilityError, InputError

TEXTS = ["The cat sat, it's 42.", "the dog saw the Cat", "Straße naïve dog", "a a a b"] * 3
MODELS = {
    "lstm-small": {"vocabulary_size": 12},
    "gpt2": {"vocabulary_size": 290},
    "bert": {"configuration": "tiny"},
    "transformer-small": {"vocabulary_size": 300},
    "tfidf": {"vocabulary_size": 12},
}


ROWS = Corpus(tuple(TEXTS), {"user": np.arange(len(TEXTS))}, np.zeros(len(TEXTS), dtype=np.int64))


def task_with(name, model, params=None, **of_task):
    return tasks.create(name, of_task, model=models.create(model, params or {}))


def counted(model, texts):
    counts = Counter(word for row in model.words(texts) for word in row)
    return WordCounts(dict(counts), "test")


@pytest.mark.parametrize("name", MODELS)
def test_words_make_the_vocabulary_that_their_texts_make(name):
    model = models.create(name, MODELS[name])
    of_texts = model.vocabulary(TEXTS, origin="", private=False)
    of_words = model.vocabulary(counted(model, TEXTS).texts(), origin="", private=False)
    assert of_words.size == of_texts.size
    assert of_words.encode(TEXTS) == of_texts.encode(TEXTS)


@pytest.mark.parametrize("name", MODELS)
def test_words_of_a_text_are_those_of_the_text_alone(name):
    model = models.create(name, MODELS[name])
    assert model.words(TEXTS) == [model.words([text])[0] for text in TEXTS]


@pytest.mark.parametrize("name", MODELS)
def test_the_order_in_which_words_were_found_is_not_to_be_seen(name):
    model = models.create(name, MODELS[name])
    counts = counted(model, TEXTS).counts
    first, back = (
        WordCounts(dict(items), "test").texts()
        for items in (list(counts.items()), list(counts.items())[::-1])
    )
    assert first == back


def test_counts_are_rounded_and_scaled_down_but_no_word_is_lost():
    counts = WordCounts({"b": 2.6, "a": 0.2, "c": 7.2}, "test")
    assert counts.texts() == ["a", "b", "b", "b", *["c"] * 7]
    assert counts.texts(most=5) == ["a", "b", *["c"] * 4]
    with pytest.raises(InputError, match="'x' is nan"):
        WordCounts({"x": float("nan")}, "test")


def test_an_unseen_character_does_not_enter():
    words = WordCounts({"cat": 40, "dog": 30}, "DP histogram")
    task = task_with("masked-language-model", "bert", {"configuration": "tiny"})
    vocabulary = task.vocabulary(ROWS, words)
    assert (vocabulary.origin, vocabulary.private) == ("DP histogram", False)
    characters = {c for i in range(vocabulary.size) for c in vocabulary.decode([i])} - set(
        "[PADUNKCLSEMASK] #"
    )
    assert characters == set("catdog")
    assert vocabulary.encode(["zzz"]) == [[vocabulary.unknown]]


def test_a_vocabulary_that_is_there_already_is_not_chosen_again():
    words = WordCounts({"a": 1}, "test")
    with pytest.raises(InputError, match=r"task\.vocabulary is 'private'.*mechanism"):
        task_with("next-word", "lstm-small", vocabulary="private").vocabulary(ROWS, words)
    with pytest.raises(CapabilityError, match=r"tfidf.*vocabulary"):
        task_with("text-classification", "tfidf", {"words": "hashed"}).words(ROWS)
    with pytest.raises(CapabilityError, match="word-substitution"):
        tasks.create("word-substitution").words(None)
