"""One epsilon for a vocabulary, private pre-training and private tagging: planned, and run."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from uedp_bench.cli.main import run_cli
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

USERS, ANNOTATING = 60, 50
FIRST = {"users": USERS, "users_per_round": 20, "rounds": 2, "noise_multiplier": 2.0}
SECOND = {"users": ANNOTATING, "users_per_round": 10, "rounds": 1, "noise_multiplier": 1.5}
WORDS = {"variant": "laplace", "unit": "user", "epsilon": 200.0, "words_per_unit": 20}


def spec_of(*mechanisms: Any) -> Any:
    sizes = {"valid_users": 2, "test_users": 5, "public_users": 5}
    labelled = {"users": ANNOTATING, "seed": 2, **sizes}
    params = {
        "labelled": {"name": "embedded", "params": labelled},
        "labelled_rows": "private",
        "max_tokens": 16,
    }
    spec = parse_spec(
        {
            "task": {"name": "pretrained-tagging", "params": params},
            "source": {"name": "embedded", "params": {"users": USERS, **sizes}},
            "model": {"name": "bert", "params": {"configuration": "tiny"}},
            "mechanisms": [list(mechanisms)],
            "seeds": [1],
        }
    )
    (run,) = expand(spec)
    return run


def accounted(name: str, capsys: pytest.CaptureFixture[str], **parts: Any) -> float:
    """The proven epsilon of a user, from parameters alone."""
    flags = [
        word
        for part, params in parts.items()
        for key, value in params.items()
        for word in ("--set", f"{part.replace('__', ' ').replace('_', '-')}.{key}={value}")
    ]
    assert run_cli(["account", name, *flags, "--json"]) == 0
    guarantees = json.loads(capsys.readouterr().out)["guarantees"]
    (guarantee,) = (one for one in guarantees if one["kind"] == "proven")
    assert guarantee["unit"] == "user"
    return float(guarantee["epsilon"])


def test_one_epsilon_holds_everything_that_saw_private_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    training = ({"name": "user-dp", "params": FIRST}, {"name": "user-dp", "params": SECOND})
    run = spec_of({"name": "dp-vocabulary", "params": WORDS}, *training)
    stages = {"dp_vocabulary": WORDS, "user_dp": FIRST, "user_dp__2": SECOND}
    epsilon = accounted("dp-vocabulary+user-dp+user-dp", capsys, **stages)
    result = execute(run, Execution(tmp_path, "cpu", keep_release=False))
    assert result.error is None, result.error
    # The run refuses to prove anything where what happened is not what was planned.
    (proof,) = (one for one in result.guarantees if one.kind == "proven")
    assert (proof.status, proof.unit) == ("given", "user")
    assert math.isfinite(proof.epsilon)
    assert proof.epsilon == pytest.approx(epsilon, rel=1e-9)
    assert {event.stage for event in result.events} == {"dp-vocabulary", "user-dp", "user-dp 2"}
    assert result.utility["f1_strict"].value >= 0.0
    # Less was seen by each part alone.
    alone = accounted("dp-vocabulary+user-dp", capsys, dp_vocabulary=WORDS, user_dp=FIRST)
    assert alone < epsilon


@pytest.mark.parametrize("trainers", ["user-dp+noiseless", "noiseless+user-dp"])
def test_a_stage_without_noise_leaves_no_epsilon(
    trainers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = {"dp_vocabulary": WORDS, "user_dp": FIRST}
    assert accounted(f"dp-vocabulary+{trainers}", capsys, **stages) == math.inf
