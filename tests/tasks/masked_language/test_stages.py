"""Public, private and downstream stages of masked language models: what is trained and charged."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.accounting.ledger import proven
from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.contracts.run_context import Speed
from uedp_bench.errors import CapabilityError, InputError, PrivacyError
from uedp_bench.one_run.components import build, build_sources
from uedp_bench.one_run.planting import load_data, public_sizes
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

SIZES = {"users": 60, "valid_users": 0, "test_users": 6, "public_users": 20, "sentences": 2}
OTHER = {"name": "embedded", "params": {**SIZES, "users": 50, "seed": 2}}
DP_SGD = {"name": "dp-sgd", "params": {"batch_size": 30, "steps": 2, "noise_multiplier": 1.0}}


def spec_of(name: str, *mechanisms: Any, **params: Any) -> RunSpec:
    data = {
        "task": {"name": name, "params": {"max_tokens": 30, **params}},
        "source": {"name": "embedded", "params": SIZES},
        "model": {"name": "bert", "params": {"configuration": "tiny"}},
        "mechanisms": [list(mechanisms or [DP_SGD])],
    }
    (run,) = expand(parse_spec(data))
    return run


def result_of(spec: RunSpec, folder: Path) -> Result:
    result = execute(spec, Execution(folder, "cpu", keep_release=False, speed=Speed(threads=1)))
    assert result.error is None, f"{result.error.type}: {result.error.message}"
    return result


def planned(spec: RunSpec) -> Any:
    sources = build_sources(spec)
    data = load_data(sources)
    return build(spec).pipeline.plan(public_sizes(sources, data.corpus, data.downstream))


def test_a_public_and_a_private_stage_are_charged_as_planned(tmp_path: Path) -> None:
    spec = spec_of("masked-language-model", pretraining_epochs=1)
    result = result_of(spec, tmp_path)
    assert result.events == planned(spec)
    assert result.cost.model_extra["clipping"] == "one backward pass"
    assert result.cost.model_extra["rows_pretrain"] == 40
    assert set(result.floors) == {"unigrams", "public-only"}
    (guarantee,) = (each for each in result.guarantees if each.kind == "proven")
    assert 0 < guarantee.epsilon == proven(result.events, delta=1e-5)[0].epsilon < math.inf


def test_the_stages_of_a_tagger_on_other_rows(tmp_path: Path) -> None:
    """The floor is the same tagger on the encoder of public text alone."""
    spec = spec_of("pretrained-tagging", pretraining_epochs=1, epochs=1, labelled=OTHER)
    result = result_of(spec, tmp_path)
    assert result.events == planned(spec)
    assert [(stage.role, stage.rows_of) for stage in result.stages or ()] == [
        ("public", "source"), ("private", "source"), ("downstream", "downstream"),
    ]  # fmt: skip
    assert {event.stage for event in result.events} == {"dp-sgd"}
    assert result.cost.model_extra["rows_downstream"] == 100
    assert {"dictionary", "all-outside", "public-only"} == set(result.floors)


def test_annotated_rows_that_are_private_are_charged_too() -> None:
    twice = spec_of("pretrained-tagging", labelled=OTHER, labelled_rows="private")
    first, second = planned(twice)
    assert (first.stage, second.stage) == ("dp-sgd", "dp-sgd 2")
    assert first.event.event.rate == 30 / 120 < 30 / 100 == second.event.event.rate
    assert planned(spec_of("pretrained-tagging", labelled=OTHER)) == (first,)


def test_text_that_is_protected_may_not_be_annotated_rows_too(tmp_path: Path) -> None:
    spec = spec_of("pretrained-tagging", labelled={"name": "embedded", "params": SIZES})
    result = execute(spec, Execution(tmp_path, "cpu", keep_release=False, speed=Speed(threads=1)))
    assert result.error is not None
    assert result.error.type == PrivacyError.__name__
    assert "mechanism" in result.error.message


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"name": "bilstm", "params": {}}, "MaskedLanguageModel"),
        ({"name": "lstm-small", "params": {}}, "MaskedLanguageModel"),
    ],
)
def test_another_model_is_refused_before_data_are_read(model: Any, message: str) -> None:
    spec = spec_of("masked-language-model").model_copy(update={"model": None})
    data = {**spec.model_dump(mode="json"), "model": model}
    with pytest.raises((InputError, CapabilityError), match=message):
        build(RunSpec.model_validate(data))
