"""Numbers stay while versions stay: to the last bit, on the same arithmetic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from same_numbers import check, entries, specs

GOLDEN = Path(__file__).parent / "same_numbers"


@pytest.mark.parametrize("name", specs())
def test_a_small_run_gives_the_numbers_of_its_versions(name, tmp_path, store_numbers):
    check(GOLDEN / f"{name}.json", entries(name, tmp_path), store=store_numbers)


ENTRY = {"arithmetic": "", "versions": {"engine": 1}, "numbers": {"utility": {"f1": 0.5}}}
OTHER_NUMBERS = {**ENTRY, "numbers": {"utility": {"f1": 0.25}}}
RAISED = {**OTHER_NUMBERS, "versions": {"engine": 2}}


@pytest.mark.parametrize("store", [False, True])
def test_moved_numbers_need_a_raised_version(store, tmp_path):
    file = tmp_path / "golden.json"
    check(file, {"run": ENTRY}, store=True)
    before = file.read_bytes()
    with pytest.raises(AssertionError, match="raise `version`"):
        check(file, {"run": OTHER_NUMBERS}, store=store)
    assert file.read_bytes() == before


def test_a_raised_version_needs_stored_numbers(tmp_path):
    file = tmp_path / "golden.json"
    check(file, {"run": ENTRY, "other": ENTRY}, store=True)
    with pytest.raises(AssertionError, match="--store-numbers"):
        check(file, {"run": RAISED})
    check(file, {"run": RAISED}, store=True)
    check(file, {"run": RAISED})
    assert json.loads(file.read_text())["other"] == ENTRY
