"""A mechanism whose first attempt waits to be lost with its machine."""

from __future__ import annotations

import os
import time
from pathlib import Path

import torch

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.components.component import Params
from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.mechanism import TrainingMechanism

EVENTS = (PrivacyEvent(unit="user", event=NonPrivate(reason="a test")),)


class LostOnceParams(Params):
    folder: str


@mechanisms.register
class LostOnce(TrainingMechanism[LostOnceParams]):
    """Four steps; the first attempt says after two of them which process it is, and waits."""

    name = "lost-once"
    Params = LostOnceParams

    def plan(self, stats):
        return EVENTS

    def train(self, learner, corpus, run):
        mark = Path(self.params.folder) / f"seed{run.seed}"
        sums = torch.zeros(1)
        for step in run.checkpointed("steps", 4, sums=sums):
            if step == 2 and not mark.exists():
                mark.write_text(str(os.getppid()))
                time.sleep(120)
            sums += step
            run.progress("train", step, 4)
        run.note(sums=float(sums))
        return learner.module.eval(), EVENTS
