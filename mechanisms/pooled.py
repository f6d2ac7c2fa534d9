"""Clients give their text to a trusted operator, who trains on all of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from uedp_bench.api import CorpusStats, Events
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.api.text import clients_of
from uedp_bench.corpus import some_texts
from uedp_bench.mechanisms.noiseless import Noiseless

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner


_READ = "clients gave their text to the operator, who read it"
_EVENTS = (PrivacyEvent(unit="user", event=NonPrivate(reason=_READ)),)


class Pooled(Noiseless):
    """The scenario federated/central: the operator reads every row, and trains as `noiseless` does.

    Text that was given away is protected from nobody who has it: epsilon is infinite for records,
    users and clients alike.
    """

    name = "pooled"
    version = 3
    source = "Hathurusinghe, Nejadgholi, Bolic 2021, section 5"
    shows: ClassVar[str] = "all training text, seen by the operator"

    def plan(self, stats: CorpusStats) -> Events:
        """The operator reads private text."""
        return _EVENTS

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Every client sends its text once; then the operator trains."""
        _send_text(corpus, run)
        module, _ = super().train(learner, corpus, run)
        return module, _EVENTS


def _send_text(corpus: Corpus, run: Run) -> None:
    """Every client gives its rows to the server, as text."""
    from uedp_bench.mechanisms._visits import AsRead

    dealt, train = clients_of(corpus), corpus.where("train")
    for client in np.unique(dealt[train]).tolist():
        texts = some_texts(corpus.texts, np.flatnonzero(train & (dealt == client)))
        size = sum(len(text.encode()) for text in texts)
        run.send(
            "text", AsRead(np.array(texts), size), sender=f"client {client}", receiver="server",
            round=0,
        )  # fmt: skip
