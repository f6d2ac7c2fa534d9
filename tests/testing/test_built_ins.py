"""Every component that comes with the package keeps its contract."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from same_numbers import check, entry
from small_networks import HASHED_CNN, small_networks

from uedp_bench.components import registry
from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError, MissingExtraError
from uedp_bench.testing import Subject, check_component
from uedp_bench.testing.checks import KINDS
from uedp_bench.testing.small_parameters import known_partners
from uedp_bench.testing.small_runs import finished, tasks_for

__all__ = ["small_networks"]

NUMBERS = Path(__file__).with_name("same_numbers.json")
"""Numbers of a small run of each component, with the versions that made them."""

PARTNERS: dict[str, dict[str, Any]] = {
    "mechanism/mpc": {"model": HASHED_CNN},
    "attack/transcript": {"model": HASHED_CNN, "mechanism": "mpc"},
    "attack/model-extraction": {"task": "text-classification"},
    "model/bert": {"task": "text-classification"},
    "source/wiki-biographies": {"task": "tagging"},
}
"""Where a pretrained encoder would be needed, one without weights takes its place."""

NEVER_RUN = {
    "model/marian": "it is pretrained, and nothing is downloaded here",
    "model/none": "it stands for no model",
    "model/sentence-encoder": "it is pretrained",
    "model/text-cnn": "its encoder is pretrained",
}
"""Components of which no small run is possible here; sources of files are not named."""

LONG = pytest.mark.long
"""Attacks take longest, and protect nobody."""

FAILS = {
    "attack/fragment-reassembly": {
        "check_leak_is_found": "what is published whole leaves no sentence to be put together"
    },
    "attack/model-extraction": {
        "check_leak_is_found": "it copies what is said of public texts, of which nothing leaks"
    },
}
"""Checks that a built-in component is known to fail, with reasons."""


def components() -> list[str]:
    names = [f"{kind}/{n}" for kind in KINDS for n in registry.REGISTRIES[f"{kind}s"].names()]
    ours = [name for name in names if "(uedp-bench " in _origin(name)]
    assert len(ours) > 60
    return ours


def _origin(name: str) -> str:
    kind, _, bare = name.partition("/")
    return registry.REGISTRIES[f"{kind}s"].origin(bare)


@pytest.mark.usefixtures("small_networks")
@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=LONG) if one.startswith("attack/") else one for one in components()],
)
def test_a_built_in_component_conforms(name: str, store_numbers: bool) -> None:
    kind, _, bare = name.partition("/")
    component = registry.REGISTRIES[f"{kind}s"].get(bare)
    # Other tests run mechanisms with other tasks; here one is enough.
    usual = {} if known_partners(kind, bare) or kind != "mechanism" else {"task": "next-word"}
    subject = Subject(
        component, partners=PARTNERS.get(name, usual), expected_failures=FAILS.get(name, {})
    )
    report = check_component(subject)
    assert report.conforms, str(report)
    states = {one.check: one for one in report.outcomes}
    reads_files = getattr(component, "needs_path", False)
    if not reads_files and name not in NEVER_RUN:
        assert states["check_runs"].state == "passed", states["check_runs"].reason
    if (result := whole_run(subject)) is not None:
        check(NUMBERS, {name: entry(result)}, store=store_numbers)


def whole_run(subject: Subject) -> Result | None:
    """Result of the whole run that the checks made; None where none is possible."""
    for task in tasks_for(subject):
        with suppress(InputError, MissingExtraError):
            result = finished(subject, task)
            if result.error is None:
                return result
    return None
