"""Tables of pages are made from stored results, and a wrong declaration is an error."""

from __future__ import annotations

from math import sqrt
from statistics import stdev

import pytest
from examples import ROOT
from expressions import Study
from tables import DECLARED, TableError, main, rendered, tables

PAGES = {
    page.relative_to(ROOT).as_posix(): page.read_text(encoding="utf-8")
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "<!-- table: " in page.read_text(encoding="utf-8")
}


def table(text: str) -> list[list[str]]:
    """Cells of a declared table of the quickstart, without the line under the head."""
    declared = f"one\ntwo\n<!-- table: leaderboard/results/quickstart\n{text}-->\n"
    lines = rendered(declared, "page.md").splitlines()
    rows = [line.strip("|")[1:-1].split(" | ") for line in lines if line.startswith("|")]
    return [rows[0], *rows[2:]]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_every_declaration_makes_a_table(page: str) -> None:
    text = PAGES[page]
    assert len(DECLARED.findall(text)) == text.count("\n<!-- table: ")
    for line, html in tables(text, page):
        head, marks, *cells = html.splitlines()
        assert head.startswith("| "), line
        assert marks.count("--") == head.count(" | ") + 1, line
        assert cells, line
        assert "nan" not in html.lower().split(), line


@pytest.mark.long
@pytest.mark.parametrize("page", [page for page, text in PAGES.items() if "of table -->" in text])
def test_a_copy_of_a_table_is_that_of_the_results(page: str) -> None:
    assert rendered(PAGES[page], page, keep=True) == PAGES[page], (
        f"python docs/hooks/tables.py --write {page}"
    )


def test_the_readme_holds_a_copy() -> None:
    assert "<!-- end of table -->" in PAGES["README.md"]


def test_rows_are_what_is_declared_in_its_order() -> None:
    rows = "rows:\n- {name: [b, a], n: [1, 2]}\n- {name: c}\n"
    cells = table(
        f"{rows}columns: {{'': name, n: n, '{{k}} more': {{each: {{k: [3, 4]}}, cell: k}}}}\n"
    )
    assert cells == [
        ["", "n", "3 more", "4 more"],
        *[[name, n, "3", "4"] for name in "ba" for n in "12"],
        ["c", "–", "3", "4"],
    ]


def test_a_metric_has_its_interval_and_its_unit() -> None:
    cells = table(
        "rows: {row: [noiseless, user-dp]}\n"
        "columns:\n"
        "  mechanism: row.label\n"
        "  perplexity: perplexity\n"
        "  mean: {cell: mean('perplexity'), digits: 2}\n"
        "  accuracy: {cell: accuracy, digits: 0}\n"
        "  share: {cell: accuracy, percent: false}\n"
        "  AUC: membership.auc\n"
        "  ε: proven('user')\n"
        "  claim: claimed()\n"
    )
    noiseless, private = cells[1:]
    assert noiseless[:3] == ["noiseless", "8.59 ±0.53", "8.59"]
    assert noiseless[3].split(" ±")[0] == f"{100 * float(noiseless[4].split(' ±')[0]):.0f}"
    assert (noiseless[6:], private[6:]) == (["∞", "–"], ["7.98", "10.1"])


def test_rows_are_compared_seed_by_seed() -> None:
    cells = table(
        "rows: {row: [noiseless, user-dp]}\n"
        "columns: {'': row.label, more: \"above('perplexity', 'noiseless')\"}\n"
    )
    assert cells[1:] == [["noiseless", "–"], ["user-dp", "52.3 ±8.1"]]
    by_seed = [Study("quickstart").by_seed("perplexity", name) for name in ("user-dp", "noiseless")]
    more = [by_seed[0][seed] - by_seed[1][seed] for seed in (1, 2, 3)]
    assert f"{sum(more) / 3:.1f} ±{4.3027 * stdev(more) / sqrt(3):.1f}" == cells[2][1]


def test_a_line_that_is_no_row_has_what_it_declares_alone() -> None:
    rows = 'rows:\n- {row: noiseless}\n- {floor: \'= mean("floors.unigrams", "noiseless")\'}\n'
    cells = table(
        f"{rows}columns: {{perplexity: floor or stat('perplexity'), AUC: membership.auc}}\n"
    )
    assert [cells[1][0], *cells[2]] == ["8.59 ±0.53", "119", "–"]


def test_notes_hold_values() -> None:
    text = "columns: {'': row.label}\nnotes: 'seeds {len(seeds())}'\n"
    assert rendered(f"<!-- table: quickstart\n{text}-->\n", "page.md").endswith("\n\nseeds 3\n")


def test_above_is_what_the_table_before_declares() -> None:
    first = "rows: {row: [noiseless, user-dp]}\ncolumns: {'': row.label, ppl: perplexity}\n"
    second = "rows: above\ncolumns: {who: row.label}\n"
    text = "".join(
        f"<!-- table: quickstart\n{declared}-->\n\n"
        for declared in (first, second, "rows: {row: uedp}\ncolumns: above\n", second)
    )
    lines = [markdown.splitlines() for _, markdown in tables(text, "page.md")]
    assert [line[0] for line in lines] == ["|  | ppl |", *3 * ["| who |"]]
    assert [line[2:] for line in lines[1:]] == [
        ["| noiseless |", "| user-dp |"], ["| uedp |"], ["| uedp |"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("bundle", "declared", "named"),
    [
        ("nowhere", "columns: {'': row.label}", "nowhere"),
        ("quickstart", "columns: {'': row.label, x: perplexty}", "perplexty"),
        ("quickstart", "columns: {'': row.label, x: \"proven('usr')\"}", "column x"),
        (
            "quickstart",
            "columns: {'': row.label, x: \"mean('perplexity', 'noisless')\"}",
            "noisless",
        ),
        ("quickstart", "columns: {'': row.label, x: inf - inf}", "column x"),
        ("quickstart", "columns: {'': row.label, x: {cell: perplexity, digit: 1}}", "digit"),
        ("quickstart", "rows: {row: user-dp clip=77}\ncolumns: {'': row.label}", "clip"),
        ("quickstart", "rows: {row: '= ()'}\ncolumns: {'': row.label}", "empty"),
        ("quickstart", "row: {row: user-dp}\ncolumns: {'': row.label}", "row"),
        ("quickstart", "columns: {'': row.label, x: name}", "name"),
        ("quickstart", "columns: above", "ValueError"),
        ("quickstart", "columns: [", "line"),
    ],
)
def test_what_makes_no_table_is_an_error(bundle: str, declared: str, named: str) -> None:
    page = f"text\n\n<!-- table: leaderboard/results/{bundle}\n{declared}\n-->\n"
    with pytest.raises(TableError, match=rf"page\.md, line 3, .*{named}"):
        rendered(page, "page.md")


def test_the_command_prints_tables_and_fills_copies_alone(tmp_path, monkeypatch, capsys) -> None:
    declared = "<!-- table: leaderboard/results/quickstart\ncolumns: {mechanism: row.label}\n-->\n"
    page = tmp_path / "page.md"
    page.write_text(f"A\n{declared}old\n<!-- end of table -->\nB\n{declared}C\n")
    monkeypatch.setattr("sys.argv", ["tables.py", str(page)])
    main()
    shown = capsys.readouterr().out
    assert f"{page}:2\n\n| mechanism |\n| :-- |\n| noiseless |\n" in shown
    assert f"{page}:8\n" in shown
    monkeypatch.setattr("sys.argv", ["tables.py", "--write", str(page)])
    main()
    text = page.read_text()
    assert text.startswith(f"A\n{declared}| mechanism |\n")
    assert text.endswith(f"|\n<!-- end of table -->\nB\n{declared}C\n")
