"""What docs/reproductions/uedp.md says is what accounting says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.accounting.accountants.moments import moments_epsilon

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reproductions" / "uedp.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "uedp_table.py"))


def test_the_page_holds_the_table_that_the_command_prints(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    script["main"]()
    assert capsys.readouterr().out.strip() in PAGE


ROUNDS_OF_THE_CODE = [
    # users a round, factor of the rate, z, rounds, epsilons of the figures
    (50, 0.5 * 11_176 / 14_040, 2.0, (42, 282, 660, 1181, 1841, 2634), (0.5, 1, 1.5, 2, 2.5, 3)),
    (25, 1.0, 2.0, (19, 171, 407, 735, 1150, 1649), (0.5, 1, 1.5, 2, 2.5, 3)),
    (10, 0.5 * 11_176 / 14_040, 2.5, (1, 48, 96, 143, 191), (0.18, 0.185, 0.19, 0.195, 0.2)),
    (4, 1.0, 2.5, (1, 48, 95, 142, 189), (0.18, 0.185, 0.19, 0.195, 0.2)),
]  # fmt: skip


@pytest.mark.parametrize(("users", "factor", "z", "rounds", "epsilons"), ROUNDS_OF_THE_CODE)
def test_rounds_of_the_released_code_are_the_epsilons_of_the_figures(
    users: int, factor: float, z: float, rounds: tuple[int, ...], epsilons: tuple[float, ...]
) -> None:
    found = [moments_epsilon(users / 946 * factor, z, count, 1e-5) for count in rounds]
    assert found == pytest.approx(epsilons, rel=0.006)


def test_one_number_cannot_stand_for_all_entities(script: dict[str, Any]) -> None:
    """At T = 50 the claim lies between what is proven for a rare and for a wide entity."""
    data = script["FIGURE_4"]["CoNLL-2003"]
    claim = script["claimed_of"](data, 50, 2.0)["f_E+"]
    proofs = {k: script["proven_of"](data, 50, 2.0, k) for k in (0, 10, 111, 945)}
    assert proofs[0] < proofs[10] < claim < proofs[111] < proofs[945]
    for spread in (2, 6, 17, 3, 14, 66, 7, 42, 111, 5, 29, 54):
        shown = script["number"](script["proven_of"](data, 50, 2.0, spread))
        assert f"| {spread}: {shown} |" in PAGE
