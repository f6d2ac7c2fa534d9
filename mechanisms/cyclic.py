"""The model travels from client to client, and each trains it on its own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from uedp_bench.api import CorpusStats, Events, TrainingMechanism
from uedp_bench.api.text import clients_of
from uedp_bench.mechanisms.noiseless import TRAINED_WITHOUT_NOISE, MinibatchParams

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner


class CyclicParams(MinibatchParams):
    """Parameters of training on one client after the other."""

    epochs: int = Field(default=10, ge=1, description="times that the model goes around")
    local_epochs: int = Field(
        default=1, ge=1, description="passes over a client's rows at each visit"
    )
    order: Literal["ascending", "descending", "random"] = Field(
        default="ascending",
        description="clients go in this order of their numbers in every round; random: in another "
        "one each time",
    )
    compression: Literal["none", "fp16", "int8"] = Field(
        default="none",
        description="how weights are rounded on every way: fp16, half precision; int8, 8 bits and "
        "a scale for each tensor",
    )


class Cyclic(TrainingMechanism[CyclicParams]):
    """The scenario federated/remote: no averaging, the next client goes on from the last one.

    It promises nothing: the operator, through whom the model goes, sees the work of each client.
    """

    name = "cyclic"
    version = 2
    source = "Hathurusinghe, Nejadgholi, Bolic 2021, section 5"
    shows: ClassVar[str] = "weights after each client, seen by the operator and the next client"
    Params = CyclicParams

    def plan(self, stats: CorpusStats) -> Events:
        """Private text is used without protection."""
        return TRAINED_WITHOUT_NOISE

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Trains on the rows of one client after the other."""
        from uedp_bench.api.networks import Schedule
        from uedp_bench.mechanisms._visits import Visits, in_order, train_visits

        p, dealt = self.params, clients_of(corpus)
        rows = np.flatnonzero(corpus.where("train"))
        clients = max(len(run.stats.clients), int(dealt[rows].max(initial=-1)) + 1)
        rng = run.shared(self.name, "order")
        visits = Visits(
            rows=tuple(rows[dealt[rows] == client] for client in range(clients)),
            order=in_order(clients, p.epochs, p.order, rng),
            schedule=Schedule(
                epochs=p.local_epochs,
                batch_size=p.batch_size,
                learning_rate=p.learning_rate,
                weight_decay=p.weight_decay,
                optimizer=p.optimizer,
                momentum=p.momentum,
            ),
            compression=p.compression,
        )
        return train_visits(visits, learner, run), TRAINED_WITHOUT_NOISE
