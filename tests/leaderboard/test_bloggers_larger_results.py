"""What the stored results of `bloggers-larger` must show, and what the page about them says.

The results are the committed ones, or those of a fresh run in the folder UEDP_BENCH_LARGER.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from board_rows import by_epsilon, interval, one, perplexity, proven

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate

COMMITTED = Path(__file__).parents[2] / "leaderboard" / "results" / "bloggers-larger"
UNIT = {"user-dp": "user", "uedp-group": "user-entity"}
EPSILONS = (1, 2, 4, 8)


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    folder = Path(os.environ.get("UEDP_BENCH_LARGER", COMMITTED))
    if not folder.is_dir():
        pytest.skip(f"no results in {folder.name}: run bloggers-larger and store them there")
    return aggregate(load_results([folder]))


def private(rows: list[Row], label: str) -> list[Row]:
    """The rows of a mechanism, from the smallest epsilon to the largest."""
    return by_epsilon(rows, label, UNIT[label])


def test_they_are_those_of_the_packaged_spec(rows: list[Row]) -> None:
    spec = read_spec("bloggers-larger")
    spec["source"]["params"] |= {"path": "x"}
    runs = expand(parse_spec(spec))
    assert len(rows) == len(runs) / 3 == 10
    assert {row.label for row in rows} == {run.label for run in runs}
    assert all(row.seeds == (1, 2, 3) for row in rows)
    assert len({(row.corpus, row.vocabulary) for row in rows}) == 1


@pytest.mark.parametrize("label", UNIT)
def test_epsilon_is_what_the_page_says(rows: list[Row], label: str) -> None:
    found = [proven(row)[UNIT[label]] for row in private(rows, label)]
    for epsilon, asked in zip(found, EPSILONS, strict=True):
        assert 0.99 * asked < epsilon <= asked


@pytest.mark.parametrize("label", UNIT)
def test_every_epsilon_beats_what_needs_no_private_text(rows: list[Row], label: str) -> None:
    """And bigrams of the private text itself, which have no guarantee."""
    free = one(rows, "public-only")
    for row in private(rows, label):
        _, worst = perplexity(row)
        assert worst < perplexity(free)[0]
        assert worst < interval(row.utility["bigram_perplexity"])[0]
        assert row.learned


@pytest.mark.parametrize("label", UNIT)
def test_more_epsilon_is_more_utility(rows: list[Row], label: str) -> None:
    found = [row.utility["perplexity"] for row in private(rows, label)]
    assert interval(found[-1])[1] < interval(found[0])[0]
    means = [stat.value for stat in found]
    assert means == sorted(means, reverse=True)


def share(rows: list[Row], row: Row) -> float:
    """Of what training without protection gains over public text."""
    free, best = (
        one(rows, name).utility["perplexity"].value for name in ("public-only", "noiseless")
    )
    return (free - row.utility["perplexity"].value) / (free - best)


def test_how_much_of_the_gain_is_left(rows: list[Row]) -> None:
    user, entity = ([share(rows, row) for row in private(rows, label)] for label in UNIT)
    assert 0.4 < user[0] < 0.5 < user[-1] < 0.65
    assert 0.1 < entity[0] < 0.25 < 0.4 < entity[-1] < 0.5


def test_what_many_say_alike_stands_out(rows: list[Row]) -> None:
    """No promise covers what thirty bloggers write three hundred times."""
    of_user, of_entity = (private(rows, label)[-1].leakage["secret-sharer"] for label in UNIT)
    assert of_user["exposure_max_repeats"].value < 6
    assert of_entity["exposure_max_repeats"].value > 9
    assert of_user["extracted_random_sampling"].value < 0.05
    assert 0.1 < of_entity["extracted_random_sampling"].value < 0.3
    for label in UNIT:
        for row in private(rows, label):
            assert row.leakage["secret-sharer"]["extracted_beam_search"].value == 0


def test_what_is_protected_gives_little_away(rows: list[Row]) -> None:
    for label in UNIT:
        for row in private(rows, label):
            membership = row.leakage["membership"]
            assert membership["auc_user"].value < 0.55
            assert all(bound.epsilon < 1 for bound in row.lower_bounds)


def test_what_is_unprotected_leaks(rows: list[Row]) -> None:
    row = one(rows, "noiseless")
    sharer = row.leakage["secret-sharer"]
    assert interval(sharer["exposure_max_repeats"])[0] > sharer["exposure_limit"].value - 1
    assert sharer["extracted_random_sampling"].value > 0.5
    assert interval(row.leakage["membership"]["auc_user"])[0] > 0.5
    assert any(bound.epsilon > 2 for bound in row.lower_bounds)
