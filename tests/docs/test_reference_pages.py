"""The site's reference names every command with its options, and every public name."""

from __future__ import annotations

import runpy

from examples import ROOT

import uedp_bench

HOOK = runpy.run_path(str(ROOT / "docs" / "hooks" / "reference.py"))


def test_commands_have_their_help_and_options():
    page = HOOK["command_line"]()
    for command in ("run", "leaderboard serve", "bound one-run"):
        assert f"\n### uedp-bench {command}\n" in page
    run = page.partition("\n### uedp-bench run\n")[2].partition("\n### ")[0]
    assert "| `--seeds 1,2,...` |" in run
    assert "```text\nuedp-bench run [OPTIONS] " in run
    assert "uedp-bench run spec.yaml --out runs/mine" in run.partition("```text")[2]
    assert "\b" not in page


def test_public_names_are_where_they_are_defined():
    page = HOOK["names"]("uedp_bench", "# Head", uedp_bench.__all__)
    assert page.startswith("# Head")
    assert "## run\n\n::: uedp_bench.python_api.running.run\n" in page
    assert {f"## {name}" for name in uedp_bench.__all__} <= set(page.splitlines())
