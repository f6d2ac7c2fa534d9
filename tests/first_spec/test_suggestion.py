"""Learning rates of private rows are chosen on users of `valid`, with the noise of the whole."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_files import chat, mail

from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError
from uedp_bench.first_spec.first_spec import FirstSpec, first_spec
from uedp_bench.first_spec.suggestion import RateSearch, at_each_epsilon
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.io.yaml_files import load_yaml
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec


def ladder(file: Path, effort: float = 1.0) -> tuple[FirstSpec, dict[str, Any]]:
    spec = first_spec(file, {}, task=None, public=(), epsilons=(1.0, 4.0), effort=effort)
    spec = replace(spec, suggestion=at_each_epsilon(spec.suggestion))
    return spec, load_yaml(spec.text(("s.yaml", "runs/s"), "advise"))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[FirstSpec, RateSearch]:
    spec, data = ladder(chat(tmp_path_factory.mktemp("files"), 2400, 1600))
    return spec, RateSearch(data, spec.suggestion)


@pytest.mark.long
def test_each_epsilon_is_a_row_and_tries_the_same_rates(
    searched: tuple[FirstSpec, RateSearch], tmp_path: Path
) -> None:
    spec, search = searched
    assert "uedp-bench advise" in spec.text(("s.yaml", "runs/s"), "advise")
    private = [part for part in spec.suggestion.mechanisms if "epsilon" in part.params]
    assert [(part.name, part.params["epsilon"]) for part in private] == [
        ("dp-sgd", 1.0), ("dp-sgd", 4.0), ("user-dp", 1.0), ("user-dp", 4.0),
    ]  # fmt: skip
    runs = expand(parse_spec(search.spec))
    assert len(jobs_of(runs, tmp_path)) == 4 * 3
    rates = {
        run.mechanism[0].params.get("learning_rate")
        or run.mechanism[0].params["server_learning_rate"]
        for run in runs
    }
    assert rates == {0.001, 0.003, 0.01}
    assert not any(run.attacks for run in runs)


def test_no_user_who_trains_is_read(searched: tuple[FirstSpec, RateSearch]) -> None:
    spec, search = searched
    params = search.spec["source"]["params"]
    assert params["tune_on_valid"] > 0
    before = {name: value for name, value in params.items() if name != "tune_on_valid"}
    assert before == spec.origin.params


def test_noise_on_the_mean_is_that_of_the_whole(searched: tuple[FirstSpec, RateSearch]) -> None:
    from uedp_bench.components import registry

    spec, search = searched
    part = next(one for one in spec.suggestion.mechanisms if one.name == "user-dp")
    whole = registry.mechanisms.create("user-dp", {**part.params, "delta": spec.suggestion.delta})
    fewer = next(one for one in search.spec["mechanisms"] if one["name"] == "user-dp")["params"]
    assert fewer["noise_multiplier"] / fewer["users_per_round"] == pytest.approx(
        whole.noise(spec.suggestion.sizes) / part.params["users_per_round"], rel=1e-3
    )
    assert fewer["users_per_round"] / fewer["users"] == pytest.approx(
        part.params["users_per_round"] / part.params["users"], rel=0.1
    )
    assert "epsilon" not in fewer


def test_the_best_rate_of_each_epsilon_is_taken(searched: tuple[FirstSpec, RateSearch]) -> None:
    spec, search = searched

    def result(mechanism: Any, perplexity: float, **more: Any) -> Result:
        return Result.model_validate({
            "id": "a", "group": "a", "status": "finished",
            "spec": {"task": {"name": "next-word"}, "source": {"name": "text"}, "seed": 1,
                     "model": {"name": "lstm-small"}, "mechanism": mechanism},
            "headline": {"metric": "perplexity", "larger_is_better": False},
            "utility": {"perplexity": {"value": perplexity}}, **more,
        })  # fmt: skip

    runs = expand(parse_spec(search.spec))
    results = []
    for run in runs:
        (ref,) = run.mechanism
        best = 0.001 if ref.name == "dp-sgd" else 0.01
        rate = ref.params.get("learning_rate") or ref.params["server_learning_rate"]
        results.append(result(run.mechanism, 10.0 + abs(rate - best)))
    rates = [
        part.params.get("learning_rate", part.params.get("server_learning_rate"))
        for part in search.choose(results).mechanisms
        if "epsilon" in part.params
    ]
    assert rates == [0.001, 0.001, 0.01, 0.01]
    error = {"type": "OSError", "message": "x", "phase": "train"}
    failed = [result(run.mechanism, 1.0, status="failed", error=error, utility={}) for run in runs]
    assert search.choose(failed).mechanisms == spec.suggestion.mechanisms
    diverged = [result(run.mechanism, math.inf) for run in runs]
    assert search.choose(diverged).mechanisms == spec.suggestion.mechanisms


def test_too_few_users_of_valid_are_refused(tmp_path: Path) -> None:
    spec, data = ladder(mail(tmp_path))
    with pytest.raises(InputError, match="valid"):
        RateSearch(data, spec.suggestion)


@pytest.mark.long
def test_less_effort_keeps_a_crowd_where_there_is_one(tmp_path: Path) -> None:
    spec, _ = ladder(chat(tmp_path, 30_000, 3_000), effort=0.15)
    assert 0 < spec.origin.params["sample"] < 1
    assert "user-dp" in [part.name for part in spec.suggestion.mechanisms]
