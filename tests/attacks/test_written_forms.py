"""Attacks read words, whatever way a mechanism or a model writes them."""

from __future__ import annotations

import unicodedata
from types import SimpleNamespace

import numpy as np
import pytest

from uedp_bench.attacks.annotation_leak import Decoys, Fact, facts_in_text, frequencies
from uedp_bench.attacks.fragment_reassembly.assembly import Rules, assemble, words_of
from uedp_bench.attacks.fragment_reassembly.attack import CommonRuns
from uedp_bench.attacks.gradient_inversion.seen_updates import PrivateRows
from uedp_bench.attacks.membership.records import out_of_fold_scores
from uedp_bench.attacks.reidentify.linking import TextProfiles
from uedp_bench.attacks.word_reconstruction.attack import itself
from uedp_bench.corpus import SPLITS, Corpus, Layer

TEXTS = tuple(f"Zoë Müller{i} met José in Łódź" for i in range(20))


def rewritten(text: str) -> str:
    """Text with other code points that reads the same."""
    return unicodedata.normalize("NFD", text).upper().replace("M", "M\u200b")


def test_bag_of_words_scores_do_not_move() -> None:
    member, users = np.arange(20) % 2 == 0, np.arange(20)
    first, second = (
        out_of_fold_scores(texts, member, users, np.random.default_rng(0))
        for texts in (TEXTS, [rewritten(text) for text in TEXTS])
    )
    assert first == pytest.approx(second)


def test_rewritten_texts_are_linked_alike() -> None:
    profiles = TextProfiles(TEXTS[:4], np.arange(4), 4)
    first, second = (
        next(profiles.similarities(texts)) for texts in (TEXTS[:4], [*map(rewritten, TEXTS[:4])])
    )
    assert first == pytest.approx(second)
    assert np.diag(second) == pytest.approx(1.0)


def test_fragments_join_over_words_written_another_way() -> None:
    sentence = "a b José c d é f"
    pieces = [words_of("a b José c"), words_of(rewritten("José c d")), words_of("c d é f")]
    runs = assemble([(piece, piece) for piece in pieces], Rules(2, bilingual=True))
    assert CommonRuns(runs).ending(words_of(sentence))[-1] == 7


def test_facts_are_values_written_another_way() -> None:
    text = rewritten("Ann married José Núñez")
    place = [(0, text.index("J"), len(text), 0)]
    corpus = Corpus(
        (text,), {"user": np.array([0])}, np.array([SPLITS.index("train")]),
        layers={"gold": Layer.build((text,), place, ("SP",), np.ones(1, bool))},
        records=({"Spouse": ("José Núñez", "JOSÉ NÚÑEZ", "Bo")},),
    )  # fmt: skip
    facts = facts_in_text(corpus, np.array([True]))
    assert [fact.value for fact in facts] == ["José Núñez"]
    assert frequencies([text], ["José Núñez"]) == {"José Núñez": 1}


def test_own_value_written_another_way_is_no_decoy() -> None:
    fact = Fact(0, "Spouse", "José", ())
    others = [Fact(user, "Spouse", value, ()) for user, value in enumerate(("JOSÉ", "Bo", "BO"), 1)]
    decoys = Decoys([fact, *others], {})
    assert decoys.draw(fact, 1, np.random.default_rng(0)) == ["Bo"]
    assert decoys.draw(fact, 2, np.random.default_rng(0)) is None


def test_who_has_a_text_has_its_words_in_any_form() -> None:
    rows = PrivateRows(
        (np.array([5, 7]), np.array([9])), None, (), ("Zoë left", "Bo"), np.arange(2), {}
    )
    assert rows.tokens_of_texts([rewritten("Zoë left")]).tolist() == [5, 7]


def test_published_word_in_another_form_is_the_word() -> None:
    row = SimpleNamespace(published=[rewritten("José")])
    assert itself("José") == itself(row.published[0])
