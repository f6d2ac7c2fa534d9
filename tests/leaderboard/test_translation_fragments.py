"""The page on fragments shows the stored tables, and its findings are in them."""

from __future__ import annotations

import json
import re
import runpy
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.leaderboard.loading import load_results

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproductions" / "translation-fragments.md"
RESULTS = ROOT / "leaderboard" / "results" / "reproductions" / "translation-fragments"
COMMANDS = runpy.run_path(str(ROOT / "benchmarks" / "fragments.py"))


def stored(table: str) -> list[dict[str, Any]]:
    file = PAGE.with_suffix("") / f"{table}.json"
    rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return rows


@pytest.mark.parametrize("table", COMMANDS["TABLES"])
def test_the_page_shows_what_is_stored(table: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = re.search(rf"<!-- fragments: {table} -->\n(.*?)\n<!-- end -->", text, re.DOTALL)
    assert shown is not None
    assert shown[1] == COMMANDS["markdown"](stored(table))


def test_the_files_have_a_limit_on_both_sides() -> None:
    for row in stored("counts"):
        words = COMMANDS["LONGEST"][row["domain"]]
        assert row["longest"] == f"{words} / {words}"
        assert row[f"{words} words, both"] == pytest.approx(row["published"], rel=0.04)
    other = {row["domain"]: row["4 words, both"] / row["published"] for row in stored("counts")}
    assert other["GNOME"] < 0.9 and other["JRC"] < 0.93


def test_jrc_holds_its_source_and_emea_repeats_itself() -> None:
    found = {row["domain"]: row for row in stored("data")}
    assert found["JRC"]["copied in train"] == pytest.approx(0.294, abs=0.005)
    assert found["JRC"]["copied in test"] == pytest.approx(0.34, abs=0.005)
    assert max(found["GNOME"]["copied in train"], found["EMEA"]["copied in train"]) < 0.03
    assert found["EMEA"]["distinct pairs in train"] < 0.36 * 10_001
    assert found["EMEA"]["test pairs in train"] == pytest.approx(0.045, abs=0.001)
    for row in found.values():
        shares = [row[f"{size}-grams published"] for size in range(1, 5)]
        assert shares == sorted(shares, reverse=True) and shares[0] > 0.4


@pytest.mark.parametrize(("domain", "whole"), [("EMEA", 0.169), ("GNOME", 0.167), ("JRC", 0.048)])
def test_longer_fragments_give_more_sentences_back_and_keeping_fewer_gives_fewer(
    domain: str, whole: float
) -> None:
    rows = [row for row in stored("reassembly") if row["domain"] == domain]
    assert {(row["words"], row["keep"]) for row in rows} == set(COMMANDS["ATTACKED"])
    by_length = {row["words"]: row for row in rows if row["keep"] == 0.5}
    shares = [by_length[words]["sentences_recovered"][0] for words in sorted(by_length)]
    assert shares == sorted(shares)
    assert all(1.5 < more / less < 5.4 for less, more in pairwise(shares[2:]))
    assert by_length[7]["sentences_recovered"][0] == pytest.approx(whole, abs=0.001)
    kept = {row["keep"]: row["sentences_recovered"][0] for row in rows if row["words"] == 4}
    assert [kept[keep] for keep in sorted(kept)] == sorted(kept.values())
    right = [row["run_precision"][0] for row in rows if row["keep"] >= 0.5 and row["words"] > 2]
    assert min(right) > 0.37 and max(right) < 0.631


def test_sentences_come_back_more_often_than_from_other_documents() -> None:
    emea = next(row for row in stored("reassembly") if (row["words"], row["keep"]) == (4, 0.5))
    assert emea["sentences_recovered"][1] == 0.0  # intervals over documents reach zero
    for row in stored("reassembly"):
        assert row["sentences_recovered"][0] >= row["sentences_recovered_floor"][0]
        if row["words"] == 7:  # beyond what documents share
            assert row["sentences_recovered"][1] > row["sentences_recovered_floor"][2]


def test_no_pair_of_facts_is_joined_on_generated_text() -> None:
    for row in stored("facts"):
        assert row["facts_joined"] == row["facts_joined_floor"] == [0.0, 0.0, 0.0]
        assert row["pairs"] > 170
    assert max(row["sentences_recovered"][0] for row in stored("facts")) > 0.05
    assert {row["pairs"] for row in stored("facts") if row["words"] == 4} == {189}


def test_translations_are_those_of_the_stored_results() -> None:
    assert list(COMMANDS["translations"](RESULTS)) == stored("translations")


def test_fragments_help_and_whole_sentences_help_more() -> None:
    found = {row["adapted on"]: row for row in stored("translations")}
    bleu = {name: row["bleu"][0] for name, row in found.items()}
    four, seven = bleu["fragments of 4 words"], bleu["fragments of 7 words"]
    assert bleu["nothing"] < four < seven < bleu["whole sentences"]
    share = (four - bleu["nothing"]) / (bleu["whole sentences"] - bleu["nothing"])
    assert share == pytest.approx(0.15, abs=0.005)
    assert overlap(
        found["fragments of 4 words"]["bleu"], found["fragments of 4 words, tagged"]["bleu"]
    )
    assert overlap(found["nothing"]["bleu"], found["phrases by a noisy vote"]["bleu"])
    noisy = found["whole sentences, DP-SGD"]
    for score in ("bleu", "chrf"):
        assert noisy[score][0] < found["nothing"][score][0]
        assert overlap(noisy[score], found["nothing"][score])
    assert noisy["length_ratio"][0] == pytest.approx(1.31, abs=0.01)


def test_all_start_from_the_same_weights() -> None:
    floors = {
        COMMANDS["named"](result): result.floors["public-only"]
        for result in load_results([RESULTS])
    }
    (start,) = (row["bleu"][0] for row in stored("translations") if row["adapted on"] == "nothing")
    assert len(floors) == 7 and set(floors.values()) == {start}


def overlap(one: list[float], other: list[float]) -> bool:
    return one[1] < other[2] and other[1] < one[2]


def test_few_documents_have_next_to_nothing_to_publish() -> None:
    rows = stored("union")
    found = {row["data"]: row for row in rows}
    assert (found["EMEA"]["documents"], found["GNOME"]["documents"]) == (17, 110)
    assert found["EMEA"]["ε = 3"] == 0 and found["EMEA"]["ε = 8"] == 3
    assert found["EMEA"]["of 20 documents"] == 0
    assert found["GNOME"]["of 2 words, ε = 8"] == 1
    generated = [row for row in rows if row["data"] == "generated"]
    for epsilon in ("ε = 1", "ε = 3", "ε = 8"):
        curve = [row[epsilon] for row in generated]
        assert curve == sorted(curve)
        assert curve[-1] < 0.01 * generated[-1]["different phrases"]
