"""The task from a spec to a result, and what it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uedp_bench.components.registry import tasks
from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.contracts.results import Result
from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans
from uedp_bench.errors import CapabilityError
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec
from uedp_bench.tasks.pii_detection import names_left

NAMES = ("Mary", "Zyx", "John Smith")


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Letters of 60 authors; the list of names knows two of three."""
    lines = []
    for i in range(240):
        name = NAMES[i % 3]
        text = f"today {name} came to house {i % 7} in Oslo"
        spans = [
            {"start": 6, "end": 6 + len(name), "type": "PER"},
            {"start": len(text) - 4, "end": len(text), "type": "LOC"},
        ]
        direct = spans[:1]
        lines.append({"text": text, "who": f"u{i % 60}", "names": spans, "direct": direct})
    file = tmp_path_factory.mktemp("letters") / "letters.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    return file


def run(letters: Path, out: Path, mechanism: Any = None, **params: Any) -> Result:
    source = {"path": str(letters), "user_column": "who", "entities_column": "names",
              "layer_columns": ["direct"]}  # fmt: skip
    masker = mechanism or {"name": "deidentify", "params": {"detector": "names"}}
    spec = {
        "task": {"name": "pii-detection", "params": params},
        "source": {"name": "text", "params": source},
        "mechanisms": [masker],
    }
    (one,) = expand(parse_spec(spec))
    return execute(one, Execution(out=out))


def test_a_run_says_what_is_found_and_what_is_left(letters: Path, tmp_path: Path) -> None:
    result = run(letters, tmp_path)
    assert result.error is None
    assert set(result.utility) == {one.name for one in tasks.get("pii-detection").metrics}
    assert result.headline is not None
    assert (result.headline.metric, result.learned) == ("covered", True)
    values = {name: each.value for name, each in result.utility.items()}
    details = result.details["pii-detection"]
    people = details["recall"]["PER"]["covered"]["value"]
    assert 0.6 < people < 0.72
    assert details["recall"]["PER"]["right"]["value"] == people  # PERSON is PER
    assert details["recall"]["LOC"]["covered"]["value"] == 0.0
    assert values["covered"] == pytest.approx(people / 2)
    assert values["precision"] == 1.0
    # Whole names are found here or not at all, so that what is not covered is left.
    assert values["names_left"] == pytest.approx(1 - values["covered"])
    assert values["rows_left"] == 1.0
    assert details["left"]["mentions_left"] == details["left"]["types"]["LOC"]["left"] + sum(
        result.diagnostics["detection"]["recall"]["PER"][key] * sign
        for key, sign in (("mentions", 1), ("covered", -1))
    )
    # Gold labels are read without protection: only a simulation can print them.
    assert "utility.covered" in result.diagnostics["simulation_only"]


def test_layer_and_rows_are_chosen(letters: Path, tmp_path: Path) -> None:
    test = run(letters, tmp_path, rows="test", layer="direct").details["pii-detection"]
    assert set(test["recall"]) == {"PER"}
    every = run(letters, tmp_path, rows="all", layer="direct").details["pii-detection"]
    assert test["rows"] < every["rows"] == 240


def test_labels_as_a_detector_find_everything(letters: Path, tmp_path: Path) -> None:
    result = run(letters, tmp_path, "deidentify")
    assert {result.utility[name].value for name in ("covered", "f1_strict")} == {1.0}
    assert result.utility["names_left"].value == 0.0


def test_what_cannot_be_measured_is_refused(letters: Path, tmp_path: Path) -> None:
    wrong = run(letters, tmp_path, layer="direkt").error
    assert wrong is not None
    assert "'direct'" in wrong.message
    nothing = run(letters, tmp_path, "noiseless").error
    assert nothing is not None
    assert "mechanism" in nothing.message
    with pytest.raises(CapabilityError, match="pii-detection"):
        tasks.create("pii-detection", {}).score(PublishedOnly(), None)


TEXTS = ("Ann Lee met Bo", "the Bo-Lee ltd", "Rome and rome", "Ann", "planted Cy")
GOLD = [(0, 0, 7, 0), (0, 12, 14, 0), (1, 4, 6, 0), (2, 0, 4, 1), (2, 9, 13, 1), (3, 0, 3, 0),
        (4, 8, 10, 0)]  # fmt: skip


def corpus(texts=TEXTS, split=("train", "train", "valid", "public", "train")):
    return Corpus(
        tuple(texts), {"user": np.array([0, 1, 1, 2, 3])},
        np.array([SPLITS.index(name) for name in split]), origin=np.array([0, 1, 2, 3, -1]),
    )  # fmt: skip


def left(published, rows=(True,) * 5):
    gold = Layer.build(TEXTS, GOLD, ("PER", "LOC"), np.array(rows))
    return names_left(corpus(), gold, published, np.random.default_rng(0))


def test_names_are_compared_as_words_and_planted_and_public_rows_do_not_count() -> None:
    # Half a name is no name; Bo stands inside of another word, then as one; rome is in small type.
    texts = ("Lee met Bob", "the bo - Lee ltd", "<LOC> and rome", "Ann", "planted Cy")
    remainder = left(corpus(texts))
    assert remainder.utility["names_left"].value == 3 / 5
    assert remainder.utility["rows_left"].value == 2 / 3
    assert remainder.details == {
        "mentions": 5,
        "mentions_left": 3,
        "rows": 3,
        "rows_left": 2,
        "types": {"PER": {"mentions": 3, "left": 1}, "LOC": {"mentions": 2, "left": 2}},
    }


def test_rows_are_found_by_their_origin() -> None:
    """A publisher may leave out rows, make two of one, and change their order."""
    texts = ("<X>", "Bo", "nobody", "", "")
    moved = replace(corpus(texts), origin=np.array([1, 0, 0, -1, -1]))
    remainder = left(moved)
    assert remainder.details["mentions"] == 3
    assert remainder.details["mentions_left"] == 1


def test_incomplete_rows_do_not_count_and_nothing_published_is_none() -> None:
    remainder = left(corpus(), rows=(False, True, True, True, True))
    assert remainder.details["mentions"] == 3
    assert left(replace(corpus(), origin=np.full(5, -1))) is None
    assert left(replace(corpus(), vectors=np.zeros((5, 2)))) is None
    gold = Layer(Spans.none(), (), np.ones(5, dtype=bool))
    assert names_left(corpus(), gold, corpus(), np.random.default_rng(0)) is None
