"""What docs/reproductions says is what the committed results say."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate
from uedp_bench.results import Result

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "leaderboard" / "results" / "reproductions"


def results(name: str) -> list[Result]:
    return load_results([FOLDER / name])


def rows(name: str) -> list[Row]:
    return aggregate(results(name))


def row(found: list[Row], label: str, **params: Any) -> Row:
    (one,) = [
        r
        for r in found
        if label in [part.name for part in r.spec.mechanism]
        and all(
            part.params[k] == v
            for k, v in params.items()
            for part in r.spec.mechanism
            if part.name == label
        )
    ]
    return one


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_results_hold_no_folder_of_a_machine(name: str) -> None:
    for file in (FOLDER / name).rglob("result.json"):
        text = file.read_text()
        assert '"tracking": {}' in text or '"tracking":{}' in text
        assert all(root not in text for root in ("/home/", "/root/", "/usr/"))


def test_dpnr_loses_the_main_task_unless_all_coordinates_share_the_noise() -> None:
    found = rows("dpnr-ag")
    accuracy = {
        (p.params["noise"], p.params["epsilon"]): r.utility["accuracy"].value
        for r in found
        for p in r.spec.mechanism
        if p.name == "dpnr" and p.params["epsilon"] is not None
    }
    majority = row(found, "majority").utility["accuracy"].value
    plain = row(found, "noiseless").utility["accuracy"].value
    assert accuracy["independent", 0.05] < majority + 0.02 < 0.728 < 0.8087
    assert accuracy["independent", 5.0] > plain - 0.02
    assert accuracy["shared", 0.05] > plain - 0.02
    assert accuracy["shared", 0.05] == pytest.approx(accuracy["shared", 1.0], abs=0.02)


def test_shared_noise_hides_nothing_from_an_attacker_who_centres() -> None:
    found = rows("dpnr-ag")
    shared = row(found, "dpnr", noise="shared", epsilon=0.05).leakage["attribute-inference"]
    plain = row(found, "noiseless").leakage["attribute-inference"]
    majority = shared["empirical_privacy_majority"].value
    assert shared["empirical_privacy_released"].value > majority - 0.02
    assert shared["empirical_privacy"].value < plain["empirical_privacy"].value + 0.02


def test_the_page_says_what_is_on_the_maps(capsys: pytest.CaptureFixture[str]) -> None:
    script = runpy.run_path(str(ROOT / "benchmarks" / "reproductions.py"))
    script["main"]("dpnr-maps", FOLDER / "dpnr-ag-figure4")
    printed = capsys.readouterr().out.strip()
    assert printed in (ROOT / "docs" / "reproductions" / "dpnr.md").read_text(encoding="utf-8")
    cells = {
        line.split(" | ")[0].removeprefix("| "): [
            tuple(map(float, cell.strip(" |").split(" / "))) for cell in line.split(" | ")[1:]
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


def test_dpnr_proves_k_times_what_it_claims() -> None:
    for result in results("dpnr-ag"):
        (part, *_) = result.spec.mechanism
        if part.name != "dpnr":
            continue
        found = {(g.kind, g.unit): g.epsilon for g in result.guarantees}
        expected = 384 * found["claimed", "word"]
        if part.params["noise"] == "shared":
            expected = float("inf")
        assert found["proven", "word"] == pytest.approx(expected)


def test_vickrey_is_hardest_to_invert_below_t_of_1() -> None:
    found = rows("vickrey-product-reviews")

    def error(name: str, **params: Any) -> float:
        leaks = row(found, name, **params).leakage["word-reconstruction"]
        assert leaks["inference_error_map"].value <= leaks["inference_error"].value + 0.01
        return leaks["inference_error"].value

    at_100 = [error("vickrey", t=t, epsilon=100.0) for t in (0.25, 0.5, 0.75, 1.0)]
    assert at_100[0] < at_100[1] < at_100[2] > at_100[3]
    at_10 = [error("vickrey", t=t, epsilon=10.0, candidates="others") for t in (0.25, 0.5, 0.75, 1)]
    assert at_10 == sorted(at_10)
    assert error("metric-dp", epsilon=100.0, noise="laplace") < 0.01
    kept = [error("vickrey", t=t, epsilon=10.0, candidates="all") for t in (0.0, 0.5, 1.0)]
    assert kept == sorted(kept)
    assert kept[0] == pytest.approx(error("metric-dp", epsilon=10.0, noise="laplace"), abs=0.02)


@pytest.mark.parametrize("name", ["deepcandidate-imdb", "deepcandidate-20news"])
def test_deepcandidate_beats_truncation_at_equal_epsilon_with_the_lowest_depth(name: str) -> None:
    found = rows(name)

    def f1(label: str, **params: Any) -> float:
        return row(found, label, **params).utility["macro_f1"].value

    deep = [f1("deepcandidate", epsilon=e, depth="lowest") for e in (3.0, 10.0, 25.0)]
    assert deep[0] < deep[1]
    assert f1("deepcandidate", epsilon=25.0, depth="highest") < deep[2]
    assert f1("truncation", epsilon=25.0) < deep[2]
    assert f1("truncation", epsilon=25.0) < f1("truncation", epsilon=1000.0)
    plain = next(r for r in found if [p.name for p in r.spec.mechanism] == ["noiseless"])
    assert deep[2] < plain.utility["macro_f1"].value
