"""The head of a cluster of Ray: found, and asked who may come, before Ray itself waits for it.

Ray tries an address at which nobody answers for over a minute and a half, and says of a token that
is missing that it is invalid, or nothing. One question to the head tells both within seconds.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uedp_bench.errors import InputError

CLIENT = "ray://"
"""Begins the address of a cluster that is reached from outside."""

TRY_SECONDS = 10.0
"""So long an address is tried."""

TOKEN, TOKEN_PATH = "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_ANSWER_SECONDS = 5.0
_HEAD, _DOOR = "/ray.rpc.NodeInfoGcsService/CheckAlive", "/ray.rpc.RayletDriver/ClusterInfo"
_START = (
    "start one with `ray start --head --port {port}`, or give the address that `ray start` printed"
)


@dataclass(frozen=True)
class Head:
    """The head of a cluster that answers.

    Attributes:
        address: "HOST:PORT" or "ray://HOST:PORT".
        asks_token: it refuses who has no token.
    """

    address: str
    asks_token: bool


def find(on: str) -> str:
    """The address of the cluster that Ray knows of on this machine.

    Args:
        on: the option, for messages.

    Raises:
        InputError: if there is none.
    """
    if (said := os.environ.get("RAY_ADDRESS", "")) not in ("", "auto", "local"):
        return said
    from ray._private import services

    services.find_gcs_addresses.cache_clear()
    try:
        return str(services.canonicalize_bootstrap_address_or_die("auto"))
    except (ConnectionError, ValueError):
        raise InputError(
            f"--on {on}: RAY_ADDRESS is not set, and no cluster of Ray runs on this machine: start "
            "one with `ray start --head`, or join one with `ray start --address HOST:PORT`"
        ) from None


def reach(on: str, address: str, seconds: float = TRY_SECONDS) -> Head:
    """Waits for the head of a cluster, and asks whether it wants a token.

    Args:
        on: the option, for messages.
        address: "HOST:PORT" or "ray://HOST:PORT".
        seconds: to wait for somebody to answer.

    Raises:
        InputError: if nobody answers, somebody else does, or the token here is none or another;
            if Ray has TLS without certificates.
    """
    from grpc import StatusCode

    said = on if on == address else f"{on} ({address})"
    place, through_client = address.removeprefix(CLIENT), address.startswith(CLIENT)
    method, other = (_DOOR, _HEAD) if through_client else (_HEAD, _DOOR)
    answer, why = _answer(place, method, (), seconds)
    if answer in (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED):
        how = _START.format(port=place.rpartition(":")[2])
        if through_client:
            how = "start one there with `ray start --head --ray-client-server-port PORT`"
        raise InputError(f"--on {said}: no cluster of Ray answers within {seconds:g} s: {how}")
    if answer is StatusCode.UNIMPLEMENTED:
        if _answer(place, other, (), _ANSWER_SECONDS)[0] is StatusCode.UNIMPLEMENTED:
            raise InputError(f"--on {said}: what answers there is no cluster of Ray ({why})")
        right = place if through_client else CLIENT + place
        raise InputError(
            f"--on {said}: that port is the {'cluster' if through_client else 'Ray Client'}'s: "
            f"use --on {right}"
        )
    if answer is not StatusCode.UNAUTHENTICATED:
        return Head(address, asks_token=False)
    held = token()
    if held is None:
        raise InputError(
            f"--on {said}: the cluster asks for a token, and this machine has none: copy "
            f"~/.ray/auth_token of the head to this home folder, or set {TOKEN} to what "
            "`ray get-auth-token` prints there"
        )
    shows = (("authorization", f"Bearer {held}"),)
    if _answer(place, method, shows, _ANSWER_SECONDS)[0] is StatusCode.UNAUTHENTICATED:
        raise InputError(
            f"--on {said}: the cluster refuses the token of this machine ({_where()}): it must be "
            "the one with which the head was started, which `ray get-auth-token` prints there"
        )
    return Head(address, asks_token=True)


def check_member(head: Head, on: str, seconds: float = TRY_SECONDS) -> None:
    """Refuses to go on where no node of a cluster is: without one, only Ray Client leads there.

    Args:
        head: of the cluster.
        on: the option, for messages.
        seconds: to wait for Ray to know of a node here.

    Raises:
        InputError: if none is there in time.
    """
    from ray._private import services

    end = time.monotonic() + seconds
    while not services.find_node_ids():
        if time.monotonic() > end:
            host = head.address.rpartition(":")[0]
            raise InputError(
                f"--on {on}: this machine is no node of the cluster: join it with "
                f"`ray start --address {head.address}`, or go through its Ray Client: --on "
                f"{CLIENT}{host}:10001"
            )
        time.sleep(0.5)


def token() -> str | None:
    """The token of this machine, found as Ray finds it; None if there is none."""
    if said := os.environ.get(TOKEN):
        return said.strip()
    try:
        return Path(_where()).read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


def _where() -> str:
    """The place of the token of this machine."""
    if os.environ.get(TOKEN):
        return TOKEN
    return os.environ.get(TOKEN_PATH) or str(Path.home() / ".ray" / "auth_token")


def _channel(place: str) -> Any:
    """A channel as Ray's own: by TLS where Ray has it, and past proxies unless Ray asks for one.

    Raises:
        InputError: if Ray has TLS without certificates.
    """
    import grpc
    from ray._common.tls_utils import load_certs_from_env
    from ray._private.ray_constants import GLOBAL_GRPC_OPTIONS

    if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
        return grpc.insecure_channel(place, options=GLOBAL_GRPC_OPTIONS)
    try:
        chain, key, root = load_certs_from_env()
    except (RuntimeError, OSError) as error:
        raise InputError(f"RAY_USE_TLS is set: {' '.join(str(error).split())}") from None
    return grpc.secure_channel(
        place, grpc.ssl_channel_credentials(root, key, chain), options=GLOBAL_GRPC_OPTIONS
    )


def _answer(
    place: str, method: str, shows: tuple[tuple[str, str], ...], seconds: float
) -> tuple[Any, str]:
    """The status of gRPC that a call has, and its words; who does not answer is asked again."""
    import grpc

    end = time.monotonic() + seconds
    while True:
        with _channel(place) as channel:
            try:
                left = max(end - time.monotonic(), 0.5)
                channel.unary_unary(method)(b"", timeout=min(left, _ANSWER_SECONDS), metadata=shows)
                return grpc.StatusCode.OK, ""
            except grpc.RpcError as error:
                status, said = error.code(), " ".join(str(error.details()).split())[:200]
        again = status in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
        if not again or time.monotonic() >= end:
            return status, said
        time.sleep(0.3)
