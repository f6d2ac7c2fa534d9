"""Processes that begin with the imports of runs, and share nothing else with their parent.

An interpreter takes seconds to import torch and its kind. On Linux a server imports them once, and
new processes are forked from it: it has no threads, holds no GPU, and has seen no data. Elsewhere
every process is a new interpreter.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

OF_RUNS = ("uedp_bench.one_run.runner", "torch")
"""Modules that nearly every run imports sooner or later."""


def start_fresh(
    target: Callable[..., None], *args: Any, daemon: bool = False, imports: Sequence[str] = OF_RUNS
) -> BaseProcess:
    """Start a process that calls a function.

    It has the environment variables that this process has now: those of the server are older.

    Args:
        target: a function that can be pickled.
        args: arguments of the call.
        daemon: True to end it with this process.
        imports: modules of the server, if this is the first process that it starts.
    """
    context = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
    context.set_forkserver_preload(list(imports))
    process: BaseProcess = context.Process(  # type: ignore[attr-defined]
        target=_begin, args=(_environment(), target, args), daemon=daemon
    )
    with _without_ctrl_c():
        process.start()
    return process


def _environment() -> dict[str, str]:
    """Environment variables of this process, without those that another thread takes away now."""
    # Tracking sets MLflow's limits and takes them back in a thread: dict(os.environ), which looks
    # up names that it has listed before, would raise KeyError.
    return {name: value for name in os.environ if (value := os.environ.get(name)) is not None}


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Let new processes begin deaf to Ctrl-C: their parent decides what ends."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def hide_main() -> dict[str, Any]:
    """Keep processes that are started later from importing the main module again.

    `multiprocessing` has every new process import it, and runs need nothing of it.

    Returns:
        The removed names of the main module, to put back.
    """
    main = vars(sys.modules["__main__"])
    kept: dict[str, Any] = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    main.pop("__file__", None)
    main["__spec__"] = None
    return kept


def _begin(
    environment: Mapping[str, str], target: Callable[..., None], args: tuple[Any, ...]
) -> None:
    if dict(os.environ) != environment:
        os.environ.clear()
        os.environ.update(environment)
    # What was imported lives to the end. To look it all through for garbage would take time, and a
    # copy of every page of memory that is shared with the server.
    gc.freeze()
    target(*args)
