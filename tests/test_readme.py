"""What the README and the pages under docs show must work."""

from __future__ import annotations

import json
import math
import re

import pytest
from examples import ROOT, commands, example
from tiny import plugged

from uedp_bench.cli.main import parser, run_cli

FILES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [str(file.relative_to(ROOT)) for file in FILES]
COMMENT = re.compile(r"<!--.*?-->", re.S)


@pytest.mark.parametrize("arguments", commands(*PAGES), ids=" ".join)
def test_every_command_shown_parses(arguments):
    command = parser()
    while arguments and arguments[0] in getattr(command, "commands", {}):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    # Raises for an unknown option or command, and for a missing or superfluous argument.
    command.make_context("uedp-bench", list(arguments))


def test_the_pages_show_commands():
    assert len(commands(*PAGES)) > 10


def test_every_link_between_pages_leads_somewhere():
    broken = [
        f"{page.name}: {target}"
        for page in FILES
        for target in re.findall(r"\]\((?!https?://|#)([^)#]+)", COMMENT.sub("", page.read_text()))
        if not (page.parent / target).exists()
    ]
    assert not broken


@pytest.mark.long
def test_the_readme_mechanism_runs_as_a_plugin(tmp_path, capsys):
    file = tmp_path / "word_dropout.py"
    file.write_text(example(file.name))
    sizes = {"users": 60, "valid_users": 5, "test_users": 10, "public_users": 40}
    settings = [f"source.{name}={size}" for name, size in sizes.items()]
    settings += ["model.units=8", "model.embedding=8", "mechanism.rate=[0,0.5]"]
    command = [
        "run", "--plugin", str(file), "--mechanism", "word-dropout", "--workers", "0",
        "--no-tracking", "--json", "--out", str(tmp_path / "runs"),
        *(word for setting in settings for word in ("--set", setting)),
    ]  # fmt: skip
    with plugged():  # what the command loads is gone after it
        assert run_cli(command) == 0, capsys.readouterr().err
    runs = [json.loads(p.read_text()) for p in (tmp_path / "runs").glob("*/result.json")]
    by_rate = {run["spec"]["mechanism"][0]["params"]["rate"]: run for run in runs}
    assert set(by_rate) == {0, 0.5}
    for run in runs:
        assert {g["epsilon"] for g in run["guarantees"] if g["kind"] == "proven"} == {"inf"}
    perplexity = {rate: run["utility"]["perplexity"]["value"] for rate, run in by_rate.items()}
    assert all(map(math.isfinite, perplexity.values()))
    assert perplexity[0] < perplexity[0.5]  # text without half of its words teaches less


def test_every_field_of_a_result_is_documented():
    from uedp_bench.accounting.guarantee import CurvePoint, Guarantee
    from uedp_bench.contracts.results import Cost, Estimate, LowerBound, Result, RunError, RunSpec

    page = (ROOT / "docs" / "results.md").read_text()
    named = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`\n]+)`", page))))
    models = (Result, RunSpec, RunError, Estimate, Guarantee, CurvePoint, LowerBound, Cost)
    missing = {name for model in models for name in model.model_fields} - named
    assert not missing
