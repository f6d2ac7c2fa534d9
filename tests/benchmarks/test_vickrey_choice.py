"""Algorithm 2 on functions whose answer is known, and on a small lexicon."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from vickrey_choice import SECOND_WEIGHTS, Point, choose

from uedp_bench.contracts.results import Estimate

ROOT = Path(__file__).parents[2]

Curve = Callable[[float, float], float]


def measure_of(loss: Curve, error: Curve) -> Callable[[float, float], Point]:
    return lambda epsilon, t: Point(
        epsilon, t, Estimate(value=loss(epsilon, t)), Estimate(value=error(epsilon, t))
    )


def test_epsilon_doubles_below_the_budget_and_t_fills_it() -> None:
    best, points = choose(
        measure_of(lambda e, t: 1 / e + 0.1 * t, lambda e, t: 1 / e + t), 1.0, 0.2
    )
    # 1/4 is not below 0.2, 1/8 is; 1/8 + 0.1 t <= 0.2 holds up to t = 0.75.
    assert [point.epsilon for point in points[:4]] == [1, 2, 4, 8]
    assert best[:2] == (8.0, 0.75)
    assert [point.t for point in points[4:]] == list(SECOND_WEIGHTS)


def test_the_budget_is_strict_for_epsilon_alone() -> None:
    def loss(epsilon: float, t: float) -> float:
        return 0.25 if (epsilon, t) != (2.0, 0.0) else 0.2

    assert choose(measure_of(loss, lambda e, t: t), 1.0, 0.25)[0][:2] == (2.0, 1.0)


def test_equal_errors_choose_the_smaller_t() -> None:
    error = measure_of(lambda e, t: 0.0, lambda e, t: 0.5 if t in (0.3, 0.6) else 0.1)
    assert choose(error, 3.0, 0.1)[0][:2] == (3.0, 0.3)


def test_a_budget_out_of_reach_names_the_smallest_loss() -> None:
    with pytest.raises(ValueError, match="epsilon 4 "):
        choose(measure_of(lambda e, t: 0.3 if e == 4 else 0.4, lambda e, t: 0.0), 1.0, 0.1)


@pytest.mark.long
def test_the_script_chooses_on_a_small_lexicon(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = []
    for name, centre in (("negative", -2.0), ("positive", 2.0)):
        words = [f"{name[:3]}{chr(97 + i)}" for i in range(25)]
        (tmp_path / f"{name}-words.txt").write_text("\n".join(words) + "\n")
        lines += [f"{word} {centre + rng.normal()} {rng.normal()}\n" for word in words]
    (tmp_path / "vectors.txt").write_text("".join(lines))
    command = [sys.executable, "benchmarks/vickrey_choice.py", "--path", str(tmp_path)]
    command += ["--embedding", str(tmp_path / "vectors.txt"), "--budget"]
    done = subprocess.run([*command, "0.05"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].startswith("chosen: epsilon ")
    none = subprocess.run([*command, "0"], cwd=ROOT, capture_output=True, text=True)
    assert none.returncode == 1
    assert "is not reached" in none.stderr
