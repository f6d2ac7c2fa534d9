"""Results of anybody: what is no result, or lies where its id does not say, is told in one line."""

from __future__ import annotations

import json

import pytest

from uedp_bench.contracts.recorded_identity import identity_of
from uedp_bench.contracts.results import Result, write_result
from uedp_bench.errors import InputError
from uedp_bench.store.result_files import result_of_run, result_of_text, stored_result

PARTS = {"seed": 1, "delta": 1e-5}
ID, GROUP = identity_of(PARTS)


def make_result(**fields) -> Result:
    spec = {"task": {"name": "t"}, "source": {"name": "s"}, "model": {"name": "m"},
            "mechanism": [{"name": "a"}]}  # fmt: skip
    run_fields = {"id": ID, "group": GROUP, "status": "finished", "spec": spec,
                  "provenance": {"identity": PARTS}}  # fmt: skip
    return Result.model_validate({**run_fields, **fields})


def put(folder, **fields):
    folder.mkdir(parents=True)
    write_result(make_result(**fields), folder / "result.json")
    return folder / "result.json"


def test_a_result_in_the_folder_of_its_id_is_read(tmp_path):
    path = put(tmp_path / ID)
    assert stored_result(path) == result_of_run(path, ID) == make_result()
    # MLflow keeps its copies in folders of another name.
    assert stored_result(put(tmp_path / "artifacts")) == make_result()


@pytest.mark.parametrize(
    ("folder", "fields", "message"),
    [
        ("other", {}, f"id '{ID}' is not the name of its folder, 'other'"),
        ("a\x1b[31m", {}, r"is not the name of its folder, 'a\x1b[31m'"),
        (ID, {"id": "../../home/secret"}, "'../../home/secret'"),
        ("0" * 16, {"id": "0" * 16}, "provenance.identity"),
        (ID, {"group": "0" * 16}, "provenance.identity"),
        (ID, {"provenance": {"identity": [1]}}, "provenance.identity"),
        (ID, {"provenance": {"identity": PARTS | {"seed": 2}}}, "hashes"),
    ],
)
def test_what_lies_elsewhere_or_was_not_run_is_no_result(tmp_path, folder, fields, message):
    path = put(tmp_path / folder, **fields)
    with pytest.raises(InputError) as caught:
        stored_result(path)
    assert message in str(caught.value)
    assert str(caught.value).isprintable()
    assert result_of_run(path, ID) is None
    if "folder" not in message:
        with pytest.raises(InputError, match="MLflow run 7"):
            result_of_text(path.read_text(), "MLflow run 7")


def test_only_what_records_that_it_is_the_run_counts_as_its_result(tmp_path):
    old = put(tmp_path / "old" / ID, provenance={})
    assert stored_result(old).id == ID  # from before the identity was kept: shown, and run again
    assert result_of_run(old, ID) is None
    error = {"type": "ValueError", "message": "m", "phase": "train"}
    failed = put(tmp_path / "failed" / ID, status="failed", error=error, provenance={})
    assert result_of_run(failed, ID).status == "failed"
    for at, halves in enumerate([{"status": "failed"}, {"error": error}]):
        assert result_of_run(put(tmp_path / str(at) / ID, **halves), ID) is None
    assert result_of_run(tmp_path / "none" / "result.json", ID) is None


def _changed(**fields):
    return json.dumps(make_result().model_dump(mode="json") | fields)


@pytest.mark.parametrize(
    "text",
    [
        _changed(cost={"train_seconds": "nan"}),
        _changed(cost={"train_seconds": float("nan")}),
        _changed(cost={"train_seconds": "inf"}),
        _changed(cost={"extra": float("inf")}),
        _changed(delta=1, spec=3),
        _changed(utility={"\x1b[2J": {"value": "x\n\x1b"}}),
        _changed(utility={"p": {"value": 1, "low": "nan"}}),
        _changed(lower_bounds=[{"unit": "user", "epsilon": 1, "delta": "nan", "confidence": 0.9,
                                "method": "m"}]),
        _changed(id="\ud83d"),
        '{"id": "a", "id": "b"}',
        "[" * 100_000,
        "1" * 5000,
        "",
        "null",
        '"\x00"',
    ],
)  # fmt: skip
def test_a_text_of_anybody_is_a_result_or_one_line(text):
    with pytest.raises(InputError) as caught:
        result_of_text(text, "a\x1b[31m.json")
    assert str(caught.value).startswith(r"a\x1b[31m.json")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 500
