"""The site has a page for every component, with all that the component declares."""

from __future__ import annotations

import component_text
import pytest
from examples import ROOT

from uedp_bench.components.registry import REGISTRIES
from uedp_bench.spec.spec import packaged_specs


def by_hand(kind: str, name: str) -> str | None:
    file = ROOT / "docs" / kind / f"{name}.md"
    return file.read_text("utf-8") if file.exists() else None


def built_in(kind: str) -> list[str]:
    """Names of the package's own; other tests of this process may have registered more."""
    registry = REGISTRIES[kind]
    return [n for n in registry.names() if registry.get(n).__module__.startswith("uedp_bench.")]


def rows(page: str) -> dict[str, list[str]]:
    """Cells of the rows of all tables of a page, by the first cell."""
    lines = (line[2:-2].split(" | ") for line in page.splitlines() if line.startswith("| "))
    return {cells[0]: cells[1:] for cells in lines}


@pytest.mark.parametrize("kind", REGISTRIES)
def test_a_page_has_all_that_a_component_declares(kind):
    for name in built_in(kind):
        written = by_hand(kind, name)
        page_text = component_text.page(kind, name, written)
        assert page_text.startswith("# "), name
        cells = rows(
            page_text.partition("## All metrics")[2] or page_text.partition("## All parameters")[2]
        )
        for one in component_text.described(kind, name)["parameters"]:
            if (kind, one["name"]) != ("events", "kind"):
                kinds, default, meaning = cells[f"`{one['name']}`"]
                assert all(f"`{part}`" in kinds for part in one["type"].split(" | ")), name
                assert (default == "required") is one["required"], name
                assert meaning or kind == "events", f"{name}.{one['name']} has no description"
        for one in component_text.described(kind, name).get("metrics", ()):
            assert cells[f"`{one['name']}`"][1] == component_text._plain(one["about"]), name
        kept = [line for line in (written or "").splitlines() if line]
        assert [line for line in kept if line not in page_text.splitlines()] == [], name
        code = rows(page_text)["code"][0].partition("](../../")[2].rstrip(")")
        assert (ROOT / code).is_file(), name


def test_an_overview_names_all_components_of_a_kind():
    for kind in REGISTRIES:
        assert {f"[{name}]({name}.md)" for name in built_in(kind)} <= set(
            rows(component_text.overview(kind))
        )
    assert {f"`{name}`" for name in packaged_specs()} <= set(rows(component_text.specs()))


def test_a_page_says_what_goes_together():
    def fact(kind: str, name: str, label: str) -> str:
        return rows(component_text.page(kind, name))[label][0]

    assert fact("mechanisms", "user-dp", "protects") == "user"
    assert "whoever computes updates" in fact("mechanisms", "user-dp", "threat model")
    assert "(https://arxiv.org/abs/1710.06963)" in fact("mechanisms", "user-dp", "paper or origin")
    assert "next-word" in fact("attacks", "secret-sharer", "applies to")
    assert fact("attacks", "embedding-inversion", "applies to").startswith(
        "models of the tasks text-classification"
    )
    assert "messages" in fact("attacks", "gradient-inversion", "applies to")
    assert "membership" in fact("tasks", "tagging", "attacks on what it trains")
    assert "lstm-small" in fact("tasks", "next-word", "models")
    assert fact("models", "marian", "tasks") == "translation"


def test_what_a_component_says_stays_text():
    escaped = component_text._plain("a_b * c_d [x] <y> | `k_l | m`")
    assert escaped == r"a\_b \* c\_d \[x\] \<y\> &#124; `k_l &#124; m`"
