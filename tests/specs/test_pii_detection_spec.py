"""The packaged comparison of de-identifiers is about what its page says."""

from __future__ import annotations

from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec, read_spec


def test_detectors_and_labels_side_by_side() -> None:
    values = read_spec("pii-detection")
    values["source"] = {"name": "tab", "params": {"path": "tab.jsonl"}}
    runs = expand(parse_spec(values))
    detectors = [run.mechanism[0].params.get("detector", "corpus") for run in runs]
    assert sorted(detectors) == ["corpus", "names", "presidio"]
    assert {run.task.params["layer"] for run in runs} == {"entities"}
