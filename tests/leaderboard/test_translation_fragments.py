"""The page on fragments shows the stored tables, and its findings are in them."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reproductions" / "translation-fragments.md"
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


def test_longer_fragments_give_more_sentences_back_and_keeping_fewer_gives_fewer() -> None:
    rows = [row for row in stored("reassembly") if row["domain"] == "EMEA"]
    by_length = {row["words"]: row for row in rows if row["keep"] == 0.5}
    shares = [by_length[words]["sentences_recovered"][0] for words in sorted(by_length)]
    assert shares == sorted(shares)
    assert by_length[7]["sentences_recovered"][0] == pytest.approx(0.169, abs=0.001)
    assert by_length[4]["sentences_recovered"][1] == 0.0  # intervals over documents reach zero
    kept = {row["keep"]: row["sentences_recovered"][0] for row in rows if row["words"] == 4}
    assert [kept[keep] for keep in sorted(kept)] == sorted(kept.values())
    for row in stored("reassembly"):
        assert row["sentences_recovered"][0] >= row["sentences_recovered_floor"][0]
        if row["words"] == 7:  # beyond what documents share
            assert row["sentences_recovered"][1] > row["sentences_recovered_floor"][2]


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
