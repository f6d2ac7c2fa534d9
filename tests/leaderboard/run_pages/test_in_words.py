"""A run's page says in plain words what it promises, is worth, and leaks."""

from __future__ import annotations

import math

import pytest
from board_results import bound, promise, seeds

from uedp_bench.contracts.results import MOST_SAMPLE_TEXT, Estimate, Sample
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.in_words import in_words
from uedp_bench.leaderboard.run_pages.run_page import run_context, samples

NOTHING = promise("proven", math.inf)


def run(score=60.0, *guarantees, **more):
    return seeds("user-dp", score, guarantees=guarantees, **more)[0]


def leaking(values, **more):
    leakage = {attack: {name: Estimate(value=value, low=low, high=high)
                        for name, (low, value, high) in intervals.items()}
               for attack, intervals in values.items()}  # fmt: skip
    return run(60.0, NOTHING, **more).model_copy(update={"leakage": leakage})


def test_a_proof_and_a_floor_make_a_sentence():
    (one,) = in_words(run(60.0, promise("proven", 8.0), promise("proven", 2.0, "record")))
    assert one.text == (
        "At a proven ε of 2.00 for a record and 8.00 for a person, it reaches perplexity 60.0, "
        "better than counting words (100)."
    )
    assert one.tone == ""


def test_a_run_that_learned_nothing_says_what_does_as_well():
    (one,) = in_words(run(300.0, promise("proven", 8.0)))
    assert "the result is no better than counting words (100): perplexity 300." in one.text
    assert one.tone == "warn"
    almost = run(99.0, NOTHING).model_copy(update={"learned": False})
    assert "is not surely better than counting words (100): perplexity 99.0" in (
        in_words(almost)[0].text
    )


def test_nothing_proven_and_hidden_computation_are_told_apart():
    assert in_words(run(60.0, NOTHING))[0].text.startswith("Without any proven protection")
    hidden = promise("proven", 0.0, "computation", notion="simulation")
    (one,) = in_words(run(60.0, NOTHING, hidden))
    assert "(the computation is hidden from who computes)" in one.text
    words = promise("proven", 10.0, "word", notion="metric-dp")
    assert "10.0 for a word per unit of distance" in in_words(run(60.0, words))[0].text


def test_the_strongest_attack_is_the_one_that_goes_furthest_from_nothing():
    sentences = in_words(leaking({
        "secret-sharer": {"exposure_max_repeats": (2.0, 3.0, 4.0), "exposure_limit": (10,) * 3},
        "membership": {"auc": (0.8, 0.9, 0.95)},
    }))  # fmt: skip
    assert sentences[1].text == (
        "The strongest attack, membership, reaches member AUC 0.90, where 0.50 is expected if "
        "nothing leaks: it finds something."
    )
    assert sentences[1].tone == "bad"


@pytest.mark.parametrize(
    "values",
    [
        {"auc": (0.45, 0.55, 0.65)},
        {"auc": (None, 0.9, None)},
        # 6 of 200 members above the third of 200 non-members: one null in seven has as many.
        {"tpr_user_at_1pct_fpr": (0.011, 0.03, 0.064), "auc_user": (0.45, 0.5, 0.55)},
    ],
)
def test_what_may_be_chance_is_said_to_be(values):
    judged = {"judged": {"members": 200, "non_members": 200, "most_records": 1}}
    (_, one) = in_words(leaking({"membership": values}, details={"membership": judged}))
    assert one.text.endswith("this is not surely more than chance.")
    assert one.tone == ""


def test_membership_must_exceed_what_the_text_alone_tells():
    (_, one) = in_words(leaking({
        "membership": {"auc_user": (0.62, 0.65, 0.68), "auc_bag_of_words": (0.66,) * 3},
    }))  # fmt: skip
    assert "where 0.66 is expected" in one.text
    assert one.tone == ""


def test_a_refuted_claim_does_not_hold():
    claim = promise("claimed", 0.5, status="refuted", reason="audit finds at least 1.5")
    sentences = in_words(run(60.0, claim))
    assert sentences[-1].text == "The claim does not hold: audit finds at least 1.5."
    assert sentences[-1].tone == "bad"
    sentences = in_words(run(60.0, claim, lower_bounds=(bound(3.0, 1.5),)))
    assert sentences[-1].text == (
        "The claim does not hold: it is ε = 0.50 for a person, and the attack audit finds at "
        "least 1.50 (99.9999 % sure)."
    )


def test_a_run_without_anything_says_nothing_it_does_not_know():
    bare = run(60.0).model_copy(update={"utility": {}, "floors": {}, "headline": None})
    (one,) = in_words(bare)
    assert one.text.endswith("nothing says how good the result is.")
    assert in_words(bare.model_copy(update={"status": "failed"})) == ()


# ----------------------------------------------------------------------------------------- samples


def canary(text, rank, **more):
    return {
        "text": text,
        "rank": rank,
        "exposure": 10.0 - rank,
        "kind": "word",
        "loss": 1.0,
        **more,
    }


def planted(details):
    return samples(run(60.0).model_copy(update={"details": details}))["planted"]


def test_samples_are_planted_texts_that_come_back():
    canaries = [
        canary("kept apart", 7, occurrences=1, beam_search=False),
        canary("preferred", 1, occurrences=2, beam_search=False),
        canary("said often", 1, occurrences=90, beam_search=True),
        canary("said", 1, occurrences=9, beam_search=True),
    ]
    (table,) = planted({"secret-sharer": {"canaries": canaries}, "other": {"canaries": "none"}})
    assert table.caption == "secret-sharer: 3 of 4 planted texts come back"
    assert [row[0] for row in table.rows] == ["said", "said often", "preferred"]
    assert planted({"secret-sharer": {"canaries": canaries[:1]}}) == ()
    assert planted({"a": {"canaries": [{"text": 3}]}, "b": "c"}) == ()


def test_samples_are_texts_beside_what_was_read_of_them():
    read = {"word-reconstruction": (Sample(private="Ann is <ill>", seen="x is y", read="Ann"),)}
    (table,) = samples(run(60.0).model_copy(update={"samples": read}))["read"]
    assert table.caption == "word-reconstruction"
    assert table.rows == (("Ann is <ill>", "x is y", "Ann"),)
    assert samples(run(60.0)) == {"planted": (), "read": ()}


def test_long_samples_are_cut():
    one = Sample(private="x" * 1000, seen="", read="y")
    assert len(one.private) == MOST_SAMPLE_TEXT and one.private.endswith(" …")
    assert Sample.model_validate(one.model_dump()) == one


def test_the_page_has_both():
    details = {"secret-sharer": {"canaries": [canary("said", 1, beam_search=True)]}}
    one = run(60.0, promise("proven", 8.0), details=details)
    context = run_context(one, aggregate([one])[0])
    assert context["in_words"][0].text.startswith("At a proven ε of 8.00 for a person")
    assert context["samples"]["planted"][0].rows[0][0] == "said"
    assert context["mechanisms"] == ["user-dp"]
