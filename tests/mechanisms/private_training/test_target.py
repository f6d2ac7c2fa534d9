"""Epsilon as a parameter: the noise proves it, barely, and is the noise that is drawn."""

from __future__ import annotations

from typing import Any

import pytest
from learners import NetworkLearner, run_of

from uedp_bench.accounting.ledger import proven
from uedp_bench.components.registry import mechanisms
from uedp_bench.errors import InputError
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

SIZES: dict[str, dict[str, Any]] = {
    "dp-sgd": {"records": 5000, "batch_size": 100, "steps": 50},
    "user-dp": {"users": 800, "users_per_round": 80, "rounds": 12},
    "dp-ftrl": {"users": 800, "users_per_round": 80, "rounds": 24},
    "federated-dp-sgd": {"records": 5000, "clients": 4, "rounds": 3},
}
FIXED = {"users": 800, "users_per_round": 80, "rounds": 5, "sampling": "fixed"}


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-7), (8.0, 1e-5)])
@pytest.mark.parametrize(("name", "sizes"), [*SIZES.items(), ("user-dp", FIXED)])
def test_the_plan_proves_the_target_barely(
    name: str, sizes: dict[str, Any], epsilon: float, delta: float
) -> None:
    planned = PlannedMechanism(name, {**sizes, "epsilon": epsilon, "delta": delta})
    events, _ = planned.plan()
    guarantee = next(g for g in proven(events, delta=delta) if g.unit == planned.unit)
    assert epsilon * (1 - 1e-3) < guarantee.epsilon <= epsilon
    noise = planned.component().noise(planned.public_sizes)
    by_noise = planned.replaced(epsilon=None, noise_multiplier=noise)
    assert by_noise.plan()[0] == events


def test_the_noise_that_is_drawn_is_that_of_the_plan() -> None:
    learner = NetworkLearner(8)
    run = run_of(learner)
    params = {"epsilon": 3.0, "batch_size": 4, "steps": 4}
    mechanism = mechanisms.create("dp-sgd", params)
    _, events = mechanism.train(learner, learner.corpus, run)
    assert proven(events, delta=1e-5)[0].epsilon == pytest.approx(3.0, rel=1e-3)
    assert [event.event for event in mechanism.plan(run.stats)] == [e.event for e in events]


def test_lists_of_epsilons_and_of_noises_are_two_entries() -> None:
    targets, noises = {"epsilon": [2.0, 4.0]}, {"noise_multiplier": [1.0, 2.0]}
    with pytest.raises(InputError, match="noise_multiplier"):
        expand(parse_spec({"mechanisms": [{"name": "dp-sgd", "params": targets | noises}]}))
    entries = [{"name": "dp-sgd", "params": params} for params in (targets, noises)]
    params = [run.mechanism[0].params for run in expand(parse_spec({"mechanisms": entries}))]
    pairs = [(one.get("epsilon"), one["noise_multiplier"]) for one in params]
    assert pairs == [(2.0, None), (4.0, None), (None, 1.0), (None, 2.0)]


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize(
    "params",
    [
        {"epsilon": 1.0, "noise_multiplier": 1.0},
        {"epsilon": None, "noise_multiplier": None},
        {"epsilon": 0.0},
        {"epsilon": 1.0, "delta": 0.0},
    ],
)
def test_one_of_noise_and_target_is_given(name: str, params: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{name}.*(epsilon|delta)"):
        mechanisms.create(name, {**SIZES[name], **params})


def test_targets_that_nothing_proves_are_refused() -> None:
    with pytest.raises(InputError, match=r"user-dp.*epsilon"):
        mechanisms.create("user-dp", {"epsilon": 1.0, "noise": "released"})
    with pytest.raises(InputError, match=r"dp-sgd\.epsilon is 1e-09"):
        PlannedMechanism("dp-sgd", {**SIZES["dp-sgd"], "epsilon": 1e-9, "delta": 1e-200}).plan()


def test_a_grid_of_targets_is_at_the_delta_of_the_run() -> None:
    spec = {"task": "next-word", "source": "embedded", "model": "lstm-small", "delta": 1e-7,
            "mechanisms": [{"name": "user-dp", "params": {"epsilon": [1, 4]}},
                           {"name": "dp-sgd", "params": {"epsilon": 2, "delta": 1e-5}},
                           {"name": "dp-ftrl", "params": {"epsilon": [None, 3.0]}}]}  # fmt: skip
    params = [run.mechanism[0].params for run in expand(parse_spec(spec))]
    wanted = [(1.0, 1e-7), (4.0, 1e-7), (2.0, 1e-5), (None, None), (3.0, 1e-7)]
    assert [(p.get("epsilon"), p.get("delta")) for p in params] == wanted
    assert [p["noise_multiplier"] for p in params] == [None, None, None, 1.0, None]
    for run in expand(parse_spec(spec)):  # a run is the run of its own spec
        assert expand(parse_spec(run.model_dump(mode="json"))) == [run]
    plain = parse_spec({**spec, "mechanisms": [{"name": "dp-ftrl", "params": {"delta": 1e-3}}]})
    assert "delta" not in expand(plain)[0].mechanism[0].params


def test_a_recorded_target_is_read_again() -> None:
    params = mechanisms.create("dp-sgd", {"epsilon": 2.0}).params
    assert type(params).model_validate(params.model_dump(mode="json")) == params
    assert "epsilon" not in mechanisms.create("dp-sgd", {}).params.model_dump()
