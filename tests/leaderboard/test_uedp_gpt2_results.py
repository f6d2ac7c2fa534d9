"""Stored results of a small GPT-2 show what docs/reproductions/uedp.md says of it."""

from __future__ import annotations

import math
from pathlib import Path
from statistics import mean

import pytest
import uedp_table

from uedp_bench.results import Result
from uedp_bench.statistics.intervals import seed_estimate
from uedp_bench.tasks.sources.conll2003 import ENTITY_TYPES

FOLDER = Path(__file__).parents[2] / "leaderboard" / "results" / "reproductions" / "uedp-gpt2"
PUBLIC, NOISELESS, DEIDENTIFIED = "public-only", "noiseless", "deidentify"
PRINTED = "user-dp, ε = 0.0375"
DESCRIBED = "uedp, as described, 48 rounds"
LEARNS = "uedp, as released, 191 rounds"
SLOW = "uedp, as released, 48 rounds, rate 1e-05"
AT_8 = ("user-dp, ε = 8", "uedp-group, ε = 8 at k = 3")
AT_2 = ("user-dp, ε = 2", "uedp-group, ε = 2 at k = 3")

Arms = dict[str, list[Result]]


@pytest.fixture(scope="module")
def arms() -> Arms:
    return uedp_table.arms(FOLDER)


def perplexities(results: list[Result], name: str = "perplexity") -> list[float]:
    return [result.utility[name].value for result in results]


def sharer(results: list[Result], name: str) -> list[float]:
    return [result.leakage["secret-sharer"][name].value for result in results]


def assert_at_chance(
    values: list[float], chance: float = 1 / math.log(2), below: float = math.inf
) -> None:
    """The interval over seeds holds what is found where nothing leaks, and ends below a number."""
    found = seed_estimate(values)
    assert (found.low or 0.0) <= chance <= (found.high or 0.0) < below


def test_every_arm_has_its_seeds(arms: Arms) -> None:
    assert len(arms) == 21
    for results in arms.values():
        assert [result.spec.seed for result in results] == [1, 2, 3]


def test_as_released_it_comes_near_training_without_noise(arms: Arms) -> None:
    assert uedp_table.claimed(arms[LEARNS][0]) == pytest.approx(0.2, abs=5e-4)
    pieces = [mean(perplexities(arms[name], "perplexity_token")) for name in (LEARNS, NOISELESS)]
    assert pieces[0] / pieces[1] == pytest.approx(1.06, abs=0.01)
    assert pytest.approx((1.08, 1.10), abs=5e-3) == (29.24 / 27.13, 29.75 / 27.13)  # section VI


def test_as_released_it_remembers_nearly_as_without_noise(arms: Arms) -> None:
    assert math.isinf(uedp_table.proven(arms[LEARNS][0], 0))
    assert min(sharer(arms[LEARNS], "exposure_max_repeats")) > 9
    assert min(sharer(arms[LEARNS], "exposure_entity")) > 7
    assert min(sharer(arms[NOISELESS], "exposure_entity")) > 9.9


def test_at_the_printed_rate_or_as_described_it_stays_where_it_was(arms: Arms) -> None:
    for name in (SLOW, DESCRIBED, f"{DESCRIBED}, f_E"):
        tolerance = 3e-3 if name.endswith("f_E") else 1e-3  # from weights of another machine
        for found, public in zip(perplexities(arms[name]), perplexities(arms[PUBLIC]), strict=True):
            assert found == pytest.approx(public, rel=tolerance)


def test_user_level_dp_as_printed_destroys_it(arms: Arms) -> None:
    assert uedp_table.claimed(arms[PRINTED][0]) == pytest.approx(0.185, abs=5e-4)
    assert min(perplexities(arms[PRINTED])) > 1e15


def test_with_the_noise_of_the_code_user_level_dp_learns_with_a_step_of_ours_alone(
    arms: Arms,
) -> None:
    of_the_code = "user-dp, as released, 48 rounds"
    assert uedp_table.claimed(arms[of_the_code][0]) == uedp_table.claimed(arms[PRINTED][0])
    public = min(perplexities(arms[PUBLIC], "perplexity_token"))
    found = perplexities(arms[of_the_code], "perplexity_token")
    ahead = perplexities(arms["uedp, as released, 48 rounds"], "perplexity_token")
    assert max(ahead) < min(found) < max(found) < 0.8 * public
    at_the_printed_rate = arms[f"{of_the_code}, rate 1e-05"]
    assert min(perplexities(at_the_printed_rate, "perplexity_token")) > 1.8 * public
    for name in ("exposure_max_repeats", "exposure_entity"):
        assert_at_chance(sharer(arms[of_the_code], name))


def test_f_e_exposes_the_names_and_no_other_secret(arms: Arms) -> None:
    found = arms[f"{LEARNS}, f_E"]
    assert uedp_table.claimed(found[0]) > uedp_table.claimed(arms[LEARNS][0])
    assert min(perplexities(found)) > max(perplexities(arms[LEARNS]))
    assert min(sharer(found, "exposure_entity")) > 9
    assert_at_chance(sharer(found, "exposure_max_repeats"))


def test_without_names_it_is_worse_than_the_public_model_on_text_with_names(arms: Arms) -> None:
    assert min(perplexities(arms[DEIDENTIFIED])) > 2 * max(perplexities(arms[PUBLIC]))
    assert_at_chance(sharer(arms[DEIDENTIFIED], "exposure_entity"), below=5)
    assert min(sharer(arms[DEIDENTIFIED], "exposure_max_repeats")) > 9


def test_one_category_at_a_time_costs_less_and_hides_its_own_names(arms: Arms) -> None:
    noiseless, public = (perplexities(arms[name]) for name in (NOISELESS, PUBLIC))
    for category in ENTITY_TYPES:
        found = arms[f"{DEIDENTIFIED}, {category}"]
        assert max(noiseless) < min(perplexities(found))
        assert max(perplexities(found)) < min(public)
        assert min(sharer(found, "exposure_max_repeats")) > 9.9
        if category != "PER":  # the names of the secrets are those of persons
            assert min(sharer(found, "exposure_entity")) > 9.9
    assert_at_chance(sharer(arms[f"{DEIDENTIFIED}, PER"], "exposure_entity"), below=5)


def test_a_proven_epsilon_is_better_than_public_text_alone(arms: Arms) -> None:
    public = min(perplexities(arms[PUBLIC]))
    bigrams = min(perplexities(arms[PUBLIC], "bigram_perplexity"))
    for name in AT_8:
        assert max(perplexities(arms[name])) < bigrams < public
    for name in AT_2:
        assert max(perplexities(arms[name])) < public


def test_shares_of_the_way_to_training_without_noise(arms: Arms) -> None:
    nats = {
        name: mean(map(math.log, perplexities(results, "perplexity_token")))
        for name, results in arms.items()
    }
    whole = nats[PUBLIC] - nats[NOISELESS]
    shares = [(nats[PUBLIC] - nats[name]) / whole for name in (*AT_8, *AT_2)]
    assert shares == pytest.approx([0.34, 0.28, 0.25, 0.16], abs=0.01)


def test_at_a_proven_epsilon_attacks_are_at_chance(arms: Arms) -> None:
    for name in (*AT_8, *AT_2):
        users = [result.leakage["membership"]["auc_user"].value for result in arms[name]]
        assert_at_chance(users, 0.5)
        assert_at_chance(sharer(arms[name], "exposure_max_repeats"))
