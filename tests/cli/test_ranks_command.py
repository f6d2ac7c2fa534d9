"""A run over several ranks from the command line: one result, and a rank that dies ends it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import traceback
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import torch
from tiny import flags

from uedp_bench import rank_group
from uedp_bench.cli import main as cli
from uedp_bench.results import Result, read_result
from uedp_bench.training import ranks

FORKED = multiprocessing.get_context("fork")  # a fresh process would import torch for seconds


def _command(out: Path, *more: str) -> list[str]:
    rounds = ("--set", "mechanism.rounds=6", "--set", "mechanism.users_per_round=10")
    return flags(out, "--mechanism", "user-dp", *rounds, "--checkpoint-steps", "1",
                 "--device", "cpu", "--quiet", *more)  # fmt: skip


class Death(NamedTuple):
    """When rank 1 is killed: after so many calls of a function of a module."""

    module: ModuleType
    function: str
    after: int


ROUNDS = partial(Death, ranks, "_computed")
QUESTIONS = partial(Death, rank_group, "_answers")


def _rank(rank: int, port: int, arguments: list[str], death: Death) -> None:
    """The process that torchrun starts as one rank."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))  # fmt: skip
    rank_group._FEW = 1  # the scores of a run this small are asked in one part
    function, done = getattr(death.module, death.function), [0]

    def counted(*given: Any) -> Any:
        done[0] += 1
        if rank and done[0] > death.after:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*given)

    setattr(death.module, death.function, counted)
    try:
        os._exit(ranks.as_rank(lambda: cli.run_cli(arguments)))
    except BaseException:
        traceback.print_exc()
        os._exit(99)


def _codes(arguments: list[str], death: Death | None = None) -> list[int | None]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [
        FORKED.Process(target=_rank, args=(rank, port, arguments, death or ROUNDS(100)))
        for rank in range(2)
    ]
    for process in both:
        process.start()
    for process in both:
        process.join(240)
    return [process.exitcode for process in both]


def _result(out: Path) -> Result:
    (path,) = out.glob("*/result.json")
    return read_result(path)


def test_a_rank_that_dies_ends_the_run_which_goes_on_from_its_checkpoint(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run_cli(_command(tmp_path / "alone")) == 0
    expected, out = _result(tmp_path / "alone"), tmp_path / "ranks"
    for death in (ROUNDS(3), QUESTIONS(0)):  # in training, then while the model is scored
        assert _codes(_command(out), death) == [130, -9]
        assert "another rank ended" in capfd.readouterr().err
        assert not list(out.glob("*/result.json"))
        assert list(out.glob("*/checkpoint/*"))
    assert _codes(_command(out)) == [0, 0]
    assert not capfd.readouterr().out
    found = _result(out)
    assert (found.id, found.status) == (expected.id, "finished")
    assert found.cost.model_extra["resumed"] == 2  # type: ignore[index]
    assert (found.guarantees, found.events) == (expected.guarantees, expected.events)
    for name, value in expected.utility.items():
        assert found.utility[name].value == pytest.approx(value.value, rel=1e-4)


def test_weights_may_be_spread_over_ranks_and_the_run_is_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run_cli(_command(tmp_path / "alone")) == 0
    assert _codes(_command(tmp_path / "ranks", "--shard-weights")) == [0, 0]
    expected, found = _result(tmp_path / "alone"), _result(tmp_path / "ranks")
    assert (found.id, found.guarantees) == (expected.id, expected.guarantees)
    cost: Any = found.cost.model_extra
    assert "sharded weights" in cost["ranks"]
    assert cost["shard_bytes"] == pytest.approx(4 * cost["weights_trained"] / 2, rel=0.01)
    for name, value in expected.utility.items():
        assert found.utility[name].value == pytest.approx(value.value, rel=1e-4)
    capsys.readouterr()
    assert cli.run_cli(_command(tmp_path / "one", "--shard-weights")) == 2
    assert "start with torchrun" in " ".join(capsys.readouterr().err.split())


def test_torchrun_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(cli, "run_cli", lambda _: said.append("ran") or 3)
    monkeypatch.setattr(ranks, "as_rank", lambda command: said.append("as a rank") or command())
    for size, expected in (("1", ["ran"]), ("2", ["as a rank", "ran"])):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
        monkeypatch.setenv("WORLD_SIZE", size)
        with pytest.raises(SystemExit, match="3"):
            cli.main()
        assert said == expected
        said.clear()


def test_ranks_take_no_workers_and_no_processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rank_group, "count", lambda: 2)
    for name in ("workers", "processes"):
        assert cli.run_cli([*_command(tmp_path), f"--{name}", "2"]) == 2
        assert f"leave --{name} out" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
