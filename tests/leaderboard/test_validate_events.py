"""Validation of results with events of strangers, and of computation beside another unit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import NOISELESS, USER_DP, plugged, runs

from uedp_bench.contracts.results import Result, read_result, write_result
from uedp_bench.leaderboard.board_cells import sheets
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.summary import events as event_table
from uedp_bench.leaderboard.validate import check
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

SUPPORT = Path(__file__).parents[1] / "support"
COIN, MECHANISM, SERVING = (
    SUPPORT / f"{name}.py" for name in ("coin_event", "coin_mechanism", "secure_serving")
)


def run(out: Path, *mechanism) -> tuple[Path, Result]:
    (spec,) = runs(list(mechanism))
    result = execute(spec, Execution(out, "cpu", keep_release=False))
    assert result.status == "finished", result.error
    return out / result.id / "result.json", result


@pytest.fixture(scope="module")
def coin(tmp_path_factory) -> tuple[Path, Result]:
    with plugged(COIN, MECHANISM):
        return run(tmp_path_factory.mktemp("coin"),
                   {"name": "coin-dp", "params": USER_DP["params"]})  # fmt: skip


def proof(result: Result, unit: str = "user"):
    (guarantee,) = (g for g in result.guarantees if g.kind != "claimed" and g.unit == unit)
    return guarantee


def test_the_event_of_a_plug_in_is_computed_again(coin):
    path, result = coin
    assert proof(result).accountant == "pairs-pld"
    with plugged(COIN, MECHANISM):
        assert check(path).problems == ()
        data = json.loads(path.read_text(encoding="utf-8"))
        at = next(i for i, g in enumerate(data["guarantees"]) if g["kind"] == "stated")
        data["guarantees"][at]["epsilon"] *= 0.9
        forged = path.with_name("forged.json")
        forged.write_text(json.dumps(data), encoding="utf-8")
        assert f"guarantees.{at}.epsilon" in {p.where for p in check(forged).errors}


def test_without_the_plug_in_the_result_is_read_and_what_is_missing_is_said(coin):
    path, result = coin
    report = check(path)
    assert report.errors == ()
    notes = {(note.where, note.what.split(":")[0]) for note in report.notes}
    assert ("events", "no event of the kind 'randomized-response' is known here") in notes
    assert any("cannot be computed again here" in what for _, what in notes)
    # It is shown as it is, and goes through the leaderboard unchanged.
    read = read_result(path)
    assert read.model_dump(mode="json")["events"] == result.model_dump(mode="json")["events"]
    (row,) = aggregate([read])
    assert proof(row).epsilon == proof(result).epsilon
    shown = str(event_table(read.events))
    assert "randomized-response" in shown
    assert "is known here" in shown
    copy = path.with_name("copy.json")
    write_result(read, copy)
    assert json.loads(copy.read_text()) == json.loads(path.read_text())


# --------------------------------------------------------------------- computation beside a user


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> tuple[Path, Result]:
    with plugged(SERVING):
        return run(tmp_path_factory.mktemp("served"), USER_DP, {"name": "secure-serving"})


def test_both_rows_stand(served, tmp_path):
    path, result = served
    alone = proof(run(tmp_path, USER_DP)[1])
    assert proof(result).epsilon == alone.epsilon
    computed = proof(result, "computation")
    assert (computed.epsilon, computed.notion, computed.status) == (0.0, "simulation", "given")
    assert computed.delta == pytest.approx(1000 * 4.0 / 2**31)
    with plugged(SERVING):
        assert check(path).problems == ()


def test_serving_protects_no_user(tmp_path):
    with plugged(SERVING):
        path, result = run(tmp_path, NOISELESS, {"name": "secure-serving"})
        assert check(path).problems == ()
    assert proof(result).notion == "none"
    assert proof(result, "computation").notion == "simulation"


def test_cells_name_the_notion_and_no_number(served):
    (row,) = aggregate([served[1]])
    sheet = sheets([row])[0]
    cell = sheet.cells[0][sheet.columns.index("stated ε")]
    assert "computation: simulated" in cell.split("\n")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [("epsilon", 0.5, "a simulation has none"), ("notion", "dp", "does not fit the unit"),
     ("delta", 0.0, "events")],
)  # fmt: skip
def test_forged_simulations_are_found(served, field, value, message):
    path, result = served
    data = result.model_dump(mode="json")
    at = next(i for i, g in enumerate(data["guarantees"]) if g["unit"] == "computation"
              and g["kind"] == "stated")  # fmt: skip
    data["guarantees"][at][field] = value
    forged = path.with_name(f"{field}.json")
    forged.write_text(json.dumps(data), encoding="utf-8")
    with plugged(SERVING):
        messages = [p.what for p in check(forged).errors if p.where == f"guarantees.{at}.{field}"]
    assert any(message in what for what in messages), messages
