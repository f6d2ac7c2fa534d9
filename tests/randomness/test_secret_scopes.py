"""Runs as the runner makes them: which of them share secret streams, and which never."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tiny import ROUNDS, runs

from uedp_bench.contracts.results import RunSpec
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.randomness import NoiseSource, Stream

MEMBERSHIP = {"name": "membership", "params": {"held_out_users": 10}}


def trained(
    spec: RunSpec, out: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[tuple[int, str]], dict[str, Any]]:
    """Seeds and scopes of all trainings of a run, and what it says of the first one."""
    roots: list[tuple[int, str]] = []
    real = Stream.root

    def root(seed: int, scope: str, source: NoiseSource) -> Stream:
        if scope:
            roots.append((seed, scope))
        return real(seed, scope, source)

    with monkeypatch.context() as patched:
        patched.setattr(Stream, "root", staticmethod(root))
        result = execute(spec, Execution(out=out, device="cpu", keep_release=False))
    assert result.status == "finished", result.error
    return roots, result.series


def user_dp(**params: Any) -> dict[str, Any]:
    return {"name": "user-dp", "params": {**ROUNDS, **params}}


def test_settings_never_share_and_a_repetition_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (base,) = runs(user_dp())
    others = [
        *runs(user_dp(local_learning_rate=0.5)),
        *runs(user_dp(), model={"name": "lstm-small", "params": {"vocabulary_size": 200}}),
        *runs({"name": "noiseless", "params": {"epochs": 1}}),
    ]
    trainings = [
        trained(spec, tmp_path / str(at), monkeypatch) for at, spec in enumerate([base, *others])
    ]
    scopes = [roots[0] for roots, _ in trainings]
    assert len(set(scopes)) == len(scopes)
    assert trained(base, tmp_path / "again", monkeypatch) == trainings[0]
    # Nothing of how fast: other chunks and folders are the same run.
    assert all(len(roots) == 1 for roots, _ in trainings)


def test_models_that_attacks_train_draw_from_scopes_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plain,), (attacked,) = runs(user_dp()), runs(user_dp(), attacks=[MEMBERSHIP])
    (mine,), _ = trained(plain, tmp_path / "a", monkeypatch)
    roots, _ = trained(attacked, tmp_path / "b", monkeypatch)
    # The release, on a corpus with users held out, and shadow models with seeds of their own.
    assert len(roots) == 5
    assert len({mine, *roots}) == 6
    assert len({seed for seed, _ in roots}) == 5
    assert all(scope.startswith("retraining") for _, scope in roots[1:])


def test_a_selection_names_a_run_and_does_not_release_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = {"mechanism.user-dp.clip": [0.3, 0.6]}
    (plain,) = runs(user_dp(clip=0.3))
    (chosen,) = runs(user_dp(clip=0.3), selection={"tried": tried, "scores": "validation"})
    first = trained(plain, tmp_path / "a", monkeypatch)
    assert trained(chosen, tmp_path / "b", monkeypatch) == first
