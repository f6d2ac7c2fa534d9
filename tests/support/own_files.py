"""Small files as people have them: odd names of columns, other encodings, nested fields."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

WORDS = ["the meeting", "our invoice", "a new printer", "this contract", "every report"]
VERBS = ["is late for", "was sent to", "goes with", "belongs to", "will follow"]
NAMES = ["Ann", "Bo", "Kim", "Lee"]


def sentence(rng: np.random.Generator) -> str:
    # `rng.choice` draws the same, and makes an array of the words each time.
    first, verb, second, name = (
        words[rng.integers(len(words))] for words in (WORDS, VERBS, WORDS, NAMES)
    )
    return f"{first} {verb} {second} of {name}"


def mail(folder: Path, rows: int = 160, users: int = 50) -> Path:
    """Semicolons, cp1252, a blank row, columns called unlike anything."""
    rng, file = np.random.default_rng(1), folder / "Mailbox Export.csv"
    with file.open("w", encoding="cp1252", newline="") as out:
        writer = csv.writer(out, delimiter=";")
        writer.writerow(["Date Sent", "Sent From", "Mail Body"])
        for row in range(rows):
            writer.writerow([f"2026-01-{row % 28 + 1}", f"u{row % users}@x.org",
                             f"“{sentence(rng)}” – {sentence(rng)}"])  # fmt: skip
        writer.writerow(["2026-02-01", "u0@x.org", ""])
    return file


def chat(folder: Path, rows: int = 900, users: int = 600) -> Path:
    """Objects within objects."""
    rng, file = np.random.default_rng(2), folder / "chat.jsonl"
    lines = (
        {"ts": row, "from": {"id": row % users, "bot": False}, "message": {"body": sentence(rng)}}
        for row in range(rows)
    )
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def tokens(folder: Path, rows: int = 120) -> Path:
    """A token and its tag a line, in a file whose ending says nothing."""
    rng, file = np.random.default_rng(3), folder / "gold.txt"
    with file.open("w") as out:
        for _ in range(rows):
            for word in sentence(rng).split():
                out.write(f"{word}\tX\t{'B-PER' if word in NAMES else 'O'}\n")
            out.write("\n")
    return file


def reviews(folder: Path, rows: int = 150) -> Path:
    """Texts with a class each; nobody is named."""
    rng, file = np.random.default_rng(4), folder / "reviews.tsv"
    with file.open("w", newline="") as out:
        writer = csv.writer(out, delimiter="\t")
        writer.writerow(["id", "what they wrote", "Category"])
        for row in range(rows):
            kind = str(rng.choice(["good", "bad"]))
            writer.writerow([row, f"{kind} {sentence(rng)}", kind])
    return file
