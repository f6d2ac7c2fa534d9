"""What the id of a run is a hash of: recorded in its result, the same after JSON, without paths."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny import NOISELESS, USER_DP, plugged, runs, tiny

from uedp_bench import load_corpus
from uedp_bench.cli.main import run_cli
from uedp_bench.components import registry
from uedp_bench.components.registry import REGISTRIES
from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import RunError, RunSpec, read_result
from uedp_bench.errors import InputError
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.models.translators import Marian, MarianParams
from uedp_bench.one_run import preparing
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.one_run.stored_run import failed, names_place, recorded
from uedp_bench.spec.identity import Identity, check_files, identity_parts

REFERENCE = Path(__file__).parents[2] / "leaderboard" / "results"

PLUGIN = """
from uedp_bench.components.component import Params
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.components.registry import mechanisms

class ListedParams(Noiseless.Params):
    words: str = "none"

@mechanisms.register
class Listed(Noiseless):
    \"\"\"Trains without noise, and has a parameter that does not say that it is a path.\"\"\"

    name = "listed"
    Params = ListedParams
"""


def test_parts_hash_to_the_id_and_without_the_seed_to_the_group():
    first, second = runs(USER_DP, seeds=[1, 2])
    one, two = identity_parts(first, "c"), identity_parts(second, "c")
    assert identity_of(one) == (
        Identity.from_spec(first, "c").id,
        Identity.from_spec(first, "c").group,
    )
    assert identity_of(one)[0] != identity_of(two)[0]
    assert identity_of(one)[1] == identity_of(two)[1]
    version = registry.mechanisms.get("user-dp").version
    assert one["mechanism"] == [["user-dp", version, first.mechanism[0].params]]
    assert identity_parts(first, "c")["corpus"] == "c"


def test_ids_of_old_results_stay_what_they_are():
    results = load_results([REFERENCE / "quickstart"])
    assert results
    for result in results:
        parts = identity_parts(result.spec, result.provenance["corpus"]["fingerprint"])
        identity = result.provenance.get("identity")
        if "engine" not in (identity or {}):  # older than the version of the engine
            del parts["engine"]
            parts.pop("unprotected", None)
        # Versions are raised where numbers change, and were 1 before they were recorded.
        for name in ("task", "source", "model"):
            parts[name][1] = 1 if identity is None else identity[name][1]
        for name in ("mechanism", "attacks"):
            for at, part in enumerate(parts[name]):
                part[1] = 1 if identity is None else identity[name][at][1]
        assert identity_of(parts) == (result.id, result.group)


def test_new_results_record_what_their_id_is_a_hash_of(tmp_path):
    (spec,) = runs(NOISELESS)
    result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    read = read_result(tmp_path / result.id / "result.json")
    parts = read.provenance["identity"]
    assert identity_of(parts) == (read.id, read.group)
    assert parts["corpus"] == read.provenance["corpus"]["fingerprint"]
    assert RunSpec.model_validate(read.spec.model_dump()).seed == parts["seed"]


def test_failed_runs_record_it_too(tmp_path):
    (spec,) = runs({"name": "noiseless", "params": {"epochs": 1}}, task="text-classification")
    result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    assert result.status == "failed"
    assert identity_of(result.provenance["identity"]) == (result.id, result.group)


def test_a_file_that_is_there_is_recorded_by_what_it_holds(tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("some words")
    (spec,) = runs(task={"name": "next-word", "params": {"vocabulary": str(words)}})
    parts = recorded(identity_parts(spec, "c"))
    assert parts is not None
    assert str(tmp_path) not in json.dumps(parts)
    assert identity_of(parts)[0] == Identity.from_spec(spec, "c").id


def test_no_path_of_this_machine_is_recorded(tmp_path):
    missing = str(tmp_path / "not there.txt")
    (spec,) = runs(task={"name": "next-word", "params": {"vocabulary": missing}})
    error = RunError(type="t", message="m", phase="load")
    result = failed(spec, Identity.from_spec(spec, "c"), error, stored={})
    assert "identity" not in result.provenance
    assert result.id == Identity.from_spec(spec, "c").id
    plugin = tmp_path / "listed.py"
    plugin.write_text(PLUGIN)
    with plugged(plugin):
        named, plain = runs(*({"name": "listed", "params": {"words": w}} for w in (missing, "few")))
        assert recorded(identity_parts(named, "c")) is None
        assert recorded(identity_parts(plain, "c")) == identity_parts(plain, "c")


@pytest.mark.parametrize(
    "text",
    ["/srv/mine/x", "/", "~/x", "~me", "../x", "C:\\Users\\me", "c:/x", "\\\\host\\x", "file:///x"],
)
def test_places_on_a_machine(text):
    assert names_place(text)
    assert names_place({"a": [1, {"b": text}]})
    assert names_place({text: 1})


@pytest.mark.parametrize("value", ["data/glove.txt", "owner/name", "f_E+", "", None, 1.5, [True]])
def test_what_is_no_place_on_a_machine(value):
    assert not names_place(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: (
        st.lists(part, max_size=3)
        | st.tuples(part, part)
        | st.dictionaries(st.text(max_size=3) | st.integers(0, 20), part, max_size=3)
    ),
    max_leaves=10,
)


@given(VALUES, st.integers(), st.floats())
def test_what_is_recorded_has_the_same_hash_after_json(value, seed, delta):
    # Keys of one kind only: JSON cannot sort others.
    parts = {"params": value, "seed": seed, "delta": delta}
    try:
        before = identity_of(parts)
    except TypeError:
        return
    shared = {"params": value, "delta": delta}
    texts = (json.dumps(each, sort_keys=True).encode() for each in (parts, shared))
    assert before == tuple(hashlib.sha256(text).hexdigest()[:16] for text in texts)
    identity = recorded(parts)
    if identity is None:
        return
    assert identity_of(json.loads(json.dumps(identity))) == before


def test_what_json_cannot_hold_is_not_recorded():
    assert recorded({"delta": math.inf, "seed": 1}) is None
    assert recorded({"params": {10: "a", 9: "b"}, "seed": 1}) is None
    assert recorded({"params": (1, 0.1, "inf"), "seed": 1}) == {
        "params": [1, 0.1, "inf"],
        "seed": 1,
    }


def test_a_translator_that_is_not_there_is_refused_before_data_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preparing, "load_data", lambda sources: pytest.fail("data were read"))
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
    monkeypatch.setattr(preparing, "load_data", lambda sources: pytest.fail("data were read"))
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
    monkeypatch.setattr(preparing, "load_data", lambda sources: pytest.fail("data were read"))
    arguments = ["run", "--mechanism", "noiseless", "--mechanism", "metric-dp",
                 "--set", "mechanism.metric-dp.epsilon=1",
                 "--set", "mechanism.metric-dp.embedding=no.txt"]  # fmt: skip
    for more in ([], ["--dry-run"]):
        assert run_cli([*arguments, *more]) == 2
        assert "metric-dp.embedding: no.txt" in capsys.readouterr().err
