"""Safe is told from a weak attack, with the unprotected value and the ceiling beside it."""

from __future__ import annotations

import csv
import io
import json
import math

import pytest
from board_results import members, promise, seeds
from tiny import plugged

from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.boards import is_unprotected
from uedp_bench.leaderboard.comparisons import (
    FOUND_ELSEWHERE,
    LEAKS,
    NOTHING_SHOWN,
    better_than_unprotected,
    verdicts,
)
from uedp_bench.leaderboard.index_page import page_data
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.in_words import result_lines
from uedp_bench.leaderboard.site_files import Contents
from uedp_bench.leaderboard.table import to_csv, to_json

NOTHING = (promise("proven", math.inf),)
PROVEN = (promise("proven", 4.0),)
RATE, AREA = "tpr_user_at_1pct_fpr", "auc_user"


def bare(rate=0.2, **more):
    return seeds("noiseless", 50.0, guarantees=NOTHING, **members(rate), **more)


def private(rate=0.01, ceiling=0.08, **more):
    return seeds("user-dp", 60.0, guarantees=PROVEN, **members(rate, ceiling), **more)


def read(*groups):
    """Verdicts by mechanism."""
    rows = aggregate([run for group in groups for run in group])
    free = list(filter(is_unprotected, rows))
    return {row.label: verdict for row in rows for verdict in verdicts(row, free)}


def attacked(runs, **params):
    """The runs with an attack of these parameters."""
    attack = ({"name": "membership", "params": params},)
    return [type(run).model_validate(run.model_dump() | {"spec": run.spec.model_dump()
            | {"attacks": attack}}) for run in runs]  # fmt: skip


def test_safe_is_told_from_a_weak_attack():
    strong, weak = read(bare(), private()), read(bare(0.01), private())
    assert strong["noiseless"].words == LEAKS
    assert strong["user-dp"].words == FOUND_ELSEWHERE
    assert weak["user-dp"].words == weak["noiseless"].words == NOTHING_SHOWN
    assert read(private())["user-dp"].words == NOTHING_SHOWN
    assert read(bare(), private(0.07))["user-dp"].words == LEAKS


STRANGER = """
from uedp_bench.components.registry import mechanisms
from uedp_bench.mechanisms.noiseless import Noiseless

@mechanisms.register
class Plain(Noiseless):
    name = "plain"
    unprotected = {}
"""


@pytest.mark.parametrize("declared", [True, False])
def test_a_stranger_declares_the_row_without_protection(declared, tmp_path):
    plain = seeds("plain", 70.0, guarantees=NOTHING, **members(0.2))
    composed = seeds("deidentify + plain", 65.0, guarantees=NOTHING, **members(0.2))
    file = tmp_path / "plain.py"
    file.write_text(STRANGER.format(declared))
    with plugged(file):
        read_rows = read(plain, composed, private())
        rows = aggregate([*plain, *composed, *private()])
        better = {row.label for row in rows if row.group in better_than_unprotected(rows)}
    assert read_rows["user-dp"].words == (FOUND_ELSEWHERE if declared else NOTHING_SHOWN)
    expected = "unprotected 20.0" if declared else "no unprotected row"
    assert read_rows["deidentify + plain"].beside(RATE)[0] == expected
    assert better == ({"user-dp"} if declared else set())
    assert read(plain, private())["user-dp"].words == NOTHING_SHOWN, "it is not installed"


def test_value_unprotected_value_and_ceiling_stand_together():
    verdict = read(bare(), private())["user-dp"]
    assert verdict.lines(RATE) == ("unprotected 20.0, at most 8.00", FOUND_ELSEWHERE)
    assert verdict.lines(AREA) == ("unprotected 0.69, at most 0.74",)
    assert verdict.lines("auc_bag_of_words") == ()
    assert read(bare())["noiseless"].lines(RATE) == (LEAKS,)


def test_what_is_missing_is_said():
    alone = read(private(ceiling=None))["user-dp"]
    assert alone.beside(RATE) == ("no unprotected row", "no ceiling in its results")
    free = seeds("deidentify", 60.0, guarantees=NOTHING, **members(0.01))
    assert read(bare(), free)["deidentify"].beside(RATE) == (
        "unprotected 20.0",
        "no proof for users",
    )


@pytest.mark.parametrize("other", [
    lambda runs: runs[:1],
    lambda runs: attacked(runs, shadow_models=2),
])  # fmt: skip
def test_another_attack_or_fewer_seeds_are_no_unprotected_value(other):
    assert read(bare(), private())["user-dp"].bare is not None
    assert read(other(bare()), private())["user-dp"].bare is None


def test_a_ceiling_of_a_row_is_that_of_all_seeds():
    runs = private()
    loose = runs[0].model_copy(update={"ceilings": {"membership": {RATE: 0.5}}})
    (row,) = aggregate([loose, *runs[1:]])
    assert row.ceilings == {"membership": {RATE: 0.5}}
    (row,) = aggregate([runs[0].model_copy(update={"ceilings": {}}), *runs[1:]])
    assert row.ceilings == {}


def test_table_board_and_run_page_say_the_same():
    runs = [*bare(), *private()]
    rows = aggregate(runs)
    cells = [cell.replace("\n", " ")
             for sheet in sheets(rows) for line in sheet.cells for cell in line]  # fmt: skip
    (cell,) = [one for one in cells if "at most" in one]
    assert cell.endswith(f"unprotected 20.0 at most 8.00 {FOUND_ELSEWHERE}")
    beside = {row["label"]: row["beside"] for row in page_data(rows, {})["rows"]}
    assert beside["user-dp"][f"membership.{RATE}"][1] == FOUND_ELSEWHERE
    assert beside["noiseless"][f"membership.{RATE}"] == (LEAKS,)
    files = Contents().files(runs, str).files
    page = files["runs/user-dp-conll2003-1.html"].make()
    assert f"membership, over seeds: {FOUND_ELSEWHERE}; " in "".join(page)
    (row,) = [one for one in json.loads(to_json(rows)) if one["mechanism"] == "user-dp"]
    assert (row["leaks"], row["ceilings"]["membership"][RATE]) == ({"membership": False}, 0.08)


def test_a_download_has_the_ceilings():
    line = next(csv.DictReader(io.StringIO(to_csv(aggregate(private())))))
    assert line[f"membership.{RATE}.ceiling"] == "0.08"


def test_a_result_in_the_terminal_has_its_ceilings():
    text = "\n".join(result_lines(private()[0]))
    assert "(0.004806 to 0.01831), proofs allow 0.08" in text


@pytest.mark.parametrize(("ceiling", "leaks"), [(0.50003, False), (0.51, True)])
def test_a_model_that_saw_no_private_row_leaks_nothing(ceiling: float, leaks: bool):
    fields = members(0.3, 0.01)
    fields["ceilings"]["membership"]["auc_user"] = ceiling
    (row,) = aggregate(seeds("public-only", 80.0, **fields))
    assert row.leaks == {"membership": leaks}
