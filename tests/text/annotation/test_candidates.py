from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.text.annotation import candidates
from uedp_bench.text.annotation.candidates import Candidate, by_patterns, by_pipeline
from uedp_bench.text.entities import Detection


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("He met Anna Smith, a lawyer.", ["Anna Smith"]),
        ("In Troy he met Dr. A. van der Berg .", ["Troy", "Dr. A. van der Berg"]),
        ("the University of the Arts", ["University of the Arts", "University", "Arts"]),
        ("Jean-Luc O'Brien's son", ["Jean-Luc O'Brien"]),
        ("Łukasz Müller and Άγγελος", ["Łukasz Müller", "Άγγελος"]),
        ("they left of the", []),
        ("Anna\nSmith", ["Anna", "Smith"]),
        ("Of the Troy of Bo of the Oslo", ["Troy of Bo of the Oslo", "Troy", "Bo", "Oslo"]),
    ],
)
def test_runs_of_capitalised_words(text: str, phrases: list[str]) -> None:
    assert [text[one.start : one.end] for one in by_patterns(text)] == phrases


def test_a_long_run_has_few_candidates() -> None:
    assert len(by_patterns("Bo of " * 5_000)) == 5_001


def test_a_date_is_no_name() -> None:
    text = "born 4 Aug. 1961"
    date, month = by_patterns(text)
    assert (text[date.start : date.end], date.kinds) == ("4 Aug. 1961", frozenset({"date"}))
    assert "date" not in month.kinds


def test_entities_of_a_pipeline_are_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    def detect(texts: list[str], params: DetectionParams) -> Detection:
        assert (params.detector, params.pipeline) == ("spacy", "rules")
        mentions = np.array([(0, 0, 4, 2), (0, 10, 16, 1), (1, 3, 13, 0)])
        return Detection(("FAC", "MONEY", "PERSON"), mentions)

    monkeypatch.setattr(candidates, "detect", detect)
    assert by_pipeline(["troy paid 10 USD", "at the bridge"], "rules") == [
        [Candidate(0, 4, frozenset({"person"}))],
        [Candidate(3, 13, frozenset({"organisation", "place"}))],
    ]
