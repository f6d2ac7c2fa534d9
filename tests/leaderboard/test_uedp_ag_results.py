"""Stored results on topics of AG news show what docs/reproductions/uedp.md says of them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import uedp_table

from uedp_bench.accounting.accountants.moments import moments_epsilon
from uedp_bench.results import Result
from uedp_bench.statistics.intervals import seed_estimate

FOLDER = Path(__file__).parents[2] / "leaderboard" / "results" / "reproductions"
SEEDS = [1, 2, 3]
RATE = 39 / 773 * 0.5 * 2_923 / 11_594
"""The claim multiplies the rates of users, of entities, and of items that mention one."""

Arms = dict[str, list[Result]]


@pytest.fixture(scope="module")
def topics() -> Arms:
    found = uedp_table.arms(FOLDER / "uedp-ag")
    assert all([r.spec.seed for r in results] == SEEDS for results in found.values())
    return found


def test_on_ag_news_user_level_dp_learns_at_what_is_proven_and_uedp_as_described_does_not(
    topics: Arms,
) -> None:
    errors = {name: uedp_table.scores(results) for name, results in topics.items()}
    assert max(errors["user-dp, ε = 0.583"]) < 21.5
    assert max(errors["user-dp, ε = 8"] + errors["uedp-group, ε = 8 at k = 3"]) < 18.5
    assert min(errors["uedp, as described, 50 rounds, q_s = 0.6"]) > 75
    for results in topics.values():
        for result in results:
            tfidf = result.utility.get("tfidf_error")
            assert tfidf is None or tfidf.value < result.utility["error"].value


def test_with_the_released_noise_user_level_dp_is_as_good_as_uedp(topics: Arms) -> None:
    user, entity, plain = (
        uedp_table.scores(topics[name])
        for name in (
            "user-dp, as released, 50 rounds",
            "uedp, as released, 50 rounds, q_s = 0.6",
            "noiseless",
        )
    )
    for other in (entity, plain):
        gap = seed_estimate([a - b for a, b in zip(user, other, strict=True)])
        assert gap.low is not None
        assert gap.high is not None
        assert gap.low < 0 < gap.high
        assert abs(gap.value) < 1.5
    for result in topics["user-dp, as released, 50 rounds"]:
        assert uedp_table.claimed(result) == uedp_table.claimed(topics["user-dp, ε = 0.583"][0])
        assert math.isinf(uedp_table.proven(result))


def test_without_items_that_have_no_name_the_error_is_far_from_75(topics: Arms) -> None:
    without, some = (
        uedp_table.scores(topics[f"uedp, as released, 50 rounds, q_s = {rate}"])
        for rate in ("0", "0.6")
    )
    assert max(without) < 20
    gap = seed_estimate([a - b for a, b in zip(without, some, strict=True)])
    assert gap.low is not None
    assert gap.high is not None
    assert gap.low < 0 < gap.high


def test_the_audit_of_ag_news_refutes_nothing_and_could_not(topics: Arms) -> None:
    for name, results in topics.items():
        assert not [g for r in results for g in r.guarantees if g.status == "refuted"], name
    assert max(uedp_table.strict(result) for result in topics["noiseless"]) < 0.2
    assert max(uedp_table.strict(result) for result in topics["deidentify"]) < 0.3


def test_retrainings_refute_the_claim_of_the_released_noise_with_two_of_three_canaries() -> None:
    (results,) = uedp_table.arms(FOLDER / "uedp-ag-audit").values()
    assert [result.spec.seed for result in results] == SEEDS
    refuted = []
    for result in results:
        (claim,) = (g for g in result.guarantees if g.kind == "claimed")
        assert claim.epsilon == pytest.approx(moments_epsilon(RATE, 2.5, 50, 1e-5))
        assert len(result.details["audit"]["retrainings"]["members"]) == 250
        assert 100 * result.utility["error"].value < 16
        at_most = moments_epsilon(RATE, 2.5, 50, 1e-10)
        assert (claim.status == "refuted") == (uedp_table.strict(result) > at_most)
        refuted.append(claim.status == "refuted")
        assert uedp_table.strict(result) > 2 * at_most or not refuted[-1]
    assert refuted == [True, False, True]
