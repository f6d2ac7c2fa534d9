"""With the kernels switched off everything runs as well, and its numbers agree to rounding."""

from __future__ import annotations

from pathlib import Path

import pytest
from same_numbers import check, entries

from uedp_bench.one_run.stored_run import provenance

GOLDEN = Path(__file__).parents[2] / "one_run" / "same_numbers"


@pytest.mark.parametrize(
    "name",
    ["pretrained", *(pytest.param(one, marks=pytest.mark.long) for one in ("language", "classes"))],
)  # others train the same
@pytest.mark.usefixtures("switched_off")
def test_small_runs_agree_without_kernels(name: str, tmp_path: Path) -> None:
    check(GOLDEN / f"{name}.json", entries(name, tmp_path))


def test_a_result_says_that_they_were_off(request: pytest.FixtureRequest) -> None:
    assert "kernels" not in provenance({})
    request.getfixturevalue("switched_off")
    assert provenance({})["kernels"] == "torch"
