from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.components.component import parse_params
from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.errors import InputError
from uedp_bench.text.entities import detect, listed_names


def names(text: str) -> list[str]:
    return [text[start:end] for start, end in listed_names(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("yesterday Anna met Harry Potterson.", ["Anna", "Harry"]),
        ("Anna Smith and John  Smith", ["Anna Smith", "John"]),
        ("Anna's friend, Smith", ["Anna"]),
        ("James Thomas Johnson", ["James Thomas"]),
        ("anna, ANNA, Annas and Ann", ["Ann"]),
        ("Don't tell Don’t know", []),
        ("Paul-Anna, (John)!", ["Paul", "Anna", "John"]),
        ("", []),
    ],
)
def test_capitalised_words_on_the_list(text: str, expected: list[str]) -> None:
    assert names(text) == expected


def test_as_a_detector_it_needs_no_software_and_no_cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path))
    detection = detect(["nobody", "Anna met John Smith"], DetectionParams(detector="names"))
    assert detection.types == ("PERSON",)
    assert detection.mentions.tolist() == [[1, 0, 4, 0], [1, 9, 19, 0]]
    assert not list(tmp_path.iterdir())
    none = detect(["nobody"], DetectionParams(detector="names"))
    assert none.mentions.shape == (0, 4)
    assert none.mentions.dtype == np.int64


def test_it_takes_no_pipeline() -> None:
    with pytest.raises(InputError, match=r"pipeline.*'names'"):
        parse_params(DetectionParams, {"detector": "names", "pipeline": "x"}, "text")
