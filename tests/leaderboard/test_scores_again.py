"""Scores of a result are computed again from revealed coins and the model that was attacked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

import uedp_bench as ub
from tests.support import checkpoints
from uedp_bench.cli.leaderboard import _computed_again
from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Result, write_result
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.validate import check
from uedp_bench.leaderboard.validation.receipts import check_scores
from uedp_bench.leaderboard.validation.report import Report
from uedp_bench.one_run import planted_elsewhere

SOURCE = {"users": 60, "valid_users": 2, "test_users": 2, "public_users": 30}
SPEC = {
    "source": {"name": "embedded", "params": SOURCE},
    "attacks": [{"name": "audit", "params": {"canaries": 20, "references": 8, "word_pool": 30}}],
}


@pytest.fixture(scope="module")
def where(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with planted text, and two models: `before`, and `after` it learnt that text."""
    folder = tmp_path_factory.mktemp("again")
    (folder / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    with pytest.MonkeyPatch.context() as patch:  # equal coins at every run of these tests
        patch.setattr(planted_elsewhere, "new_key", lambda: "0123456789abcdef" * 2)
        assert run_cli(["plant", str(folder / "spec.yaml"), "--out", str(folder / "planted")]) == 0
    rows = [json.loads(line) for line in (folder / "planted/corpus/rows.jsonl").open()]
    texts = [row["text"] for row in rows if row["split"] == "train"]
    words = sorted({word for text in texts for word in text.split()})
    for name, steps in (("before", 0), ("after", 4)):
        same = [text for text in texts if len(text.split()) == 5]
        checkpoints.causal(folder / name, same, steps, words=words)
    return folder


def attacked(where: Path, model: str, seed: int = 1) -> Result:
    """Result of the spec that `plant` wrote, for a model."""
    spec, settings = str(where / "planted/attack.yaml"), {"model.pretrained": str(where / model)}
    (result,) = ub.run(spec, settings=settings, out=where / "runs", workers=0, seeds=[seed])
    assert result.error is None, result.error
    return result


@pytest.fixture(scope="module")
def honest(where: Path) -> Result:
    return attacked(where, "after")


@pytest.fixture(scope="module")
def own(where: Path) -> Any:
    """Result that the owner of the model computes again."""
    return _computed_again(*spec_of(where), where / "planted/coins.json", ())


def spec_of(where: Path) -> tuple[str, list[str]]:
    return str(where / "planted/attack.yaml"), [f"model.pretrained={where / 'after'}"]


def checked(where: Path, result: Result, own: Any) -> Report:
    write_result(result, where / "result.json")
    return check(where / "result.json", where / "planted/coins.json", own)


def with_audit(result: Result, **changes: Any) -> Result:
    """The result with other details of its audit."""
    details = {"audit": {**result.details["audit"], **changes}}
    return result.model_copy(update={"details": {**result.details, **details}})


def messages(report: Report) -> Mapping[str, str]:
    return {problem.where: problem.what for problem in report.problems}


def test_scores_of_the_model_agree_part_by_part(where: Path, honest: Result, own: Any) -> None:
    report = checked(where, honest, own)
    assert report.errors == ()
    agreement = messages(report)["spec.model"]
    assert "details.audit, leakage.audit, lower_bounds, utility agree within 0.001" in agreement
    assert not any(place.startswith("provenance.identity") for place in messages(report))


@pytest.mark.parametrize("by", [0.01, -0.01, 1e-4])
def test_one_forged_score_is_named_with_both_values(
    where: Path, honest: Result, own: Any, by: float
) -> None:
    scores = {name: [*side] for name, side in honest.details["audit"]["scores"].items()}
    scores["nonmembers"][3] += by
    report = checked(where, with_audit(honest, scores=scores), own)
    place, agreement = "details.audit.scores.nonmembers.3", messages(report)["spec.model"]
    assert "utility agree within 0.001" in agreement
    if abs(by) < 1e-3:  # as other processors round
        assert "details.audit" in agreement
        return
    assert "details.audit" not in agreement
    wrong = {each.where: each.what for each in report.errors}[place]
    true = honest.details["audit"]["scores"]["nonmembers"][3]
    assert f"{true + by:.9g}" in wrong
    assert f"{true:.9g}" in wrong


def test_scores_of_another_model_differ(where: Path, own: Any) -> None:
    other = attacked(where, "before")
    spec = messages(checked(where, other, own))
    assert "details.audit.scores.members.0" in spec
    assert "provenance.identity.model" in spec


def test_scores_of_another_seed_need_a_spec_with_it(where: Path, own: Any) -> None:
    other = attacked(where, "after", seed=2)
    report = checked(where, other, own)
    assert "details.audit.scores.members.0" in {each.where for each in report.errors}
    assert "2 is not the 1" in messages(report)["provenance.identity.seed"]
    spec, settings = spec_of(where)
    data = yaml.safe_load(Path(spec).read_text()) | {"seeds": [2]}
    (where / "other.yaml").write_text(yaml.safe_dump(data))
    again = _computed_again(str(where / "other.yaml"), settings, where / "planted/coins.json", ())
    assert checked(where, other, again).errors == ()


def test_a_result_with_fewer_canaries_is_refused(where: Path, honest: Result, own: Any) -> None:
    audit = honest.details["audit"]
    scores = {**audit["scores"], "nonmembers": audit["scores"]["nonmembers"][1:]}
    report = checked(where, with_audit(honest, canaries=19, scores=scores), own)
    wrong = {each.where for each in report.errors}
    assert {"details.audit.included", "details.audit.canaries"} <= wrong
    assert "details.audit" not in messages(report)["spec.model"]


@pytest.mark.parametrize("field", ["leakage", "details", "lower_bounds", "utility"])
def test_left_out_numbers_are_missed(where: Path, honest: Result, own: Any, field: str) -> None:
    empty: Any = () if field == "lower_bounds" else {}
    report = checked(where, honest.model_copy(update={field: empty}), own)
    assert any(each.where.startswith(field) for each in report.errors)


@pytest.mark.parametrize(("name", "by"), [("delta", 5e-4), ("confidence", 5e-4)])
def test_levels_of_bounds_are_compared_exactly(
    where: Path, honest: Result, own: Any, name: str, by: float
) -> None:
    first, *rest = honest.lower_bounds
    other = first.model_copy(update={name: getattr(first, name) + by})
    report = checked(where, honest.model_copy(update={"lower_bounds": (other, *rest)}), own)
    assert f"lower_bounds.0.{name}" in {each.where for each in report.errors}
    assert "lower_bounds" not in messages(report)["spec.model"].replace("leakage", "")


def test_parts_without_numbers_do_not_agree(honest: Result) -> None:
    empty = {"details": {}, "leakage": {"audit": {}}, "lower_bounds": (), "utility": {}}
    bare = honest.model_copy(update=empty)
    (only,) = check_scores(bare, bare)
    assert only.what.startswith("no numbers agree")


def test_attacks_that_the_spec_leaves_out_are_not_compared(honest: Result) -> None:
    spec = honest.spec.model_copy(update={"attacks": ()})
    fewer = honest.model_copy(update={"spec": spec, "details": {}, "leakage": {}})
    notes = {each.where: each for each in check_scores(fewer, honest)}
    assert {each.severity for each in notes.values()} == {"note"}
    assert "not compared" in notes["leakage.audit"].what
    assert "audit" not in notes["spec.model"].what


def test_other_mechanisms_of_the_spec_are_not_dropped(where: Path) -> None:
    spec, settings = spec_of(where)
    data = yaml.safe_load(Path(spec).read_text())
    data["mechanisms"] = [["deidentify", *data["mechanisms"]]]
    (where / "changed.yaml").write_text(yaml.safe_dump(data))
    with pytest.raises(InputError, match="deidentify"):
        _computed_again(str(where / "changed.yaml"), settings, where / "planted/coins.json", ())


def test_the_command_scores_again_and_exits_by_the_verdict(
    where: Path, honest: Result, capsys: pytest.CaptureFixture[str]
) -> None:
    write_result(honest, where / "result.json")
    command = ["leaderboard", "validate", str(where / "result.json")]
    coins = ["--coins", str(where / "planted/coins.json")]
    spec, settings = spec_of(where)
    again = [*coins, "--spec", spec, "--set", *settings]
    assert run_cli([*command, *again]) == 0
    assert "agree within 0.001" in capsys.readouterr().out
    write_result(attacked(where, "before"), where / "result.json")
    assert run_cli([*command, *again]) == 1
    assert run_cli([*command, *coins, "--set", *settings]) == 2
    assert run_cli([*command, *again, "--set", "model.max_length=[8,9]"]) == 2
    assert run_cli([*command, *again, "--set", f"model.pretrained={where}"]) == 2
