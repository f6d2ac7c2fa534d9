"""What the page on cost says is what the stored measurements give, and the planner adds up."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "cost.md"


@pytest.fixture
def cost():
    return importlib.import_module("cost_page")


@pytest.fixture
def stored(cost):
    return importlib.import_module("cost_store").both()


@pytest.fixture
def planning(cost):
    return importlib.import_module("cost_plan")


def test_the_page_has_the_numbers_of_the_measurements(cost, stored):
    text = PAGE.read_text(encoding="utf-8")
    shown = {name for _, name, _, _ in cost.MARKED.findall(text)}
    assert shown == set(cost.TABLES)
    assert cost.filled(text, stored) == text
    changed = {
        **stored,
        "rates": [{**each, "flops": 2 * each["flops"]} for each in stored["rates"]],
    }
    assert cost.filled(text, changed) != text


def test_nothing_that_is_predicted_was_fitted(cost, stored):
    families = importlib.import_module("cost_families")
    design = importlib.import_module("cost_design")
    again = [point.work.to_dict() for point in design.points()]
    assert [point["work"] for point in stored["points"]] == again  # of a fixed seed
    for family in families.families(stored):
        used = [point for point in family.points if point["role"] == "fitted"]
        largest = max(point["counts"]["parameters"] for point in used)
        for point in family.of_role("larger network"):
            assert point not in used
            if "bert" not in family.name:  # whose vocabulary differs as well
                assert point["counts"]["flops"] > 0
        assert largest < 124_439_808
    ratios, inside = cost.outside(stored)
    assert inside > 0.75 * len(ratios)


def test_fresh_points_are_measured_on_the_other_cpu_alone(cost, stored):
    families = importlib.import_module("cost_families")
    design = importlib.import_module("cost_design")
    other = stored["other"]
    assert other["machine"]["device"] != stored["machine"]["device"]
    assert [each["work"] for each in other["points"]] == [each["work"] for each in stored["points"]]
    works = [str(point["work"]) for point in stored["points"]]
    assert len(set(works)) == len(works)  # none of them was there before
    fresh = [at for at, point in enumerate(stored["points"]) if point["role"] in design.FRESH]
    assert not any(stored["points"][at]["seconds"] for at in fresh)
    assert len(fresh) == 2 * 2 * len(design.RANGES)
    twice = [{**each, "seconds": [2 * s for s in each["seconds"]]} for each in other["points"]]
    for once, slow in zip(
        families.carried(stored, other),
        families.carried(stored, {**other, "points": twice}), strict=True,
    ):  # fmt: skip
        assert slow.measured == pytest.approx(2 * once.measured)
        assert slow.predicted == once.predicted  # no law has seen them


def test_a_slower_cpu_is_predicted_to_be_slower_term_by_term(cost, stored):
    families = importlib.import_module("cost_families")
    other = {
        **stored,
        "rates": [{"flops": r["flops"] / 2, "bytes": r["bytes"] / 4, "call": 3 * r["call"]}
                  for r in stored["rates"]],
        "phases": {"noise, seed": [{"seconds": 5 * each["seconds"]}
                                   for each in stored["phases"]["noise, seed"]]},
    }  # fmt: skip
    np.testing.assert_allclose(families.slower(other, stored), [3, 2, 4, 5])
    (gpt,) = [each for each in families.families(stored) if each.name == "next-word gpt2"]
    (first, *_) = [each for each in families.carried(stored, other) if each.family == gpt.name]
    counts, _ = families.arrays(gpt.points[:1])
    assert first.predicted == pytest.approx(float(counts[0] @ (gpt.fit.terms * [3, 2, 4, 5])))


def test_memory_of_gpt2_small_is_weights_and_their_like_and_rows(cost, stored):
    held = dict(stored["held"]["rows"])
    weights = 4 * 124_439_808
    assert 4 * weights < held[1] < 8 * weights  # a copy, an update, its gradient, a sum, ...
    logits = 4 * 100 * 50_257
    assert logits < held[2] - held[1] < 10 * logits
    assert held[4] - held[2] == pytest.approx(2 * (held[2] - held[1]), rel=0.01)
    users = {(way, users): size for way, users, size in stored["held"]["users"]}
    assert users["several local steps", 64] < 1.1 * users["several local steps", 1]


def test_measuring_goes_on_where_it_was_stopped(cost, monkeypatch, tmp_path):
    store = importlib.import_module("cost_store")
    points = importlib.import_module("cost_design").points(("tfidf",), quick=True)
    asked = []

    def fork(function, *arguments):
        asked.append((function.__name__, str(arguments[0])))
        if len(asked) == 8:
            raise KeyboardInterrupt
        return {"seconds": 1.0, "memory_mb": 2.0, "parameters": 3.0}

    monkeypatch.setattr(store, "in_a_fork", fork)
    monkeypatch.setattr(store, "prepare", lambda _: None)
    file = tmp_path / "cost.json"
    with pytest.raises(KeyboardInterrupt):
        store.measure(points, file, store.How(turns=2, quick=True))
    began = asked[:5]  # what was written by then
    asked.clear()
    asked.extend([("", "")] * 8)
    found = store.measure(points, file, store.How(turns=2, quick=True))
    assert began[0] not in asked[8 : 8 + len(began)]
    assert [point["seconds"] for point in found["points"]] == [[1.0, 1.0]] * 2
    assert {len(each) for each in found["phases"].values()} == {2}
    assert len(found["rates"]) == 2 * store.TIMES
    done = len(asked)
    store.measure(points, file, store.How(turns=2, quick=True))
    assert len(asked) == done
    monkeypatch.setattr(store, "_device", lambda _: "another")
    with pytest.raises(ValueError, match="was measured on"):
        store.measure(points, file, store.How(turns=2, quick=True))


def test_gpt2_small_is_predicted_from_networks_a_tenth_of_its_size(cost, stored):
    families = importlib.import_module("cost_families")
    (gpt,) = [each for each in families.families(stored) if each.name == "next-word gpt2"]
    small = [p for p in gpt.points if p["counts"]["parameters"] == 124_439_808]
    counts, seconds = families.arrays(small)
    low, high = gpt.fit.of_new(counts)
    assert ((low < seconds) & (seconds < high)).all()
    np.testing.assert_array_less(np.abs(np.log(gpt.fit.seconds(counts) / seconds)), np.log(1.6))


def test_the_parts_of_a_run_are_those_of_its_formulas(cost, stored, planning):
    planner = planning.Planner(stored, stored["plan"])
    assert (planner.parameters, planner.tokens) == (124_439_808, 1_600)
    machine = planning.Machine()
    plan = planning.Plan(cohort=1_000)
    one, eight = (planner.predict(plan, gpus, machine) for gpus in (1, 8))
    user, _ = planner.user(machine)
    assert one.parts["users' training"] == pytest.approx(2_000 * 1_000 * user)
    assert eight.parts["users' training"] == pytest.approx(2_000 * 125 * user)
    assert one.parts["weights and sums among ranks"] == 0
    # Weights in float32 go out, sums in float64 come back.
    moved = 2_000 * (4 + 8) * 124_439_808 / machine.near
    assert eight.parts["weights and sums among ranks"] == pytest.approx(moved)
    assert eight.parts["noise"] == one.parts["noise"]  # one rank draws, whatever their number
    assert one.low < one.seconds < one.high
    # A user takes its FLOPs at least, at the rate that is assumed.
    flops = stored["plan"]["user"]["flops"]
    assert flops == pytest.approx(6 * 124_439_808 * 1_600, rel=0.1)
    assert user > flops / machine.flops
    slower = planner.predict(plan, 1, replace(machine, flops=machine.flops / 2))
    assert one.seconds < slower.seconds < 2 * one.seconds


def test_where_the_rest_takes_as_long_as_users(cost, stored, planning):
    planner = planning.Planner(stored, stored["plan"])
    machine, plan = planning.Machine(), planning.Plan()
    for gpus in (1, 8, 64):
        cohort = planner.alike(plan, gpus, machine)
        user, _ = planner.user(machine)
        fixed = planner._round(replace(plan, cohort=0), gpus, machine)
        assert cohort / gpus * user == pytest.approx(sum(fixed.values()))
    os = replace(plan, source="os")
    assert planner.alike(os, 8, machine) > planner.alike(plan, 8, machine)


def test_a_measurement_is_of_a_process_of_its_own(cost):
    measuring = importlib.import_module("cost_measuring")
    work = importlib.import_module("cost_workloads").Work(
        "next-word cifg-lstm", {"embedding": 8, "units": 8}, 100, 2, 2, 2, 5
    )
    found = measuring.in_a_fork(measuring.one_round, work, "cpu", 2)
    assert found["seconds"] > 0
    assert found["parameters"] == 100 * 8 + 3 * 8 * (8 + 8 + 1) + 8 * 8
    again = [measuring.in_a_fork(measuring.counted, work) for _ in range(2)]
    assert again[0] == again[1]  # counts do not depend on the machine
    with pytest.raises(RuntimeError, match="KeyError: 'width'"):
        measuring.in_a_fork(measuring.one_round, replace(work, family="next-word gpt2"), "cpu", 1)
