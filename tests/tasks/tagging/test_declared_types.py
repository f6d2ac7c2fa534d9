"""Names of types are public, or nothing is proven: one that a record has shows in the network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec
from uedp_bench.tasks.sources.text import TextFile

COLUMNS = {"tokens_column": "words", "user_column": "user", "entities_column": "tags"}


def _file(folder: Path) -> Path:
    rows = [
        {"user": f"u{i}", "words": ["Ann", "saw", "Rome"], "tags": ["B-PER", "O", "B-LOC"],
         "label": "ab"[i % 2], "split": ("train", "train", "test", "public")[i % 4]}
        for i in range(40)
    ]  # fmt: skip
    (file := folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return file


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, {"entities", "labels"}),
        ({"entity_types": ["LOC"], "label_names": ["a", "b"]}, set()),
        ({"detector": "names", "label_names": ["a"]}, {"layer gold"}),
        ({"layer_columns": ["who"], "entity_types": ["X"]}, {"layer who", "labels"}),
        ({"attribute_columns": ["age"]}, {"entities", "labels", "attribute age"}),
    ],
)
def test_what_a_file_does_not_declare(
    params: dict[str, Any], expected: set[str], tmp_path: Path
) -> None:
    source = TextFile.create({"path": _file(tmp_path), **params})
    assert source.undeclared() == expected


@pytest.mark.parametrize(
    ("of_source", "of_task", "clients", "refused"),
    [
        ({}, {}, None, True),
        ({"entity_types": ["LOC", "PER"]}, {}, None, False),
        ({}, {"types": ["PER"]}, None, False),
        ({}, {"types": ["PER"]}, {"count": 2, "by": "dirichlet", "alpha": 1.0}, True),
    ],
)
def test_types_from_private_rows_refuse_the_proof(
    of_source: dict[str, Any], of_task: dict[str, Any], clients: Any, refused: bool, tmp_path: Path
) -> None:
    source = {"path": str(_file(tmp_path)), "split_column": "split", **COLUMNS, **of_source}
    dp_sgd = {"steps": 1, "batch_size": 4, "records": 20}
    model = {"units": 4, "embedding_size": 4, "character_filters": 4}
    (spec,) = expand(parse_spec({
        "task": {"name": "tagging", "params": of_task},
        "source": {"name": "text", "params": source},
        "model": {"name": "bilstm", "params": model},
        "mechanisms": [{"name": "dp-sgd", "params": dp_sgd}],
        **({"clients": clients} if clients else {}),
    }))  # fmt: skip
    result = execute(spec, Execution(tmp_path / "out", "cpu", keep_release=False))
    (proven,) = [guarantee for guarantee in result.guarantees if guarantee.kind == "proven"]
    assert (proven.status == "refused") == refused
    assert (proven.epsilon == float("inf")) == refused
    if refused:
        assert "private rows" in (proven.reason or "")
