"""Sentences of the 510 contracts of CUAD v1 with the names that lawyers marked in them.

    python docs/reproductions/contract_sentences.py CONTRACTS CLAUSES OUT [--clauses]

CONTRACTS (full_contract_txt.jsonl.gz) has an object {file, company, text} a line; CLAUSES
(master_clauses.csv.gz) are the master clauses of the data set. OUT has an object {text, user,
entities} a line: a user is a company, a row is a sentence, and entities are spans {start, end,
type} of PARTY (names that lawyers gave as 'Parties', without the roles in brackets behind them) and
LAW (states and countries that they gave as 'Governing Law') wherever any contract has them, in any
case. With --clauses the rows are only the sentences of the clauses that lawyers marked, each once a
contract.
"""

from __future__ import annotations

import argparse
import ast
import csv
import gzip
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from uedp_bench.text.sentences import split_sentences

_BRACKETS = re.compile(r"\(([^()]*)\)")
_WORD = re.compile(r"\w+")
_SHORTEST = 3  # characters of a name: shorter ones are initials, and mean other things elsewhere

_NO_CLAUSES = ("Filename", "Document Name", "Parties", "Agreement Date", "Effective Date")
"""Columns of the master clauses whose texts are titles, names and dates."""

Names = Mapping[str, Sequence[tuple[str, str]]]
"""Names in lower case and their types by their first word, the longest first."""


def parts(text: str, separator: str) -> set[str]:
    """Parts of an answer that begin with a capital or a digit, in lower case."""
    pieces = (" ".join(part.split()).strip(" .,\"'“”") for part in text.split(separator))
    return {
        part.lower()
        for part in pieces
        if len(part) >= _SHORTEST and (part[0].isupper() or part[0].isdigit())
    }


def names_of(answers: Iterable[Mapping[str, str]]) -> Names:
    """All names that the answers give; what stands in brackets anywhere is a role and no name."""
    kind_of_name: dict[str, str] = {}
    roles: set[str] = set()
    for answer in answers:
        for bracket in _BRACKETS.findall(answer["Parties-Answer"]):
            roles |= parts(bracket, ",")
        plain = _BRACKETS.sub(" ", answer["Parties-Answer"])
        kind_of_name |= dict.fromkeys(parts(plain, ";"), "PARTY")
        kind_of_name |= dict.fromkeys(parts(answer["Governing Law-Answer"], ","), "LAW")
    by_word: dict[str, list[tuple[str, str]]] = {}
    for name in sorted(kind_of_name.keys() - roles, key=lambda name: (-len(name), name)):
        by_word.setdefault(_WORD.findall(name)[0], []).append((name, kind_of_name[name]))
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


def key_of(file: str) -> str:
    """A contract's file name as letters and digits: the two files spell some of them apart."""
    stem = unicodedata.normalize("NFKD", file.rpartition(".")[0]).lower()
    return "".join(letter for letter in stem if letter.isascii() and letter.isalnum())


def clauses_of(answer: Mapping[str, str]) -> list[str]:
    """The clauses that lawyers marked in a contract, in the order of the columns."""
    texts = (
        text for column, text in answer.items()
        if column not in _NO_CLAUSES and not column.endswith("Answer")
    )  # fmt: skip
    return [clause for text in texts for clause in ast.literal_eval(text or "[]")]


def rows(contracts: Path, clauses: Path, *, only_clauses: bool = False) -> Iterator[dict[str, Any]]:
    """Sentences of all contracts, or of their marked clauses, in the order of the file."""
    with gzip.open(clauses, "rt", encoding="utf-8", newline="") as file:
        answers = list(csv.DictReader(file))
    names = names_of(answers)
    marked = {key_of(one["Filename"]): clauses_of(one) for one in answers if only_clauses}
    with gzip.open(contracts, "rt", encoding="utf-8") as file:
        for line in file:
            contract = json.loads(line)
            texts = marked[key_of(contract["file"])] if only_clauses else [contract["text"]]
            sentences = (one for of_text in split_sentences(texts) for one in of_text)
            for sentence in dict.fromkeys(sentences) if only_clauses else sentences:
                yield {
                    "text": sentence,
                    "user": contract["company"],
                    "entities": spans(sentence, names),
                }


def main(contracts: Path, clauses: Path, out: Path, *, only_clauses: bool = False) -> None:
    with out.open("w", encoding="utf-8") as file:
        for row in rows(contracts, clauses, only_clauses=only_clauses):
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("contracts", type=Path, help="full_contract_txt.jsonl.gz")
    parser.add_argument("clauses", type=Path, help="master_clauses.csv.gz")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--clauses", dest="only_clauses", action="store_true",
                        help="only sentences of the marked clauses")  # fmt: skip
    options = parser.parse_args()
    main(options.contracts, options.clauses, options.out, only_clauses=options.only_clauses)
