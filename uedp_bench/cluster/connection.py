"""A cluster of Ray: where it is, and what of it can be known before a grid begins."""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from uedp_bench.cluster.address import CLIENT, TOKEN, Head, check_member, find, reach
from uedp_bench.cluster.node_runs import difference
from uedp_bench.cluster.sigterm import ends_on_sigterm
from uedp_bench.errors import InputError, MissingExtraError, UedpBenchError, shown

LOCAL, AUTO = "ray", "auto"
"""A cluster that the command starts on this machine, and the one that Ray knows of."""

INSTALL = "pip install 'uedp-bench[cluster]'"
ADDRESS = re.compile(rf"({CLIENT})?[\w.-]+:\d{{1,5}}")
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1"}
"""Nothing is sent to anybody, and tasks without a GPU see the variables of GPUs as they are."""

_CHECK_SECONDS = 300.0
_TRIES = 3


@dataclass(frozen=True)
class OnCluster:
    """Where the runs of a grid are done, and what each of them needs.

    Attributes:
        on: "ray", "auto", "HOST:PORT" or "ray://HOST:PORT".
        cpus: of a run.
        gpus: of a run; a share, or a whole number.
    """

    on: str
    cpus: float = 1.0
    gpus: float = 0.0

    def check(self, device: str) -> None:
        """Refuses what cannot be, before anything is loaded.

        Raises:
            InputError: naming the option.
            MissingExtraError: if Ray is not installed.
        """
        if self.on not in (LOCAL, AUTO) and not ADDRESS.fullmatch(self.on):
            raise InputError(
                f"--on {shown(self.on)}: allowed are ray (a cluster on this machine), auto (the "
                "one of RAY_ADDRESS, or that this machine belongs to), HOST:PORT and "
                "ray://HOST:PORT"
            )
        if not self.cpus > 0:
            raise InputError(f"--cpus-per-run {self.cpus:g}: allowed is a number above 0")
        if self.gpus < 0 or (self.gpus > 1 and self.gpus % 1):
            raise InputError(
                f"--gpus-per-run {self.gpus:g}: allowed is 0, a share up to 1, or a whole number"
            )
        if device.startswith("cuda:"):
            raise InputError(f"--device {device}: Ray chooses the GPU of a run; use --device cuda")
        if device == "cuda" and not self.gpus:
            raise InputError(
                "--device cuda with --on: say how much of a GPU a run takes, with --gpus-per-run"
            )
        if find_spec("ray") is None:
            raise MissingExtraError("--on: Ray", INSTALL)


@contextmanager
def connected(on: str, cpus: int) -> Iterator[Any]:
    """The module `ray`, connected to a cluster within the block.

    SIGTERM within it ends the connection first, and then does what it did before the block.

    Args:
        on: see `OnCluster`.
        cpus: of a cluster on this machine, which ends with the block.

    Raises:
        InputError: if no cluster answers, or it lets nobody in from here.
    """
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        raise InputError("--on: this process is connected to a cluster of Ray already")
    with ends_on_sigterm() as ending:
        address = find(on) if on == AUTO else on
        if address != LOCAL and not ADDRESS.fullmatch(address):
            raise InputError(f"--on {on}: RAY_ADDRESS is {shown(address)}: allowed is HOST:PORT")
        head = None if on == LOCAL else reach(on, address)
        with _variables(_private_token() if head is None else _mode(head)):
            import ray

            if head is not None and not address.startswith(CLIENT):
                check_member(head, on)
            with _silent():
                try:
                    _begin(ray, on, head, cpus)
                    ending.heed()  # Ray took SIGTERM for itself
                    yield ray
                finally:
                    ray.shutdown()


def _begin(ray: Any, on: str, head: Head | None, cpus: int) -> None:
    """Connects, or starts a cluster.

    Raises:
        InputError: if Ray cannot.
    """
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    try:
        if head is None:
            # Ray would have runs give way to whatever else this machine does.
            as_here = {"worker_niceness": 0}
            ray.init(address="local", num_cpus=cpus, include_dashboard=False,
                     _system_config=as_here, **quiet)  # fmt: skip
            return
        for left in reversed(range(_TRIES)):
            try:
                ray.init(address=head.address, **quiet)
                return
            except ConnectionAbortedError:
                # The process that Ray Client starts for each who comes may die when it is forked.
                if not left:
                    raise
    except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
        said = " ".join(str(error).split())[:300]
        if head is None:
            raise InputError(f"--on {on}: Ray cannot start a cluster here ({said})") from None
        raise InputError(f"--on {on}: the cluster does not let this command in ({said})") from None


@contextmanager
def _variables(wanted: Mapping[str, str]) -> Iterator[None]:
    """Sets variables that Ray reads within the block; those of `QUIET` only where nobody did."""
    told = {**{name: os.environ.get(name, value) for name, value in QUIET.items()}, **wanted}
    before = {name: os.environ.get(name) for name in told}
    try:
        os.environ.update(told)
        _read_variables_again()
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        _read_variables_again()


def _read_variables_again() -> None:
    """Has Ray forget mode and token of the cluster before, which it keeps for the process."""
    from ray import _raylet

    told: Any = _raylet
    told.Config.initialize("")
    told.AuthenticationTokenLoader.instance().reset_cache()


def _mode(head: Head) -> dict[str, str]:
    """Has Ray show the token of this machine to a cluster that asks for one, and to no other."""
    return {"RAY_AUTH_MODE": "token" if head.asks_token else "disabled"}


def _private_token() -> dict[str, str]:
    """A token for the cluster of this command alone, unless the user decided.

    Ray would leave one in the home folder, which every `ray start` there asks for from then on.
    """
    if "RAY_AUTH_MODE" in os.environ:
        return {}
    return {"RAY_AUTH_MODE": "token", TOKEN: secrets.token_hex(32)}


@contextmanager
def _silent() -> Iterator[None]:
    """Keeps Ray's words about nodes that died off standard output, where tables and JSON go.

    Ray has no public switch for them. The progress of the runs says what was lost.
    """
    from ray._private import worker

    before = worker._worker_logs_enabled
    worker._worker_logs_enabled = False
    try:
        yield
    finally:
        worker._worker_logs_enabled = before


def on_every_node(ray: Any, function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """References to what a function returns on every node, in the order of `alive`."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task = ray.remote(num_cpus=0, max_retries=0)(function)
    return [
        task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(*arguments)
        for node in alive(ray)
    ]


def alive(ray: Any) -> list[dict[str, Any]]:
    """Nodes of the cluster that are there."""
    return [node for node in ray.nodes() if node["Alive"]]


def check_nodes(ray: Any, wanted: tuple[str, str]) -> None:
    """Refuses a cluster some node of which has another version of the package, or none.

    Args:
        ray: connected.
        wanted: version and code of the package here.

    Raises:
        InputError: naming each such node.
    """

    def look() -> Any:  # travels as code: the node may not have the package
        try:
            from uedp_bench.cluster.node_runs import built
        except ImportError as error:
            return f"cannot import uedp-bench ({error})"
        return built()

    nodes, problems = alive(ray), []
    references = on_every_node(ray, look)
    ready, _ = ray.wait(references, num_returns=len(references), timeout=_CHECK_SECONDS)
    for node, reference in zip(nodes, references, strict=True):
        if reference not in ready:
            said: Any = "does not answer"
        else:
            try:
                said = ray.get(reference)
            except ray.exceptions.RayError:
                continue  # gone meanwhile
        told = said if isinstance(said, str) else difference(tuple(said), wanted)
        if told:
            problems.append(f"node {node['NodeManagerAddress']} {told}")
    if problems:
        raise InputError(
            f"--on: {'; '.join(dict.fromkeys(problems))}: install the same version of uedp-bench, "
            "with its extra cluster, on every node"
        )


def check_room(ray: Any, where: OnCluster, note: Callable[[str], None]) -> None:
    """Says what no node has, and which GPUs stay idle.

    Args:
        ray: connected.
        where: what runs need.
        note: is told what may still change.

    Raises:
        InputError: if a cluster on this machine is too small for any run.
    """
    found = [node["Resources"] for node in alive(ray)]
    if not any(
        each.get("CPU", 0) >= where.cpus and each.get("GPU", 0) >= where.gpus for each in found
    ):
        most = {kind: max(each.get(kind, 0) for each in found) for kind in ("CPU", "GPU")}
        said = (
            f"no node has {where.cpus:g} CPUs and {where.gpus:g} GPUs for a run (the most are "
            f"{most['CPU']:g} and {most['GPU']:g})"
        )
        if where.on == LOCAL:
            raise InputError(f"--on ray: {said}: lower --cpus-per-run or --gpus-per-run")
        note(f"{said}: runs wait until one comes")
    gpus = sum(each.get("GPU", 0) for each in found)
    if gpus and not where.gpus:
        note(f"the cluster has {gpus:g} GPUs, and runs use none: give --gpus-per-run")


def lost(error: Exception) -> UedpBenchError:
    """The error that says that the cluster is gone."""
    said = " ".join(str(error).split())[:300]
    return UedpBenchError(
        f"the cluster cannot go on ({type(error).__name__}: {said}); finished runs are kept: the "
        "same command resumes the others"
    )
