"""What a server and its clients send each other in a round of federated training."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from uedp_bench.corpus import IntArray
from uedp_bench.run_context import Run
from uedp_bench.transcript import Sent, Size


def send_weights(
    run: Run, step: int, theta: Tensor, clients: IntArray, role: str = "client"
) -> None:
    """The server gives the shared weights (d,) to every client of the round.

    Args:
        run: writes it down.
        step: number of the round, from 0.
        theta: what is sent.
        clients: (clients,) their numbers.
        role: of clients: "client 3" is client 3 of the spec, or where it has none user 3 of the
            corpus; "user 3" is user 3 where it has clients, and these do not send.
    """
    sent: Sent = theta if run.keeps_payload(step) else _size(theta)
    for client in clients.tolist():
        run.send("weights", sent, sender="server", receiver=f"{role} {client}", round=step)


class Sending(NamedTuple):
    """What the clients of a round send.

    Attributes:
        theta: (d,) weights, of which an update has the shape.
        clients: (clients,) their numbers.
        updates: (clients, d); None where only sizes are kept.
        noisy: each client added noise to its update, so that what is proven holds of it too.
        role: see `send_weights`.
    """

    theta: Tensor
    clients: IntArray
    updates: Tensor | None
    noisy: bool = False
    role: str = "client"


def send_updates(run: Run, step: int, what: Sending) -> None:
    """Every client of the round gives the server its update: clipped, or noisy by its own noise.

    Args:
        run: writes it down.
        step: number of the round, from 0.
        what: is sent.
    """
    for number, client in enumerate(what.clients.tolist()):
        sent: Sent = _size(what.theta) if what.updates is None else what.updates[number]
        run.send(
            "update", sent, sender=f"{what.role} {client}", receiver="server", round=step,
            noisy=what.noisy,
        )  # fmt: skip


def _size(theta: Tensor) -> Size:
    return Size(tuple(theta.shape), theta.nbytes)
