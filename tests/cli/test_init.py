"""`uedp-bench init` and `run --dry-run`: from a file to what would happen, and nothing trained."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from own_files import mail
from tiny import SPIES, flags, plugged

from uedp_bench.cli.main import run_cli


def run(capsys, *arguments: str):
    """(exit code, standard output, standard error)."""
    code = run_cli(arguments)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out, printed.err


def test_init_writes_a_spec_and_never_over_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    monkeypatch.setattr(
        "uedp_bench.first_spec.suggestion.solve", lambda *_: SimpleNamespace(value=1.0)
    )
    monkeypatch.chdir(tmp_path)
    file = mail(tmp_path).name
    code, out, _ = run(capsys, "init", file)
    assert code == 0
    assert "csv, fields between semicolons, cp1252" in out
    assert "next: uedp-bench run 'Mailbox Export.yaml' --out 'runs/Mailbox Export' --dry-run" in out
    before = Path("Mailbox Export.yaml").read_text()
    code, _, err = run(capsys, "init", file, "--task", "next-word")
    assert (code, Path("Mailbox Export.yaml").read_text()) == (2, before)
    assert "--force" in err
    Path(file).rename("-mine.csv")  # a name that a command line takes for options
    assert "run ./-mine.yaml --out runs/-mine --dry" in run(capsys, "init", "./-mine.csv")[1]
    Path("-mine.csv").rename(file)
    assert run(capsys, "init", file, "--out", "new/mine.yaml", "--user", "none")[0] == 0
    assert "user_column" not in Path("new/mine.yaml").read_text()
    code, _, err = run(capsys, "init", file, "--out", "new/mine.yaml/below.yaml")
    assert code == 2
    assert "--out new/mine.yaml/below.yaml" in err


def test_a_dry_run_says_what_would_happen_and_leaves_nothing(tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    arguments = flags(
        out, "--mechanism", "user-dp", "--mechanism", "noiseless", "--seeds", "1,2",
        "--set", "mechanism.user-dp.users=100", "--set", "mechanism.user-dp.rounds=400",
        "--set", "mechanism.user-dp.users_per_round=10", "--attack", "needs-published", "--dry-run",
    )  # fmt: skip
    with plugged(SPIES):
        code, printed, _ = run(capsys, *arguments, "--json")
    assert code == 0
    found = json.loads(printed)
    assert not out.exists()
    private, plain = found["settings"]
    assert (private["label"], private["seeds"], private["finished"]) == ("user-dp", [1, 2], [])
    (units,) = private["units"]
    assert (units["declared"], units["training"]) == (100, 60)
    assert units["expected_per_round"] == 6
    proven = {g["kind"]: g for g in private["guarantees"]}["proven"]
    assert 0 < proven["epsilon"] < 1e6
    assert plain["guarantees"][0]["epsilon"] == "inf"
    assert private["vocabulary"] == plain["vocabulary"] > 0
    assert "needs-published" in private["skipped_attacks"][0]
    assert {"train", "score"} <= private["seconds"].keys()
    assert found["expected_minutes"] > 0
    assert private["rows"]["train"] > private["users"]["train"] == 60
    assert {"training": "train", "steps": 400} in private["steps"]
    assert private["weights"] == plain["weights"] > 100
    assert private["cpu_seconds"].keys() == private["seconds"].keys()
    cpu = [2 * sum(each["cpu_seconds"].values()) for each in found["settings"]]
    assert found["expected_cpu_hours"] == pytest.approx(sum(cpu) / 3600, abs=1e-3)
    assert 20 < private["memory_mb"] < 20_000
    assert found["expected_memory_mb"] >= max(private["memory_mb"], plain["memory_mb"])


def test_a_dry_run_refuses_what_cannot_run(tmp_path: Path, capsys) -> None:
    params = {"users": 10, "users_per_round": 5, "sampling": "fixed"}
    few = ["--mechanism", "user-dp", "--dry-run"]
    for name, value in params.items():
        few += ["--set", f"mechanism.{name}={value}"]
    code, _, err = run(capsys, *flags(tmp_path, *few))
    assert code == 2
    assert "user-dp.users is 10" in err
    code, _, err = run(capsys, *flags(tmp_path, *few, "--quiet"))
    assert (code, "--quiet" in err) == (2, True)
