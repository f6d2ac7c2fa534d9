"""`uedp-bench advise`: from a file to a sentence, resumed by the same command."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
from own_files import reviews

from uedp_bench.cli import advise
from uedp_bench.cli.main import run_cli
from uedp_bench.components import registry
from uedp_bench.contracts.results import read_result
from uedp_bench.io.yaml_files import load_yaml
from uedp_bench.python_api.run_grid import Options

HERE = ["--workers", "0", "--quiet", "--minutes"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """(exit code, standard output, standard error)."""
    code = run_cli(arguments)
    printed = capsys.readouterr()
    assert "Traceback" not in printed.err
    return code, printed.out, printed.err


def embedded(folder: Path, users: int = 60) -> Path:
    """The embedded corpus as a csv file of six short rows a user."""
    corpus = registry.sources.create("embedded", {"users": users}).load().only("train")
    file, counts = folder / "posts.csv", Counter[int]()
    with file.open("w", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(["author", "text", "topic"])
        for text, user, label in zip(corpus.texts, corpus.users, corpus.labels, strict=True):
            counts[int(user)] += 1
            if counts[int(user)] <= 6:
                writer.writerow([int(user), text, corpus.label_names[label]])
    return file


@pytest.mark.long
def test_a_file_becomes_a_sentence_and_a_spec_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = embedded(tmp_path).name
    command = ["advise", file, "--epsilon", "2,8", *HERE]
    code, out, err = run(capsys, *command, "0.1")
    assert (code, err) == (0, "")
    folder = Path("runs/posts-advice")
    spec = load_yaml((folder / "spec.yaml").read_text())
    epsilons = [one["params"]["epsilon"] for one in spec["mechanisms"] if "epsilon" in str(one)]
    assert epsilons == [2.0, 8.0]
    done = sorted(folder.glob("runs/*/result.json"))
    assert {read_result(path).spec.seed for path in done} == {1}
    assert "left out for time: seed 2, 3" in out
    for part in ("recommend", "Learning rates", "valid", "dp-sgd", "public-only", "spec.yaml"):
        assert part in out, part
    # Goes on: what is there stays, and other options are refused.
    before = {path: path.stat().st_mtime_ns for path in done}
    again = ["run", str(folder / "spec.yaml"), "--out", str(folder / "runs"), "--seeds", "1"]
    assert run_cli([*again, "--no-tracking", *HERE[:3]]) == 0
    code, printed, _ = run(capsys, *command, "0.1", "--json")
    answer = json.loads(printed, parse_constant=lambda name: pytest.fail(name))
    assert {path: path.stat().st_mtime_ns for path in done} == before
    assert {"found", "guessed", "advice", "rows", "recommended", "seeds_left_out"} <= set(answer)
    assert len(answer["rows"]) == 5
    code, _, err = run(capsys, "advise", file, "--epsilon", "3", *HERE, "0.1")
    assert (code, "runs/posts-advice" in err) == (2, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--epsilon", "0"),
        ("--minutes", "0"),
        ("--minutes", "nan"),
        ("--user", "nobody"),
        ("--task", "translation"),
    ],
)
def test_bad_options_are_refused_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    code, _, err = run(capsys, "advise", str(reviews(tmp_path)), "--out", str(out), *arguments)
    assert (code, out.exists()) == (2, False)
    assert arguments[0] in err


def test_shared_shadow_models_count_once_a_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = [SimpleNamespace(seconds={"train": 10.0, "score": 2.0, "attack": 24.0})]
    monkeypatch.setattr(
        "uedp_bench.grid.forecast.forecast", lambda *_: SimpleNamespace(settings=measured)
    )
    data = {
        "source": "embedded",
        "mechanisms": ["noiseless", "dp-sgd"],
        "attacks": [{"name": "membership", "params": {}}],
        "seeds": [1, 2, 3],
    }

    def effort(minutes: float) -> float | None:
        return advise._effort(data, minutes, Options(tmp_path, workers=2))

    fair = 6 * (12 + 24) / 2 / 60 / advise.TRAINING
    assert effort(fair) is None
    assert effort(fair / 2) == pytest.approx(0.5)
    data["attacks"][0]["params"]["shadow_mechanism"] = "none"  # type: ignore[index]
    assert effort(fair / 2) == pytest.approx(0.5 * 36 / 24)
    assert effort(1e9) == advise.EFFORT[1]
    measured[0].seconds = {}
    assert effort(1.0) is None


def test_a_spec_of_somebody_else_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec.yaml").write_text("mechanisms: [noiseless]\n")
    code, _, err = run(capsys, "advise", str(reviews(tmp_path)), "--out", str(tmp_path))
    assert (code, "--out" in err) == (2, True)
    assert (tmp_path / "spec.yaml").read_text() == "mechanisms: [noiseless]\n"


def test_a_tiny_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = reviews(tmp_path, rows=20)
    code, _, err = run(capsys, "advise", str(file), "--out", str(tmp_path / "out"))
    assert (code, "20 rows" in err) == (2, True)
    assert not (tmp_path / "out").exists()
