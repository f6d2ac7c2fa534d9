"""Plug-ins that note what the runner shows them, or fail in a chosen way."""

from __future__ import annotations

import errno
import math
import os
import sys
import time
from typing import Any, ClassVar, Literal

import numpy as np

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.components.component import Params
from uedp_bench.components.registry import attacks, mechanisms
from uedp_bench.contracts.capabilities import Scorer
from uedp_bench.contracts.leakage import Attack, Leakage, Planted
from uedp_bench.contracts.mechanism import PublishingMechanism, ServingMechanism, TrainingMechanism
from uedp_bench.contracts.release import Published, Release
from uedp_bench.contracts.results import Estimate
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError

UNPROTECTED = (PrivacyEvent(unit="user", event=NonPrivate(reason="a spy")),)


def splits_of(corpus: Corpus) -> list[str]:
    return [SPLITS[i] for i in np.unique(corpus.split)]


class SpyParams(Params):
    does: Literal[
        "train", "raise", "refuse", "exit", "wait", "stay-silent", "sys-exit", "abort", "interrupt",
        "no-exception", "hang", "full-disk", "print", "fork",
    ] = "train"  # fmt: skip
    seed: int | None = None  # the seed of a run that does it; None for all


class NoException(BaseException):
    pass


def end(does: str) -> None:
    """Ends the run, or its process, in one of many ways."""
    if does == "exit":
        os._exit(9)
    if does == "sys-exit" or (does == "fork" and os.fork() == 0):
        sys.exit(0)
    if does == "abort":
        os.abort()
    if does == "interrupt":
        raise KeyboardInterrupt
    if does == "no-exception":
        raise NoException("of a kind of its own")
    if does == "full-disk":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")
    if does == "print":
        sys.stdout.write("not JSON\n")
    if does == "hang":
        time.sleep(600)


@mechanisms.register
class SpyTraining(TrainingMechanism[SpyParams]):
    """Notes the splits and users that reach training."""

    name = "spy-training"
    Params = SpyParams

    def plan(self, stats):
        return UNPROTECTED

    def train(self, learner, corpus, run):
        does = self.params.does if self.params.seed in (None, run.seed) else "train"
        if does == "raise":
            raise RuntimeError("it broke\non purpose")
        if does == "refuse":
            raise InputError("the learning rate is too high")
        run.progress("train", 1, 2)
        end(does)
        if does == "wait":
            time.sleep(float(os.environ.get("SPY_SECONDS", "120")))
        trained = corpus.users[corpus.where("train")]
        run.note(trained_splits=splits_of(corpus), trained_users=np.unique(trained).tolist())
        run.note(threads=_threads())
        return learner.module.eval(), () if does == "stay-silent" else UNPROTECTED


def _threads() -> int:
    import torch

    return torch.get_num_threads()


@mechanisms.register
class SpyPublishing(PublishingMechanism[Params]):
    """Notes the splits and users that reach publishing; mixes rows, so that it says."""

    name = "spy-publishing"
    rowwise = False

    def plan(self, stats):
        return UNPROTECTED

    def publish(self, corpus, run):
        run.note(published_splits=splits_of(corpus), published_users=np.unique(corpus.users))
        return corpus, UNPROTECTED


class Mute(Release):
    view = "nothing"

    def save(self, folder):
        raise AssertionError("nothing to save")


@mechanisms.register
class Silence(ServingMechanism[Params]):
    """Serves a release that answers nothing."""

    name = "silence"

    def plan(self, stats):
        return ()

    def serve(self, release, run):
        served = Mute()
        served.events = release.events
        return served


class PlantedUsers(Planted):
    users: tuple[int, ...]


class HoldOutParams(Params):
    finds: Literal["number", "nan", "nan-detail", "reference"] = "number"


@attacks.register
class HoldOut(Attack[HoldOutParams]):
    """Holds ten users out, and notes what it is shown."""

    name = "hold-out"
    Params = HoldOutParams
    needs: ClassVar[tuple[type, ...]] = (Scorer,)
    holds_out = True
    planted_type = PlantedUsers

    def plant(self, corpus, rng):
        users = rng.choice(np.unique(corpus.users[corpus.where("train")]), 10, replace=False)
        moved = corpus.where("train") & np.isin(corpus.users, users)
        planted = PlantedUsers(users=tuple(int(user) for user in np.sort(users)))
        return corpus.with_split(moved, "held_out"), planted

    def run(self, release, planted, corpus, run):
        finds = self.params.finds
        details: dict[str, Any] = {"sizes": run.stats.users, "splits": splits_of(corpus)}
        if finds == "reference":
            mask = np.zeros(corpus.user_count, dtype=bool)
            mask[list(planted.users)] = True
            first, again = (run.retrain(mask, mechanism="none", seed=run.seed) for _ in range(2))
            texts = corpus.texts[:5]
            details["reference"] = [float(s.logp.sum()) for s in first.token_logprobs(texts)]
            details["again"] = [float(s.logp.sum()) for s in again.token_logprobs(texts)]
        if finds == "nan-detail":
            details["curve"] = [0.5, math.nan]
        value = math.nan if finds == "nan" else 0.5
        return Leakage({"advantage": Estimate(value=value)}, details)


@attacks.register
class NeedsPublished(Attack[Params]):
    """Applies to published text only."""

    name = "needs-published"
    needs: ClassVar[tuple[type, ...]] = (Published,)

    def plant(self, corpus, rng):
        return corpus, Planted()

    def run(self, release, planted, corpus, run):
        if not isinstance(release, Published):
            raise AssertionError("must not run against a model")
        return Leakage({}, {"published_splits": splits_of(release.published)})
