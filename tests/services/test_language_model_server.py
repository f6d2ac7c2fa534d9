"""Attacks ask a real decoder behind a real server, and ask a resumed run's questions of nobody."""

from __future__ import annotations

import json

import chat_server
import pytest
from services import ChatServer
from tiny import NOISELESS, runs

from uedp_bench.contracts.results import RunSpec
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

ANSWERS = {
    "gardening": '{"sex": ["female"], "author": 1, "confidence": 0.9}',
    "football": '{"sex": ["male"], "author": 1, "confidence": 0.8}',
}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return chat_server.build(tmp_path_factory.mktemp("model"), ANSWERS, 400)


def spec_of(server, model, path) -> RunSpec:
    asks = {"attacker": "llm", "llm": str(model), "server": server.uri, "people": 12,
            "characters": 300, "answer_tokens": 40}  # fmt: skip
    columns = {"user_column": "user", "split_column": "split", "attribute_columns": ["sex"]}
    (spec,) = runs(
        ["deidentify", NOISELESS],
        source={"name": "text", "params": {"path": str(path), **columns}},
        attacks=[{"name": name, "params": asks} for name in ("attribute-inference", "reidentify")],
    )
    return spec


def test_a_real_model_is_asked_and_never_twice(model, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "posts.jsonl"
    splits = ["train"] * 30 + ["valid"] * 4 + ["test"] * 4 + ["public"] * 10
    rows = [
        {"user": f"u{u}", "split": split, "sex": ["female", "male"][u % 2],
         "text": f"my {['gardening', 'football'][u % 2]} week {u} number {i}"}
        for u, split in enumerate(splits)
        for i in range(4)
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    server = ChatServer(model, tmp_path)
    spec = spec_of(server, model, path)
    try:
        first = execute(spec, Execution(tmp_path / "first", "cpu", keep_release=False))
    finally:
        server.kill()
    assert first.error is None
    assert first.failed_attacks == first.skipped_attacks == ()
    attributes, links = first.leakage["attribute-inference"], first.leakage["reidentify"]
    assert attributes["accuracy_sex"].value > attributes["majority_sex"].value
    for metrics in (attributes, links):
        assert metrics["answer_agreement"].value == 1.0
        assert metrics["unparsed_share"].value < 0.5
    assert 0 < links["recall_at_1_llm"].value <= links["recall_at_1_person"].value
    report = first.details["attribute-inference"]["language_model"]
    assert report["tokens"] > report["requests"] > 12
    # The server is gone: a run that starts again finds every answer on the disk.
    again = execute(spec, Execution(tmp_path / "second", "cpu", keep_release=False))
    assert again.failed_attacks == ()
    assert again.leakage == first.leakage
    assert again.details["reidentify"]["language_model"]["requests"] == 0
