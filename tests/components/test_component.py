"""Parameters: what is wrong with them is one line that names field, value and range."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Literal

import pytest
from packaging.requirements import Requirement as Declared
from pydantic import Field, ValidationError, model_validator
from tiny import runs

from uedp_bench.cli.main import run_cli
from uedp_bench.components import component as component_module
from uedp_bench.components.component import Component, Params, Requirement, check_requirements
from uedp_bench.components.registry import REGISTRIES
from uedp_bench.errors import InputError, MissingExtraError, SeveralInputError
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.one_run import preparing
from uedp_bench.testing.small_parameters import known_params


class Fruit(Params):
    weight: float = Field(default=1.0, gt=0, le=10)
    colour: Literal["red", "green"] = "red"
    parts: tuple[int, ...] = ()
    sizes: tuple[int, int] = (1, 2)
    seeds: tuple[int, ...] = Field(default=(1,), min_length=1)
    file: Path | None = None
    origin: str = Field(min_length=1)

    @model_validator(mode="after")
    def _no_heavy_green(self):
        if self.colour == "green" and self.weight > 5:
            raise ValueError("colour green goes with a weight of at most 5")
        return self


class Apple(Component[Fruit]):
    name = "apple"
    Params = Fruit


class Plain(Component[Params]):
    name = "plain"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "'origin'"),
        ({"origin": "x", "wieght": 1}, "'wieght'"),
        ({"origin": "x", "zzz": 1}, "parameters: weight, colour, parts, sizes,"),
        ({"origin": "x", "weight": 0}, "apple.weight is 0:"),
        ({"origin": "x", "weight": 11}, "apple.weight is 11:"),
        ({"origin": "x", "weight": "much"}, "apple.weight is 'much'"),
        ({"origin": "x", "weight": float("nan")}, "apple.weight is nan"),
        ({"origin": "x", "weight": float("-inf")}, "apple.weight is -inf"),
        ({"origin": "x", "colour": "blue"}, "'red' or 'green'"),
        ({"origin": "x", "parts": [1, "a"]}, "apple.parts.1 is 'a'"),
        ({"origin": "x", "sizes": [1]}, "apple.sizes is [1]: part 1, counted from 0, is missing"),
        ({"origin": "x", "file": 3}, "apple.file is 3:"),
        ({"origin": "x", "colour": "green", "weight": 6}, "green"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(values, message):
    with pytest.raises(InputError) as refused:
        Apple.create(values)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_list_of_bad_parts_is_not_called_too_short():
    with pytest.raises(InputError) as refused:
        Apple.create({"origin": "x", "seeds": ["a"]})
    assert "apple.seeds.0 is 'a'" in str(refused.value)
    assert "after validation" not in str(refused.value)
    with pytest.raises(InputError, match=r"apple\.seeds is \[\]: .* 1"):
        Apple.create({"origin": "x", "seeds": []})


def test_every_problem_is_said():
    with pytest.raises(InputError, match=r"weight.*; .*colour.*; .*'origin'"):
        Apple.create({"weight": -1, "colour": "blue"})


def test_defaults_and_given_values():
    apple = Apple.create({"origin": "x", "parts": [1, 2]})
    assert apple.params == Fruit(origin="x", parts=(1, 2))
    assert Plain().params == Params()
    assert Plain.create(None).params == Params()


def test_parameters_are_frozen():
    with pytest.raises(ValidationError):
        Apple.create({"origin": "x"}).params.weight = 2.0


ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
KINDS = {"mechanisms": "mechanism", "attacks": "attack", "models": "model", "tasks": "task",
         "sources": "source"}  # fmt: skip
MODULES = {"faiss-cpu": "faiss",
           "presidio-analyzer": "presidio_analyzer", "gensim": "gensim",
           "datasets": "datasets", "peft": "peft", "sacrebleu": "sacrebleu",
           "sentencepiece": "sentencepiece", "tldextract": "tldextract"}  # fmt: skip
"""Modules of packages that extras install and components import."""

FOLDER = "./a-folder"
"""Small parameters name it where a model is read."""

ENCODER = {"sentence-transformers/all-MiniLM-L6-v2"}
NEEDS = {
    "mechanisms/deepcandidate": ENCODER, "mechanisms/truncation": ENCODER,
    "models/marian": {"sentencepiece"}, "tasks/translation": {"sacrebleu"},
    "sources/hub": {"datasets"},
}  # fmt: skip
"""Modules and downloads that components need at their defaults; all others run as installed."""


@pytest.fixture
def base_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The base installation: packages of extras cannot be imported."""
    for module in MODULES.values():
        monkeypatch.setitem(sys.modules, module, None)


def test_every_known_requirement_is_of_the_extra_that_it_names() -> None:
    single = [one for one in vars(component_module).values() if isinstance(one, Requirement)]
    for one in (*single, *component_module.PRESIDIO):
        extra = one.install.split("[")[1].split("]")[0]
        declared = {MODULES.get(Declared(text).name, "") for text in EXTRAS[extra]}
        assert one.module in declared, one


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (kind, name)
        for kind in KINDS
        for name in REGISTRIES[kind].names()
        if "(uedp-bench " in REGISTRIES[kind].origin(name)
    ],
)
def test_small_and_default_parameters_need_what_is_listed(tmp_path, kind, name) -> None:
    component = REGISTRIES[kind].get(name)
    params = known_params(KINDS[kind], name, tmp_path)
    values = {field: params[field] for field, info in component.Params.model_fields.items()
              if field in params}  # fmt: skip
    required = [field for field, info in component.Params.model_fields.items()
                if info.is_required() and field not in values]  # fmt: skip
    values |= {field: 1.0 if field == "epsilon" else "somewhere" for field in required}
    needed = {one.module for one in component.create(values).requires()} - {FOLDER}
    assert needed == NEEDS.get(f"{kind}/{name}", set())


@pytest.mark.parametrize(
    ("kind", "name", "params", "modules"),
    [
        ("models", "gpt2", {"lora_rank": 2}, {"peft"}),
        ("models", "bilstm", {"embedding": "a.kv"}, {"gensim"}),
        ("models", "text-cnn", {"embedding": "spacy:en"}, {"en"}),
        ("models", "text-cnn", {"embedding": "a.txt"}, set()),
        ("mechanisms", "metric-dp", {"epsilon": 1, "search": "hnsw"}, {"faiss"}),
        ("mechanisms", "deidentify", {"detector": "presidio"},
         {"presidio_analyzer", "tldextract"}),
        ("mechanisms", "deidentify", {"detector": "spacy", "pipeline": "en_core_web_sm"},
         {"en_core_web_sm"}),
        ("sources", "text", {"path": "a.csv", "detector": "spacy", "pipeline": "./folder"}, set()),
        ("sources", "wikipii", {"path": "a", "annotate": {"candidates": "spacy",
         "pipeline": "en_core_web_sm"}}, {"en_core_web_sm"}),
    ],
)  # fmt: skip
def test_parameters_decide_what_is_needed(kind, name, params, modules) -> None:
    component = REGISTRIES[kind].create(name, params)
    assert {one.module for one in component.requires()} == modules


@pytest.mark.usefixtures("base_only")
def test_all_that_is_missing_is_said_at_once() -> None:
    presidio = REGISTRIES["mechanisms"].create("deidentify", {"detector": "presidio"})
    with pytest.raises(SeveralInputError) as missing:
        check_requirements([presidio, REGISTRIES["mechanisms"].create("noiseless")])
    assert [type(one) for one in missing.value.errors] == [MissingExtraError] * 2
    assert "pip install 'uedp-bench[ner]'" in str(missing.value.errors[0])


COMMAND = ["run", "--task", "text-classification", "--mechanism", "noiseless", "--model"]


@pytest.mark.usefixtures("base_only")
@pytest.mark.parametrize("more", [[], ["--dry-run"]])
def test_no_command_reads_data_before_it_says_what_is_missing(monkeypatch, capsys, more) -> None:
    monkeypatch.setattr(preparing, "load_data", lambda sources: pytest.fail("data were read"))
    command = [*COMMAND, "bilstm", "--set", "model.embedding=a.kv", *more]
    assert run_cli(command) == 2
    assert "gensim" in capsys.readouterr().err


@pytest.mark.parametrize("model", ["text-cnn", "sentence-encoder", "bert"])
def test_a_model_that_cannot_be_had_is_said_before_data_are_read(
    monkeypatch, capsys, model
) -> None:
    def offline(where, name):
        raise OSError("no connection")

    monkeypatch.setattr("transformers.utils.cached_file", offline)
    monkeypatch.setattr(preparing, "load_data", lambda sources: pytest.fail("data were read"))
    assert run_cli([*COMMAND, model]) == 2
    assert f"{model}.pretrained" in capsys.readouterr().err


@pytest.mark.usefixtures("base_only")
def test_the_default_run_needs_no_extra(tmp_path) -> None:
    (job,) = jobs_of(runs("noiseless"), tmp_path)
    assert job.todo
