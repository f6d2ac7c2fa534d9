"""Sentences of the 510 contracts of CUAD v1 with the names that lawyers marked in them.

    python benchmarks/contract_sentences.py full_contract_txt.jsonl.gz master_clauses.csv.gz \\
      contracts.jsonl

The first file has an object {file, company, text} a line; the second is the master clauses of the
data set. The output has an object {text, user, entities} a line: a user is a company, a row is a
sentence, and entities are spans {start, end, type} of PARTY (names that lawyers gave as 'Parties',
without the roles in brackets behind them) and LAW (states and countries that they gave as
'Governing Law') wherever any contract has them, in any case.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uedp_bench.text.sentences import split_sentences

_BRACKETS = re.compile(r"\(([^()]*)\)")
_WORD = re.compile(r"\w+")
_SHORTEST = 3  # characters of a name: shorter ones are initials, and mean other things elsewhere

Names = Mapping[str, Sequence[tuple[str, str]]]
"""Names in lower case and their types by their first word, the longest first."""


def parts(text: str, separator: str) -> set[str]:
    """Parts of an answer that begin with a capital or a digit, in lower case."""
    found = (" ".join(part.split()).strip(" .,\"'“”") for part in text.split(separator))
    return {
        part.lower()
        for part in found
        if len(part) >= _SHORTEST and (part[0].isupper() or part[0].isdigit())
    }


def names_of(answers: Iterable[Mapping[str, str]]) -> Names:
    """All names that the answers give; what stands in brackets anywhere is a role and no name."""
    found: dict[str, str] = {}
    roles: set[str] = set()
    for answer in answers:
        for bracket in _BRACKETS.findall(answer["Parties-Answer"]):
            roles |= parts(bracket, ",")
        plain = _BRACKETS.sub(" ", answer["Parties-Answer"])
        found |= dict.fromkeys(parts(plain, ";"), "PARTY")
        found |= dict.fromkeys(parts(answer["Governing Law-Answer"], ","), "LAW")
    by_word: dict[str, list[tuple[str, str]]] = {}
    for name in sorted(found.keys() - roles, key=lambda name: (-len(name), name)):
        by_word.setdefault(_WORD.findall(name)[0], []).append((name, found[name]))
    return by_word


def spans(sentence: str, names: Names) -> list[dict[str, Any]]:
    """Places of whole names in a sentence, from left to right; the longest where several begin."""
    text, out, after = sentence.lower(), [], 0
    if len(text) != len(sentence):  # a letter whose lower case is longer would move the offsets
        text = sentence
    for word in _WORD.finditer(text):
        start = word.start()
        if start < after:
            continue
        for name, kind in names.get(word.group(), ()):
            after_name = start + len(name)
            if text.startswith(name, start) and not text[after_name : after_name + 1].isalnum():
                out.append({"start": start, "end": after_name, "type": kind})
                after = after_name
                break
    return out


def rows(contracts: Path, clauses: Path) -> Iterator[dict[str, Any]]:
    """Sentences of all contracts, in the order of the file."""
    with gzip.open(clauses, "rt", encoding="utf-8", newline="") as file:
        names = names_of(csv.DictReader(file))
    with gzip.open(contracts, "rt", encoding="utf-8") as file:
        for line in file:
            contract = json.loads(line)
            for sentence in split_sentences([contract["text"]])[0]:
                yield {
                    "text": sentence,
                    "user": contract["company"],
                    "entities": spans(sentence, names),
                }


def main(contracts: Path, clauses: Path, out: Path) -> None:
    with out.open("w", encoding="utf-8") as file:
        for row in rows(contracts, clauses):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contracts", type=Path, help="full_contract_txt.jsonl.gz")
    parser.add_argument("clauses", type=Path, help="master_clauses.csv.gz")
    parser.add_argument("out", type=Path, help="the file to write")
    options = parser.parse_args()
    main(options.contracts, options.clauses, options.out)
