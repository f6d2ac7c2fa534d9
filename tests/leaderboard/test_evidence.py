"""A report says what results show, whatever is in them, and what they do not."""

from __future__ import annotations

import gzip
import math
import re
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from board_results import bound, members, promise, seeds

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Result, RunError
from uedp_bench.errors import UnknownNameError
from uedp_bench.leaderboard.evidence import FACTS, Section, evidence, standards
from uedp_bench.leaderboard.sources import write_bundle

PROVEN = promise("proven", 4.0, assumptions=["every update is clipped"])
REFUTED = promise("claimed", 1.0, status="refuted", reason="an attack found 2 at least")


def results(**more: Any) -> list[Result]:
    return [*seeds("user-dp", 80.0, **more), *seeds("noiseless", 50.0, **members(0.4))]


def report(runs: list[Result], *mechanisms: str) -> dict[str, Section]:
    return {section.title: section for section in evidence(runs, mechanisms)}


def words(sections: dict[str, Section], title: str) -> str:
    section = sections[title]
    cells = [cell for sheet in section.sheets for row in sheet.cells for cell in row]
    notes = [note for sheet in section.sheets for note in sheet.notes]
    return "\n".join([*section.sentences, *cells, *notes])


def answers(sections: dict[str, Section]) -> dict[str, str]:
    return {
        row[0]: row[2] for sheet in sections["Points of standards"].sheets for row in sheet.cells
    }


def failed(run: Result) -> Result:
    error = RunError(type="OSError", message="out of disk", phase="train")
    return run.model_copy(update={"status": "failed", "error": error, "utility": {}})


@pytest.mark.parametrize(
    ("more", "parts"),
    [
        ({"guarantees": [PROVEN]}, ["4.00 for a person", "no attack tested", "No attack ran"]),
        (
            {"guarantees": [PROVEN], **members(0.01)},
            ["no attack refutes", "No attack that is compared"],
        ),
        (
            {"guarantees": [PROVEN], **members(0.2)},
            ["no attack refutes", "Above chance at 95 %: membership"],
        ),
        (
            {"guarantees": [PROVEN, REFUTED], "lower_bounds": [bound(2.5, 2.0)]},
            ["refutes what is claimed", "refutes the proof"],
        ),
        (
            {"guarantees": [PROVEN], "lower_bounds": [bound(9.0, 8.0)]},
            ["contradicts the proof"],
        ),
        ({"guarantees": [promise("proven", math.inf)]}, ["Without any proven protection"]),
        ({}, ["Without any proven protection", "No attack ran"]),
    ],
)
def test_verdicts_follow_from_proofs_and_attacks(more: dict[str, Any], parts: list[str]) -> None:
    (cells,) = report(results(**more), "user-dp")["Verdict"].sheets[0].cells
    assert all(part in cells[-1] for part in parts), cells


def test_one_run_leaks_by_its_own_interval() -> None:
    def verdict(low: float | None, runs: int) -> str:
        leak = {"exposure_max_repeats": {"value": 9.0, "low": low, "high": 10.0}}
        rows = seeds("user-dp", 80.0, leakage={"secret-sharer": leak})[:runs]
        return words(report(rows), "Verdict")

    assert "Above chance at 95 %: secret-sharer" in verdict(5.0, 1)
    assert "Above chance at 95 %: secret-sharer" in verdict(5.0, 3)
    assert "surely finds more" in verdict(1.0, 1)
    assert "Not compared with chance: secret-sharer" in verdict(None, 1)


def test_failures_are_said_and_no_verdict_is_given_without_a_run() -> None:
    runs = results(failed_attacks=[{"name": "audit", "type": "OSError", "message": "no disk"}],
                   skipped_attacks=[{"name": "reidentify", "reason": "one user"}])  # fmt: skip
    sections = report([failed(runs[0]), *runs[1:]])
    assert "out of disk" in words(sections, "Verdict")
    assert "no disk" in words(sections, "Verdict")
    assert "does not apply: one user" in words(sections, "Utility and attacks")
    alone = report([failed(run) for run in runs[:3]])
    assert "No verdict" in words(alone, "Verdict")
    assert not {"evidence", "evidence in part"} & set(answers(alone).values())
    assert "These results have none" in words(alone, "Units")


def test_unprotected_values_and_ceilings_stand_beside_attacks() -> None:
    sections = report(results(guarantees=[PROVEN], **members(0.01, ceiling=0.25)), "user-dp")
    assert "unprotected 40.0" in words(sections, "Utility and attacks")
    assert "at most 25.0" in words(sections, "Utility and attacks")
    assert "every update is clipped" in words(sections, "Guarantees")
    assert [row[0] for row in sections["Verdict"].sheets[0].cells] == ["user-dp"]
    with pytest.raises(UnknownNameError, match="user-db"):
        report(results(), "user-db")


def test_points_need_facts_and_sections_that_exist() -> None:
    points = [point for each in standards().values() for point in each]
    sections = report(results())
    assert {name for each in points for name in each.get("needs", [])} <= set(FACTS)
    assert {name for each in points for name in each.get("against", [])} <= set(FACTS)
    assert {each["see"] for each in points if "needs" in each} <= set(sections)
    assert all("see" not in each and "open" in each for each in points if "needs" not in each)
    assert len(answers(sections)) == len(points)


def test_points_are_answered_only_where_every_protected_row_has_evidence() -> None:
    private = {"guarantees": [PROVEN], "lower_bounds": [bound(1.0, 0.5)]}
    clean = answers(report(results(**private, **members(0.01))))
    assert (clean["11.2.4"], clean["11.2.5"]) == ("evidence", "evidence in part")
    assert clean["11.2.2"] == clean["data collection"] == "not answered"
    assert clean["implementation"] == "no evidence in these results"
    leaking = answers(report(results(**private, **members(0.3))))
    assert leaking["11.2.5"] == "evidence against it: user-dp"
    unmeasured = answers(report(results(**private)))
    assert unmeasured["11.2.5"] == "no evidence in these results"
    mixed = [*results(**private), *seeds("deidentify", 60.0)]
    assert answers(report(mixed))["11.2.4"] == "evidence, but not for: deidentify"
    refuted = answers(report(results(guarantees=[PROVEN, REFUTED])))
    assert refuted["correct algorithms"] == "evidence against it: user-dp"
    beyond = answers(report(results(guarantees=[PROVEN], lower_bounds=[bound(9.0, 8.0)])))
    assert beyond["correct algorithms"] == "evidence against it: user-dp"


def test_what_is_tested_or_protected_is_of_the_unit_that_is_proven() -> None:
    words_alone = promise("proven", 4.0, "word", notion="metric-dp")
    of_words = report(results(guarantees=[words_alone], **members(0.01)), "user-dp")
    assert "no attack tested the proof" in words(of_words, "Verdict")
    assert answers(of_words)["11.2.4"] == "no evidence in these results"
    of_rows = {"guarantees": [PROVEN], "lower_bounds": [bound(1.0, 0.5, "record")]}
    assert answers(report(results(**of_rows)))["test of the guarantee"].startswith("no evidence")


def test_hashes_are_those_of_the_bundle_and_its_lines(tmp_path: Path) -> None:
    runs = [run.model_copy(update={"tracking": {"run": "a"}}) for run in results()]
    packed = [run.model_copy(update={"tracking": {}}) for run in runs[1:]]  # as `pack` does
    write_bundle(packed, tmp_path / "all.jsonl.gz")
    text = gzip.decompress((tmp_path / "all.jsonl.gz").read_bytes())
    hashes = words(report([failed(runs[0]), *runs[1:]], "user-dp"), "Hashes of results")
    for part in (text, *text.splitlines(keepends=True)):
        assert sha256(part).hexdigest() in hashes


@pytest.mark.parametrize("ending", ["html", "md"])
def test_the_same_results_make_the_same_bytes(ending: str, tmp_path: Path) -> None:
    texts = []
    for name, order in (("a", 1), ("b", -1)):
        write_bundle(results()[::order], tmp_path / f"{name}.jsonl.gz")
        out = tmp_path / f"{name}.{ending}"
        assert run_cli(["report", str(tmp_path / f"{name}.jsonl.gz"), "--out", str(out)]) == 0
        texts.append(out.read_bytes())
    assert texts[0] == texts[1]
    assert str(tmp_path).encode() not in texts[0]


def test_no_text_of_a_result_acts_in_a_report(tmp_path: Path) -> None:
    bad = "<script>x</script>|[a](http://e)\u202e\x1b[31m"
    failure = {"name": bad, "type": "OSError", "message": bad}
    runs = seeds(bad, 80.0, failed_attacks=[failure], guarantees=[
        promise("claimed", 1.0, accountant=bad, assumptions=[bad], note=bad)],
        apart={bad: bad}, leakage={bad: {bad: {"value": 1.0}}},
    )  # fmt: skip
    strange = {"corpus": 5, "libraries": {bad: bad}}
    runs = [run.model_copy(update={"id": f"run{at}", "group": "g", "provenance": strange})
            for at, run in enumerate(runs)]  # fmt: skip
    assert "user-dp" not in words(report(runs), "Data and versions")
    for identity in (5, {"task": "x", "attacks": [[bad, bad], [[]], [], 7]}):
        odd = [run.model_copy(update={"provenance": {"identity": identity}}) for run in runs]
        assert report(odd).keys() == report(runs).keys()
    write_bundle([*runs, *results()], tmp_path / "all.jsonl.gz")
    for ending in ("html", "md"):
        out = tmp_path / f"r.{ending}"
        assert run_cli(["report", str(tmp_path / "all.jsonl.gz"), "--out", str(out)]) == 0
        text = out.read_text(encoding="utf-8")
        assert "<script" not in text
        assert ending == "html" or not re.search(r"(?<!\\)\]\(http", text)
        assert not {"\u202e", "\x1b"} & set(text)
