"""Kills the same command, or one training, again and again at random moments until it is finished.

Run as a script, so that it has no threads: it loads everything once, and forks for every try.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uedp_bench.contracts.results import RunSpec

OF_COMMANDS = """mlflow.tracking
mlflow.store.tracking.sqlalchemy_store
alembic
uedp_bench.cli.main
uedp_bench.tracking.runs
uedp_bench.leaderboard.table"""
MODULES = """uedp_bench.grid.scheduler
uedp_bench.tasks.language.language_model
uedp_bench.mechanisms.noiseless
uedp_bench.mechanisms.private_training.user_dp
uedp_bench.training.federated
uedp_bench.accounting.accountants.dp_accounting
torch
torch._dynamo.callback
dp_accounting.dp_event
faker"""
"""What takes longest to load."""

KINDS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


def started(arguments: list[str], modules: Path | None = None) -> int:
    """The process id of the command; it notes in a file which modules it loaded."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    from uedp_bench.cli.main import run_cli

    code = run_cli(arguments)
    if modules is not None:
        modules.write_text("\n".join(sys.modules))
    os._exit(code)


def load(names: str) -> None:
    """Loads modules, so that no try has to."""
    for name in names.splitlines():
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def started_store(path: Path) -> int:
    """The process id of what sets up an empty store of MLflow."""
    pid = os.fork()
    if pid:
        return pid
    from mlflow.tracking import MlflowClient

    MlflowClient(f"sqlite:///{path}").search_experiments()
    os._exit(0)


def ended(pid: int, seconds: float) -> int | None:
    """How the process ended within that time (as `os.waitstatus_to_exitcode`); None if not."""
    deadline = time.monotonic() + seconds
    while True:
        child, status = os.waitpid(pid, os.WNOHANG)
        if child:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.002)


def commands(folder: Path, wanted: int, rng: random.Random, arguments: list[str]) -> dict[str, Any]:
    """Kills the command anywhere; every grid that was killed ends before the next begins."""
    empty, modules = folder / "mlflow.db", folder / "modules.txt"
    load(OF_COMMANDS)
    ended(started_store(empty), 600)
    undisturbed = folder / "undisturbed"
    undisturbed.mkdir()
    shutil.copy(empty, undisturbed)
    begun = time.monotonic()
    code = ended(started([*arguments, "--out", str(undisturbed)], modules), 600)
    whole = time.monotonic() - begun
    load(modules.read_text())  # and whatever else it took
    kills: list[str] = []
    grids = 0
    while code == 0 and len(kills) < wanted:
        out = folder / f"killed-{grids}"
        longest = 2 * whole  # the first sets its own store up, which takes longer than all else
        if grids:
            out.mkdir()
            shutil.copy(empty, out)
            longest = whole / 2  # a try goes on where the one before ended: all moments are reached
        grids += 1
        while True:
            pid = started([*arguments, "--out", str(out)])
            code = ended(pid, rng.uniform(0, longest))
            if code is not None:
                break
            kind = rng.choice(KINDS)
            os.kill(pid, kind)
            kills.append(f"{kind.name}: {ended(pid, 60)}")
            if len(kills) == wanted:
                code = ended(started([*arguments, "--out", str(out)]), 600)
                break
    return {"code": code, "kills": kills, "grids": grids}


TRAINS = {
    "name": "user-dp",
    "params": {"rounds": 24, "users_per_round": 10,
               "clip_policy": "adaptive", "server_optimizer": "adam",
               "server_learning_rate": 0.02},
}  # fmt: skip
PRETRAINS = {"name": "next-word", "params": {"pretraining_epochs": 1}}


def training_begun(spec: RunSpec, out: Path, seconds: float) -> int:
    """The process id of a run, which dies so many seconds after its training began; 0: never."""
    from uedp_bench.contracts.checkpoints import Pace
    from uedp_bench.contracts.run_context import Speed
    from uedp_bench.io.folders import remove_partial
    from uedp_bench.one_run.preparing import Execution
    from uedp_bench.one_run.runner import execute

    pid = os.fork()
    if pid:
        return pid
    remove_partial(out)  # as a command does that begins
    waiting = [seconds > 0]

    def die_later(phase: str, done: int, total: int) -> None:
        if waiting[0] and phase in ("pretrain", "train") and done:
            waiting[0] = False
            signal.setitimer(signal.ITIMER_REAL, seconds)  # nobody handles it: the process is gone

    speed, pace = Speed(threads=1), Pace(seconds=0, steps=1)
    execution = Execution(out, "cpu", speed, progress=die_later, pace=pace)
    os._exit(execute(spec, execution).status != "finished")


def trainings(folder: Path, wanted: int, rng: random.Random) -> dict[str, Any]:
    """Kills one run while it trains, on public text and on private text."""
    from tiny import runs

    from uedp_bench.io.sealed_files import package_digest
    from uedp_bench.one_run.components import build_sources
    from uedp_bench.one_run.planting import load_data

    (spec,) = runs(TRAINS, task=PRETRAINS)
    load_data(build_sources(spec))  # for all tries
    package_digest()
    begun = time.monotonic()
    code = ended(training_begun(spec, folder / "whole", 0), 600)
    whole = time.monotonic() - begun
    kills = finished = 0
    while code == 0 and kills < wanted:
        out = folder / f"training-{finished}"
        while kills < wanted:
            code = ended(training_begun(spec, out, rng.uniform(0.001, whole / 8)), 600)
            if code is None or code >= 0:
                break
            kills += 1
        else:
            code = ended(training_begun(spec, out, 0), 600)
        finished += 1
    return {"code": code, "kills": kills, "finished": finished}


def main(folder: Path, wanted: int, seed: int, arguments: list[str]) -> None:
    """Kills a training so often, and the command, which costs more, a quarter as often."""
    rng = random.Random(seed)  # noqa: S311
    load(MODULES)
    outcome = {
        "trainings": trainings(folder, wanted, rng),
        "commands": commands(folder, -(-wanted // 4), rng, arguments),
    }
    sys.stdout.write(json.dumps(outcome))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
