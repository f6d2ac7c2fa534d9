"""A network that travels from client to client: each trains it for a while and passes it on.

A visit is ordinary minibatch training (`training.plain`) on the rows of one client. Each client
keeps the state of its optimiser until the network comes back; nothing but weights and buffers
travels. With one client a training by visits is `train_plain`, to the last bit (a test compares).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from uedp_bench.api import InputError, Run
from uedp_bench.api.networks import Learner, Schedule, row_seeds
from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.corpus import IntArray
from uedp_bench.training.plain import optimizer_for, order_without_noise, plain_step

Compression = Literal["none", "fp16", "int8"]
"""none: as they are; fp16: half precision; int8: 8 bits, and a scale for each tensor."""


@dataclass(frozen=True, eq=False)
class AsRead:
    """Content of a message as its receiver reads it, with its size on the wire.

    Attributes:
        values: array (NumPy, torch), or array of texts.
        nbytes: bytes on the wire.
    """

    values: Any
    nbytes: int

    @property
    def shape(self) -> Sequence[int]:
        """Shape of the array."""
        return tuple(self.values.shape)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The array itself."""
        values = self.values.detach().cpu() if isinstance(self.values, Tensor) else self.values
        return np.asarray(values, dtype=dtype)


def received(weights: Sequence[Tensor], compression: Compression) -> tuple[list[Tensor], int]:
    """The weights that a receiver reads, and the bytes that they take on the wire.

    Args:
        weights: tensors of a network; not changed.
        compression: format on the wire. A tensor with a number that is not finite is not changed
            by 8 bits: it has no scale.
    """
    if compression == "none":
        return [weight.clone() for weight in weights], sum(weight.nbytes for weight in weights)
    if compression == "fp16":
        halves = [weight.to(torch.float16) for weight in weights]
        return [h.to(w) for h, w in zip(halves, weights, strict=True)], sum(
            h.nbytes for h in halves
        )
    weights_read, size = [], 0
    for weight in weights:
        scale = float(weight.abs().max()) / 127.0 if weight.numel() else 0.0
        if not np.isfinite(scale):
            weights_read.append(weight.clone())
            size += weight.nbytes
            continue
        steps = torch.round(weight / scale) if scale else torch.zeros_like(weight)
        weights_read.append(steps.clamp(-127, 127) * scale)
        size += weight.numel() + 4
    return weights_read, size


Carried = list[Tensor]
"""Trainable weights of a network, then its buffers: what travels."""


class Left(NamedTuple):
    """The network as a client leaves it.

    Attributes:
        carried: the network.
        optimizer: state of the client's optimiser.
        nats, targets: sums of losses over the visit.
    """

    carried: Carried
    optimizer: dict[str, Any]
    nats: float
    targets: int


@dataclass(frozen=True)
class Visits:
    """Journey of a network from client to client.

    Attributes:
        rows: rows of each client; a client without rows is passed over.
        order: clients in the order of their visits, of the whole training.
        schedule: training of one visit: `epochs` passes over the client's rows.
        compression: compression of the weights on every way.
    """

    rows: tuple[IntArray, ...]
    order: tuple[int, ...]
    schedule: Schedule
    compression: Compression = "none"


class VisitTrainer:
    """Trains the network of a visit.

    Args:
        learner: learner to train.
        schedule: optimiser and its settings.
        device: torch device.
    """

    def __init__(self, learner: Learner, schedule: Schedule, device: str) -> None:
        self._module = copy.deepcopy(learner.module).to(device).train()
        self._learner, self._schedule, self._device = learner, schedule, device

    def visit(
        self,
        carried: Carried,
        state: dict[str, Any] | None,
        batches: Sequence[tuple[IntArray, IntArray]],
    ) -> Left:
        """Train for one visit.

        Args:
            carried: the network as it comes.
            state: state of the client's optimiser; None at its first visit.
            batches: rows of each step, and the seeds of their dropout.
        """
        module = self._module
        put(module, carried)
        optimizer = optimizer_for(self._schedule, module)
        if state is not None:
            # A state that is loaded goes on changing in place.
            optimizer.load_state_dict(copy.deepcopy(state))
        nats, targets = 0.0, 0
        for rows, seeds in batches:
            more = plain_step(self._learner, module, optimizer, (rows, seeds), self._device)
            nats, targets = nats + more[0], targets + more[1]
        return Left(carried_by(module), optimizer.state_dict(), nats, targets)


def carried_by(module: nn.Module) -> Carried:
    """Copies of what travels of a network."""
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    return [value.detach().clone() for value in (*weights, *module.buffers())]


def put(module: nn.Module, carried: Sequence[Tensor]) -> None:
    """Load carried weights into a network."""
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    with torch.no_grad():
        for mine, value in zip((*weights, *module.buffers()), carried, strict=True):
            mine.copy_(value)


def train_visits(visits: Visits, learner: Learner, run: Run) -> nn.Module:
    """Train a copy of the learner's module, and return it in evaluation mode.

    The operator gives the network to a client and takes it back after the visit, so that it sees
    the work of each. A visit after which the network is not finite is undone: it counts as nothing,
    and is counted in `dropped_updates`.

    Args:
        visits: journey of the network.
        learner: rows and module.
        run: run that logs the series `train_loss`, by visit.

    Raises:
        InputError: if no visit leaves a network that is finite.
    """
    module = copy.deepcopy(learner.module).to(run.device)
    journey = _Journey(module, visits, run)
    trainer = VisitTrainer(learner, visits.schedule, run.device)
    for at in run.checkpointed("train", len(visits.order), now=journey, corpus=learner.corpus):
        client = visits.order[at]
        if len(visits.rows[client]):
            carried = journey.send(run, at, "server", f"client {client}", journey.carried)
            left = trainer.visit(carried, journey.optimizers[client], journey.batches(client))
            taken = journey.send(run, at, f"client {client}", "server", left.carried)
            journey.arrive(client, left, taken)
            if math.isfinite(left.nats):
                run.log("train_loss", at + 1, left.nats / max(left.targets, 1))
        run.progress("train", at + 1, len(visits.order))
    if journey.dropped and journey.dropped == journey.visits:
        raise InputError("training diverged: the loss is not finite; lower learning_rate")
    passes = visits.schedule.epochs
    run.count({"rows_train": passes * sum(len(visits.rows[client]) for client in visits.order)})
    if journey.dropped:
        run.note(dropped_updates=journey.dropped, simulation_only=["dropped_updates"])
    put(module, journey.carried)
    return module.eval()


class _Journey(AttributeState):
    """The network between two visits, and what each client keeps.

    Attributes:
        carried: the network.
        optimizers: states of the clients' optimisers, None before their first visit.
        visits, dropped: number of visits, and of those that were undone.
    """

    changing: ClassVar[tuple[str, ...]] = ("carried", "optimizers", "visits", "dropped")

    def __init__(self, module: nn.Module, visits: Visits, run: Run) -> None:
        self._plan = visits
        self._weights = sum(weight.requires_grad for weight in module.parameters())
        # Each client draws its batches for itself; the first as ordinary training does.
        self._rngs = [order_without_noise(run, client) for client in range(len(visits.rows))]
        self.carried: Carried = carried_by(module)
        self.optimizers: list[dict[str, Any] | None] = [None for _ in visits.rows]
        self.visits = self.dropped = 0

    def send(self, run: Run, at: int, sender: str, receiver: str, carried: Carried) -> Carried:
        """The network as the receiver reads it; buffers travel as they are."""
        read, size = received(carried[: self._weights], self._plan.compression)
        flat = torch.cat([weight.reshape(-1) for weight in read])
        run.send("weights", AsRead(flat, size), sender=sender, receiver=receiver, round=at)
        if buffers := carried[self._weights :]:
            size = sum(buffer.nbytes for buffer in buffers)
            whole = torch.cat([buffer.reshape(-1).double() for buffer in buffers])
            run.send("buffers", AsRead(whole, size), sender=sender, receiver=receiver, round=at)
        return [*read, *buffers]

    def batches(self, client: int) -> tuple[tuple[IntArray, IntArray], ...]:
        """Rows and seeds of a visit, step by step."""
        rng, size, batches = self._rngs[client], self._plan.schedule.batch_size, []
        for _ in range(self._plan.schedule.epochs):
            order: IntArray = rng.permutation(self._plan.rows[client])
            for start in range(0, len(order), size):
                rows = order[start : start + size]
                batches.append((rows, row_seeds(rng, rows.shape)))
        return tuple(batches)

    def arrive(self, client: int, left: Left, taken: Carried) -> None:
        """Take over what a client left, if it is finite."""
        self.visits += 1
        floats = (value for value in taken if value.is_floating_point())
        if not all(bool(torch.isfinite(value).all()) for value in floats):
            self.dropped += 1
            return
        self.carried, self.optimizers[client] = taken, left.optimizer

    def state_dict(self) -> dict[str, Any]:
        """The network, the clients' optimisers and generators, and the counts."""
        return super().state_dict() | {"rngs": [rng.bit_generator.state for rng in self._rngs]}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Go on from there."""
        super().load_state_dict(state)
        for rng, value in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = value


def in_order(clients: int, rounds: int, order: str, rng: np.random.Generator) -> tuple[int, ...]:
    """Clients in the order of their visits.

    Args:
        clients: number of clients.
        rounds: number of times that the network goes around.
        order: "ascending" or "descending" by number, or "random", anew in each round.
        rng: generator of random orders; not secret.
    """
    order_of_visits: list[int] = []
    for _ in range(rounds):
        once = rng.permutation(clients) if order == "random" else np.arange(clients)
        order_of_visits += (once[::-1] if order == "descending" else once).tolist()
    return tuple(order_of_visits)
