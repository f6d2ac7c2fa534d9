"""The site's reference names every command with its options, and every public name."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from examples import ROOT

import uedp_bench


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "reference", ROOT / "docs" / "hooks" / "reference.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_commands_have_their_help_and_options(reference):
    page = reference.command_line()
    for command in ("run", "leaderboard serve", "bound one-run"):
        assert f"\n### uedp-bench {command}\n" in page
    run = page.partition("\n### uedp-bench run\n")[2].partition("\n### ")[0]
    assert "| `--seeds 1,2,...` |" in run
    assert "```text\nuedp-bench run [OPTIONS] " in run
    assert "uedp-bench run spec.yaml --out runs/mine" in run.partition("```text")[2]
    assert "\b" not in page


def test_public_names_are_where_they_are_defined(reference):
    page = reference.names("uedp_bench", "# Head", uedp_bench.__all__)
    assert page.startswith("# Head")
    assert "## run\n\n::: uedp_bench.python_api.running.run\n" in page
    assert {f"## {name}" for name in uedp_bench.__all__} <= set(page.splitlines())
