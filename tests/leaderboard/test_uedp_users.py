"""The table of users of docs/reproductions/uedp.md is what the data hold."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.registry import sources
from uedp_bench.text.describe_data import describe

PAGE = (Path(__file__).parents[2] / "docs" / "reproductions" / "uedp.md").read_text(
    encoding="utf-8"
)
QUANTILES = ("0", "25", "50", "75", "90", "99", "100")


def row_of(source: str, params: dict[str, Any], called: str) -> str:
    """The row of the users that train."""
    corpus = sources.create(source, params).load()
    train = describe(corpus, source).splits["train"]
    sizes = [train.rows_per_user[at] for at in QUANTILES]
    row = [called, f"{train.users:,}", f"{train.rows:,}", *(f"{size:g}" for size in sizes)]
    return f"| {' | '.join(row)} |"


@pytest.mark.parametrize(
    ("source", "folder", "params", "called"),
    [
        ("conll2003", "conll2003", {}, "CoNLL-2003"),
        ("ag-news", "ag_news", {"detector": "names", "valid": 0}, "AG news"),
    ],
)
def test_sentences_of_users(
    shared_data: Path, source: str, folder: str, params: dict[str, Any], called: str
) -> None:
    assert row_of(source, {"path": shared_data / folder, **params}, called) in PAGE


@pytest.mark.long
def test_sentences_of_companies(shared_data: Path, tmp_path: Path) -> None:
    script = importlib.import_module("contract_sentences")
    cuad, clauses = shared_data / "cuad", tmp_path / "clauses.jsonl"
    names = ("full_contract_txt.jsonl.gz", "master_clauses.csv.gz")
    script.main(*(cuad / name for name in names), clauses, only_clauses=True)
    columns = {"user_column": "user", "entities_column": "entities", "valid_is_public": True}
    assert row_of("text", {"path": clauses, **columns}, "contracts") in PAGE
