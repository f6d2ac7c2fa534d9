"""Files that parameters name are looked for before anything is loaded, aligned or trained."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tiny import NOISELESS, runs, tiny

from uedp_bench import load_corpus
from uedp_bench.cli.main import run_cli
from uedp_bench.components.registry import REGISTRIES
from uedp_bench.errors import InputError
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.models.marian import Marian, MarianParams
from uedp_bench.one_run import known_rows
from uedp_bench.one_run.execution import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.named_files import check_files


def test_a_translator_that_is_not_there_is_refused_before_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_rows, "load_data", lambda sources: pytest.fail("data were read"))
    (spec,) = runs(
        "noiseless", source="parallel-embedded", task="translation",
        model={"name": "marian", "params": {"pretrained": str(tmp_path / "opus")}},
    )  # fmt: skip
    with pytest.raises(InputError, match=r"marian\.pretrained: .*opus.*Marian"):
        jobs_of([spec], tmp_path / "out")


def test_a_folder_must_hold_what_it_is_said_to_hold(tmp_path: Path) -> None:
    model = Marian(MarianParams(pretrained=tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match=r"vocab\.json.*source\.spm.*target\.spm"):
        check_files([model])
    for name in ("vocab.json", "source.spm", "target.spm"):
        (tmp_path / name).write_text("")
    check_files([model])


@pytest.mark.parametrize(
    ("kind", "name", "params", "field"),
    [
        ("mechanisms", "metric-dp", {"epsilon": 1.0, "embedding": "no.txt"}, "embedding"),
        ("mechanisms", "vickrey", {"epsilon": 1.0, "vocabulary": ["no.txt"]}, "vocabulary"),
        ("mechanisms", "deidentify", {"detector": "tagger", "tagger": "runs/no"}, "tagger"),
        ("mechanisms", "sanitized-elsewhere", {"path": "no.csv"}, "path"),
        ("mechanisms", "truncation", {"epsilon": 1.0, "encoder": "./no"}, "encoder"),
        ("models", "bilstm", {"embedding": "no.txt"}, "embedding"),
        ("models", "bert", {"pretrained": "/no/where"}, "pretrained"),
        ("attacks", "word-reconstruction", {"masked_model": "../no"}, "masked_model"),
    ],
)
def test_a_missing_file_of_any_parameter_is_refused(kind, name, params, field) -> None:
    component = REGISTRIES[kind].create(name, params)
    with pytest.raises(InputError, match=rf"{name}\.{field}: .*\bno\b.*: "):
        check_files([component])


@pytest.mark.parametrize(
    ("name", "parameter", "content"),
    [
        ("sanitized-elsewhere", "path", "text\nno ids\n"),
        ("sanitized-elsewhere", "path", "id,text\n"),
        ("sanitized-elsewhere", "path", "id,text\n1,a\n1,b\n"),
        ("deidentify", "public_list", " \n"),
        ("deidentify", "public_list", b"\xff\xfe"),
    ],
)
def test_a_file_of_no_use_is_refused_before_data_are_read(
    name: str,
    parameter: str,
    content: str | bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_rows, "load_data", lambda sources: pytest.fail("data were read"))
    file = tmp_path / "x.csv"
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    mechanisms = [{"name": name, "params": {parameter: str(file)}}, "noiseless"]
    with pytest.raises(InputError, match=f"{name}\\."):
        jobs_of(runs(mechanisms), tmp_path / "out")


def test_a_dry_run_of_a_file_without_ids_exits_as_for_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.csv").write_text("text\nno ids\n", encoding="utf-8")
    spec = tmp_path / "spec.yaml"
    part = {"name": "sanitized-elsewhere", "params": {"path": str(tmp_path / "x.csv")}}
    spec.write_text(json.dumps(tiny([part, "noiseless"])), encoding="utf-8")
    assert run_cli(["run", str(spec), "--dry-run", "--out", str(tmp_path / "out")]) == 2
    assert "sanitized-elsewhere.id_column" in capsys.readouterr().err


def test_a_file_that_changes_between_grids_of_a_process_is_read_again(tmp_path: Path) -> None:
    """As in a notebook. The same size, and even the same time, are no sign of the same content."""
    data, listed = tmp_path / "x.jsonl", tmp_path / "list.txt"
    rows = [{"text": f"anna is row {at}", "who": at} for at in range(40)]

    def ids(surface: str, word: str) -> tuple[str, str]:
        listed.write_text(surface, encoding="utf-8")
        data.write_text("".join(json.dumps({**row, "text": word}) + "\n" for row in rows))
        for file in (data, listed):
            os.utime(file, (1, 1))
        mechanism = {
            "name": "deidentify", "params": {"only_listed": True, "public_list": str(listed)},
        }  # fmt: skip
        source = {"name": "text", "params": {"path": str(data), "user_column": "who"}}
        own, of_data = (
            jobs_of(runs([mechanism, "noiseless"], **more), tmp_path / "out")[0]
            for more in ({}, {"source": source})
        )
        assert load_corpus("text", path=data, user_column="who").texts[0] == word
        return own.id, of_data.identity.fingerprint

    first, second, third = ids("anna", "one"), ids("emma", "one"), ids("emma", "two")
    assert first[0] != second[0] == third[0]
    assert first[1] == second[1] != third[1]


def test_a_file_that_changes_after_the_check_fails_the_run(tmp_path: Path) -> None:
    """Its result would have the id of another content."""
    listed = tmp_path / "list.txt"
    listed.write_text("anna", encoding="utf-8")
    mechanism = {
        "name": "deidentify", "params": {"only_listed": True, "public_list": str(listed)},
    }  # fmt: skip
    (job,) = jobs_of(runs([mechanism, NOISELESS]), tmp_path / "out")
    listed.write_text("emma", encoding="utf-8")
    result = execute(job.spec, Execution(tmp_path / "out", device="cpu"), job.identity)
    assert result.error is not None
    assert (result.error.type, result.error.failures) == ("InputError", 0)
    assert "changed after the runs were checked" in result.error.message


def test_names_that_are_no_paths_are_left_alone() -> None:
    check_files([
        REGISTRIES["models"].create("bert", {"pretrained": "bert-base-uncased"}),
        REGISTRIES["mechanisms"].create("metric-dp", {"epsilon": 1, "embedding": "spacy:en_x"}),
        REGISTRIES["mechanisms"].create("deidentify", {"detector": "presidio"}),
    ])  # fmt: skip


def test_a_dry_run_refuses_a_missing_file_before_data_are_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(known_rows, "load_data", lambda sources: pytest.fail("data were read"))
    arguments = ["run", "--mechanism", "noiseless", "--mechanism", "metric-dp",
                 "--set", "mechanism.metric-dp.epsilon=1",
                 "--set", "mechanism.metric-dp.embedding=no.txt"]  # fmt: skip
    for more in ([], ["--dry-run"]):
        assert run_cli([*arguments, *more]) == 2
        assert "metric-dp.embedding: no.txt" in capsys.readouterr().err
