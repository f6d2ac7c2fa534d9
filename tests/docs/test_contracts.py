"""The pages for authors of components print the contracts that the code has."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from examples import ROOT

from uedp_bench import api
from uedp_bench.registry import REGISTRIES

PAGES = sorted((ROOT / "docs" / "registry").glob("*.md"))
KINDS = {
    "clipping-policy.md": ("Bound", "Limits", "Seen", "Noise", "Sampler", "ServerStep"),
    "event.md": ("Event", "Neighbours", "Promise", "PrivacyEvent", "LossPair"),
    "publisher.md": ("PublishingMechanism", "Rewriting"),
    "mechanism-that-trains.md": ("Mechanism", "TrainingMechanism", "Learner", "Federation"),
    "task.md": ("Task", "TrainedRelease", "capability"),
    "task-in-stages.md": ("Role", "Schedule", "take_over", "Learner", "SourceRef"),
    "attack.md": ("Attack", "Planted", "Leakage", "Estimate", "LowerBound"),
    "source.md": ("Source", "SourceParams"),
    "model.md": ("TextModel", "LanguageModel", "TextEncoder", "Vocabulary"),
    "corpus-run-release.md": ("Component", "Params", "Corpus", "Spans", "Run", "Stream", "Release"),
}


@pytest.fixture(scope="module")
def filler() -> ModuleType:
    file = ROOT / "docs" / "registry" / "fill_contracts.py"
    spec = importlib.util.spec_from_file_location("fill_contracts", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_prints_the_contracts_of_the_code(filler, page):
    said = page.read_text()
    assert filler.filled(said) == said, (
        "a contract has changed: python docs/registry/fill_contracts.py docs/registry/*.md"
    )


@pytest.mark.parametrize("page", KINDS)
def test_a_page_prints_all_contracts_of_its_kind(filler, page):
    there = {
        name
        for found in filler.MARKED.finditer((ROOT / "docs" / "registry" / page).read_text())
        for name in found[2].split()
    }
    assert set(KINDS[page]) <= there


def test_a_signature_that_changes_is_seen(filler):
    (block,) = [page for page in PAGES if page.name == "attack.md"]
    said = block.read_text()
    changed = said.replace("planted: Any, corpus: Corpus", "planted: Planted, corpus: Corpus", 1)
    assert changed != said
    assert filler.filled(changed) == said


def test_every_public_name_is_on_a_page_but_the_registries(filler):
    there = {
        name
        for page in PAGES
        for found in filler.MARKED.finditer(page.read_text())
        for name in found[2].split()
    }
    assert set(api.__all__) - there == set(REGISTRIES)
