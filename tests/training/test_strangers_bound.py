"""Adaptive clipping by a stranger: one file, public names, and epsilon as computed by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from tiny import flags, plugged

from uedp_bench.cli.main import run_cli
from uedp_bench.contracts.results import Result, read_result
from uedp_bench.training.noise import GaussianNoise

FILE = Path(__file__).parents[1] / "support" / "strangers_bound.py"


@pytest.fixture(autouse=True)
def _plugged() -> Iterator[None]:
    with plugged(FILE):
        yield


def _result(out: Path, **params: Any) -> Result:
    settings = [f"mechanism.{name}={value}" for name, value in params.items()]
    more = [part for setting in settings for part in ("--set", setting)]
    assert run_cli(flags(out, "--mechanism", "stepping-dp", *more)) == 0
    (path,) = out.glob("*/result.json")
    return read_result(path)


def test_its_epsilon_is_the_composition_computed_by_hand(tmp_path: Path) -> None:
    real, drawn = GaussianNoise.add, []

    def add(self: GaussianNoise, vector: Any, std: float, rng: np.random.Generator) -> Any:
        drawn.append(std)
        return real(self, vector, std, rng)

    with patch.object(GaussianNoise, "add", add):
        result = _result(tmp_path)
    (proven,) = [g for g in result.guarantees if g.kind == "stated"]
    assert proven.status == "given"
    # By hand, from the noise that was drawn in a round: on the sum as it is, and on the count,
    # whose deviation is 0.9, which a user moves by 1/2.
    bounds = [bound for _, bound in result.series["clip_bound"]]
    assert all(later / earlier in (2.0, 0.5) for earlier, later in pairwise(bounds))
    for std, bound in zip(drawn, bounds, strict=True):
        effective = 1.0 / math.sqrt((bound / std) ** 2 + (0.5 / 0.9) ** 2)
        assert effective == pytest.approx(1.1, rel=1e-9)
    accountant = PLDAccountant()
    one = PoissonSampledDpEvent(12 / 60, GaussianDpEvent(effective))
    accountant.compose(SelfComposedDpEvent(one, len(bounds)))
    assert proven.epsilon == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)
    # Without paying for the count it would be less.
    alone = PLDAccountant()
    sum_alone = PoissonSampledDpEvent(12 / 60, GaussianDpEvent(drawn[0] / bounds[0]))
    alone.compose(SelfComposedDpEvent(sum_alone, len(bounds)))
    assert proven.epsilon > 1.1 * alone.get_epsilon(1e-5)


def test_less_noise_than_the_plan_s_on_sum_and_count_is_told(tmp_path: Path) -> None:
    real = GaussianNoise.add

    def add(self: GaussianNoise, vector: Any, std: float, rng: np.random.Generator) -> Any:
        return real(self, vector, std / 2, rng)

    with patch.object(GaussianNoise, "add", add):
        result = _result(tmp_path)
    (proven,) = [g for g in result.guarantees if g.kind == "proven"]
    assert (proven.status, proven.epsilon) == ("refused", math.inf)
    assert "noise_multiplier" in proven.reason


def test_a_count_that_is_not_paid_for_fails_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = flags(tmp_path, "--mechanism", "stepping-dp", "--set", "mechanism.count_noise=0.5")
    assert run_cli(command) == 1
    output = capsys.readouterr().err
    assert "noise multiplier 1.1" in output
    assert "Traceback" not in output


def test_the_policy_is_short() -> None:
    code = FILE.read_text(encoding="utf-8")
    policy = code[code.index("class Stepping:") : code.index("class SteppingParams")]
    assert len(policy.strip().splitlines()) <= 40
    assert code.count("uedp_bench.api") == code.count("uedp_bench") > 0
