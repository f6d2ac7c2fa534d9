"""`uedp-bench bound`: files, counts, formats and what a user sees of bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest

from uedp_bench.bounds.lower_bounds import METHODS, epsilon_lower_bound, epsilon_of_auc
from uedp_bench.cli.main import run_cli
from uedp_bench.statistics.intervals import auc

COUNTS = ["--canaries", "1000", "--guesses", "200", "--correct", "180"]


@pytest.fixture
def scores(tmp_path):
    """Scores of both sides, and the options that name their files."""
    rng = np.random.default_rng(0)
    sides = rng.normal(2.0, 1.0, 300), rng.normal(0.0, 1.0, 300)
    options = []
    for name, side in zip(("members", "nonmembers"), sides, strict=True):
        np.savetxt(tmp_path / f"{name}.txt", side, fmt="%.17g")
        options += [f"--{name}", str(tmp_path / f"{name}.txt")]
    return sides, options


def printed(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("method", METHODS)
def test_json_is_the_function(scores, capsys, method):
    sides, options = scores
    arguments = ["--method", method, "--delta", "1e-4", "--confidence", "0.9", "--json"]
    assert run_cli(["bound", *options, *arguments]) == 0
    answer = printed(capsys)
    expected = epsilon_lower_bound(*sides, delta=1e-4, confidence=0.9, method=method)
    assert answer.pop("auc") == auc(*sides)
    assert answer.pop("epsilon_of_auc") == epsilon_of_auc(auc(*sides), 1e-4)
    assert (answer.pop("normality_p_value", None) is None) == (method != "nct")
    assert answer == {"epsilon": expected, "delta": 1e-4, "confidence": 0.9, "method": method}


def test_every_kind_of_file_gives_the_same(scores, capsys, tmp_path):
    sides, options = scores
    np.save(tmp_path / "a.npy", sides[0])
    (tmp_path / "b.json").write_text(json.dumps(sides[1].tolist()))
    (tmp_path / "c.csv").write_text("\n".join(map(repr, sides[1].tolist())) + "\n\n")
    epsilons = set()
    for pair in (options, ["a.npy", "b.json"], ["a.npy", "c.csv"]):
        if len(pair) == 2:
            ins, outs = (str(tmp_path / name) for name in pair)
            pair = ["--members", ins, "--nonmembers", outs]
        assert run_cli(["bound", *pair, "--json"]) == 0
        epsilons.add(printed(capsys)["epsilon"])
    assert len(epsilons) == 1


def test_infinity_as_results_write_it(capsys, tmp_path):
    files = {"members": ["inf"] * 50, "nonmembers": ["-inf"] * 50}
    options = []
    for name, values in files.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(values))
        options += [f"--{name}", str(tmp_path / f"{name}.json")]
    assert run_cli(["bound", *options, "--json"]) == 0
    assert printed(capsys)["epsilon"] > 1.0


@pytest.mark.parametrize(
    ("more", "method", "epsilon"),
    [([], "one-run", 1.796285), (["--f-dp"], "one-run-f-dp", 2.901243)],
)
def test_one_run(capsys, more, method, epsilon):
    assert run_cli(["bound", "one-run", *COUNTS, "--delta", "1e-5", *more, "--json"]) == 0
    answer = printed(capsys)
    assert answer.pop("epsilon") == pytest.approx(epsilon, abs=1e-6)
    assert answer == {"delta": 1e-5, "confidence": 0.95, "method": method}


def test_words(scores, capsys):
    _, options = scores
    assert run_cli(["bound", *options]) == 0
    assert capsys.readouterr().out.startswith("epsilon is at least ")
    assert run_cli(["bound", *options, "--method", "nct"]) == 0
    assert "normal" in capsys.readouterr().out
    swapped = ["--members", options[3], "--nonmembers", options[1]]
    assert run_cli(["bound", *swapped]) == 0
    assert "refuted" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--members", "in.txt"], "--nonmembers FILE: missing"),
        (["--nonmembers", "in.txt"], "--members FILE: missing"),
        (["--members", "in.txt", "--nonmembers", "no.txt"], "no.txt"),
        (["--members", "in.txt", "--nonmembers", "in.pkl"], "in.pkl"),
        (["--members", "in.txt", "--nonmembers", "bad.txt"], "line 2: 'two'"),
        (["--members", "in.txt", "--nonmembers", "nan.txt"], "nonmembers: 1 of 2"),
        (["--members", "in.txt", "--nonmembers", "empty.txt"], "nonmembers: no values"),
        (["--members", "in.txt", "--nonmembers", "bad.npy"], "bad.npy"),
        (["--members", "in.txt", "--nonmembers", "bad.json"], "bad.json"),
        (["--members", "in.txt", "--nonmembers", "in.txt", "--method", "onerun"], "'one-run'"),
        (["--members", "in.txt", "one-run", *COUNTS, "--delta", "0"], "--members:"),
        (["--json", "one-run", *COUNTS, "--delta", "0"], "--json:"),
        (["one-run", *COUNTS], "--delta"),
        (["one-run", *COUNTS, "--delta", "1.5"], "delta: 1.5"),
        (["one-run", *COUNTS, "--delta", "0", "--f-dp"], "delta: 0"),
        (["one-run", *COUNTS, "--delta", "0", "--guesses", "2000"], "guesses: 2000"),
        (["one-run", *COUNTS, "--delta", "0", "--correct", "201"], "correct: 201"),
    ],
)
def test_bad_input(capsys, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    files = {"in.txt": "1\n2\n", "bad.txt": "1\ntwo\n", "nan.txt": "1\nnan\n", "empty.txt": "",
             "bad.npy": "no array", "bad.json": '{"scores": [1]}'}  # fmt: skip
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert run_cli(["bound", *arguments]) == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("error: ")
    assert complaint.count("\n") == 1
    assert message in complaint


def test_help_shows_both_ways(capsys):
    for arguments in (["bound"], ["bound", "--help"]):
        assert run_cli(arguments) == 0
        out = capsys.readouterr().out
        assert "--nonmembers" in out
        assert "one-run" in out
