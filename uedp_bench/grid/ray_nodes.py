"""Cluster of Ray: reached or started, and one run of a grid on a node of it.

Files that a spec or `--plugin` names travel by content. A private folder for the grid on each node
holds them; it is removed when the grid ends, or by the next grid after one that was killed.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from uedp_bench.components import registry
from uedp_bench.components.component import MayBePath
from uedp_bench.contracts.checkpoints import Pace
from uedp_bench.contracts.results import ComponentSpec, RunSpec
from uedp_bench.contracts.source import names_source
from uedp_bench.errors import InputError, UedpBenchError, shown
from uedp_bench.grid.scheduler import Job, default_workers, run_jobs
from uedp_bench.io.folders import CHECKPOINT, private_folder
from uedp_bench.io.fresh_processes import hide_main
from uedp_bench.io.sealed_files import package_digest
from uedp_bench.one_run.preparing import Execution
from uedp_bench.spec.identity import RELEASE, RESULT, content_of, path_mark
from uedp_bench.version import __version__

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


# ------------------------------------- one run on a node: place its files, run it, pack its outcome

ARITHMETIC = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "UEDP_BENCH_FAST"
)  # fmt: skip
"""Variables that decide how sums are added; Ray sets the first to the CPUs of a task."""

Content = Sequence[tuple[str, Sequence[Any]]]
"""Names of files, each with references to the chunks of what it holds."""

_PREFIX = "uedp-bench-grid-"
_IN_USE = ".in-use"


@dataclass(frozen=True)
class NamedFiles:
    """A file or folder that a parameter names.

    Attributes:
        text: path that names it.
        mark: mark of the parameter.
        root: folder above, on the machine that starts the grid.
        inside: path of the named file or folder, below `root`.
        digest: digest of names and content.
    """

    text: str
    mark: MayBePath
    root: Path
    inside: str
    digest: str

    @staticmethod
    def from_path(text: str, mark: MayBePath) -> NamedFiles:
        """Build from the path of a file or folder of this machine."""
        path, levels = Path(text).absolute(), 1
        if mark.of_a_run:
            path = path.resolve()
            levels += path.name == RELEASE and (path.parent / RESULT).is_file()
        root = path.parents[levels - 1]
        return NamedFiles(text, mark, root, str(path.relative_to(root)), content_of(text, mark))

    def files(self) -> list[Path]:
        """Files that travel, on the machine that starts the grid."""
        path = self.root / self.inside
        files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
        return [*files, path.parent / RESULT] if path.parent != self.root else files

    def lie_below(self, root: Path) -> bool:
        """True if they lie below a folder of this machine, with the same content."""
        with suppress(OSError, InputError):  # somebody else's, or being changed
            return bool(content_of(str(root / self.inside), self.mark) == self.digest)
        return False


@dataclass(frozen=True)
class Order:
    """Facts that all runs of a grid have in common.

    Attributes:
        token: name of the folder of the grid on each node, which nobody can guess.
        execution: settings of the machine that started the grid.
        probe: file in the folder of results, by which a node that sees that folder knows it.
        named: files and folders that specs and the command name.
        plugins: numbers of the plug-ins among them.
        timeout: seconds of a run; None for any time.
        environment: `ARITHMETIC` of the machine that started the grid; None for unset.
        package: version and code of the package there.
    """

    token: str
    execution: Execution
    probe: Path
    named: tuple[NamedFiles, ...]
    plugins: tuple[int, ...]
    timeout: float | None
    environment: Mapping[str, str | None]
    package: tuple[str, str]

    def mark(self, number: int) -> str:
        """The text in a spec on its way, in place of a path."""
        return f"{self.token}/{number}."


def with_paths(spec: RunSpec, change: Callable[[str, MayBePath], str]) -> RunSpec:
    """The spec with every text changed that may name a file or folder."""

    def changed(value: Any, mark: MayBePath) -> Any:
        if isinstance(value, list | tuple):
            return [changed(part, mark) for part in value]
        return value if value is None or value in mark.words else change(str(value), mark)

    def with_changed_paths(ref: ComponentSpec, kind: registry.Registry[Any]) -> ComponentSpec:
        component, params = kind.get(ref.name), dict(ref.params)
        for name, value in ref.params.items():
            if names_source(component.Params.model_fields[name].annotation) and value is not None:
                source = with_changed_paths(ComponentSpec.model_validate(value), registry.sources)
                params[name] = source.model_dump(mode="json")
            elif (mark := path_mark(component, name)) is not None:
                params[name] = changed(value, mark)
        return ref.model_copy(update={"params": params})

    return spec.model_copy(
        update={
            "task": with_changed_paths(spec.task, registry.tasks),
            "source": with_changed_paths(spec.source, registry.sources),
            "model": with_changed_paths(spec.model, registry.models),
            "mechanism": tuple(
                with_changed_paths(ref, registry.mechanisms) for ref in spec.mechanism
            ),
            "attacks": tuple(with_changed_paths(ref, registry.attacks) for ref in spec.attacks),
        }
    )


def package() -> tuple[str, str]:
    """Version of the package that is installed here, and digest of its code."""
    return __version__, package_digest()


def difference(node: tuple[str, str], wanted: tuple[str, str]) -> str:
    """The difference between the packages of a node and of the machine that starts the grid."""
    if node[0] != wanted[0]:
        return f"has uedp-bench {node[0]}, and this machine {wanted[0]}"
    same = node[1] == wanted[1]
    return "" if same else f"has other code of uedp-bench {node[0]} than this machine"


def look(order: Order) -> str | list[int]:
    """Reason why this node can do no run of a grid, else the numbers of files that it lacks."""
    lacks = [at for at, each in enumerate(order.named) if not each.lie_below(each.root)]
    return difference(package(), order.package) or lacks


def do_run(
    order: Order, job: Job, contents: Mapping[int, Content], tell: Callable[[Any], None]
) -> bytes:
    """Do one run in a separate process on this node, and pack its files.

    Args:
        order: order of the grid.
        job: job whose spec has marks in place of paths.
        contents: contents of files that nodes lack, by number.
        tell: function called with progress.

    Raises:
        UedpBenchError: if this node can do no run of the grid.
    """
    if unlike := difference(package(), order.package):
        raise UedpBenchError(unlike)
    folder = grid_folder(order.token)
    spec, places = json.dumps(job.spec.model_dump(mode="json")), dict[int, str]()
    for number, named in enumerate(order.named):
        if number in order.plugins or order.mark(number) in spec:
            copy = folder / "files" / str(number)
            places[number] = str(place(named, copy, contents.get(number)))
            spec = spec.replace(order.mark(number), json.dumps(places[number])[1:-1])
    for name, value in order.environment.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    hide_main()  # it is Ray's
    execution = replace(order.execution, out=folder / "runs")
    if not order.probe.is_file():
        # Nobody could go on elsewhere from a checkpoint that lies here alone.
        execution = replace(execution, state=None, pace=Pace(seconds=0, steps=0))
    run = execution.out / job.id
    shutil.rmtree(run, ignore_errors=True)
    ending = run_jobs(
        [replace(job, spec=RunSpec.model_validate(json.loads(spec)))], execution, workers=1,
        plugins=[Path(places[number]) for number in order.plugins], timeout=order.timeout,
        listen=lambda message: tell(message[1:]),
    )  # fmt: skip
    for _ in ending:
        pass
    packed = _pack(run, {places[number]: order.named[number].text for number in places})
    shutil.rmtree(run, ignore_errors=True)
    return packed


def _pack(folder: Path, texts: Mapping[str, str]) -> bytes:
    """The files of a run, in which files have the names that the user gave, not those here."""
    for path in folder.rglob("*.json"):
        content = path.read_bytes()
        for place in sorted(texts, key=len, reverse=True):
            node, user = (json.dumps(text)[1:-1].encode() for text in (place, texts[place]))
            content = content.replace(node, user)
        if not path.is_symlink():
            path.write_bytes(content)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in folder.iterdir():
            if path.name != CHECKPOINT:
                tar.add(path, path.name, filter=lambda info: None if info.issym() else info)
    return packed.getvalue()


@cache
def grid_folder(token: str) -> Path:
    """The folder of a grid on this node, which is in use as long as this process lives."""
    folder = Path(tempfile.gettempdir()) / f"{_PREFIX}{token}"
    for part in (folder, folder / "files", folder / "runs"):
        private_folder(part)
    # It is closed with the process.
    fcntl.flock(os.open(folder / _IN_USE, os.O_CREAT | os.O_RDWR, 0o600), fcntl.LOCK_SH)
    for other in folder.parent.glob(f"{_PREFIX}*"):  # of grids that were killed
        with suppress(OSError), (other / _IN_USE).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(other)
    return folder


def remove_folder(token: str) -> None:
    """Remove the folder of a grid here; processes that were just ended may still be in it."""
    folder = Path(tempfile.gettempdir()) / f"{_PREFIX}{token}"
    for _ in range(25):
        shutil.rmtree(folder, ignore_errors=True)
        if not folder.exists():
            return
        time.sleep(0.2)


@cache
def _lie_there(named: NamedFiles) -> bool:
    return named.lie_below(named.root)


def place(named: NamedFiles, copy: Path, content: Content | None) -> Path:
    """The path of the same content on this node; a folder that machines share needs no copy.

    Args:
        named: file or folder to place.
        copy: folder for it where it is not.
        content: content that was sent.

    Raises:
        UedpBenchError: if it is not there and was not sent, or was sent as something else.
        OSError: if it cannot be written.
    """
    if _lie_there(named):
        return named.root / named.inside
    with FileLock(f"{copy}.lock"):
        if not copy.is_dir():
            if content is None:
                raise UedpBenchError(f"joined late and lacks {named.text}, which others had")
            import ray

            written = copy.with_suffix(".partial")
            shutil.rmtree(written, ignore_errors=True)
            for name, chunks in content:
                path = written / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as file:
                    for chunk in chunks:
                        file.write(ray.get(chunk))
            if not named.lie_below(written):
                raise UedpBenchError(f"cannot copy {named.text}: it changed, or names other files")
            written.rename(copy)
    return copy / named.inside
