"""`uedp-bench tradeoff`: curves, the choice of parameters, and bad input."""

from __future__ import annotations

import json

import numpy as np
import pytest

from uedp_bench.cli.main import run_cli


@pytest.fixture
def base(tmp_path):
    """A lexicon of two clusters of words, and the arguments that name it."""
    rng = np.random.default_rng(0)
    lines = []
    for name, centre in (("negative", -2.0), ("positive", 2.0)):
        words = [f"{name[:3]}{chr(97 + i)}" for i in range(25)]
        (tmp_path / f"{name}-words.txt").write_text("\n".join(words) + "\n")
        for word in words:
            x, y = rng.normal(size=2)
            lines.append(f"{word} {x + centre} {y}\n")
    (tmp_path / "vectors.txt").write_text("".join(lines))
    return ["--source", "opinion-lexicon", "--path", str(tmp_path), "--samples", "40",
            "--device", "cpu", "--set", f"embedding={tmp_path / 'vectors.txt'}"]  # fmt: skip


def test_grid_as_json_and_page(base, capsys, tmp_path):
    page = tmp_path / "curves.html"
    arguments = ["--set", "epsilon=[0.5,5,500]", "--set", "t=[0,1]", "--set", "candidates=all"]
    assert run_cli(["tradeoff", "vickrey", *base, *arguments, "--json", "--plot", str(page)]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert [(p["epsilon"], p["t"]) for p in points] == [
        (e, t) for e in (0.5, 5, 500) for t in (0, 1)
    ]
    first = [p["inference_error"]["value"] for p in points if p["t"] == 0]
    assert first[0] > first[1] > first[2] == 0
    assert points[4]["utility_loss"]["value"] == 0
    assert points[5]["inference_error"]["value"] > 0.1
    for point in points[:4]:
        loss = point["utility_loss"]
        assert loss["low"] <= loss["value"] <= loss["high"]
        assert point["inference_error_map"]["value"] <= point["inference_error"]["value"]
    assert "t = 1" in page.read_text()
    assert run_cli(["tradeoff", "vickrey", *base, *arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["points"] == points


def test_table_of_a_mechanism_without_t(base, capsys):
    assert run_cli(["tradeoff", "metric-dp", *base, "--set", "epsilon=[1,9]"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split()[:3] == ["epsilon", "inference", "error"]
    assert len(shown) == 3


def test_budget(base, capsys):
    arguments = ["--set", "epsilon=0.5", "--set", "candidates=all", "--budget", "0.05"]
    assert run_cli(["tradeoff", "vickrey", *base, *arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    chosen = found["chosen"]
    assert chosen["utility_loss"]["value"] <= 0.05
    assert chosen in found["points"]
    allowed = [
        p["inference_error"]["value"]
        for p in found["points"]
        if p["epsilon"] == chosen["epsilon"] and p["utility_loss"]["value"] <= 0.05
    ]
    assert chosen["inference_error"]["value"] == max(allowed)
    assert run_cli(["tradeoff", "vickrey", *base, *arguments]) == 0
    shown = capsys.readouterr().out
    assert f"chosen: epsilon {chosen['epsilon']:g}, t {chosen['t']:g};" in shown
    assert "does not cover the choice" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vickrey", "--set", "epsilon=1", "--budget", "0.0001", "--doublings", "2"],
         "is not reached: the smallest loss seen is"),
        (["vickrey", "--set", "epsilon=[1,2]", "--budget", "0.1"], "give no lists"),
        (["vickrey", "--set", "epsilon=1", "--set", "t=0.5", "--budget", "0.1"], "chooses t"),
        (["metric-dp", "--set", "epsilon=1", "--budget", "0.1"], "metric-dp has no t"),
        (["vickrey+metric-dp"], "one mechanism at a time"),
        (["vickrey"], "vickrey needs the parameter 'epsilon'"),
        (["vickrey", "--set", "epsilon=1", "--samples", "3"], "--samples 3: give an even number"),
        (["vickrey", "--set", "epsilon=1", "--adversary", "me"], "not one of posterior, map"),
        (["vickrey", "--set", "epsilon=1", "--set", "source.seed=[1,2]"], "on one corpus"),
        (["vickrey", "--set", "epsilon=0"], "vickrey.epsilon is 0"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(base, capsys, arguments, message):
    assert run_cli(["tradeoff", arguments[0], *base, *arguments[1:]]) in (1, 2)
    error = capsys.readouterr().err
    assert message in error
    assert error.strip().splitlines()[-1].startswith("error: ")


def test_a_mechanism_that_replaces_no_words(base, capsys):
    assert run_cli(["tradeoff", "deidentify", *base[:-2]]) == 2
    assert "deidentify does not replace words one by one" in capsys.readouterr().err


def test_help_teaches(capsys):
    assert run_cli(["tradeoff", "--help"]) == 0
    assert "--budget 0.06" in capsys.readouterr().out
