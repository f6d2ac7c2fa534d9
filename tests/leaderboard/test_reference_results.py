"""The table tells the truth: what the reference results of the quickstart must show.

The results are the committed ones, or those of a fresh run where UEDP_BENCH_QUICKSTART names its
folder.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, Stat, aggregate

COMMITTED = Path(__file__).parents[2] / "leaderboard" / "results" / "quickstart"
NULL_EXPOSURE = 1.4427  # 1 / ln 2 bits

Rows = dict[str, Row]


@pytest.fixture(scope="module")
def rows() -> Rows:
    folder = Path(os.environ.get("UEDP_BENCH_QUICKSTART", COMMITTED))
    return {row.label: row for row in aggregate(load_results([folder]))}


def _leak(row: Row, attack: str) -> Callable[[str], Stat]:
    return lambda metric: row.leakage[attack][metric]


def _covers(stat: Stat, value: float) -> bool:
    assert stat.low is not None
    assert stat.high is not None
    return stat.low <= value <= stat.high


def _near_chance(auc: Stat) -> bool:
    """Of seven intervals at 95 % one misses 0.5 now and then: what counts is by how much."""
    assert auc.low is not None
    return auc.low < 0.51 and auc.value < 0.53


def test_results_are_those_of_the_packaged_spec(rows: Rows) -> None:
    specs = expand(parse_spec(read_spec("quickstart")))
    assert set(rows) == {spec.label for spec in specs}
    assert len(rows) == 6
    for row in rows.values():
        assert row.seeds == (1, 2, 3)
        # Parameters that came later have defaults that keep what the run did.
        (spec,) = expand(parse_spec(row.spec.model_dump(mode="json")))
        assert spec.model_copy(update={"seed": 1}) in specs


def test_noiseless_memorises(rows: Rows) -> None:
    exposure, membership = (_leak(rows["noiseless"], a) for a in ("secret-sharer", "membership"))
    assert exposure("exposure_max_repeats").value >= exposure("exposure_limit").value - 1
    low = membership("auc").low
    high = membership("auc_bag_of_words").high
    assert low is not None
    assert high is not None
    assert low > high
    assert low > 0.55


def test_user_dp_does_not_memorise_and_still_learns(rows: Rows) -> None:
    row = rows["user-dp"]
    exposure, membership = (_leak(row, a) for a in ("secret-sharer", "membership"))
    assert _covers(exposure("exposure_max_repeats"), NULL_EXPOSURE)
    assert exposure("exposure_max_repeats").value < 2.5
    assert _near_chance(membership("auc"))
    assert row.utility["perplexity"].value < 0.6 * row.utility["unigram_perplexity"].value
    (proven,) = [g for g in row.guarantees if g.kind == "proven"]
    assert (proven.unit, proven.status) == ("user", "given")
    assert proven.epsilon <= 8


def test_uedp_group_protects_users_with_entities_and_still_learns(rows: Rows) -> None:
    row = rows["uedp-group"]
    exposure, membership = (_leak(row, a) for a in ("secret-sharer", "membership"))
    # What several users repeat may stand out a little: the promise is for one user with an entity.
    assert exposure("exposure_max_repeats").value < 2.5
    assert exposure("extracted_random_sampling").value == 0
    assert _covers(exposure("exposure_entity"), NULL_EXPOSURE)
    assert _near_chance(membership("auc"))
    assert row.utility["perplexity"].value < 0.75 * row.utility["unigram_perplexity"].value
    proven = {g.unit: g for g in row.guarantees if g.kind == "proven"}
    assert proven["user-entity"].protected is not None
    assert proven["user-entity"].protected.sentences == 3
    assert proven["user"].epsilon < proven["user-entity"].epsilon <= 8


def test_uedp_protects_and_the_table_shows_what_it_costs(rows: Rows) -> None:
    row = rows["uedp"]
    exposure, membership = (_leak(row, a) for a in ("secret-sharer", "membership"))
    assert _covers(exposure("exposure_max_repeats"), NULL_EXPOSURE)
    assert _near_chance(membership("auc"))
    assert row.diagnostics["signal_to_noise"].value < 0.01
    assert row.utility["perplexity"].value > row.utility["unigram_perplexity"].value
    claimed, *proven = [g for g in row.guarantees if g.unit == "user-entity"]
    assert claimed.kind == "claimed"
    assert claimed.epsilon < 1 < proven[0].epsilon


def test_deidentify_protects_entities_but_not_canaries_without_entities(rows: Rows) -> None:
    row = rows["deidentify"]
    exposure = _leak(row, "secret-sharer")
    assert exposure("exposure_max_repeats").value >= exposure("exposure_limit").value - 1
    assert _covers(exposure("exposure_entity"), NULL_EXPOSURE)
    assert all(g.epsilon == float("inf") for g in row.guarantees)
