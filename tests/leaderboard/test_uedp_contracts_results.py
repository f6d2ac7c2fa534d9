"""Stored results on contracts show what docs/reproductions/uedp.md says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import uedp_table

from uedp_bench.accounting.accountants.moments import moments_epsilon
from uedp_bench.results import Result

FOLDER = Path(__file__).parents[2] / "leaderboard" / "results" / "reproductions"
SEEDS = [1, 2, 3]

Arms = dict[str, list[Result]]


@pytest.fixture(scope="module")
def contracts() -> Arms:
    return uedp_table.arms(FOLDER / "uedp-contracts")


ON_CONTRACTS = "uedp, as released, 100 rounds"


def test_the_claim_of_the_released_code_is_refuted_on_contracts_too(
    contracts: Arms,
) -> None:
    assert all([r.spec.seed for r in results] == SEEDS for results in contracts.values())
    rate = 23 / 359 * 0.5 * 556 / 7_791
    at_most = moments_epsilon(rate, 2.0, 100, 1e-10)
    for result in contracts[ON_CONTRACTS]:
        (claim,) = (g for g in result.guarantees if g.kind == "claimed")
        assert claim.status == "refuted"
        assert claim.epsilon == pytest.approx(moments_epsilon(rate, 2.0, 100, 1e-5))
        assert uedp_table.strict(result) > 1.2 > 2 * at_most
        assert result.utility["perplexity"].value < 0.4 * result.utility["unigram_perplexity"].value
    for name, results in contracts.items():
        if name != ON_CONTRACTS:
            assert not [g for r in results for g in r.guarantees if g.status == "refuted"], name


def test_on_contracts_what_is_proven_or_steps_plainly_stays_behind_unigrams(
    contracts: Arms,
) -> None:
    for name, results in contracts.items():
        if name.startswith(("user-dp", "uedp")) and name != ON_CONTRACTS:
            for result in results:
                floor = result.utility["unigram_perplexity"].value
                assert result.utility["perplexity"].value > floor, name


def test_removing_the_laws_hides_the_secrets_that_are_named_as_laws(
    contracts: Arms,
) -> None:
    exposed = {
        name: [r.leakage["secret-sharer"]["exposure_entity"].value for r in results]
        for name, results in contracts.items()
    }
    assert max(exposed["deidentify, LAW"] + exposed["deidentify"]) < 3
    assert min(exposed["deidentify, PARTY"] + exposed["noiseless"]) > 8
