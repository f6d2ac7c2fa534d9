"""Figures for papers: the same bytes each time, one board each, and names that exist."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from board_results import INVENTED, promise, seeds

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.paper_figures import draw
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.leaderboard.sources import write_bundle


def results() -> list[Result]:
    none = [promise("proven", math.inf)]
    return [
        *seeds("noiseless", 5.0, 9.0, guarantees=none),
        *seeds("user-dp", 80.0, 2.0, guarantees=[promise("proven", 4.0)]),
        *seeds("dp-sgd", 180.0, 1.5, guarantees=[promise("proven", 2.0, "record"), *none]),
    ]


def words(file: Path) -> set[str]:
    """Texts of an SVG."""
    texts = (element.text for element in ET.parse(file).iter())  # noqa: S314
    return {text.strip() for text in texts if text}


def rows() -> list[Row]:
    return aggregate(results())


@pytest.mark.long
@pytest.mark.parametrize("ending", [".pdf", ".svg", ".png"])
@pytest.mark.parametrize("kind", ["utility-vs-epsilon", "leakage"])
def test_the_same_rows_give_the_same_bytes(kind: Any, ending: str, tmp_path: Path) -> None:
    files = [tmp_path / f"{name}{ending}" for name in "ab"]
    for file in files:
        draw(rows(), kind, file)
    first, second = (file.read_bytes() for file in files)
    assert first == second
    assert len(first) > 1000


def test_epsilon_is_that_of_one_unit_and_infinity_has_a_place(tmp_path: Path) -> None:
    draw(rows(), "utility-vs-epsilon", tmp_path / "user.svg")
    shown = words(tmp_path / "user.svg")
    assert {"noiseless", "user-dp", "4", "∞", "floor: unigrams"} <= shown
    assert any("proven ε, user, add-or-remove (δ" in word for word in shown)
    draw(rows(), "utility-vs-epsilon", tmp_path / "record.svg", unit="record")
    assert {"2", "∞"} <= words(tmp_path / "record.svg")


def test_zero_has_a_place_and_no_name_is_a_formula(tmp_path: Path) -> None:
    zero = seeds("public-only", 90.0, guarantees=[promise("proven", 0.0)])
    odd = seeds("user-dp", 70.0, guarantees=[promise("proven", 6.0)], apart={"x": r"$\foo$"})
    draw(aggregate([*results(), *zero, *odd]), "utility-vs-epsilon", tmp_path / "z.svg")
    shown = words(tmp_path / "z.svg")
    assert {"0", "4", "∞", "public-only"} <= shown
    assert any(r"$\foo$" in word for word in shown)


def test_leakage_names_every_row_that_was_attacked(tmp_path: Path) -> None:
    draw(rows(), "leakage", tmp_path / "l.svg", metric="secret-sharer.exposure_max_repeats")
    assert {"noiseless", "user-dp", "dp-sgd"} <= words(tmp_path / "l.svg")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("utility-vs-epsilon", {"metric": "perplexty"}, "perplexity"),
        ("utility-vs-epsilon", {"unit": "usr"}, "user"),
        ("leakage", {"metric": "secret-sharer.exposur"}, "exposure"),
    ],
)
def test_unknown_names_are_refused(kind: Any, options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        draw(rows(), kind, tmp_path / "x.svg", **options)


def test_what_is_no_figure_of_one_board_is_refused(tmp_path: Path) -> None:
    several = aggregate([*results(), *seeds("user-dp", 80.0, source=INVENTED)])
    with pytest.raises(InputError, match=f"2 boards.*{INVENTED}"):
        draw(several, "leakage", tmp_path / "x.svg")
    with pytest.raises(InputError, match=r"x\.jpg.*\.pdf"):
        draw(rows(), "leakage", tmp_path / "x.jpg")
    with pytest.raises(InputError, match="no attack"):
        draw(aggregate(seeds("user-dp", 80.0)), "leakage", tmp_path / "x.svg")
    with pytest.raises(InputError, match="draw leakage"):
        draw(aggregate(seeds("noiseless", 5.0)), "utility-vs-epsilon", tmp_path / "x.svg")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_a_figure_and_a_table(tmp_path: Path, capsys) -> None:
    bundle, figure = tmp_path / "b.jsonl.gz", tmp_path / "f.pdf"
    write_bundle(results(), bundle)
    plot = ("leaderboard", "plot", "leakage", "--results", str(bundle), "--out", str(figure))
    assert run_cli(plot) == 0
    assert figure.read_bytes().startswith(b"%PDF")
    assert run_cli(("leaderboard", "--results", str(bundle), "--latex")) == 0
    assert r"\toprule" in capsys.readouterr().out
