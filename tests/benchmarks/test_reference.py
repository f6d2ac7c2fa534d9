"""The reference set: what is left out and stored, what goes on after a stop, what pages say."""

from __future__ import annotations

import importlib
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
import yaml
from references import bundle_names
from services import until
from tiny import tiny

from uedp_bench.cli.main import run_cli
from uedp_bench.leaderboard.loading import load_results

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
RESULTS = "leaderboard/results"
PARTS = [
    {"name": "small/embedded", "commands": ["uedp-bench run SPEC"]},
    {"name": "elsewhere", "commands": ["uedp-bench run conll2003 --path data/none"]},
]


def commit(root: Path) -> None:
    """Commits all that a checkout holds."""
    who = ["-c", "user.name=A", "-c", "user.email=a@b.c"]
    for command in (["add", "-A"], [*who, "commit", "-qm", "all"]):
        subprocess.run(["git", "-C", root, *command], check=True)


@pytest.fixture
def reference():
    return importlib.import_module("reference")


@pytest.fixture
def checkout(tmp_path):
    """A checkout with two parts, of which one lacks its data, and a page that quotes the other."""
    root = tmp_path / "checkout"
    for folder in ("benchmarks", "docs", RESULTS):
        (root / folder).mkdir(parents=True)
    spec = tiny({"name": "public-only"}, seeds=[1, 2])
    (root / "spec.yaml").write_text(yaml.safe_dump(spec))
    small = {**PARTS[0], "commands": [f"uedp-bench run {root}/spec.yaml"]}
    (root / "benchmarks" / "reference_parts.yaml").write_text(
        yaml.safe_dump({"reference": [small, PARTS[1]]})
    )
    page = f"A\n<!-- table: {RESULTS}/small/embedded -->\nB\n"
    (root / "docs" / "page.md").write_text(page)
    (root / ".gitignore").write_text("runs/\n")
    (tmp_path / "data").mkdir()
    subprocess.run(["git", "-C", root, "init", "-q"], check=True)
    commit(root)
    return root


@pytest.fixture
def bench(monkeypatch, reference):
    """`uedp-bench` in this process; the first `stops` runs of it stop in the middle."""

    class Bench:
        stops, calls = 0, 0

    real = subprocess.run

    def run(words, **options):
        if not str(words[0]).endswith("uedp-bench"):
            return real(words, **options)
        words = [str(word) for word in words[1:]]
        if "--workers" in words:
            words[words.index("--workers") + 1] = "0"
        Bench.calls += words[0] == "run"
        stop = words[0] == "run" and Bench.stops > 0
        Bench.stops -= stop
        with chdir(options.get("cwd", ".")):
            status = run_cli([*words, *(["--seeds", "1"] if stop else [])])
        return subprocess.CompletedProcess(words, 130 if stop else status)

    monkeypatch.setattr(reference.subprocess, "run", run)
    return Bench


def arguments(root: Path, *more: str) -> list[str]:
    return ["--root", str(root), "--data", str(root.parent / "data"), *more]


def test_a_set_goes_on_after_a_stop_and_stores_what_is_whole(reference, checkout, bench, capsys):
    bench.stops = 1
    stored = checkout / RESULTS / "small" / "embedded.jsonl.gz"
    stored.parent.mkdir()
    stored.write_text("old")
    assert reference.main(arguments(checkout)) == 130
    assert stored.read_text() == "old"  # nothing half is stored
    (first,) = (checkout / "runs").rglob("result.json")
    before = first.stat().st_mtime_ns

    assert reference.main(arguments(checkout)) == 0
    assert first.stat().st_mtime_ns == before  # what was finished has not run again
    results = load_results([stored])
    assert sorted(result.spec.seed for result in results) == [1, 2]
    assert {result.status for result in results} == {"finished"}
    assert all(result.cost.model_dump()["cpu_seconds"] > 0 for result in results)
    output = capsys.readouterr().out
    assert "docs/page.md" in output
    assert "data/none" in output

    # Stored results and pages are no code: nothing runs again because they changed.
    assert bench.calls == 2
    assert reference.main(arguments(checkout, "--parts", "small/embedded")) == 0
    assert bench.calls == 2
    # A change of code would make results of a commit that does not have it.
    (checkout / "spec.yaml").write_text("changed")
    with pytest.raises(SystemExit, match=r"M spec\.yaml"):
        reference.main(arguments(checkout))


def test_what_ends_the_script_ends_its_command(checkout):
    """One that goes on alone would write where the next command writes."""
    (checkout / "wait.py").write_text(
        "import os, pathlib, sys, time\n"
        "pathlib.Path(sys.argv[1], 'pid').write_text(f'{os.getpid()}.')\n"
        "time.sleep(600)\n"
    )
    part = {"name": "waits", "commands": ["python wait.py {out}"]}
    (checkout / "benchmarks" / "reference_parts.yaml").write_text(
        yaml.safe_dump({"reference": [part]})
    )
    commit(checkout)
    script = [sys.executable, ROOT / "benchmarks" / "reference.py", *arguments(checkout)]
    with subprocess.Popen(script, stdout=subprocess.PIPE, text=True) as running:

        def progress():
            return next((path.read_text() for path in checkout.rglob("pid")), "")

        until(lambda: progress().endswith("."), "no command begins")
        running.terminate()
        output = running.communicate(timeout=60)[0]
    assert running.returncode == 130
    assert "same command" in output
    until(lambda: not Path("/proc", progress()[:-1]).exists(), "the command goes on")


def test_parts_share_models_of_public_text(reference, checkout, bench):
    task = {"name": "next-word", "params": {"pretraining_epochs": 1}}
    names = ("first", "second")
    for name, mechanism in zip(names, ("public-only", "noiseless"), strict=True):
        params = {} if mechanism == "public-only" else {"epochs": 1}
        spec = tiny({"name": mechanism, "params": params}, task=task, seeds=[1])
        (checkout / f"{name}.yaml").write_text(yaml.safe_dump(spec))
    parts = [{"name": name, "commands": [f"uedp-bench run {checkout}/{name}.yaml"]}
             for name in names]  # fmt: skip
    (checkout / "benchmarks" / "reference_parts.yaml").write_text(
        yaml.safe_dump({"reference": parts})
    )
    commit(checkout)
    assert reference.main(arguments(checkout)) == 0
    costs = [
        result.cost.model_dump()
        for name in names
        for result in load_results([checkout / RESULTS / name])
    ]
    assert costs[0]["pretraining_seconds"] == costs[1]["pretraining_shared_seconds"] > 0
    assert "pretraining_shared_seconds" not in costs[0]


def test_names_of_parts_are_checked(reference, checkout):
    with pytest.raises(SystemExit, match=r"smal .*reference, small/embedded"):
        reference.main(arguments(checkout, "--parts", "smal"))


def test_sets_are_run_by_name(reference, tmp_path):
    sets = {"reference": [PARTS[0]], "levers": [PARTS[1], {"name": "b", "commands": ["x"]}]}
    listed = tmp_path / "parts.yaml"
    listed.write_text(yaml.safe_dump(sets, sort_keys=False))
    parts = reference.read_parts(listed)
    names = {
        choice: [part.name for part in reference.chosen(parts, choice)]
        for choice in ("reference", "levers", "b,levers", "small/embedded,b")
    }
    assert names == {
        "reference": ["small/embedded"],
        "levers": ["elsewhere", "b"],
        "b,levers": ["b", "elsewhere"],
        "small/embedded,b": ["small/embedded", "b"],
    }


def test_a_part_that_fails_is_not_stored_and_the_others_go_on(
    reference, checkout, bench, capsys, monkeypatch
):
    spec = tiny({"name": "public-only"}, seeds=[1])
    (checkout / "spec.yaml").write_text(yaml.safe_dump(spec))
    small = {"name": "small", "commands": [f"uedp-bench run {checkout}/spec.yaml"],
             "after": ["python fails.py"]}  # fmt: skip
    broken = {"name": "broken", "commands": ["python fails.py"]}
    listed = checkout / "benchmarks" / "reference_parts.yaml"
    listed.write_text(yaml.safe_dump({"reference": [broken, small, PARTS[1]]}))
    (checkout / "fails.py").write_text("raise SystemExit(3)")
    commit(checkout)
    monkeypatch.chdir(checkout.parent)
    assert reference.main(["--root", "checkout", "--data", "data"]) == 1
    errors = capsys.readouterr().err
    assert "broken" in errors
    assert "stored, and their plots failed: small" in errors
    assert [path.name for path in (checkout / RESULTS).iterdir()] == ["small.jsonl.gz"]


def test_data_are_found_plain_and_gzipped(reference, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.jsonl.gz").touch()
    (tmp_path / "plain").touch()
    place = reference.Place(tmp_path, tmp_path, tmp_path)
    commands = ("run --path data/a --set 'f=[data/a/x.jsonl,data/plain]'", "run --path data/a")
    part = reference.Part("p", commands)
    assert part.needs() == ("data/a", "data/a/x.jsonl", "data/plain")
    assert place.missing(part) == []
    assert place.on_disk("data/a/x.jsonl") == "data/a/x.jsonl.gz"
    assert place.missing(reference.Part("q", ("run --path data/b",))) == ["data/b"]


def test_every_bundle_is_a_part_and_every_spec_of_one_is_there(reference):
    parts = reference.read_parts(ROOT / "benchmarks" / "reference_parts.yaml")
    assert set(bundle_names()) <= {part.name for part in parts}
    for part in parts:  # and is read with the settings of its command
        assert part.planned() or part.name == "audits"
    seeds = "reproductions/translation-fragments-small-emea"  # more than its spec has
    assert [part.planned() for part in parts if part.name == seeds] == [21]
