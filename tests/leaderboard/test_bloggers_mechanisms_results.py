"""Stored results of `bloggers-mechanisms` show what the page about them says."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from board_rows import by_epsilon, interval, perplexity, proven
from drawings import assert_same_drawing

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results"
PAGE = ROOT / "docs" / "bloggers-mechanisms.md"
UNIT = {"dp-sgd": "record", "dp-ftrl": "user", "uedp-spread": "user-entity"}
EPSILONS = (1, 2, 4, 8)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    return aggregate(load_results([RESULTS / "bloggers-mechanisms"]))


@pytest.fixture(scope="module")
def larger() -> list[Row]:
    """The study that has the same text and model."""
    return aggregate(load_results([RESULTS / "bloggers-larger"]))


def test_they_are_runs_of_the_packaged_spec(rows: list[Row]) -> None:
    spec = read_spec("bloggers-mechanisms")
    spec["source"]["params"] |= {"path": "x"}
    labels = {run.label for run in expand(parse_spec(spec))}
    assert {row.label for row in rows} == labels == set(UNIT)
    assert len(rows) == len(UNIT) * len(EPSILONS)
    assert all(row.seeds == (1, 2, 3) for row in rows)


def test_text_and_vocabulary_are_those_of_the_other_study(
    rows: list[Row], larger: list[Row]
) -> None:
    assert len({(row.corpus, row.vocabulary) for row in (*rows, *larger)}) == 1


@pytest.mark.parametrize("label", UNIT)
def test_epsilon_is_what_the_page_says(rows: list[Row], label: str) -> None:
    found = [proven(row)[UNIT[label]] for row in by_epsilon(rows, label, UNIT[label])]
    for epsilon, asked in zip(found, EPSILONS, strict=True):
        assert 0.99 * asked < epsilon <= asked


@pytest.mark.parametrize("label", UNIT)
def test_every_epsilon_beats_what_needs_no_private_text(
    rows: list[Row], larger: list[Row], label: str
) -> None:
    """And bigrams of the private text itself, which have no guarantee."""
    (free,) = (row for row in larger if row.label == "public-only")
    for row in by_epsilon(rows, label, UNIT[label]):
        assert perplexity(row)[1] < perplexity(free)[0]
        assert perplexity(row)[1] < interval(row.utility["bigram_perplexity"])[0]
        assert row.learned


@pytest.mark.parametrize("label", UNIT)
def test_more_epsilon_is_more_utility(rows: list[Row], label: str) -> None:
    found = [row.utility["perplexity"] for row in by_epsilon(rows, label, UNIT[label])]
    assert interval(found[-1])[1] < interval(found[0])[0]
    means = [stat.value for stat in found]
    assert means == sorted(means, reverse=True)


def test_turns_in_the_open_cost_no_more_than_a_secret_draw(
    rows: list[Row], larger: list[Row]
) -> None:
    pairs = zip(by_epsilon(rows, "dp-ftrl", "user"), by_epsilon(larger, "user-dp", "user"),
                strict=True)  # fmt: skip
    for open_turns, secret_draw in pairs:
        one, other = perplexity(open_turns), perplexity(secret_draw)
        assert one[0] < other[1] and other[0] < one[1]


def test_a_sentence_is_cheaper_to_protect_and_what_bloggers_repeat_leaks(
    rows: list[Row], larger: list[Row]
) -> None:
    people = (by_epsilon(rows, "dp-ftrl", "user"), by_epsilon(larger, "user-dp", "user"))
    for sentence, *others in zip(by_epsilon(rows, "dp-sgd", "record"), *people, strict=True):
        for row in others:
            assert sentence.utility["perplexity"].value < row.utility["perplexity"].value
            assert row.leakage["secret-sharer"]["exposure_max_repeats"].value < 6
            assert row.leakage["secret-sharer"]["extracted_random_sampling"].value < 0.05
        leaked = sentence.leakage["secret-sharer"]
        assert interval(leaked["exposure_max_repeats"])[0] > leaked["exposure_limit"].value - 1
        assert 0.15 < leaked["extracted_random_sampling"].value < 0.4
    for every in people:  # at 1
        assert every[0].leakage["secret-sharer"]["exposure_max_repeats"].value < 4
        assert every[0].leakage["secret-sharer"]["extracted_random_sampling"].value == 0
    at_one = by_epsilon(rows, "dp-sgd", "record")[0].leakage["secret-sharer"]
    assert 0.15 < at_one["extracted_random_sampling"].value < 0.35


def test_a_blogger_with_an_entity_in_both_ways_of_sampling(
    rows: list[Row], larger: list[Row]
) -> None:
    spread = by_epsilon(rows, "uedp-spread", "user-entity")
    pairs = list(zip(spread, by_epsilon(larger, "uedp-group", "user-entity"), strict=True))
    for users, sentences in pairs:
        exposures = [
            row.leakage["secret-sharer"]["exposure_max_repeats"].value for row in (users, sentences)
        ]
        assert exposures[0] < exposures[1]
        assert users.leakage["secret-sharer"]["extracted_random_sampling"].value < 0.05
    for users, sentences in pairs[:2]:  # at 1 and 2 they are about as good
        assert users.utility["perplexity"].value == pytest.approx(
            sentences.utility["perplexity"].value, abs=1.5
        )
    at_one = [row.leakage["secret-sharer"]["exposure_max_repeats"] for row in pairs[0]]
    assert at_one[0].value < at_one[1].value < interval(at_one[0])[1]
    assert not any(perplexity(users)[1] < perplexity(sentences)[0] for users, sentences in pairs)
    behind = [perplexity(sentences)[1] < perplexity(users)[0] for users, sentences in pairs]
    assert behind == [False, False, True, True]


def test_the_smaller_the_unit_the_less_a_small_epsilon_costs(
    rows: list[Row], larger: list[Row]
) -> None:
    order = (("dp-sgd", "record"), ("user-dp", "user"), ("dp-ftrl", "user"),
             ("uedp-spread", "user-entity"), ("uedp-group", "user-entity"))  # fmt: skip
    costs = []
    for label, unit in order:
        every = by_epsilon([*rows, *larger], label, unit)
        costs.append(every[0].utility["perplexity"].value - every[-1].utility["perplexity"].value)
    assert costs == sorted(costs)


def test_what_is_protected_gives_little_away(rows: list[Row]) -> None:
    for row in rows:
        assert row.leakage["membership"]["auc_user"].value < 0.55
        assert all(bound.epsilon < 1 for bound in row.lower_bounds)


def test_the_picture_is_that_of_the_results(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "bloggers_plot.py"))
    for name, studies in (
        ("bloggers-larger", ["bloggers-larger"]),
        ("bloggers-mechanisms", ["bloggers-larger", "bloggers-mechanisms"]),
    ):
        script["plot"]([RESULTS / study for study in studies], tmp_path / "made.svg")
        assert_same_drawing(tmp_path / "made.svg", ROOT / "docs" / f"{name}.svg")


def test_the_page_has_what_each_setting_came_to() -> None:
    section = PAGE.read_text("utf-8").partition("## Settings")[2]
    results = load_results([RESULTS / "bloggers-mechanisms-levers"])
    spec = read_spec("bloggers-mechanisms-levers")
    spec["source"]["params"] |= {"path": "x"}
    assert len(results) == len(expand(parse_spec(spec))) == 12
    for result in results:
        assert f" {result.utility['perplexity'].value:.1f} " in section, result.spec.mechanism
