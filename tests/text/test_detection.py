"""Recall counts what is covered, by whatever type; results of de-identification say it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tiny import NOISELESS, runs
from typer.testing import CliRunner

from uedp_bench.cli.main import app
from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus, Layer
from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.errors import InputError
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.text.detection import detector_of, kind_of_type, kinds_of_types, measure
from uedp_bench.text.entities import Detection

TEXTS = ("Ann Lee met Bo", "Ann Lee left", "Bo in Rome", "Ann", "nothing")
GOLD = [(0, 0, 7, 0), (0, 12, 14, 0), (1, 0, 7, 0), (2, 0, 2, 0), (2, 6, 10, 1), (3, 0, 3, 0)]
# "Ann" and "Lee" apart, half a name, a wrong one, one of another type, and one in a public row.
FOUND = [(0, 0, 3, 0), (0, 4, 7, 1), (1, 0, 3, 0), (1, 8, 12, 0), (2, 6, 10, 0), (3, 0, 3, 0)]


def spans(mentions: list[tuple[int, int, int, int]], *types: str) -> Layer:
    return Layer.build(TEXTS, mentions, types)


def test_covered_touched_and_right() -> None:
    rows = np.array([True, True, True, False, True])
    detection = measure(TEXTS, spans(GOLD, "PER", "LOC"), spans(FOUND, "NAME", "X", "NEVER"), rows)
    person = detection.recall["PER"]
    assert (person.mentions, person.covered, person.touched) == (4, 1, 2)
    # Ann Lee is covered once and half covered once, Bo never.
    assert (person.entities, person.entities_covered) == (2, 0)
    place = detection.recall["LOC"]
    assert (place.mentions, place.covered, place.recall, place.entities_covered) == (1, 1, 1.0, 1)
    assert detection.recall["any"].recall == 2 / 5
    assert detection.precision["NAME"].precision == 3 / 4
    assert detection.precision["X"].precision == 1.0
    assert set(detection.precision) == {"NAME", "X", "any"}
    assert detection.rows == 4
    assert json.loads(json.dumps(detection.to_dict()))["recall"]["PER"]["recall"] == 0.25
    nothing = measure(TEXTS, spans(GOLD, "PER", "LOC", "NONE"), spans([], "NAME"), rows)
    assert nothing.recall["any"].recall == 0.0
    assert nothing.recall["NONE"].recall is None
    assert nothing.precision["any"].precision is None


def capitalised(texts: tuple[str, ...], params: DetectionParams) -> Detection:
    """Finds capitalised words, but not `Bo`."""
    hits = [
        (row, hit.start(), hit.end(), 0)
        for row, text in enumerate(texts)
        for hit in re.finditer(r"\b(?!Bo\b)[A-Z]\w+", text)
    ]
    return Detection(("NAME",), np.array(hits, dtype=np.int64).reshape(-1, 4))


@pytest.fixture
def labelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file with gold labels of 60 authors, and a detector of ours."""
    monkeypatch.setattr("uedp_bench.text.entities.detect", capitalised)
    names = ["Ann", "Bo"]
    lines = []
    for i in range(240):
        name = names[i % 2]
        text = f"today {name} came to the house number {i % 7}"
        spans = [{"start": 6, "end": 6 + len(name), "type": "PER"}]
        lines.append({"text": text, "who": f"u{i % 60}", "spans": spans})
    file = tmp_path / "gold.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def test_gold_labels_measure_the_detector_that_acts(labelled: Path) -> None:
    params = {"path": labelled, "user_column": "who", "entities_column": "spans"}
    gold = sources.create("text", params).load()
    assert not gold.layers
    assert len(gold.entities) == 240
    acting = sources.create("text", {**params, "detector": "presidio"}).load()
    assert len(acting.layer("gold").spans) == 240
    assert {acting.surface(i) for i in range(len(acting.entities))} == {"Ann"}
    assert acting.fingerprint != gold.fingerprint
    for corpus in (gold, acting):
        detection = detector_of(corpus, DetectionParams(detector="presidio"))
        assert detection.recall["PER"].recall == 0.5
        assert detection.recall["PER"].entities_covered == 1
    with pytest.raises(InputError, match=r"--detector: .*entities_column"):
        detector_of(corpus_without_labels(), DetectionParams(detector="presidio"))


def corpus_without_labels() -> Corpus:
    return Corpus(TEXTS, {"user": np.arange(5)}, np.zeros(5, dtype=np.int64))


def test_results_of_deidentification_say_what_was_found(labelled: Path, tmp_path: Path) -> None:
    params = {
        "path": str(labelled), "user_column": "who", "entities_column": "spans",
        "detector": "presidio",
    }  # fmt: skip
    (spec,) = runs(
        [{"name": "deidentify"}, NOISELESS],
        source={"name": "text", "params": params},
        task={"name": "next-word", "params": {"vocabulary": "private"}},
    )
    result = execute(spec, Execution(tmp_path / "out", "cpu", keep_release=False))
    assert result.error is None
    assert result.diagnostics["entities_from"] == "presidio"
    detection = result.diagnostics["detection"]
    assert detection["recall"]["PER"]["recall"] == pytest.approx(0.5, abs=0.05)
    assert detection["precision"]["any"]["precision"] == 1.0
    assert "detection" in result.diagnostics["simulation_only"]


def test_the_command_measures_any_source_with_labels(labelled: Path) -> None:
    command = [
        "data", "describe", "text", "--path", str(labelled), "--set", "entities_column=spans",
        "--detector", "presidio",
    ]  # fmt: skip
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "recall of presidio on labelled entities" in shown.output
    assert "50.0%" in shown.output
    report = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    assert report["detection"]["recall"]["PER"]["covered"] == 120
    assert report["detection"]["detector"] == "presidio"
    wrong = CliRunner().invoke(app, [*command[:-1], "presidoi"])
    assert wrong.exit_code != 0


@pytest.mark.parametrize(
    ("one", "other"),
    [("PER", "PERSON"), ("GPE", "LOC"), ("LOCATION", "loc"), ("NRP", "NORP"), ("Org", "COMPANY"),
     ("DATE_TIME", "DATETIME"), ("EMAIL_ADDRESS", "PII"), ("NORP", "DEM")],
)  # fmt: skip
def test_names_of_one_kind(one: str, other: str) -> None:
    assert kind_of_type(one) == kind_of_type(other)


def test_unknown_names_are_kinds_of_their_own_unless_somebody_says() -> None:
    assert kinds_of_types(("MISC", "Applicant", "PER")) == ["misc", "applicant", "person"]
    same = {"Applicant": "PERSON", "MISC": "Event"}
    assert kinds_of_types(("MISC", "applicant", "EVENT"), same) == ["event", "person", "event"]
