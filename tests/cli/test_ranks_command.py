"""A run over several ranks from the command line: one result, and a rank that dies ends it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import traceback
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import flags

from uedp_bench.cli import main as cli
from uedp_bench.contracts.results import Result, read_result
from uedp_bench.training import executors

FORKED = multiprocessing.get_context("fork")  # a fresh process would import torch for seconds


def _command(out: Path, *more: str) -> list[str]:
    rounds = ("--set", "mechanism.rounds=6", "--set", "mechanism.users_per_round=10")
    return flags(out, "--mechanism", "user-dp", *rounds, "--checkpoint-steps", "1",
                 "--device", "cpu", "--quiet", *more)  # fmt: skip


def _rank(rank: int, port: int, arguments: list[str], function: str, calls: int) -> None:
    """The process that torchrun starts as one rank; rank 1 dies after calls of a function."""
    torch.set_num_threads(1)
    os.environ.update(RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(port))  # fmt: skip
    original, done = getattr(executors, function), [0]

    def counted(*arguments: Any) -> Any:
        result = original(*arguments)
        done[0] += 1
        if rank and done[0] == calls:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(executors, function, counted)
    try:
        os._exit(executors.as_rank(lambda: cli.run_cli(arguments)))
    except BaseException:
        traceback.print_exc()
        os._exit(99)


def _codes(arguments: list[str], function: str = "_train", calls: int = 0) -> list[int | None]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    both = [
        FORKED.Process(target=_rank, args=(rank, port, arguments, function, calls))
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
    assert _codes(_command(out), "_computed", 3) == [130, -9]
    assert "rank" in capfd.readouterr().err
    assert not list(out.glob("*/result.json"))
    assert list(out.glob("*/checkpoint/*"))
    assert _codes(_command(out)) == [0, 0]
    assert not capfd.readouterr().out
    result = _result(out)
    assert (result.id, result.status) == (expected.id, "finished")
    assert result.cost.model_extra["resumed"] == 1  # type: ignore[index]
    assert "2 ranks" in result.cost.model_extra["ranks"]  # type: ignore[index]
    assert (result.guarantees, result.events) == (expected.guarantees, expected.events)
    for name, value in expected.utility.items():
        assert result.utility[name].value == pytest.approx(value.value, rel=1e-4)


def test_a_rank_that_dies_after_training_costs_no_result(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert _codes(_command(tmp_path), "_train", 1) == [0, -9]
    assert "rank" in capfd.readouterr().err
    assert _result(tmp_path).status == "finished"


def test_torchrun_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(cli, "run_cli", lambda _: calls.append("ran") or 3)
    monkeypatch.setattr(
        executors, "as_rank", lambda command: calls.append("as a rank") or command()
    )
    for size, expected in (("1", ["ran"]), ("2", ["as a rank", "ran"])):
        monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
        monkeypatch.setenv("WORLD_SIZE", size)
        with pytest.raises(SystemExit, match="3"):
            cli.main()
        assert calls == expected
        calls.clear()


def test_ranks_take_no_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(executors, "world_size", lambda: 2)
    assert cli.run_cli([*_command(tmp_path), "--workers", "2"]) == 2
    assert "--workers" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
