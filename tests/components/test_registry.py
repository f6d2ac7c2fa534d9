"""What nobody reviewed is stated, and never proven, wherever a guarantee is computed or shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny import USER_DP, plugged, runs

from uedp_bench.accounting.events import Gaussian, PrivacyEvent, PureDP
from uedp_bench.accounting.guarantee import proves_something
from uedp_bench.accounting.ledger import proven, proven_at
from uedp_bench.bounds.consistency import check_bounds
from uedp_bench.components import registry
from uedp_bench.contracts.recorded_identity import unreviewed, unreviewed_of_result
from uedp_bench.contracts.results import LowerBound, Result
from uedp_bench.errors import PrivacyError
from uedp_bench.leaderboard.front_page import _epsilons
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.in_words import in_words
from uedp_bench.leaderboard.run_pages.summary import card
from uedp_bench.leaderboard.site_files import first_rows
from uedp_bench.leaderboard.table import to_csv, to_markdown
from uedp_bench.leaderboard.validate import check
from uedp_bench.leaderboard.validation.receipts import receipt
from uedp_bench.one_run.components import build
from uedp_bench.one_run.planning.account import read_events
from uedp_bench.one_run.planting import load_data, plant
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.python_api.running import account, calibrate
from uedp_bench.tracking.content import metrics, tags

SUPPORT = Path(__file__).parents[1] / "support"
ECHO = SUPPORT / "echo.py"
BUDGET = {"name": "user-dp", "params": {"rounds": 2, "users": 60, "users_per_round": 10}}


@pytest.fixture(scope="module")
def stated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Result, Path]]:
    """The result of a plug-in that protects nothing, and its file."""
    out = tmp_path_factory.mktemp("echo")
    with plugged(ECHO):
        (run,) = runs("echo")
        result = execute(run, Execution(out=out, device="cpu", keep_release=False))
        yield result, out / result.id / "result.json"


def test_a_plug_in_states_and_does_not_prove(stated: tuple[Result, Path]) -> None:
    (guarantee,) = stated[0].guarantees
    assert (guarantee.kind, guarantee.status, guarantee.epsilon) == ("stated", "given", 0.1)
    assert "mechanism echo" in guarantee.note
    assert not proves_something(stated[0].guarantees)


def test_no_surface_calls_a_stated_epsilon_proven(stated: tuple[Result, Path]) -> None:
    result, _ = stated
    rows = aggregate([result])
    head, _, line = to_markdown(rows).splitlines()[2:5]
    cells = dict(
        zip(*([c.strip() for c in one.strip("|").split("|")] for one in (head, line)), strict=True)
    )
    assert (cells["proven ε"], cells["stated ε"]) == ("–", "0.10 user (δ = 0)")
    assert "proven.user" not in to_csv(rows) and "stated.user" in to_csv(rows)
    best = first_rows(rows)
    assert best["rows"][0][2].startswith("not proven")
    assert _epsilons(rows[0]) == {}
    assert card(result.guarantees[0]).tone == "warn"
    assert in_words(result)[0].text.startswith("Without any proven protection")
    assert "what mechanism echo says of itself" in receipt(result)
    assert "whoever has the code of others." in receipt(result)
    assert not any("proven" in name for name in (*tags(result), *(m[0] for m in metrics(result))))
    assert any("stated" in name for name in tags(result))


def test_a_file_cannot_call_itself_proven(stated: tuple[Result, Path], tmp_path: Path) -> None:
    _, path = stated
    assert check(path).errors == ()
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["guarantees"][0]["kind"] = "proven"
    forged = tmp_path / "result.json"
    forged.write_text(json.dumps(raw), encoding="utf-8")
    assert [problem.where for problem in check(forged).errors] == ["guarantees.0.kind"]


def test_a_file_tells_of_lone_files_whatever_is_installed(
    stated: tuple[Result, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "is_reviewed", lambda kind, name: True)
    assert unreviewed(stated[0].spec) == ()
    assert unreviewed_of_result(stated[0]) == ("mechanism echo",)


@pytest.mark.parametrize("part", ["mechanism", "model", "task", "source"])
def test_a_guarantee_rests_on_every_part_of_a_run(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = runs(BUDGET)
    assert unreviewed(run) == ()
    real = registry.is_reviewed

    def is_reviewed(kind: Any, name: str) -> bool:
        return kind.kind != part and real(kind, name)

    monkeypatch.setattr(registry, "is_reviewed", is_reviewed)
    (name,) = unreviewed(run)
    assert name.startswith(f"{part} ")


@pytest.mark.parametrize(("attack", "kind"), [("hold-out", "stated"), ("absent", "proven")])
def test_what_a_strange_attack_planted_is_stated(attack: str, kind: str, tmp_path: Path) -> None:
    with plugged(SUPPORT / "spies.py"):
        spec = {} if attack == "absent" else {"attacks": [{"name": attack}]}
        (run,) = runs({**BUDGET, "params": {**BUDGET["params"], "rounds": 1}}, **spec)
        result = execute(run, Execution(out=tmp_path, device="cpu", keep_release=False))
        file = tmp_path / result.id / "result.json"
        strangers = () if attack == "absent" else (f"attack {attack}",)
        assert read_events(file).unreviewed == strangers
        assert check(file).errors == ()
    assert {guarantee.kind for guarantee in result.guarantees} == {"claimed", kind}


def test_a_strange_attack_that_only_reads_changes_no_proof() -> None:
    with plugged(SUPPORT / "refuting_attack.py"):
        (run,) = runs(BUDGET, attacks=[{"name": "refuting"}])
        parts = build(run)
        planting = plant(parts.attacks, parts.sources, load_data(parts.sources), run.seed)
    assert planting.strangers == ()


def test_a_private_mechanism_on_another_model_is_stated(tmp_path: Path) -> None:
    with plugged(SUPPORT / "hashed_cnn.py"):
        (run,) = runs(
            {"name": "dp-sgd", "params": {"steps": 1, "batch_size": 8, "records": 60}},
            task={"name": "text-classification"},
            model={"name": "hashed-cnn", "params": {"width": 4}},
        )
        result = execute(run, Execution(out=tmp_path, device="cpu", keep_release=False))
    kinds = {guarantee.kind for guarantee in result.guarantees}
    assert kinds == {"claimed", "stated"}


def test_events_of_an_unreviewed_class_are_stated() -> None:
    with plugged(SUPPORT / "coin_event.py"):
        coin = registry.events.get("randomized-response")
        mixed = [
            PrivacyEvent(unit="user", event=coin(truth=0.75)),
            PrivacyEvent(unit="user", event=Gaussian(noise_multiplier=4.0)),
        ]
        assert {guarantee.kind for guarantee in proven(mixed, delta=1e-5)} == {"stated"}
        assert {guarantee.kind for guarantee in proven(mixed[1:], delta=1e-5)} == {"proven"}


def test_account_and_calibrate_say_stated(tmp_path: Path) -> None:
    assert account("echo", plugins=[ECHO])[0].kind == "stated"
    several = account("echo+user-dp", users=60, users_per_round=10)
    assert {guarantee.kind for guarantee in several} == {"claimed", "stated"}
    listed = tmp_path / "events.json"
    event = PrivacyEvent(unit="user", event=PureDP(epsilon=1.0))
    listed.write_text(f"[{event.model_dump_json()}]", encoding="utf-8")
    assert read_events(listed).prove()[0].kind == "stated"
    solution = calibrate("user-dp", 8, users=4000, users_per_round=400, rounds=100)
    assert solution.guarantee.kind == "proven"


def test_an_attack_above_a_stated_epsilon_refutes_it(stated: tuple[Result, Path]) -> None:
    bound = LowerBound(
        unit="user", epsilon=2.0, strict_epsilon=1.0, delta=1e-5, confidence=0.95, method="m"
    )

    def worth(**at: Any) -> float:
        return proven_at(stated[0].events, **at)

    (judged,) = check_bounds([bound], stated[0].guarantees, worth)
    assert (judged.status, judged.epsilon) == ("refuted", 0.1)
    proof = stated[0].guarantees[0].model_copy(update={"kind": "proven"})
    with pytest.raises(PrivacyError):
        check_bounds([bound], [proof], worth)


def test_reviewed_packages_name_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert registry.reviewed_packages() == {}
    monkeypatch.setattr(registry, "reviewed_packages", lambda: {"my-package": ("1.2",)})
    kind = registry.mechanisms
    for package, expected in (
        (("My_Package", "1.2"), True),
        (("my-package", "1.3"), False),
        (("other", "1.2"), False),
        (("uedp_bench", "0.0"), True),
        (None, False),
    ):
        monkeypatch.setattr(kind, "package", lambda name, package=package: package)
        assert registry.is_reviewed(kind, "user-dp") is expected


def test_built_in_components_are_reviewed() -> None:
    for kind in registry.REGISTRIES.values():
        for name in kind.names():
            if "(uedp-bench " in kind.origin(name):
                assert registry.is_reviewed(kind, name)
    assert not registry.is_reviewed(registry.mechanisms, "there-is-none")
    assert math.isfinite(account("user-dp", users=4000).proven("user").epsilon)
    assert USER_DP["name"] in registry.mechanisms
