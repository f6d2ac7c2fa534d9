"""Names in contracts: what counts as one, and where a sentence has it."""

from __future__ import annotations

import csv
import gzip
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[3] / "docs" / "reproductions" / "contract_sentences.py"


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(SCRIPT))


def answer(parties: str, law: str = "") -> dict[str, str]:
    return {"Parties-Answer": parties, "Governing Law-Answer": law}


def test_roles_are_no_names_wherever_a_lawyer_took_them_for_one(script: dict[str, Any]) -> None:
    listed = [
        answer('Acme, Inc. ("Supplier"); an individual'),
        answer("Supplier; Acme", "Ohio, US"),
    ]
    names = script["names_of"](listed)
    assert names == {"acme": [("acme, inc", "PARTY"), ("acme", "PARTY")], "ohio": [("ohio", "LAW")]}


def test_the_longest_whole_name_is_marked_in_any_case(script: dict[str, Any]) -> None:
    names = script["names_of"]([answer("Acme, Inc.; Acme", "York, New York")])
    text = "ACME, INC. left New York for Yorkshire; Acme's York office, Acmes."
    marked = [(text[s["start"] : s["end"]], s["type"]) for s in script["spans"](text, names)]
    assert marked == [
        ("ACME, INC", "PARTY"), ("New York", "LAW"), ("Acme", "PARTY"), ("York", "LAW"),
    ]  # fmt: skip


def test_every_contract_is_searched_for_the_names_of_all(
    script: dict[str, Any], tmp_path: Path
) -> None:
    contracts, clauses = tmp_path / "contracts.jsonl.gz", tmp_path / "clauses.csv.gz"
    texts = {"a": "Acme and Bolt met. Ohio law applies.", "b": "Bolt pays. Nobody else does."}
    with gzip.open(contracts, "wt", encoding="utf-8") as file:
        for name, text in texts.items():
            one = {"file": f"{name}.txt", "company": name.upper(), "text": text}
            file.write(json.dumps(one) + "\n")
    with gzip.open(clauses, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["Parties-Answer", "Governing Law-Answer"])
        writer.writeheader()
        writer.writerows([answer("Acme", "Ohio"), answer("Bolt Ltd; Bolt")])
    script["main"](contracts, clauses, tmp_path / "out.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(r["user"], r["text"], len(r["entities"])) for r in rows] == [
        ("A", "Acme and Bolt met.", 2),
        ("A", "Ohio law applies.", 1),
        ("B", "Bolt pays.", 1),
        ("B", "Nobody else does.", 0),
    ]


def test_only_sentences_of_marked_clauses_each_once_a_contract(
    script: dict[str, Any], tmp_path: Path
) -> None:
    contracts, clauses = tmp_path / "contracts.jsonl.gz", tmp_path / "clauses.csv.gz"
    with gzip.open(contracts, "wt", encoding="utf-8") as file:
        one = {"file": "Lé & Co.txt", "company": "LE", "text": "Never read. Acme pays."}
        file.write(json.dumps(one) + "\n")
    marked = {
        "Filename": "Le\u0301_Co .pdf", "Parties": "['Acme']", "Parties-Answer": "Acme",
        "Governing Law": "['Ohio law applies. Acme agrees.']", "Governing Law-Answer": "Ohio",
        "Audit Rights": "['Acme agrees.', 'Books are open.']", "Audit Rights-Answer": "Yes",
        "Insurance": "", "Insurance-Answer": "No",
    }  # fmt: skip
    with gzip.open(clauses, "wt", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(marked))
        writer.writeheader()
        writer.writerow(marked)
    script["main"](contracts, clauses, tmp_path / "out.jsonl", only_clauses=True)
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [(r["user"], r["text"], len(r["entities"])) for r in rows] == [
        ("LE", "Ohio law applies.", 1),
        ("LE", "Acme agrees.", 1),
        ("LE", "Books are open.", 0),
    ]
