"""Sources of known data sets: a user who leaves the files moves nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from neighbours import CHOICES, USERS, Choices, assert_others_stay, kept_by_cap

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus

Rows = list[tuple[int, str, str]]
"""User, text and split of each row."""

PARTS = ("train",) * 8 + ("valid", "test")


def rows_in_turns(without: int = -1) -> Rows:
    """As in a chat: everybody in turns, without one user."""
    return [
        (user, f"turn {turn} of person {user} is here", PARTS[user % 10])
        for turn in range(4)
        for user in range(USERS)
        if user != without
    ]


def _jsonl(path: Path, objects: list[Any]) -> None:
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))


def _chat(folder: Path, rows: Rows) -> dict[str, Any]:
    for part, name in (("train", "train"), ("valid", "dev"), ("test", "test")):
        log = [f"[10:00] <nick{user}> {text}" for user, text, of in rows if of == part]
        logs = [{"file": f"log {at}", "text": "\n".join(log[at::3])} for at in range(3)]
        _jsonl(folder / f"{name}.raw.jsonl", logs)
    return {"name": "ubuntu-irc", "min_messages": 1}


def _imdb(folder: Path, rows: Rows) -> dict[str, Any]:
    for part in ("train", "test"):
        _jsonl(folder / f"{part}.jsonl", [
            {"label": ("neg", "pos")[user % 2], "movie": f"tt{user}", "text": text}
            for user, text, of in rows if (of == "test") == (part == "test")
        ])  # fmt: skip
    return {"name": "imdb", "valid": 0.2}


def _newsgroups(folder: Path, rows: Rows) -> dict[str, Any]:
    messages = [
        {"group": "sci.med", "text": f"From: p{user}@example.org\nSubject: x\n\n{text}"}
        for user, text, _ in rows
    ]
    _jsonl(folder / "train.jsonl", messages)
    return {"name": "20-newsgroups", "valid": 0.2, "test": 0.2}


def _bloggers(folder: Path, rows: Rows) -> dict[str, Any]:
    posts = [
        {"id": user, "gender": "male", "age": 17 if user % 2 else 40, "text": text}
        for user, text, _ in rows
    ]
    _jsonl(folder / "blogs.jsonl", posts)
    return {
        "name": "blog-authorship", "path": folder / "blogs.jsonl", "topics_from": "none",
        "valid": 0.2, "test": 0.2,
    }  # fmt: skip


def _parallel(folder: Path, rows: Rows) -> dict[str, Any]:
    """Every third document is of one line, and has no name."""
    for part in ("train", "valid", "test"):
        pairs = [(user, text) for user, text, of in rows if of == part]
        (folder / f"{part}.de").write_text("".join(f"{text}\n" for _, text in pairs))
        (folder / f"{part}.en").write_text("".join(f"in English {text}\n" for _, text in pairs))
        names = ("" if user % 3 == 0 else f"document {user}" for user, _ in pairs)
        (folder / f"{part}.doc").write_text("".join(f"{name}\n" for name in names))
    return {"name": "parallel-text"}


def _conll2003(folder: Path, rows: Rows) -> dict[str, Any]:
    for part, name in (("train", "eng.train"), ("valid", "eng.testa"), ("test", "eng.testb")):
        lines = []
        for user in dict.fromkeys(user for user, _, of in rows if of == part):
            lines.append("-DOCSTART- -X- O O\n")
            for _, text, _ in (row for row in rows if row[0] == user):
                words = text.split()
                lines += [*(f"{word} X X O" for word in words[:-1]), f"{words[-1]} X X I-PER", ""]
        (folder / name).write_text("\n".join(lines) + "\n")
    return {"name": "conll2003", "valid_is_public": False}


WRITERS: dict[str, Callable[[Path, Rows], dict[str, Any]]] = {
    "chat": _chat, "imdb": _imdb, "newsgroups": _newsgroups, "bloggers": _bloggers,
    "parallel": _parallel, "conll2003": _conll2003,
}  # fmt: skip


@pytest.mark.parametrize("kind", [*WRITERS])
def test_who_leaves_the_files_moves_nobody_else(tmp_path: Path, kind: str) -> None:
    def load(rows: Rows, folder: Path, **more: Any) -> Corpus:
        folder.mkdir()
        params = {"path": folder, **WRITERS[kind](folder, rows), **more}
        corpus: Corpus = sources.create(params.pop("name"), params).load()
        return corpus

    for number, more in enumerate(({}, {"sample": 0.6}, {"public_share": 0.3})):
        whole = load(rows_in_turns(), tmp_path / f"before{number}", **more)
        before = Choices(whole)
        choices = [
            choose for what, choose in {**CHOICES, "cap": kept_by_cap}.items()
            if what != "client by label" or whole.labels is not None
        ]  # fmt: skip
        for gone in (0, 51):
            left = load(rows_in_turns(gone), tmp_path / f"without {gone}, {number}", **more)
            assert len(whole) > len(left) or more
            assert_others_stay(before, Choices(left), *choices)
