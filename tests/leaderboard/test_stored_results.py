"""Stored results hold nothing of the machine and nothing of anybody's text."""

from __future__ import annotations

import json

import pytest
from references import bundle_lines, bundle_names


@pytest.mark.parametrize("name", bundle_names())
def test_results_hold_no_folder_of_a_machine(name: str) -> None:
    for line in bundle_lines(name):
        assert '"tracking":{}' in line.text
        assert all(root not in line.text for root in ("/home/", "/root/", "/usr/"))


def test_no_leaked_detail_is_longer_than_a_canary() -> None:
    """Texts that results hold are canaries of public words: none is a row of anybody."""
    for line in bundle_lines("bloggers"):
        details = json.loads(line.text)["details"]
        canaries = details["secret-sharer"]["canaries"]
        assert canaries
        assert {len(canary["text"].split()) for canary in canaries} == {5}
        membership = details["membership"]
        assert set(membership["records"]) == {"members", "non_members"}  # how many, not which
        assert "texts" not in json.dumps(membership)
