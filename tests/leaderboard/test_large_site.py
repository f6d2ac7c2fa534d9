"""Large sites: files are written in parts, rows stand in pieces, and reading has a price."""

from __future__ import annotations

import json
import time
import tracemalloc
from pathlib import Path

import pytest

from uedp_bench.components import registry
from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard import index_page
from uedp_bench.leaderboard.index_page import Pieces, page_data
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.leaderboard.site import build
from uedp_bench.leaderboard.site_files import code_digest
from uedp_bench.leaderboard.sources import line_of
from uedp_bench.leaderboard.table import csv_parts, json_parts, to_csv, to_json

pytestmark = pytest.mark.long

STORED = Path(__file__).parents[2] / "leaderboard" / "results"


@pytest.fixture(scope="module")
def results() -> list[Result]:
    return load_results([STORED / "quickstart"])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of two rows, where there are more than three."""
    monkeypatch.setattr(index_page, "MOST_IN_PAGE", 3)
    monkeypatch.setattr(index_page, "ROWS", 2)


def many(results: list[Result], count: int) -> list[Row]:
    rows = aggregate(results)
    return [
        rows[at % len(rows)].model_copy(update={"group": f"{at:08x}"}) for at in range(count)
    ]  # fmt: skip


def rows_in(site: Path) -> list[dict[str, object]]:
    """The rows that the scripts of pieces give to the page of the table."""
    rows: list[dict[str, object]] = []
    for piece in sorted(site.glob("assets/rows-*.js")):
        begin, _, rest = piece.read_text(encoding="utf-8").partition("JSON.parse(")
        assert begin == "(window.uedpRows ||= []).push("
        rows += json.loads(json.loads(rest.removesuffix("));\n")))
    return rows


def test_text_in_parts_is_the_text(results: list[Result]) -> None:
    rows = aggregate(results)
    assert json.dumps(json.loads(to_json(rows)), indent=1) == to_json(rows)
    assert to_json([]) == "[]"
    assert len(list(json_parts(rows))) == len(rows) + 1
    assert len(list(csv_parts(rows))) == len(rows) + 1
    assert to_csv([]) == "\n"


@pytest.mark.parametrize("parts", [json_parts, csv_parts])
def test_files_of_many_rows_are_not_held_in_memory(results: list[Result], parts: object) -> None:
    rows = many(results, 150)
    next(iter(parts(rows)))  # type: ignore[operator]  # imports
    tracemalloc.start()
    size = sum(map(len, parts(rows)))  # type: ignore[operator]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    whole = sum(len(row.model_dump_json()) for row in rows)
    assert size > 100_000
    # Whole objects of all rows take ten times their text.
    assert peak < whole


@pytest.mark.usefixtures("small")
def test_rows_of_a_large_table_stand_in_pieces(results: list[Result], tmp_path: Path) -> None:
    built = build(results, tmp_path / "site")
    rows = aggregate(results)
    whole = page_data(rows, {one.id: one for one in results})
    assert len(list(tmp_path.glob("site/assets/rows-*.js"))) == -(-len(rows) // 2)
    assert {name for name in built.files if "rows-" in name} == {
        *Pieces(rows, {}).names
    }  # fmt: skip
    assert rows_in(tmp_path / "site") == json.loads(json.dumps(whole["rows"]))
    page = (tmp_path / "site" / "table.html").read_text()
    assert '"rows":[]' in page
    assert page.index("assets/rows-001.js?") < page.index("assets/core.js")
    few = [one for one in results if one.label == "uedp"]
    build(few, tmp_path / "site")
    assert rows_in(tmp_path / "site") == []
    assert "assets/rows-" not in (tmp_path / "site" / "table.html").read_text()


@pytest.mark.usefixtures("small")
def test_only_changed_files_are_written(results: list[Result], tmp_path: Path) -> None:
    out = tmp_path / "site"
    build(results, out)
    assert build(results, out).written == ()
    changed = results[-1].model_copy(update={"learned": None})
    written = build([*results[:-1], changed], out).written
    pieces = [name for name in written if "rows-" in name]
    assert len(pieces) == 1
    assert "table.html" in written  # it names the version of every piece
    assert not {name for name in written if name.startswith("runs/")} - {
        f"runs/{one.id}.html" for one in results if one.group == changed.group
    }


@pytest.mark.parametrize("what", ["origin", "digest"])
def test_another_version_of_a_component_is_other_code(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The glossary shows what components say of themselves, those of other packages too."""
    before = code_digest()
    assert code_digest() == before
    attacks = registry.attacks
    versions = dict.fromkeys(attacks.names(), "another (package 2.0)")
    monkeypatch.setattr(attacks, what, versions.__getitem__)
    assert code_digest() != before


def test_what_is_made_out_of_order_is_the_same(results: list[Result]) -> None:
    rows, by_id = many(results, 7), {one.id: one for one in results}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_page, "MOST_IN_PAGE", 1)
        patch.setattr(index_page, "ROWS", 3)
        files = Pieces(rows, by_id).files()
        names = sorted(files)
        forward = {name: "".join(files[name]()) for name in names}
        assert {name: "".join(files[name]()) for name in reversed(names)} == forward


def test_reading_a_result_has_its_price(results: list[Result]) -> None:
    """20 CPU seconds for 20,000 results are a millisecond each; other work may double it."""
    start = time.process_time()
    for _ in range(10):
        load_results([STORED / "quickstart"])
    # Ones of the quickstart are seven times as long as others.
    kilobytes = sum(len(line_of(result)) for result in results) / 1000
    spent = (time.process_time() - start) / 10
    assert spent / kilobytes < 0.4e-3
