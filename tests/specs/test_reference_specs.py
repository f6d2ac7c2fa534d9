"""Specs of the reference set: the noise that they name is that of the epsilon that they name."""

from __future__ import annotations

import pytest

from uedp_bench.accounting.ledger import proven
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.one_run.components import build
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec, read_spec

NOBODY = CorpusStats(users=1, rows=1, sensitive_rows=1, entities=1, public=False)


def runs(name: str, label: str) -> list[RunSpec]:
    spec = read_spec(name)
    spec["source"]["params"] |= {"path": "somewhere", "public": ["some.txt"]}
    return [run for run in expand(parse_spec(spec)) if run.label == label and run.seed == 1]


@pytest.mark.parametrize(
    ("name", "label", "at", "epsilon"),
    [
        ("ubuntu-irc", "user-dp", 3, 8),
        ("bloggers-larger", "user-dp", 0, 1),
        ("classification-ag-news", "dp-sgd", 1, 2),
        ("bloggers-mechanisms", "dp-sgd", 2, 4),
        ("bloggers-mechanisms", "dp-ftrl", 0, 1),
        ("bloggers-trend", "user-dp", 0, 8),
        ("bloggers-trend", "user-dp", 1, 8),
        ("bloggers-population", "user-dp", 0, 8),
    ],
)
def test_noise_is_that_of_the_epsilon(name: str, label: str, at: int, epsilon: float) -> None:
    pipeline = build(runs(name, label)[at]).pipeline
    assert pipeline.refusals(NOBODY) == ()
    # A user together with an entity, of whom dp-ftrl says something too, has a larger one.
    every = proven(pipeline.plan(NOBODY), delta=1e-5)
    (guarantee,) = (each for each in every if each.unit != "user-entity")
    assert 0.99 * epsilon < guarantee.epsilon <= epsilon


@pytest.mark.parametrize(
    ("name", "epsilons"), [("ubuntu-irc", [1, 2, 4, 8]), ("bloggers-larger", [1, 2, 4, 8])]
)
def test_both_units_are_at_the_same_epsilons(name: str, epsilons: list[float]) -> None:
    groups = [run.mechanism[0].params for run in runs(name, "uedp-group")]
    assert [params["epsilon"] for params in groups] == epsilons
    assert {params["protected_sentences"] for params in groups} == {3}
    noise = [run.mechanism[0].params["noise_multiplier"] for run in runs(name, "user-dp")]
    assert noise == sorted(noise, reverse=True)
    assert len(noise) == len(epsilons)


def test_the_larger_model_of_bloggers_is_trained_on_the_same_private_text() -> None:
    """What differs between the two specs is public text, the model, and how much noise there is."""
    for label, varied in (("user-dp", "noise_multiplier"), ("uedp-group", "epsilon")):
        (base,) = runs("bloggers", label)
        larger = runs("bloggers-larger", label)
        assert larger[-1].mechanism == base.mechanism  # at 8
        for run in larger:
            mine, theirs = run.mechanism[0].params, base.mechanism[0].params
            assert mine | {varied: None} == theirs | {varied: None}
            more = {"public_rows": run.source.params["public_rows"]}
            assert run.source.params == base.source.params | more
            assert run.attacks == base.attacks


def test_other_mechanisms_of_bloggers_learn_from_the_same_text_with_the_same_model() -> None:
    base = runs("bloggers-larger", "public-only")[0]
    for label in ("dp-sgd", "dp-ftrl", "uedp-spread"):
        grid = runs("bloggers-mechanisms", label)
        assert len(grid) == 4
        for run in grid:
            assert (run.task, run.model, run.source) == (base.task, base.model, base.source)
            assert run.attacks == base.attacks


def test_work_and_people_are_all_that_the_trend_changes() -> None:
    """All else is that of `bloggers`, but for the noise that rounds and people ask for."""
    (base,) = runs("bloggers", "user-dp")
    mine = base.mechanism[0].params
    (fewer,) = runs("bloggers-population", "user-dp")
    for run in (*runs("bloggers-trend", "user-dp"), fewer):
        people = {"users": run.source.params["users"]}
        assert run.source.params == base.source.params | people
        assert (run.task, run.model, run.attacks) == (base.task, base.model, base.attacks)
        params = run.mechanism[0].params
        changed = {name for name in mine if mine[name] != params[name]}
        assert changed <= {"users", "users_per_round", "rounds", "noise_multiplier"}
        # Of 18,000 people 14,580 train: without valid, test, and what membership holds out.
        assert params["users"] == round(0.81 * run.source.params["users"])
    theirs = fewer.mechanism[0].params
    assert theirs["users_per_round"] / theirs["users"] == mine["users_per_round"] / mine["users"]


def test_settings_are_tried_on_bloggers_whom_no_guarantee_protects() -> None:
    """With the noise on the mean of the runs that they are for."""
    noises = {run.mechanism[0].params["noise_multiplier"] for run in
              runs("bloggers-mechanisms", "dp-ftrl")}  # fmt: skip
    spec = read_spec("bloggers-mechanisms-levers")
    spec["source"]["params"] |= {"path": "somewhere", "public": ["some.txt"]}
    tried = expand(parse_spec(spec))
    assert all(run.source.params["tune_on_valid"] for run in tried)
    noise = {run.mechanism[0].params["noise_multiplier"] for run in tried if run.label == "dp-ftrl"}
    for extreme in (min, max):
        assert extreme(noise) / 38 == pytest.approx(extreme(noises) / 810, rel=5e-3)
