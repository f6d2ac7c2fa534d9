"""Numbers of docs/reproductions/index.md are those of the pages that its rows link to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tables import rendered

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs" / "reproductions"
NUMBER = re.compile(r"(?<![\w.,])\d+(?:,\d{3})*(?:\.\d+)?(?!\w|[.,]\d)")
NAMED = re.compile(r"\b(?:Tables?|Figures?|section) [\dIV]+[a-z]?(?: (?:and|to) \d+)?|\"[^\"]*\"")
"""Tables and figures of papers, and what is quoted."""
COLUMNS = ("paper", "claim", "holds", "proven", "short")

# By page: (row, column) of a table of the page, and the numbers that the front page has from there.
# The last of three says which of several such tables it is.
MEASURED: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {
    "dpnr": {
        ("0.05", "accuracy"): ("55.3",),
        ("majority", "accuracy"): ("57.8",),
        ("shared 0.05", "accuracy"): ("72.6",),
        ("shared 0.05", "attacker who centres too"): ("2.9",),
        ("noiseless", "attacker who centres too"): ("2.9",),
        ("0.05", "proven ε"): ("19.2",),
        ("0.05", "claimed ε"): ("0.050",),
        ("shared 0.05", "proven ε"): ("∞",),
    },
    "vickrey": {
        ("vickrey t=0.25, others|100", "inference error (eq. 4)"): ("0.60",),
        ("vickrey t=0.75, others|100", "inference error (eq. 4)"): ("0.68",),
        ("metric-dp, laplace|100", "inference error (eq. 4)"): ("0.00",),
        ("vickrey t=0.5, others|20", "inference error (eq. 4)", "1"): ("0.68",),
        ("vickrey t=0.5, others|20", "utility loss", "1"): ("45.3",),
        ("metric-dp, laplace|10", "inference error (eq. 4)", "1"): ("0.56",),
        ("metric-dp, laplace|10", "utility loss", "1"): ("44.2",),
        ("vickrey t=0.25, others|100", "utility loss"): ("21.9",),
        ("vickrey t=1, others|100", "utility loss"): ("23.1",),
    },
    "deepcandidate": {
        ("deepcandidate, lowest, ε 10", "macro-F1"): ("67.0",),
        ("truncation, ε 10", "macro-F1"): ("50.9",),
        ("deepcandidate, lowest, ε 25", "macro-F1"): ("68.2",),
        ("metric-dp, ε 25", "macro-F1"): ("80.5",),
        ("deepcandidate, highest, ε 25", "macro-F1"): ("50.2",),
        ("deepcandidate, lowest, ε 10", "proven ε"): ("10.0",),
    },
    "federated-secret-sharer": {
        ("FedAvg, non-IID, 40 users", "RS"): ("4.3",),
        ("FedAvg, IID, 40 users", "RS"): ("12.0",),
        ("FedAvg, non-IID, 40 users", "exposure"): ("4.87",),
        ("FedAvg, IID, 40 users", "exposure"): ("6.87",),
        ("DP-FedAvg, non-IID, 160 users", "RS"): ("0.0",),
        ("FedAvg, non-IID, 160 users", "RS"): ("3.7",),
    },
    "federated-tagging": {
        ("softmax, σ 1", "weighted token F1"): ("0.876",),
        ("softmax", "weighted token F1"): ("0.912",),
        ("softmax, σ 1", "entity F1"): ("38.6",),
        ("softmax", "entity F1"): ("55.2",),
        ("softmax, σ 1", "claimed ε"): ("2.63",),
        ("softmax, σ 1", "proven ε"): ("1.90",),
        ("5 clients, σ 1", "claimed ε"): ("0.87",),
        ("5 clients, σ 1", "proven ε"): ("4.95",),
        ("20 clients, σ 1", "claimed ε"): ("0.87",),
        ("20 clients, σ 1", "proven ε"): ("10.5",),
    },
    "wikipii": {
        ("text given to an operator", "exact"): ("39.4",),
        ("central", "exact"): ("36.8",),
        ("from client to client, epochs 4 x 1", "exact"): ("39.9",),
        ("from client to client, epochs 4 x 1, int8", "exact"): ("34.5",),
        ("user-dp", "exact"): ("37.5",),
        ("user-dp", "proven ε"): ("5.25",),
        ("text given to an operator", "proven ε"): ("∞",),
        ("central, errors 0", "strict F1"): ("98.9",),
        ("central, errors 1", "strict F1"): ("32.8",),
    },
    "secure-inference": {
        ("text-cnn", "labels agree"): ("2,000",),
        ("linear", "labels agree"): ("2,000",),
        ("dp-sgd + mpc", "proven ε"): ("9.97",),
        ("noiseless + mpc", "proven ε"): ("∞",),
        ("noiseless + mpc", "ε of the computation"): ("0",),
        ("noiseless + mpc", "accuracy"): ("0.54",),
        ("noiseless + mpc", "accuracy", "1"): ("0.85",),
        ("noiseless + mpc", "membership AUC", "1"): ("0.60",),
    },
    "private-pretraining": {
        ("dp-sgd (noise_multiplier=3.0571)", "entity F1 %"): ("25.5",),
        ("dp-sgd (noise_multiplier=1.3446)", "entity F1 %"): ("24.1",),
        ("noiseless", "entity F1 %"): ("24.9",),
        ("public-only", "entity F1 %"): ("25.0",),
        ("ε = 1", "nats a piece"): ("6.37",),
        ("ε = 3.2", "nats a piece"): ("6.31",),
        ("noiseless", "nats a piece"): ("6.08",),
        ("public-only", "nats a piece"): ("6.60",),
        ("dp-sgd (noise_multiplier=3.0571)", "proven ε"): ("1.00",),
        ("dp-sgd (noise_multiplier=1.3446)", "proven ε"): ("3.20",),
        ("noiseless", "n = 500"): ("5.26",),
        ("ε = 1", "n = 500"): ("2.85",),
    },
    "uedp": {
        ("`uedp`, as described, 42 rounds", "perplexity"): ("1,784",),
        ("without noise", "perplexity"): ("58.0",),
        ("`uedp`, as released, 282 rounds", "perplexity"): ("62.4",),
        ("`uedp`, as released, 282 rounds", "claimed ε"): ("0.999",),
        ("`uedp`, as released, 282 rounds", "claim refuted, of 3"): ("3",),
        ("`uedp`, as released, 282 rounds", "proven ε"): ("∞",),
        ("3.0", "`uedp`, as released"): ("97.2",),
    },
    "translation-fragments": {
        ("EMEA|nothing", "loss"): ("5.60",),
        ("EMEA|fragments of 4 words", "loss"): ("4.97",),
        ("EMEA|whole sentences", "loss"): ("4.41",),
        ("nothing", "BLEU"): ("13.9",),
        ("fragments of 4 words", "BLEU"): ("20.3",),
        ("whole sentences", "BLEU"): ("79.6",),
        ("whole sentences, DP-SGD", "proven ε"): ("7.87",),
        ("phrases by a noisy vote", "proven ε"): ("5.88",),
        ("7|50", "EMEA, %"): ("16.9",),
        ("4|50", "EMEA, %"): ("0.9",),
    },
}


def split(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    return [cell.removesuffix(" (older code)") for cell in cells]


@cache
def text_of(page: str) -> str:
    """A page as the site has it."""
    return rendered((DOCS / f"{page}.md").read_text(encoding="utf-8"), page)


@cache
def tables(page: str) -> list[tuple[list[str], list[list[str]]]]:
    """Heads and rows of the tables of a page."""
    found = [
        block.splitlines() for block in re.findall(r"(?:^\|.*\n)+", text_of(page) + "\n", re.M)
    ]
    return [(split(lines[0]), [split(line) for line in lines[2:]]) for lines in found]


def cells(page: str, row: str, column: str) -> list[str]:
    """What stands in this row and column, in every table of the page that has both."""
    start = row.split("|")
    return [
        line[head.index(column)]
        for head, lines in tables(page)
        if column in head
        for line in lines
        if line[: len(start)] == start
    ]


def front() -> dict[str, dict[str, str]]:
    """The cells of the front page, by the page that a row links to."""
    (found,) = (lines for head, lines in tables("index") if head[0] == "paper")
    rows = [dict(zip(COLUMNS, line, strict=True)) for line in found]
    return {re.findall(r"\]\(([a-z-]+)\.md\)", row["paper"])[0]: row for row in rows}


def test_every_reproduction_has_a_row() -> None:
    assert set(front()) == {page.stem for page in DOCS.glob("*.md")} - {"index"} == set(MEASURED)


@pytest.mark.parametrize("page", MEASURED)
def test_measured_numbers_are_those_of_the_page(page: str) -> None:
    row = front()[page]
    ours = " ".join(row[name] for name in COLUMNS[2:])
    for (line, column, *which), numbers in MEASURED[page].items():
        cell = cells(page, line, column)[int(which[0]) if which else 0]
        for number in numbers:
            assert number in {*NUMBER.findall(cell), *re.findall("∞", cell)}, (line, column, cell)
            assert number in {*NUMBER.findall(ours), *re.findall("∞", ours)}, (number, ours)


@pytest.mark.parametrize("page", MEASURED)
def test_other_numbers_stand_on_the_page_too(page: str) -> None:
    known = {
        *NUMBER.findall(text_of(page)),
        *(n for found in MEASURED[page].values() for n in found),
    }
    row = front()[page]
    for name in COLUMNS[1:]:
        said = NAMED.sub("", row[name])
        assert set(NUMBER.findall(said)) <= known, (name, set(NUMBER.findall(said)) - known)
