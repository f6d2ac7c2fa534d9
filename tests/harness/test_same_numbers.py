"""Code may move and be cut anew: the numbers of small runs stay the same to the last bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from same_numbers import arithmetic, found, specs

GOLDEN = Path(__file__).parent / "same_numbers"
SAME_ARITHMETIC = json.loads((GOLDEN / "arithmetic.json").read_text()) == arithmetic()
RELATIVE = 0.0 if SAME_ARITHMETIC else 1e-4
"""Other processors and libraries add in another order: there, numbers agree to this much."""
FITS = () if SAME_ARITHMETIC else ("extrapolated_exposure", "ks_pvalue", "reference_losses")
"""Fits to 20 losses, which rounding moves further, and the losses of the canary they choose."""


@pytest.mark.parametrize("name", specs())
def test_a_small_run_gives_the_numbers_that_it_always_gave(name, tmp_path):
    before = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    after = json.loads(json.dumps(found(name, tmp_path)))
    assert set(after) == set(before)
    differences = list(differing(before, after))
    assert not differences, differences[:5]


def differing(before: Any, after: Any, place: str = "") -> Any:
    """Every leaf that is not the same, or within what another processor may change."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}.difference(FITS)):
            yield from differing(before.get(key), after.get(key), f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, pair in enumerate(zip(before, after, strict=True)):
            yield from differing(*pair, f"{place}[{number}]")
    elif isinstance(before, float) and isinstance(after, float):
        if before != after and after != pytest.approx(before, rel=RELATIVE, abs=0.0):
            yield place, before, after
    elif before != after:
        yield place, before, after
