"""The site prints, on the pages for authors of components, the contracts that the code has."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import contracts
import pytest
from examples import ROOT

from uedp_bench import api
from uedp_bench.components.registry import REGISTRIES

PAGES = sorted((ROOT / "docs" / "registry").glob("*.md"))
KINDS = {
    "event.md": ("Event", "promises", "loss_pairs", "renyi_divergences", "PrivacyEvent"),
    "publisher.md": ("PublishingMechanism", "Rewriting"),
    "mechanism-that-trains.md": (
        *("Mechanism", "TrainingMechanism", "Learner", "Federation"),
        *("Bound", "Limits", "Seen", "Noise", "Sampler", "ServerStep"),
    ),
    "task.md": ("Task", "TrainedRelease", "capability"),
    "task-in-stages.md": ("Role", "Schedule", "take_over", "Learner", "SourceRef"),
    "attack.md": ("Attack", "Planted", "Leakage", "Estimate", "LowerBound"),
    "source.md": ("Source", "SourceParams"),
    "model.md": ("TextModel", "LanguageModel", "TextEncoder", "Vocabulary"),
    "corpus-run-release.md": ("Component", "Params", "Corpus", "Spans", "Run", "Stream", "Release"),
}


def names_on(page: Path) -> set[str]:
    return {
        name for match in contracts.MARKED.finditer(page.read_text()) for name in match[1].split()
    }


@pytest.mark.long
def test_a_terminal_prints_a_contract():
    command = [sys.executable, "docs/hooks/contracts.py", "Metric", "loss_pairs"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "no_leak: Number | None" in done.stdout
    assert "def loss_pairs(event: Event, neighbours: Neighbours)" in done.stdout


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_prints_the_contracts_of_its_names(page):
    page_text = page.read_text()
    printed = contracts.on_page_markdown(page_text)
    assert "<!-- contract" not in printed
    for name in names_on(page):
        assert re.search(rf"^(class|def) {name}\b|^{name}\b", printed, re.MULTILINE), name


@pytest.mark.parametrize("page", KINDS)
def test_a_page_prints_all_contracts_of_its_kind(page):
    assert set(KINDS[page]) <= names_on(ROOT / "docs" / "registry" / page)


def test_a_contract_has_signatures_and_docstrings_without_bodies():
    printed = contracts.on_page_markdown("<!-- contract: Attack -->\n")
    assert "def run(self, release: Release, planted: Any, corpus: Corpus, run: Run)" in printed
    assert '"""Base of all attacks.' in printed
    assert "return" not in re.sub(r'""".*?"""', "", printed, flags=re.DOTALL)


def test_every_public_name_is_on_a_page_but_the_registries():
    page_names = set().union(*(names_on(page) for page in PAGES))
    parts = [import_module(f"{api.__name__}.{part.name}") for part in iter_modules(api.__path__)]
    assert {name for module in (api, *parts) for name in module.__all__} - page_names == set(
        REGISTRIES
    )
