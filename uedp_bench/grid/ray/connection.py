"""A cluster of Ray: reached where it is, or started on this machine."""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from uedp_bench.errors import InputError, shown
from uedp_bench.grid.scheduler import default_workers

LOCAL, AUTO = "ray", "auto"
"""A cluster that the command starts on this machine, and the one that Ray knows of."""

ADDRESS = re.compile(r"(?:ray://)?([\w.-]+):(\d{1,5})")
TRY_SECONDS = 45.0
"""So long Ray may take to connect."""

_PORT_SECONDS = 10.0
_TRIAL = """import sys, ray
try:
    ray.init(sys.argv[1], log_to_driver=False, logging_level="ERROR")
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""


@contextmanager
def connected(on: str) -> Iterator[Any]:
    """The module `ray`, connected to a cluster within the block.

    SIGTERM closes what the block opened, and then does what it did before.

    Args:
        on: see `OnRay`; a cluster on this machine ends with the block.

    Raises:
        InputError: if no cluster answers, or it lets nobody in from here.
    """
    import ray

    if ray.is_initialized():
        raise InputError("--on: this process is connected to a cluster of Ray already")
    before, came = signal.getsignal(signal.SIGTERM), threading.Event()
    main = threading.current_thread() is threading.main_thread()

    def end(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough, and closing takes a while
        came.set()
        raise KeyboardInterrupt

    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if on == LOCAL:
        # Ray would leave a token in the home folder, which every `ray start` there asks for from
        # then on, and have runs give way to whatever else this machine does.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        os.environ.setdefault("RAY_worker_niceness", "0")
        quiet |= {"num_cpus": default_workers("cpu"), "include_dashboard": False}
    else:
        check_address(on)
    with redirect_stdout(sys.stderr):  # Ray writes of nodes that died where tables and JSON go
        _begin(ray, on, quiet)
        try:
            if main:  # Ray took it, and answers it with stack traces
                signal.signal(signal.SIGTERM, signal.SIG_IGN if before is signal.SIG_IGN else end)
            yield ray
        finally:
            ray.shutdown()
            if main:
                signal.signal(signal.SIGTERM, before)
            if came.is_set():
                signal.raise_signal(signal.SIGTERM)


def _begin(ray: Any, on: str, options: dict[str, Any]) -> None:
    for last in (False, False, True):
        try:
            ray.init("local" if on == LOCAL else on, **options)
            return
        except ConnectionAbortedError as error:
            # The process that Ray Client starts for each who comes may die when it is forked.
            if last:
                raise refusal(on, str(error)) from None
        except (OSError, RuntimeError, ValueError) as error:
            if on == LOCAL:
                why = " ".join(str(error).split())[:300]
                raise InputError(f"--on {on}: Ray cannot start here ({why})") from None
            raise refusal(on, str(error)) from None


def check_address(on: str) -> None:
    """Tries the port, and connects in a process that can be ended: Ray itself waits for minutes.

    Raises:
        InputError: if no cluster answers, or it lets nobody in from here.
    """
    address = _address(on)
    host = ADDRESS.fullmatch(address)
    if address != AUTO and not host:
        raise InputError(f"--on {on}: RAY_ADDRESS is {shown(address)}: allowed is HOST:PORT")
    try:
        if host:
            socket.create_connection((host[1], int(host[2])), timeout=_PORT_SECONDS).close()
        if address.startswith("ray://"):  # Ray Client gives up soon
            return
        command = [sys.executable, "-c", _TRIAL, address]
        ended = subprocess.run(command, capture_output=True, timeout=TRY_SECONDS, check=False)  # noqa: S603
    except subprocess.TimeoutExpired as error:
        words = (error.stderr or b"").decode(errors="replace")
        raise refusal(on, f"{words}\nno answer within {TRY_SECONDS:g} s") from None
    except (OSError, OverflowError) as error:
        raise refusal(on, str(error)) from None
    if ended.returncode:
        raise refusal(on, ended.stderr.decode(errors="replace"))


def _address(on: str) -> str:
    return (os.environ.get("RAY_ADDRESS") or AUTO) if on == AUTO else on


def refusal(on: str, words: str) -> InputError:
    """The error of who cannot connect, with the last words of Ray."""
    lines = [line.rpartition("] ")[2].strip()[:200] for line in words.splitlines() if line]
    why, address = "; ".join([*dict.fromkeys(lines)][-2:]), _address(on)
    return InputError(
        f"--on {on if on == address else f'{on} ({address})'}: no cluster of Ray lets this command "
        f"in ({why}). Allowed are HOST:PORT of a head that runs (`ray start --head`), on a machine "
        "that is one of its nodes, and elsewhere ray://HOST:PORT with the port of its Ray Client. "
        "Where the cluster asks for a token or for TLS, set Ray's variables for it here "
        "(RAY_AUTH_MODE=token, RAY_USE_TLS=1)"
    )
