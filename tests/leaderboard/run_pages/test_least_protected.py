"""Groups are least protected only if chance does not explain it, however many are looked at."""

from __future__ import annotations

import json
import math
from itertools import product
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest
from board_results import promise
from whole_results import HOSTILE

from uedp_bench.accounting.guarantee import CurvePoint
from uedp_bench.leaderboard.run_pages.attack_figures import attack_figures
from uedp_bench.leaderboard.run_pages.least_protected import (
    Group,
    _tail_limit,
    exposure_groups,
    least_protected,
)
from uedp_bench.statistics.exposure import exposure_ceiling

REFERENCES = 1024
KINDS = [*product(["word"], [None], [1, 3, 9, 30]), *product(["entity"], [0, 3, 10], [None])]


def canary(rank: int, kind: str, spread: int | None, rows: int | None) -> dict[str, Any]:
    exposure = math.log2(REFERENCES) - math.log2(rank)
    return {"text": "a b", "rank": rank, "exposure": exposure, "kind": kind, "spread": spread,
            "sentences": spread, "occurrences": rows or spread, "sharers": spread}  # fmt: skip


def details(ranks: np.ndarray, each: int = 5) -> dict[str, Any]:
    kinds = [kind for kind in KINDS for _ in range(each)]
    return {"canaries": [canary(int(r), *kind) for r, kind in zip(ranks, kinds, strict=True)]}


def by_name(groups: list[Group]) -> dict[str, Group]:
    return {group.name: group for group in groups}


@pytest.mark.parametrize("each", [1, 5])
def test_an_attack_that_finds_nothing_marks_few_runs(each: int) -> None:
    rng, runs = np.random.default_rng(5), 300
    marked = 0
    for _ in range(runs):
        ranks = rng.integers(1, REFERENCES + 2, size=each * len(KINDS))
        marked += any(one.above_chance for one in exposure_groups([details(ranks, each)]))
    assert marked <= 0.05 * runs + 3.0 * math.sqrt(0.05 * 0.95 * runs)


def test_the_limit_of_the_worst_decile_is_that_of_simulated_ranks() -> None:
    ranks = np.random.default_rng(6).integers(1, REFERENCES + 2, size=(20_000, 40))
    exposures = np.sort(math.log2(REFERENCES) - np.log2(ranks), axis=1)
    passed = (exposures[:, -4:].mean(axis=1) > _tail_limit(40, 4, 0.95)).mean()
    assert 0.035 <= passed <= 0.055
    assert _tail_limit(1, 1, 0.95) == pytest.approx(-math.log2(0.05), rel=0.02)


def test_thousands_of_spreads_of_a_stranger_are_no_groups() -> None:
    flood = [canary(2, "word", spread, 1) for spread in range(3000)]
    names = by_name(exposure_groups([{"canaries": flood}])).keys()
    assert not any(name.startswith("spread") for name in names)


def test_a_leak_of_one_spread_is_found_there_alone() -> None:
    ranks = np.random.default_rng(7).integers(300, REFERENCES, size=5 * len(KINDS))
    ranks[-5:] = [1, 2, 1, 3, 1]
    groups = by_name(exposure_groups([details(ranks)]))
    assert groups["spread 10"].above_chance
    assert groups["worst decile"].above_chance
    assert not any(groups[name].above_chance for name in ("spread 0", "spread 3", "kind word"))
    assert (groups["spread 10"].size, groups["all canaries"].size) == (5, 35)
    assert {"rows 1", "rows 2 to 3", "rows 8 to 15", "rows 16 to 31"} <= groups.keys()
    assert not any(name.startswith("users") for name in groups)  # as the spreads divide them
    pooled = by_name(exposure_groups([details(ranks), details(ranks), {}]))
    assert pooled["spread 10"].size == 10
    assert pooled["spread 10"].limit < groups["spread 10"].limit


def test_proofs_bound_the_exposure_of_their_spread() -> None:
    curve = [CurvePoint(spread=0, sentences=0, epsilon=0.5),
             CurvePoint(spread=3, sentences=2, epsilon=1.0),  # fewer sentences than the canaries'
             CurvePoint(spread=4, sentences=8, epsilon=3.0),
             CurvePoint(spread=100, sentences=None, epsilon=math.inf)]  # fmt: skip
    proven = promise("proven", 3.0, "user-entity", curve=curve)
    others = [promise("claimed", 0.1, "user-entity", curve=curve[:1]),
              promise("proven", 0.1, "user", curve=curve[:1])]  # fmt: skip
    kept = details(np.arange(1, 36))
    groups = by_name(exposure_groups([kept], [proven, *others]))
    bounded = {name: one.ceiling for name, one in groups.items() if one.ceiling is not None}
    assert bounded == {
        "spread 0 (proven ε 0.50)": exposure_ceiling(0.5, 1e-5, 10.0),
        "spread 3 (proven ε 3.00)": exposure_ceiling(3.0, 1e-5, 10.0),
        "spread 10 (proven ε ∞)": 10.0,
    }
    for one in kept["canaries"]:
        one["detected"] = False
    assert all(one.ceiling is None for one in exposure_groups([kept], [proven]))


def test_a_proof_bounds_a_group_by_its_most_mentioned_canary() -> None:
    curve = [CurvePoint(spread=3, sentences=3, epsilon=1.0),
             CurvePoint(spread=3, sentences=9, epsilon=2.0)]  # fmt: skip
    proven = promise("proven", 2.0, "user-entity", curve=curve)
    kept = details(np.arange(1, 36))
    last = [one for one in kept["canaries"] if one["spread"] == 3][-1]
    last["sentences"] = 9
    assert "spread 3 (proven ε 2.00)" in by_name(exposure_groups([kept], [proven]))
    last["detected"] = False
    assert "spread 3" in by_name(exposure_groups([kept], [proven]))


def test_a_point_of_the_curve_bounds_sentences_of_each_other_user() -> None:
    point = CurvePoint(spread=3, sentences=3, epsilon=1.0)
    proven = promise("proven", 1.0, "user-entity", curve=[point])
    kept = details(np.arange(1, 36))
    for one in kept["canaries"]:
        if one["spread"] == 3:
            one["spread"], one["sentences"] = 1, 3  # one other user, in three sentences
    groups = by_name(exposure_groups([kept], [proven]))
    assert "spread 1" in groups
    assert "spread 0 (proven ε 1.00)" in groups


def test_figures_have_sizes_limits_and_marks() -> None:
    (figure,) = least_protected(details(np.arange(1, 36)), [])
    go.Figure(figure.figure)
    assert figure.table.head[:2] == ("group", "canaries")
    assert {row[1] for row in figure.table.rows} >= {"5", "35"}
    few = {row[0]: row[2] for row in least_protected(details(np.arange(1, 8), 1), [])[0].table.rows}
    assert "[" not in few["spread 3"]


@pytest.mark.parametrize(
    "canaries",
    [
        None,
        [],
        "no list",
        [{"rank": 1, "exposure": math.nan}],
        [{"rank": 0, "exposure": 1.0}],
        [{"rank": 1, "exposure": 1e300}],
        [{"rank": 1, "exposure": 3.1}, {"rank": 1, "exposure": 3.1, "kind": "b"}],  # of no rank
        [{"rank": 9, "exposure": 0.0}, {"rank": 9, "exposure": -1.0, "kind": "b"}],
        [{"rank": 1, "exposure": 3.0}] * 3,  # nothing to compare
        [{"rank": 10**4000, "exposure": 1.0}],
    ],
)
def test_canaries_that_are_none_have_no_groups(canaries: Any) -> None:
    assert least_protected({"canaries": canaries}, []) == []


def test_hostile_names_of_kinds_do_not_act() -> None:
    kept = [canary(rank, kind, None, 1) for rank, kind in enumerate([HOSTILE, "b"] * 4, 1)]
    (figure,) = least_protected({"canaries": kept}, [])
    assert "<img" not in json.dumps(figure.figure)


def test_classes_stand_beside_what_is_taken_for_them() -> None:
    def read(value: float) -> dict[str, Any]:
        return {"share": 0.3, "accuracy": {"value": value, "low": 0.1, "high": 0.9}}

    attribute = {"classes": ["a", HOSTILE, "c"], "rows": 20,
                 "confusion": [[8, 2, 0], [4, 1, 0], [1, 0, 4]],
                 "by_class": {"a": read(0.8), HOSTILE: read(0.2), "c": read(0.8)}}  # fmt: skip
    (figure,) = attack_figures({"attributes": {"x": attribute}}, {})
    assert figure.title == "Least protected: x"
    assert [row[0][:2] for row in figure.table.rows[:3]] == ["c ", "a ", HOSTILE[:2]]
    # Rows of other classes that are taken for c, a and the third: 0, 5 of 10, 2 of 15.
    assert [row[2] for row in figure.table.rows[3:]] == ["0", "0.50", "0.13"]
    assert "<img" not in json.dumps(figure.figure)
    two = {"classes": ["a", "b"], "confusion": [[1, 1], [1, 1]], "by_class": {"a": read(0.5)}}
    for broken in (two, {"confusion": [[1]]}, {"classes": ["a"] * 3}, {"classes": ["b", "c", "d"]}):
        assert attack_figures({"attributes": {"x": {**attribute, **broken}}}, {}) == []
