"""What docs/reproductions says is what the committed results say."""

from __future__ import annotations

from pathlib import Path

import pytest
from references import bundle_lines, bundle_names
from tables import tables

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", [name for name in bundle_names() if "reproductions/" in name])
def test_results_hold_no_folder_of_a_machine(name: str) -> None:
    for line in bundle_lines(name):
        assert '"tracking":{}' in line.text
        assert all(root not in line.text for root in ("/home/", "/root/", "/usr/"))


def test_the_page_says_what_is_on_the_maps() -> None:
    page = (ROOT / "docs" / "reproductions" / "dpnr.md").read_text(encoding="utf-8")
    (printed,) = (made for _, made in tables(page, "dpnr.md") if made.startswith("| map"))
    cells = {
        line.split(" | ")[0].removeprefix("| "): [
            tuple(map(float, cell.strip(" |").split(", "))) for cell in line.split(" | ")[1:]
        ]
        for line in printed.splitlines()[2:]
    }
    _, *persons = cells["noiseless"]
    assert all(on_map > 65 for on_map, _ in persons), "without noise persons lie in groups"
    for mixed in ("0.05", "shared 0.05"):
        assert all(abs(on_map - 50) < 5 for on_map, _ in cells[mixed][1:])
    _, (bush, _), *others = cells["1"]
    assert 5 < bush - 50 < 10, "a trace"
    assert all(abs(on_map - 50) < 5 for on_map, _ in others)
    assert all(attacker > 95 for _, attacker in cells["shared 0.05"][1:]), "and hide nothing"
