"""Two spellings of one person or entity have one normal form, and two people keep two."""

from __future__ import annotations

import unicodedata
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.corpus import normal_id, normal_surface

ZOE = "Zo\N{LATIN SMALL LETTER E WITH DIAERESIS}"


@pytest.mark.parametrize(
    "value", [7, "7", 7.0, "7.0", "7.00", Decimal("7.0"), np.int64(7), np.float64(7), " 7 "]
)
def test_numbers_are_ids_by_value(value):
    assert normal_id(value) == "7"


@pytest.mark.parametrize(
    ("one", "other"),
    [("007", "7"), ("a7", "A7"), ("7.5", "7"), ("7.0.0", "7"), (1e300, 1), ("", "0"), (-7, 7)],
)
def test_different_ids_stay_apart(one, other):
    assert normal_id(one) != normal_id(other)


def test_ids_of_many_digits_stay_apart():
    digits = "12345678901234567890123456789012345678"
    for written in (f"{digits}.00", f"-{digits}9.0", f"0.{digits}00"):
        assert normal_id(Decimal(written)) == written.rstrip("0").rstrip(".")
    assert normal_id(Decimal("-0.00")) == "0"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("normal", [normal_id, normal_surface])
def test_a_name_is_one_in_every_composition(normal, form):
    assert normal(unicodedata.normalize(form, ZOE)) == normal(ZOE)


@pytest.mark.parametrize("unseen", ["\u00ad", "\u200b", "\u200d", "\u2060", "\ufeff", "\ufe0f"])
@pytest.mark.parametrize("normal", [normal_id, normal_surface])
def test_characters_that_nobody_sees_do_not_count(normal, unseen):
    assert normal(f"An{unseen}na") == normal("Anna")


def test_surfaces_fold_width_case_and_spaces():
    assert normal_surface("\uff21nna\u00a0 STRASSE") == normal_surface("anna Stra\u00dfe")


@given(st.text())
def test_normal_forms_are_stable(text):
    assert normal_id(normal_id(text)) == normal_id(text)
    assert normal_surface(normal_surface(text)) == normal_surface(text)
