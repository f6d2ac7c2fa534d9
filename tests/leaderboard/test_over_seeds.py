"""Direction, headline and floors come from results; a row that learnt nothing always says so."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.bounds.ceilings import JudgedUsers
from uedp_bench.contracts.results import Estimate, Headline, Result, write_result
from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.boards import boards
from uedp_bench.leaderboard.index_page import page_data
from uedp_bench.leaderboard.loading import Loader
from uedp_bench.leaderboard.over_seeds import best, leaks, worst_guarantees
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.sources import Folder
from uedp_bench.leaderboard.table import to_csv, to_json, to_markdown, to_text
from uedp_bench.statistics.intervals import Scores, auc_estimate, fraction_estimate, tpr_at_fpr

UP = Headline(metric="score", larger_is_better=True)
DOWN = Headline(metric="score", larger_is_better=False)


def make_result(
    mechanism, score, *, seed=1, headline=UP, task="plug-in", floor=0.5, **more
) -> Result:
    spec = {"task": {"name": task}, "source": {"name": "s"}, "model": {"name": "m"},
            "mechanism": [{"name": mechanism}], "seed": seed}  # fmt: skip
    fields = {
        "id": f"{mechanism}-{seed}", "group": mechanism, "status": "finished", "spec": spec,
        "utility": {"score": Estimate(value=score, low=score - 0.01, high=score + 0.01)},
        "headline": headline, "floors": {"guess": floor},
        "learned": (score - 0.01 > floor) if headline == UP else (score + 0.01 < floor),
        "provenance": {"corpus": {"fingerprint": "c"}},
    }  # fmt: skip
    return Result.model_validate({**fields, **more})


def test_a_plug_ins_board_is_the_right_way_up_without_the_plug_in():
    rows = aggregate([make_result("worse", 0.7), make_result("better", 0.9)])
    assert [row.label for row in rows] == ["better", "worse"]
    data = page_data(rows, {})
    assert data["sets"][0]["larger_is_better"] is True
    assert data["sets"][0]["headline"] == "utility.score"
    (column,) = [one for one in data["columns"] if one["key"] == "utility.score"]
    assert (column["better"], column["main"]) == ("higher", True)
    down = [make_result("worse", 0.4, headline=DOWN), make_result("better", 0.2, headline=DOWN)]
    assert [row.label for row in aggregate(down)] == ["better", "worse"]


def test_vocabularies_part_a_board_where_results_say_so():
    def rows(by_vocabulary):
        headline = Headline(metric="score", larger_is_better=True, by_vocabulary=by_vocabulary)
        words = [{"corpus": {"fingerprint": "c"}, "vocabulary": {"fingerprint": v}} for v in "ab"]
        return aggregate([make_result(f"m{at}", 0.9, headline=headline, provenance=provenance)
                          for at, provenance in enumerate(words)])  # fmt: skip

    assert len(boards(rows(True))) == 2
    assert len(boards(rows(False))) == 1


def test_results_of_one_task_that_disagree_are_reported_and_never_share_a_board(tmp_path):
    for result in (make_result("a", 0.9), make_result("b", 0.4, headline=DOWN)):
        (tmp_path / result.id).mkdir()
        write_result(result, tmp_path / result.id / "result.json")
    loaded = Loader([Folder(tmp_path)]).load()
    (note,) = loaded.notes
    assert note == (
        "results of task plug-in disagree on what ranks them, and stand on boards of their own: "
        "score (smaller is better) in 1; score (larger is better) in 1"
    )
    assert len(boards(aggregate(loaded.results))) == 2


# ----------------------------------------------------------------------------------------- learned


@pytest.mark.parametrize(
    ("scores", "learned"),
    [
        ((0.9,), True),
        ((0.5,), False),
        ((0.505,), False),  # better, but its interval is not
        ((0.9, 0.91, 0.92), True),
        ((0.9, 0.2), False),
        ((0.7, 0.704, 0.506, 0.7, 0.71, 0.7, 0.71, 0.7, 0.7), True),  # by the interval over seeds
    ],
)
def test_a_row_has_learnt_where_its_seeds_or_their_interval_say_so(scores, learned):
    (row,) = aggregate([make_result("m", score, seed=seed) for seed, score in enumerate(scores, 1)])
    assert row.learned is learned


def test_nobody_says_what_is_not_known():
    (row,) = aggregate([make_result("m", 0.9, learned=None), make_result("m", 0.91, seed=2)])
    assert row.learned is None
    (row,) = aggregate([make_result("m", 0.9, learned=None, floors={}, headline=None)])
    assert (row.learned, row.headline) == (None, None)
    assert best({}, UP) is None
    assert best({"a": 0.1, "b": 0.3}, UP) == "b"
    assert best({"a": 0.1, "b": 0.3}, DOWN) == "a"


def test_rows_that_learnt_nothing_come_last_and_say_so_in_every_form():
    # Their headline is the best: floors of theirs are better still.
    rows = aggregate(
        [make_result("idle", 0.95, floor=0.99), make_result("good", 0.9), make_result("fair", 0.8)]
    )
    assert [row.label for row in rows] == ["good", "fair", "idle"]
    for text in (to_markdown(rows), to_text(rows)):
        lines = [line for line in text.splitlines() if "idle" in line or "learned nothing" in line]
        assert "idle" in lines[0]
        assert any("learned nothing" in line for line in lines)
    assert "floor: guess" in to_markdown(rows)
    assert [one["learned"] for one in json.loads(to_json(rows))] == [True, True, False]
    lines = list(csv.DictReader(io.StringIO(to_csv(rows))))
    assert [line["learned"] for line in lines] == ["true", "true", "false"]
    assert [line["floor.guess"] for line in lines] == ["0.5", "0.5", "0.99"]
    assert [line["headline.larger_is_better"] for line in lines] == ["true"] * 3
    data = page_data(rows, {})
    assert [row["learned"] for row in data["rows"]] == [True, True, False]
    assert data["sets"][0]["references"] == [{"name": "floor: guess", "text": "0.50 to 0.99"}]


def test_floors_are_rows_of_the_table_and_the_unknown_rate_stands_beside():
    more = {
        "utility": {
            "perplexity": {"value": 90.0}, "accuracy": {"value": 0.2}, "oov_rate": {"value": 0.36},
            "accuracy_with_unknown": {"value": 0.4},
        },
        "headline": {"metric": "perplexity", "larger_is_better": False, "by_vocabulary": True},
        "learned": None,
    }  # fmt: skip
    floors = [{"unigrams": 320.0, "public-only": 110.0}, {"unigrams": 325.0, "public-only": 110.0}]
    rows = aggregate([make_result(f"m{at}", 1.0, task="next-word", floors=floor, **more)
                      for at, floor in enumerate(floors)])  # fmt: skip
    sheet = sheets(rows)[0]
    assert sheet.columns[:5] == (
        "mechanism", "seeds", "perplexity", "accuracy %", "unknown words %",
    )  # fmt: skip
    assert [cells[:3] for cells in sheet.cells[2:]] == [
        ("floor: public-only", "–", "110"),
        ("floor: unigrams", "–", "320 to 325"),
    ]


def judgement(rng, users=100, outliers=0, shift=0.0):
    """A run that judged users; so many of the members are surely found."""
    members, others = rng.normal(shift, 1.0, users), rng.normal(0.0, 1.0, users)
    members[:outliers] += 10.0
    sides = [Scores(values, np.arange(users)) for values in (members, others)]
    rate = tpr_at_fpr(members, others, 0.01)
    metrics = {
        "auc_user": auc_estimate(*sides, rng),
        "tpr_user_at_1pct_fpr": fraction_estimate(rate.hits, rate.positives),
    }
    return metrics, JudgedUsers(members=users, non_members=users, most_records=1)


@pytest.mark.parametrize("seeds", [1, 2, 3])
def test_random_coins_seldom_leak(seeds):
    rng = np.random.default_rng(seeds)
    trials = 100
    leaks_seen = sum(leaks([judgement(rng) for _ in range(seeds)]) for _ in range(trials))
    # At 5 % a trial, more than 11 of 100 have a probability below 0.5 %.
    assert leaks_seen <= 11


@pytest.mark.parametrize(("members", "others", "share"), [(50, 3, 1.0), (200, 10, 0.05)])
def test_few_users_and_equal_scores_seldom_leak_by_chance(members, others, share):
    rng, leaks_seen = np.random.default_rng(3), 0
    judged = JudgedUsers(members=members, non_members=others, most_records=1)
    for _ in range(300):
        # Scores of a share of the users differ; all others have the same one.
        scores = [rng.normal(2.0, 0.1, size) * (rng.random(size) < share)
                  for size in (members, others)]  # fmt: skip
        sides = [Scores(values, np.arange(len(values))) for values in scores]
        leaks_seen += leaks([({"auc_user": auc_estimate(*sides, rng)}, judged)])
    # At 2.5 % a trial, more than 15 of 300 have a probability below 0.5 %.
    assert leaks_seen <= 15


@pytest.mark.parametrize("seeds", [[(100, 100)], [(500, 10), (10, 1000)]])
def test_rates_alone_seldom_leak_by_chance(seeds):
    rng, leaks_seen = np.random.default_rng(7), 0
    for _ in range(2000):
        runs = []
        for members, others in seeds:
            rate = tpr_at_fpr(rng.normal(size=members), rng.normal(size=others), 0.01)
            judged = JudgedUsers(members=members, non_members=others, most_records=1)
            runs.append(({"auc_user": Estimate(value=0.5), "tpr_user_at_1pct_fpr":
                          Estimate(value=rate.value)}, judged))  # fmt: skip
        leaks_seen += leaks(runs)
    assert leaks_seen <= 0.05 * 2000


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_leak_of_all_or_of_a_few_is_found(seeds):
    rng = np.random.default_rng(1)
    assert leaks([judgement(rng, shift=0.8) for _ in range(seeds)])
    few = [judgement(rng, users=200, outliers=30) for _ in range(seeds)]
    blind = [({**metrics, "auc_user": Estimate(value=0.5)}, judged) for metrics, judged in few]
    assert leaks(blind)
    # Older results do not say how many users their rates rest on.
    assert not leaks([(metrics, None) for metrics, _ in blind])


def test_runs_that_differ_and_agree_leak():
    runs = [({"auc_user": Estimate(value=value, low=value - 0.05, high=value + 0.05)}, None)
            for value in (0.65, 0.95)]  # fmt: skip
    assert leaks(runs)
    assert not leaks([*runs, ({"auc_user": Estimate(value=0.5)}, None)])


def test_over_seeds_the_largest_failure_of_a_simulation_counts():
    simulated = [
        Guarantee(kind="proven", notion="simulation", unit="computation", epsilon=0.0,
                  adjacency="replace-one", delta=delta, accountant="simulation")
        for delta in (1e-9, 1e-6, 1e-8)
    ]  # fmt: skip
    (kept,) = worst_guarantees([[one] for one in simulated])
    assert (kept.epsilon, kept.delta) == (0.0, 1e-6)
