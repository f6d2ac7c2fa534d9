"""What a server and its clients send each other in a round of federated training."""

from __future__ import annotations

from torch import Tensor

from uedp_bench.corpus import IntArray
from uedp_bench.run import Run
from uedp_bench.transcript import Sent, Size


def send_weights(run: Run, step: int, theta: Tensor, clients: IntArray) -> None:
    """The server gives the shared weights (d,) to every client of the round.

    Args:
        run: writes it down.
        step: number of the round, from 0.
        theta: what is sent.
        clients: (clients,) their users; client 3 is user 3 of the corpus that is trained on.
    """
    sent: Sent = theta if run.keeps_payload(step) else _size(theta)
    for client in clients.tolist():
        run.send("weights", sent, sender="server", receiver=f"client {client}", round=step)


def send_updates(
    run: Run, step: int, theta: Tensor, clients: IntArray, updates: Tensor | None
) -> None:
    """Every client of the round gives the server its update, clipped, without noise.

    Args:
        run: writes it down.
        step: number of the round, from 0.
        theta: (d,) weights, of which an update has the shape.
        clients: (clients,) their users.
        updates: (clients, d); None where only sizes are kept.
    """
    for number, client in enumerate(clients.tolist()):
        sent: Sent = _size(theta) if updates is None else updates[number]
        run.send("update", sent, sender=f"client {client}", receiver="server", round=step)


def _size(theta: Tensor) -> Size:
    return Size(tuple(theta.shape), theta.nbytes)
