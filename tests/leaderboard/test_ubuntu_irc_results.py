"""Stored results of nicks of #ubuntu show what the page about them says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from board_rows import by_epsilon, one, perplexity, proven
from drawings import assert_same_drawing

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results"
UNIT = {"user-dp": "user", "uedp-group": "user-entity", "dp-sgd": "record", "dp-ftrl": "user",
        "uedp-spread": "user-entity"}  # fmt: skip
EPSILONS = (1, 2, 4, 8)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return aggregate(load_results([RESULTS / "ubuntu-irc", RESULTS / "ubuntu-irc-mechanisms"]))


@pytest.fixture(scope="module")
def of(rows: list[Row]) -> dict[str, list[Row]]:
    """Rows of each private mechanism by epsilon."""
    return {label: by_epsilon(rows, label, unit) for label, unit in UNIT.items()}


def sharer(row: Row, name: str) -> float:
    return row.leakage["secret-sharer"][name].value


def test_all_have_one_text_one_vocabulary_and_three_seeds(rows: list[Row]) -> None:
    assert len({(row.corpus, row.vocabulary) for row in rows}) == 1
    assert all(row.seeds == (1, 2, 3) for row in rows)
    assert len(rows) == 3 + len(UNIT) * len(EPSILONS)


@pytest.mark.parametrize("label", UNIT)
def test_epsilon_is_what_the_page_says(of: dict[str, list[Row]], label: str) -> None:
    found = [proven(row)[UNIT[label]] for row in of[label]]
    for epsilon, asked in zip(found, EPSILONS, strict=True):
        assert 0.99 * asked < epsilon <= asked


@pytest.mark.parametrize("label", UNIT)
def test_every_epsilon_beats_public_text_alone(
    rows: list[Row], of: dict[str, list[Row]], label: str
) -> None:
    public, plain = one(rows, "public-only"), one(rows, "noiseless")
    for row in of[label]:
        assert perplexity(plain)[1] < perplexity(row)[0]
        assert perplexity(row)[1] < perplexity(public)[0]
        assert row.learned
    means = [row.utility["perplexity"].value for row in of[label]]
    assert means == sorted(means, reverse=True)


def test_bigrams_of_the_messages_are_better_than_all(of: dict[str, list[Row]]) -> None:
    for found in of.values():
        for row in found:
            assert row.utility["bigram_perplexity"].value < perplexity(row)[0]


def test_turns_in_the_open_cost_more_than_a_secret_draw(of: dict[str, list[Row]]) -> None:
    """Each cohort takes part twice here, and once with bloggers."""
    for open_turns, secret_draw in zip(of["dp-ftrl"], of["user-dp"], strict=True):
        assert perplexity(secret_draw)[1] < perplexity(open_turns)[0]


def test_what_a_nick_repeats_leaks_where_messages_are_protected(of: dict[str, list[Row]]) -> None:
    for message, *nicks in zip(of["dp-sgd"], of["dp-ftrl"], of["user-dp"], strict=True):
        assert sharer(message, "exposure_max_repeats") > 9
        assert sharer(message, "extracted_random_sampling") > 0.15
        for row in nicks:
            assert sharer(row, "exposure_max_repeats") < 5
            assert sharer(row, "extracted_random_sampling") == 0


def test_a_message_is_cheaper_than_a_nick_at_one_alone(of: dict[str, list[Row]]) -> None:
    cheaper = [
        perplexity(message)[1] < perplexity(nick)[0]
        for message, nick in zip(of["dp-sgd"], of["user-dp"], strict=True)
    ]
    assert cheaper == [True, False, False, False]


def test_a_nick_with_an_entity_in_both_ways_of_sampling(of: dict[str, list[Row]]) -> None:
    pairs = list(zip(of["uedp-spread"], of["uedp-group"], strict=True))
    behind = [perplexity(nicks)[0] > perplexity(messages)[1] for nicks, messages in pairs]
    assert behind == [False, False, True, True]
    exposures = [[sharer(row, "exposure_max_repeats") for row in pair] for pair in pairs]
    assert all(nicks < messages for nicks, messages in exposures)
    assert exposures[-1] == pytest.approx([4.8, 8.0], abs=0.05)


def test_the_picture_is_that_of_the_results(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "bloggers_plot.py"))
    folders = [RESULTS / "ubuntu-irc", RESULTS / "ubuntu-irc-mechanisms"]
    script["plot"](folders, tmp_path / "made.svg", "nicks")
    assert_same_drawing(tmp_path / "made.svg", ROOT / "docs" / "ubuntu-irc.svg")
