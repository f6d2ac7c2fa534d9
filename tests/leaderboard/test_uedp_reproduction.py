"""What docs/reproductions/uedp.md says is what the results say, and what accounting says."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.accounting.accountants.moments import moments_epsilon
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "leaderboard" / "results" / "reproductions"
PAGE = (ROOT / "docs" / "reproductions" / "uedp.md").read_text(encoding="utf-8")
RELEASED = "uedp, as released, 282 rounds"
DESCRIBED = "uedp, as described, 42 rounds"
SEEDS = [1, 2, 3]


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "benchmarks" / "uedp_table.py"))


@pytest.fixture(scope="module")
def audits(script: dict[str, Any]) -> dict[str, list[Result]]:
    found: dict[str, list[Result]] = script["arms"](FOLDER / "uedp-audit")
    return found


def test_the_page_holds_the_tables_that_the_command_prints(
    script: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    script["main"](FOLDER / "uedp-audit")
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) >= 2
    for table in tables:
        assert table in PAGE


def test_every_arm_of_the_audit_has_its_seeds(audits: dict[str, list[Result]]) -> None:
    for results in audits.values():
        assert [result.spec.seed for result in results] == SEEDS


def test_the_claim_of_the_released_code_is_refuted(audits: dict[str, list[Result]]) -> None:
    for result in audits[RELEASED]:
        (claim,) = (g for g in result.guarantees if g.kind == "claimed")
        assert claim.status == "refuted"
        assert claim.epsilon == pytest.approx(1.0, abs=0.005)


def test_what_is_proven_is_not_refuted(
    audits: dict[str, list[Result]],
) -> None:
    for name, results in audits.items():
        if name not in (RELEASED, "noiseless"):
            for result in results:
                assert not [g for g in result.guarantees if g.status == "refuted"], name


def test_released_and_noiseless_leak_alike(
    script: dict[str, Any], audits: dict[str, list[Result]]
) -> None:
    bounds = {name: [script["strict"](r) for r in results] for name, results in audits.items()}
    assert bounds[RELEASED] == bounds["noiseless"]
    assert min(bounds[RELEASED]) > moments_epsilon(
        50 / 946 * 0.5 * 11_176 / 14_040, 2.0, 282, 1e-10
    )
    assert (
        max(max(found) for name, found in bounds.items() if name not in (RELEASED, "noiseless"))
        == 0
    )


def test_at_a_proven_8_nothing_is_better_than_unigrams(audits: dict[str, list[Result]]) -> None:
    for name in ("user-dp, ε = 8", "uedp-group, ε = 8 at k = 3"):
        for result in audits[name]:
            assert result.utility["perplexity"].value > result.utility["unigram_perplexity"].value


def test_as_released_it_learns_and_as_described_it_does_not(
    audits: dict[str, list[Result]],
) -> None:
    for result in audits[RELEASED]:
        assert result.utility["perplexity"].value < result.utility["bigram_perplexity"].value
    for result in audits[DESCRIBED]:
        assert result.utility["perplexity"].value > 10 * result.utility["unigram_perplexity"].value
        assert result.diagnostics["signal_to_noise"] < 0.002


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
