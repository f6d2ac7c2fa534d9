"""Types of one kind are equal, whoever names them."""

from __future__ import annotations

import pytest

from uedp_bench.text.type_names import kind_of_type, kinds_of_types


@pytest.mark.parametrize(
    ("one", "other"),
    [("PER", "PERSON"), ("GPE", "LOC"), ("LOCATION", "loc"), ("NRP", "NORP"), ("Org", "COMPANY"),
     ("DATE_TIME", "DATETIME"), ("EMAIL_ADDRESS", "PII"), ("NORP", "DEM")],
)  # fmt: skip
def test_names_of_one_kind(one: str, other: str) -> None:
    assert kind_of_type(one) == kind_of_type(other)


def test_unknown_names_are_kinds_of_their_own_unless_somebody_says() -> None:
    assert kinds_of_types(("MISC", "Applicant", "PER")) == ["misc", "applicant", "person"]
    same = {"Applicant": "PERSON", "MISC": "Event"}
    assert kinds_of_types(("MISC", "applicant", "EVENT"), same) == ["event", "person", "event"]
