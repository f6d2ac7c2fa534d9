"""Texts of canaries by design: what each is made of, and that none depends on coins."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import get_args

import numpy as np
import pytest

from uedp_bench.attacks.audit.attack import Audit
from uedp_bench.attacks.audit.canaries import Design
from uedp_bench.errors import InputError

LENGTHS = {"own-word": {"canary_words": 3}}


def planted(corpus, design, seed=1, **params):
    values = {"text": design, "canaries": 60, "word_pool": 200, **LENGTHS.get(design, {}), **params}
    return Audit.create(values).plant(corpus, np.random.default_rng(seed))


@pytest.mark.parametrize("design", get_args(Design))
def test_a_canary_is_all_text_of_its_user_and_none_is_twice(development_corpus, design):
    corpus, what = planted(development_corpus, design)
    words = 3 if design == "own-word" else 5
    texts = [canary.text for canary in what.canaries]
    seconds = [" ".join(text.split()[2:]) for text in texts]
    assert len(set(seconds)) == len(texts) == 60
    assert all(len(text.split()) == words for text in texts)
    for canary in what.canaries:
        assert {corpus.texts[row] for row in corpus.rows_of_user[canary.user]} == {canary.text}
    again = planted(development_corpus, design)[1]
    assert again == what


@pytest.mark.parametrize("design", get_args(Design))
def test_texts_do_not_depend_on_coins(development_corpus, design):
    """Coins are drawn after all texts, so that those of another number of rows are the same."""
    one, other = (
        planted(development_corpus, design, adjacency=adjacency)[1]
        for adjacency in ("add-or-remove", "replace-one")
    )
    assert [c.text for c in one.canaries] == [c.text for c in other.canaries]


def test_words_of_its_own_are_those_that_training_text_holds_least(development_corpus):
    _, what = planted(development_corpus, "own-word")
    own = [canary.text.split()[-1] for canary in what.canaries]
    train = development_corpus.only("train").texts
    counts = Counter(word for text in train for word in set(text.split()))
    usual = planted(development_corpus, "random-words")[1].words
    assert max(counts[word] for word in own) <= sorted(counts[word] for word in usual)[60]
    assert set(own) <= set(what.words)


def test_rare_suffixes_are_of_the_rarest_words(development_corpus):
    _, what = planted(development_corpus, "rare-suffix")
    usual = planted(development_corpus, "random-words")[1].words
    rare = set(usual[-(len(usual) // 5) :])
    assert all(set(canary.text.split()[2:]) <= rare for canary in what.canaries)
    assert set(what.words) == rare


def test_real_prefixes_begin_public_texts(development_corpus):
    _, what = planted(development_corpus, "real-prefix")
    public = development_corpus.only("public").texts
    begins = {tuple(text.split()[:2]) for text in public}
    assert all(tuple(canary.text.split()[:2]) in begins for canary in what.canaries)


def test_sampled_text_is_likelier_than_random_words(development_corpus):
    public = development_corpus.only("public").texts
    pairs = {pair for text in public for pair in pairwise(text.split())}

    def seen(design):
        words = [c.text.split() for c in planted(development_corpus, design)[1].canaries]
        return sum(pair in pairs for text in words for pair in pairwise(text))

    assert seen("sampled") > 1.2 * seen("random-words")


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"text": "own-word"}, "canary_words"),
        ({"text": "new-token"}, "text"),
        ({"text": "own-word", "canary_words": 3, "canaries": 100, "word_pool": 50}, "word_pool"),
    ],
)
def test_designs_that_cannot_be_planted_are_refused(development_corpus, params, field):
    with pytest.raises(InputError, match=field):
        Audit.create(params).plant(development_corpus, np.random.default_rng(1))
