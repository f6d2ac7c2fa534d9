"""Every source with labels is classified, under a mechanism of each kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import text_encoders

from uedp_bench.contracts.results import Result
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec
from uedp_bench.tasks.classification.text_classification import TextClassification

MODEL = {"name": text_encoders.MeanOfWords.name, "params": {"width": 8}}
PLAIN = {"name": "noiseless", "params": {"epochs": 1}}
SOURCES: dict[str, tuple[str, dict[str, Any], int]] = {
    "ag-news": ("ag_news/test.csv.gz", {"sample": 0.1, "test": 0.2}, 4),
    "dpnlp-ag": ("dpnlp_ag", {"sample": 0.03}, 4),
    "imdb": ("imdb", {"sample": 0.01}, 2),
    "20-newsgroups": ("20newsgroups_bydate", {"sample": 0.03}, 20),
    "blog-authorship": ("blog_authorship", {"users": 300, "passes": 1, "topic_share": 0.5}, 10),
    "opinion-lexicon": ("opinion_lexicon", {}, 2),
}


def classify(folder: Path, source: dict[str, Any], mechanism: Any, **fields: Any) -> Result:
    task = {"name": "text-classification", "params": {"vocabulary": "private"}}
    spec = {"task": task, "source": source, "model": MODEL, "mechanisms": [mechanism], **fields}
    (run,) = expand(parse_spec(spec))
    result = execute(run, Execution(out=folder, device="cpu", keep_release=False))
    assert result.status == "finished", result.error
    return result


@pytest.mark.parametrize("name", SOURCES)
def test_real_sources_are_classified(
    name: str, shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    path, params, classes = SOURCES[name]
    if not (shared_data / path).exists():
        pytest.skip(f"needs {path} of the shared data")
    source = {"name": name, "params": {"path": str(shared_data / path), **params}}
    result = classify(tmp_path, source, PLAIN)
    utility = result.utility
    assert 0 < utility["error"].value < 1
    assert utility["random_error"].value <= 1 - 1 / classes + 0.1
    assert utility["majority_error"].value <= utility["random_error"].value + 0.1
    # The vocabulary is private here, and nothing is promised for it.
    assert {(g.kind, g.epsilon) for g in result.guarantees} == {("proven", float("inf"))}


EMBEDDED = {
    "name": "embedded",
    "params": {"users": 60, "valid_users": 5, "test_users": 10, "public_users": 20},
}


@pytest.mark.parametrize(
    ("mechanism", "unit", "finite"),
    [
        (["deidentify", PLAIN], "entity", False),
        ({"name": "uedp", "params": {"rounds": 2, "users_per_round": 10}}, "user-entity", True),
        ({"name": "user-dp", "params": {"rounds": 2, "users_per_round": 10}}, "user", True),
        ({"name": "uedp-group", "params": {"rounds": 2}}, "user-entity", True),
        ({"name": "dp-sgd", "params": {"steps": 2, "batch_size": 20}}, "record", True),
        ({"name": "dpnr", "params": {"epsilon": 1.0, "dimension": 8, "epochs": 1}}, "word", True),
        ({"name": "adversarial", "params": {"epochs": 1, "attacker_hidden": 4}}, "record", False),
        (["majority", PLAIN], "word", True),
    ],
)
def test_mechanisms_of_every_kind_say_what_they_promise(
    mechanism: Any, unit: str, finite: bool, tmp_path: Path
) -> None:
    task = {"name": "text-classification", "params": {"target": "label"}}
    result = classify(tmp_path, EMBEDDED, mechanism, task=task)
    vectors = {"tfidf_error"} if mechanism == ["majority", PLAIN] else set()  # they have no words
    assert set(result.utility) == {one.name for one in TextClassification.metrics} - vectors
    assert 0 <= result.utility["error"].value <= 1
    by_unit = {g.unit: g for g in result.guarantees if g.kind != "claimed"}
    assert (by_unit[unit].epsilon < float("inf")) == finite
    # The model is one of the tests: what nobody reviewed proves nothing finite.
    assert all(g.kind == ("proven" if g.epsilon == float("inf") else "stated")
               for g in by_unit.values())  # fmt: skip
    if unit == "word" and "dpnr" in str(mechanism):
        assert by_unit[unit].epsilon == pytest.approx(8.0)
        assert by_unit["record"].epsilon == float("inf")
