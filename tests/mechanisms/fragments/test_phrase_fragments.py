"""Fragments are phrases of their rows, shuffled, and as many as were asked for."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from parallel_text import generated, parallel
from toy import toy_run

from uedp_bench.accounting.ledger import proven
from uedp_bench.contracts.release import PublishedOnly, seen_of
from uedp_bench.corpus import with_names
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.fragments.extraction import TAGS
from uedp_bench.mechanisms.fragments.k_document import KDocument
from uedp_bench.mechanisms.fragments.phrase_fragments import PhraseFragments
from uedp_bench.one_run.publishing import publish

PUBLIC = [pair for document in generated(1, 200, seed=7) for pair in document]
CORPUS = parallel(generated(10, 12), PUBLIC)


def inside(phrase: str, text: str) -> bool:
    return f" {phrase} " in f" {text} "


def test_every_fragment_is_a_phrase_of_its_row_and_its_translation() -> None:
    out, events = publish(PhraseFragments.create({"keep": 1}), CORPUS, toy_run())
    fragments = out.only("train")
    assert len(fragments) > 1000
    assert out.targets is not None and CORPUS.targets is not None and fragments.targets is not None
    for text, target, row in zip(
        fragments.texts, fragments.targets, fragments.origin.tolist(), strict=True
    ):
        assert inside(text, CORPUS.texts[row]) and inside(target, CORPUS.targets[row])
        assert 1 <= len(text.split()) <= 4 and 1 <= len(target.split()) <= 4
    # Words tell what they translate, so that fragments whose words differ tell of wrong links.
    same = [{w[1:] for w in text.split()} == {w[1:] for w in target.split()}
            for text, target in zip(fragments.texts, fragments.targets, strict=True)]  # fmt: skip
    assert np.mean(same) > 0.6
    assert out.only("public").texts == CORPUS.only("public").texts
    assert out.only("public").targets == CORPUS.only("public").targets
    assert [g.epsilon for g in proven(events, delta=1e-5)] == [math.inf] * 3
    assert all("published as they are" in g.reason for g in proven(events, delta=1e-5))


def test_half_of_the_occurrences_is_kept_and_not_half_of_the_kinds() -> None:
    twice = parallel(generated(4, 12) * 2, PUBLIC)
    every, _ = publish(PhraseFragments.create({"keep": 1}), twice, toy_run())
    half, _ = publish(PhraseFragments.create({"keep": 0.5}), twice, toy_run())
    counts, kept = Counter(every.only("train").texts), Counter(half.only("train").texts)
    assert kept.total() == round(counts.total() / 2)
    assert kept <= counts
    # Of a phrase that occurs twice, chance leaves out both a quarter of the time.
    assert 0.65 < len(kept) / len(counts) < 0.85


def test_tags_stand_on_both_sides_and_on_fragments_alone() -> None:
    out, _ = publish(PhraseFragments.create({"tags": True}), CORPUS, toy_run())
    fragments = out.only("train")
    for side in (fragments.texts, fragments.targets or ()):
        assert all(text.startswith(f"{TAGS[0]} ") and text.endswith(f" {TAGS[1]}") for text in side)
    assert not any("<P>" in text for text in out.only("public").texts)


def test_order_and_users_tell_nothing_of_where_a_fragment_is_from() -> None:
    out, _ = publish(PhraseFragments.create({}), CORPUS, toy_run())
    fragments = out.only("train")
    assert (fragments.users == -1).all()
    place = np.arange(len(fragments))
    assert abs(np.corrcoef(place, fragments.origin)[0, 1]) < 4.0 / math.sqrt(len(fragments))
    neighbours = np.mean(fragments.origin[1:] == fragments.origin[:-1])
    assert neighbours < 5.0 / len(CORPUS.only("train"))
    other, _ = publish(PhraseFragments.create({}), CORPUS, toy_run(seed=1))
    assert other.only("train").texts != fragments.texts


def test_fragments_have_no_attributes_of_who_wrote_them() -> None:
    towns = np.arange(len(CORPUS)) % 2
    corpus = replace(CORPUS, attributes={"town": towns}, attribute_names={"town": ("a", "b")})
    out, _ = publish(PhraseFragments.create({}), corpus, toy_run())
    assert (out.only("train").attributes["town"] == -1).all()
    assert (out.only("public").attributes["town"] >= 0).all()


def test_an_attacker_is_not_given_the_origin() -> None:
    """By ids of rows, or by digests of what they said, neither."""
    named = with_names(replace(CORPUS, ids=[f"row {at}" for at in range(len(CORPUS))]))
    out, _ = publish(PhraseFragments.create({}), named, toy_run())
    assert out.ids is not None and out.row_names is not None
    release = PublishedOnly().showing(published=out)
    seen = seen_of(release)
    assert seen is not None
    assert (seen.origin == -1).all()
    assert (seen.ids, seen.row_names, seen.user_names) == (None, None, None)
    assert seen.texts == out.texts and seen.targets == out.targets
    assert seen_of(PublishedOnly()) is None


def test_the_text_alone_may_be_limited() -> None:
    both, _ = publish(PhraseFragments.create({"keep": 1}), CORPUS, toy_run())
    text, _ = publish(PhraseFragments.create({"keep": 1, "limited": "text"}), CORPUS, toy_run())
    lengths = [len(target.split()) for target in text.only("train").targets or ()]
    assert max(lengths) > 4 and len(lengths) > len(both.only("train"))
    assert max(len(phrase.split()) for phrase in text.only("train").texts) == 4


def test_an_alignment_that_is_learnt_in_public_looks_at_no_other_row() -> None:
    params = {"keep": 1, "trained_on": "public"}
    alone = parallel(generated(1, 12), PUBLIC)
    out, _ = publish(PhraseFragments.create(params), CORPUS, toy_run())
    small, _ = publish(PhraseFragments.create(params), alone, toy_run())
    mine = out.only("train").take(np.flatnonzero(out.only("train").origin < 12))
    assert Counter(zip(mine.texts, mine.targets or (), strict=True)) == Counter(
        zip(small.only("train").texts, small.only("train").targets or (), strict=True)
    )
    with pytest.raises(InputError, match=r"phrase-fragments\.trained_on"):
        PhraseFragments.create(params).publish(CORPUS.only("train"), toy_run())


def test_rows_without_translation_have_no_fragments() -> None:
    targets = ("",) * 60 + (CORPUS.targets or ())[60:]
    silent = replace(CORPUS, targets=targets)
    out, _ = publish(PhraseFragments.create({"keep": 1}), silent, toy_run())
    assert out.only("train").origin.min() >= 60


def test_k_document_publishes_what_k_documents_have_and_proves_nothing() -> None:
    documents = [*generated(6, 4, words=5000), *([generated(1, 1, seed=3)[0]] * 3)]
    corpus = parallel(documents, PUBLIC)
    mechanism = KDocument.create({"documents": 3, "trained_on": "public"})
    out, events = publish(mechanism, corpus, toy_run())
    shared = out.only("train")
    assert len(shared) and list(shared.texts) == sorted(shared.texts)
    assert len(set(zip(shared.texts, shared.targets or (), strict=True))) == len(shared)
    for text in shared.texts:
        users = {user for user, rows in enumerate(documents)
                 if any(inside(text, row) for row, _ in rows)}  # fmt: skip
        assert len(users) >= 3
    assert (shared.origin == -1).all() and (shared.users == -1).all()
    assert all(math.isinf(g.epsilon) for g in proven(events, delta=1e-5))
    nobody = replace(corpus, groups={"user": np.full(len(corpus), -1)})
    with pytest.raises(InputError, match=r"k-document\.unit"):
        mechanism.publish(nobody, toy_run())
