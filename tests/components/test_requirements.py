"""What a component needs beyond the base installation is said before data are read."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement as Declared
from tiny import runs

import uedp_bench.components.requirements as known
from uedp_bench.cli.main import run_cli
from uedp_bench.components.registry import REGISTRIES
from uedp_bench.components.requirements import Requirement, check_requirements
from uedp_bench.errors import MissingExtraError, SeveralInputError
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.one_run import known_rows
from uedp_bench.testing.small_parameters import known_params

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
    single = [one for one in vars(known).values() if isinstance(one, Requirement)]
    for one in (*single, *known.PRESIDIO):
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
    given = {field: params[field] for field, info in component.Params.model_fields.items()
             if field in params}  # fmt: skip
    required = [field for field, info in component.Params.model_fields.items()
                if info.is_required() and field not in given]  # fmt: skip
    given |= {field: 1.0 if field == "epsilon" else "somewhere" for field in required}
    needed = {one.module for one in component.create(given).requires()} - {FOLDER}
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
    monkeypatch.setattr(known_rows, "load_data", lambda sources: pytest.fail("data were read"))
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
    monkeypatch.setattr(known_rows, "load_data", lambda sources: pytest.fail("data were read"))
    assert run_cli([*COMMAND, model]) == 2
    assert f"{model}.pretrained" in capsys.readouterr().err


@pytest.mark.usefixtures("base_only")
def test_the_default_run_needs_no_extra(tmp_path) -> None:
    (job,) = jobs_of(runs("noiseless"), tmp_path)
    assert job.todo
