"""Results, events and scores that nobody means well."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hostile import answer, damaged, mutated, rounds

from uedp_bench.contracts.results import parse_result
from uedp_bench.errors import InputError

pytestmark = pytest.mark.long

STORED = [
    file.read_text("utf-8")
    for file in sorted((Path(__file__).parents[1] / "historic_results").glob("*.json"))
]
EVENTS = [event for text in STORED for event in [json.loads(text).get("events", [])] if event]


def hostile_result(rng) -> str:
    text = rng.choice(STORED)
    if rng.random() < 0.5:
        return json.dumps(mutated(json.loads(text), rng))
    return damaged(text.encode(), rng).decode("utf-8", "replace")


def test_boards_of_hostile_results(tmp_path):
    for at, rng in rounds("results", part=2):
        folder = tmp_path / str(at)
        for _ in range(2):
            text = hostile_result(rng)
            named = re.search(r'"id": "(\w{1,64})"', text)
            file = folder / (named[1] if named else "other") / "result.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        answer(
            [
                "leaderboard",
                "--results",
                str(folder),
                *rng.choice(([], ["--json"], ["--csv"], ["--markdown"])),
            ]
        )
        ending = rng.choice(("html", "md"))
        answer(["report", str(folder), "--out", str(tmp_path / f"{at}.{ending}")])


def test_what_parses_is_written_again():
    for _, rng in rounds("parse"):
        try:
            result = parse_result(hostile_result(rng), "here")
        except InputError as error:
            assert len(str(error)) < 1_000
            continue
        assert parse_result(result.model_dump_json(), "again") == result


def test_hostile_results_are_validated(tmp_path):
    for at, rng in rounds("validate", part=2):
        (tmp_path / f"{at}.json").write_text(hostile_result(rng))
    answer(["leaderboard", "validate", *map(str, sorted(tmp_path.glob("*.json")))], codes=(0, 1))


def test_events_of_strangers(tmp_path):
    assert EVENTS
    for at, rng in rounds("events", part=2):
        file = tmp_path / f"{at}.json"
        events = rng.choice(EVENTS)
        file.write_text(
            json.dumps(mutated(events, rng))
            if rng.random() < 0.7
            else damaged(json.dumps(events).encode(), rng).decode("utf-8", "replace")
        )
        answer(["account", "--events", str(file)])


@pytest.mark.parametrize("kind", ["txt", "json", "npy"])
def test_scores_of_strangers(tmp_path, kind):
    import numpy as np

    if kind == "npy":
        np.save(tmp_path / "whole.npy", np.arange(20.0))
        whole = (tmp_path / "whole.npy").read_bytes()
    else:
        whole = b"1\n2\n3.5\n" if kind == "txt" else b'[1, 2, 3.5, "inf"]'
    good = tmp_path / "good.txt"
    good.write_text("1\n2\n")
    for at, rng in rounds(f"scores {kind}", part=2):
        file = tmp_path / f"{at}.{kind}"
        file.write_bytes(damaged(whole, rng))
        answer(["bound", "--members", str(file), "--nonmembers", str(good)])
