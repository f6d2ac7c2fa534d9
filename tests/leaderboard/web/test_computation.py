"""Computation that nobody sees, on the page: found by its unit, and beside no other epsilon."""

from __future__ import annotations

import pytest

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.site import build

SIMULATED = {"kind": "proven", "notion": "simulation", "unit": "computation", "epsilon": 0.0,
             "adjacency": "replace-one", "delta": 1e-9, "accountant": "simulation"}  # fmt: skip


def run(mechanism, epsilon, *more):
    proven = {"kind": "proven", "notion": "none" if epsilon == "inf" else "dp", "unit": "user",
              "adjacency": "add-or-remove", "epsilon": epsilon, "delta": 1e-5,
              "accountant": "pld"}  # fmt: skip
    spec = {"task": {"name": "plug-in"}, "source": {"name": "s"}, "model": {"name": "m"},
            "mechanism": [{"name": mechanism}], "seed": 1}  # fmt: skip
    return Result.model_validate({
        "id": mechanism, "group": mechanism, "status": "finished", "spec": spec,
        "utility": {"score": {"value": 0.5}}, "guarantees": [proven, *more],
        "headline": {"metric": "score", "larger_is_better": True},
        "provenance": {"corpus": {"fingerprint": "c"}},
    })  # fmt: skip


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    out = tmp_path_factory.mktemp("computation")
    build([run("bare", "inf"), run("bare-served", "inf", SIMULATED), run("private", 8.0),
           run("private-served", 2.0, SIMULATED)], out)  # fmt: skip
    return out / "table.html"


def names(page):
    return page.locator("#leaderboard tbody th .row-link").all_inner_texts()


def test_a_filter_by_proven_asks_for_a_proof_that_protects_data(index, visit):
    page = visit(index, "guarantee=proven")
    assert sorted(names(page)) == ["private", "private-served"]
    page.evaluate("uedp.set({ unit: 'computation', guarantee: '' })")
    assert sorted(names(page)) == ["bare-served", "private-served"]
    page.evaluate("uedp.set({ guarantee: 'proven' })")
    assert sorted(names(page)) == ["bare-served", "private-served"]


def test_rows_are_in_the_order_of_what_protects_data(index, visit):
    page = visit(index, "sort=proven:asc")
    shown = names(page)
    assert shown[:2] == ["private-served", "private"]
    assert page.locator("#leaderboard tbody td", has_text="computation: simulated").count() == 2


def test_plots_of_epsilon_leave_it_out(index, visit):
    page = visit(index, "view=table")
    offered = page.evaluate("uedp.sets.flatMap((one) => one.plots.offers.unit)")
    assert offered == ["user:dp:add-or-remove"]
    # What nobody sees is no promise to users.
    assert page.evaluate(
        "uedp.rows.find((row) => row.label === 'bare-served').epsilons.proven"
    ) == [-1]
