"""A mechanism whose parties talk, and attacks that listen to one of them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch

from uedp_bench.api import (
    Attack,
    Estimate,
    Leakage,
    Params,
    Planted,
    TrainingMechanism,
    attacks,
    mechanisms,
)
from uedp_bench.api.capabilities import Size, Transcript
from uedp_bench.api.events import NonPrivate, PrivacyEvent

ROUNDS = 3
CLIENTS = 2
EVENTS = (PrivacyEvent(unit="user", event=NonPrivate(reason="clients send their weights")),)


class TalkParams(Params):
    talks: bool = True


@mechanisms.register
class Travelling(TrainingMechanism[TalkParams]):
    """The model travels from client to client; each adds one to the first weight."""

    name = "travelling"
    Params = TalkParams

    def plan(self, stats):
        return EVENTS

    def train(self, learner, corpus, run):
        weight = next(iter(learner.module.parameters()))
        for step in range(ROUNDS):
            for client in range(CLIENTS):
                party = f"client {client}"
                with torch.no_grad():
                    weight.view(-1)[0] += 1.0
                if not self.params.talks:
                    continue
                # The same array goes on changing: what is kept must be a copy.
                run.send("weights", weight, sender=party, receiver="server", round=step)
                if not run.keeps_payload(step):
                    run.send("done", Size((), 1), sender="server", receiver=party, round=step)
        return learner.module.eval(), EVENTS


class ListenParams(Params):
    rounds: int = 2


@attacks.register
class Listener(Attack[ListenParams]):
    """Reads how the first weight grew, as the server or a client saw it."""

    name = "listener"
    Params = ListenParams
    needs: ClassVar[tuple[type, ...]] = (Transcript,)

    def payload_rounds(self):
        return self.params.rounds

    def plant(self, corpus, rng):
        return corpus, Planted()

    def run(self, release, planted, corpus, run):
        run.send("late", np.zeros(1000), sender="attacker", receiver="server", round=0)
        seen = list(release.transcript.seen_by("server"))
        weights = [m for m in seen if m.name == "weights"]
        read = [float(m.payload.reshape(-1)[0]) for m in weights if m.payload is not None]
        mine = [m.sender for m in release.transcript.seen_by("client 1") if m.name == "weights"]
        details = {
            "parties": list(release.transcript.parties),
            "steps": np.diff(read).tolist(),
            "rounds": [m.round for m in weights],
            "shapes": sorted({m.shape for m in weights}),
            "client": sorted(set(mine)),
        }
        return Leakage({"payloads": Estimate(value=float(len(read)))}, details)
