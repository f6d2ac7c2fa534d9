"""Kills the same command again and again, at random moments, until its grid is finished.

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

MODULES = """mlflow.tracking
mlflow.store.tracking.sqlalchemy_store
alembic
uedp_bench.cli.main
uedp_bench.harness.scheduler
uedp_bench.harness.tracking
uedp_bench.leaderboard.table
uedp_bench.tasks.language.release
uedp_bench.mechanisms.noiseless
uedp_bench.mechanisms.private_training.user_dp
uedp_bench.training.federated
uedp_bench.accounting.accountants.dp_accounting
torch"""
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
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= deadline:
            return None
        time.sleep(0.002)


def main(folder: Path, wanted: int, seed: int, arguments: list[str]) -> None:
    rng = random.Random(seed)  # noqa: S311
    empty, modules = folder / "mlflow.db", folder / "modules.txt"
    load(MODULES)
    ended(started_store(empty), 120)
    undisturbed, again = folder / "undisturbed", folder / "again"
    for out in (undisturbed, again):
        out.mkdir()
        shutil.copy(empty, out)
    code = ended(started([*arguments, "--out", str(undisturbed)], modules), 120)
    load(modules.read_text())  # and whatever else it took
    begun = time.monotonic()
    code = ended(started([*arguments, "--out", str(again)]), 120) or code
    whole = time.monotonic() - begun
    kills: list[str] = []
    grids = 0
    while code == 0 and len(kills) < wanted:
        out = folder / f"killed-{grids}"
        longest = 3 * whole  # the first sets its own store up, which takes longer than all else
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
                code = ended(started([*arguments, "--out", str(out)]), 120)
                break
    sys.stdout.write(json.dumps({"code": code, "kills": kills, "grids": grids, "whole": whole}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
