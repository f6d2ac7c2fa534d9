"""Stored results on contracts show what docs/reproductions/uedp.md says of them."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import NamedTuple

import pytest
import uedp_table

from uedp_bench.accounting.accountants.moments import moments_epsilon
from uedp_bench.results import Result

FOLDER = Path(__file__).parents[2] / "leaderboard" / "results" / "reproductions"
SEEDS = [1, 2, 3]

Arms = dict[str, list[Result]]


class Claimed(NamedTuple):
    """Users a round, z and rounds of a claim on contracts."""

    users: int
    noise: float
    rounds: int

    def epsilon(self, delta: float) -> float:
        """As the paper computes it: 359 companies, q_e = 0.5, 556 of 7,791 sentences name one."""
        rate = self.users / 359 * 0.5 * 556 / 7_791
        return moments_epsilon(rate, self.noise, self.rounds, delta)


def refuted_alone(arms: Arms, name: str, claimed: Claimed) -> float:
    """The claim at the delta of strict bounds; every run of this arm refutes it, and no other."""
    for result in arms[name]:
        (claim,) = (g for g in result.guarantees if g.kind == "claimed")
        assert claim.status == "refuted"
        assert claim.epsilon == pytest.approx(claimed.epsilon(1e-5))
    for other, results in arms.items():
        if other != name:
            assert not [g for r in results for g in r.guarantees if g.status == "refuted"], other
    return claimed.epsilon(1e-10)


@pytest.fixture(scope="module")
def contracts() -> Arms:
    return uedp_table.arms(FOLDER / "uedp-contracts")


ON_CONTRACTS = "uedp, as released, 100 rounds"
BY_USER = "user-dp, as released, 100 rounds"


def test_the_claim_of_the_released_code_is_refuted_on_contracts_too(
    contracts: Arms,
) -> None:
    assert all([r.spec.seed for r in results] == SEEDS for results in contracts.values())
    at_most = refuted_alone(contracts, ON_CONTRACTS, Claimed(23, 2.0, 100))
    for result in contracts[ON_CONTRACTS]:
        assert uedp_table.strict(result) > 1.2 > 2 * at_most
        assert result.utility["perplexity"].value < 0.4 * result.utility["unigram_perplexity"].value


def test_on_contracts_what_is_proven_or_steps_plainly_stays_behind_unigrams(
    contracts: Arms,
) -> None:
    for name, results in contracts.items():
        if name.startswith(("user-dp", "uedp")) and name not in (ON_CONTRACTS, BY_USER):
            for result in results:
                floor = result.utility["unigram_perplexity"].value
                assert result.utility["perplexity"].value > floor, name


def test_in_as_many_rounds_the_released_noise_of_user_level_dp_learns_more_and_leaks_alike(
    contracts: Arms,
) -> None:
    at_most = moments_epsilon(23 / 359, 2.0, 100, 1e-10)
    pairs = zip(contracts[BY_USER], contracts[ON_CONTRACTS], strict=True)
    for user, entity in pairs:
        assert user.utility["perplexity"].value < entity.utility["perplexity"].value
        assert uedp_table.claimed(user) > 7 * uedp_table.claimed(entity)
        assert 1.2 < uedp_table.strict(user) < at_most
        assert user.leakage["audit"]["auc"].value > 0.95
        assert user.leakage["secret-sharer"]["exposure_entity"].value > 8


def test_removing_the_laws_hides_the_secrets_that_are_named_as_laws(
    contracts: Arms, with_gpt2: Arms
) -> None:
    for arms in (contracts, with_gpt2):
        exposed = {
            name: [r.leakage["secret-sharer"]["exposure_entity"].value for r in results]
            for name, results in arms.items()
        }
        assert max(exposed["deidentify, LAW"] + exposed["deidentify"]) < 3
        assert min(exposed["deidentify, PARTY"] + exposed["noiseless"]) > 8


ENTITY = "uedp, as released, 42 rounds"


def test_the_awd_lstm_learns_frequencies_of_words_on_contracts_and_no_claim_is_refuted() -> None:
    arms = uedp_table.arms(FOLDER / "uedp-contracts-awd-lstm")
    assert len(arms) == 14
    entity = arms[ENTITY]
    for name, results in arms.items():
        for result in results:
            words = result.utility["perplexity"].value / result.utility["unigram_perplexity"].value
            if name == "noiseless" or name.startswith("deidentify"):
                assert words == pytest.approx(1, abs=0.02)
                assert result.utility["perplexity"].value > (
                    3 * result.utility["bigram_perplexity"].value
                )
            elif name == ENTITY:
                assert 1.1 < words < 1.2
                assert result.diagnostics["signal_to_noise"] > 2e4
            elif name == "user-dp, as released, 42 rounds":
                assert 1.05 < words < 1.15
                assert uedp_table.claimed(result) > 5 * uedp_table.claimed(entity[0])
            elif name == f"{ENTITY}, f_E":
                assert 2.5 < words < 4
            else:
                assert words > 7
                assert result.diagnostics["signal_to_noise"] < 0.0025
            assert uedp_table.strict(result) == 0
            assert not [g for g in result.guarantees if g.status == "refuted"]
    assert max(r.leakage["audit"]["auc"].value for r in arms["noiseless"]) < 0.75
    ahead, behind = (
        uedp_table.scores(arms[name]) for name in ("user-dp, as released, 42 rounds", ENTITY)
    )
    assert all(map(operator.lt, ahead, behind))


def test_f_e_exposes_the_names_that_it_is_to_protect_and_nothing_else(contracts: Arms) -> None:
    for result in contracts[f"{ON_CONTRACTS}, f_E"]:
        exposure = result.leakage["secret-sharer"]
        assert exposure["exposure_entity"].value > 8 > 2 > exposure["exposure_max_repeats"].value
        assert uedp_table.claimed(result) > 3 * uedp_table.claimed(contracts[ON_CONTRACTS][0])


@pytest.fixture(scope="module")
def with_gpt2() -> Arms:
    found = uedp_table.arms(FOLDER / "uedp-contracts-gpt2")
    assert len(found) == 15
    assert all([r.spec.seed for r in results] == SEEDS for results in found.values())
    return found


BY_GPT2 = "uedp, as released, 48 rounds"


def pieces(results: list[Result]) -> list[float]:
    return [result.utility["perplexity_token"].value for result in results]


def test_a_small_gpt2_learns_contracts_with_the_released_noise_and_refutes_its_claim(
    with_gpt2: Arms,
) -> None:
    at_most = refuted_alone(with_gpt2, BY_GPT2, Claimed(18, 2.5, 48))
    for result in with_gpt2[BY_GPT2]:
        assert uedp_table.strict(result) > 0.6 > 1.6 * at_most
        assert result.utility["perplexity"].value < result.utility["bigram_perplexity"].value


def test_with_a_small_gpt2_the_noise_of_the_code_brings_user_level_dp_near_uedp(
    with_gpt2: Arms,
) -> None:
    user, entity = with_gpt2["user-dp, as released, 48 rounds"], with_gpt2[BY_GPT2]
    ratios = [one / other for one, other in zip(pieces(user), pieces(entity), strict=True)]
    assert 1 < min(ratios) < max(ratios) < 1.1
    at_most = moments_epsilon(18 / 359, 2.5, 48, 1e-10)
    for result in user:
        assert 0.4 < uedp_table.strict(result) < at_most
        assert uedp_table.claimed(result) > 4 * uedp_table.claimed(entity[0])


def test_with_a_small_gpt2_f_e_exposes_names_alone_and_as_described_destroys_the_model(
    with_gpt2: Arms,
) -> None:
    public = max(pieces(with_gpt2["public-only"]))
    assert min(pieces(with_gpt2["uedp, as described, 48 rounds, f_E"])) > 3 * public
    found = with_gpt2[f"{BY_GPT2}, f_E"]
    assert 2 * max(pieces(with_gpt2[BY_GPT2])) < min(pieces(found)) < 0.7 * public
    for result in found:
        exposure = result.leakage["secret-sharer"]
        assert exposure["exposure_entity"].value > 4 > 2 > exposure["exposure_max_repeats"].value


def test_what_is_proven_for_a_small_gpt2_on_contracts_is_better_than_public_text_alone(
    with_gpt2: Arms,
) -> None:
    public = min(pieces(with_gpt2["public-only"]))
    for name, results in with_gpt2.items():
        if name.endswith(("ε = 8", "ε = 2", "at k = 3")):
            assert max(pieces(results)) < public, name
            for result in results:
                assert result.utility["perplexity"].value > 6 * (
                    result.utility["bigram_perplexity"].value
                )
                assert uedp_table.strict(result) == 0
    described = pieces(with_gpt2["uedp, as described, 48 rounds"])
    assert described == pytest.approx([public] * 3, rel=2e-3)
    assert min(pieces(with_gpt2["user-dp, ε = 0.568"])) > 10 * public
