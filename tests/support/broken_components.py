"""A plug-in file of components that break one promise each."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from uedp_bench.api import (
    Attack,
    Corpus,
    Estimate,
    Leakage,
    Metric,
    Params,
    Planted,
    PublishingMechanism,
    Source,
    SourceParams,
    TrainingMechanism,
    attacks,
    mechanisms,
    sources,
    tasks,
)
from uedp_bench.api.capabilities import RowScorer
from uedp_bench.api.events import (
    DiscretePair,
    Event,
    NonPrivate,
    PrivacyEvent,
    Promise,
    PureDP,
    events,
    loss_pairs,
    promises,
)
from uedp_bench.api.networks import Learner, Losses
from uedp_bench.components.registry import tasks as known_tasks
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
from uedp_bench.mechanisms.private_training.user_dp import UserDP

NOTHING = (PrivacyEvent(unit="user", event=NonPrivate(reason="nothing is hidden")),)
CALLS = [0]


@mechanisms.register
class OtherEvents(TrainingMechanism[Params]):
    """Reports other events than it planned."""

    name = "other-events"

    def plan(self, stats):
        return NOTHING

    def train(self, learner, corpus, run):
        return learner.module.eval(), ()


@mechanisms.register
class Shuffles(PublishingMechanism[Params]):
    """Keeps a state between runs, and changes what it is given."""

    name = "shuffles"
    rowwise = True

    def plan(self, stats):
        return NOTHING

    def publish(self, corpus, run):
        CALLS[0] += 1
        corpus.split[:] = np.roll(corpus.split, 1)
        texts = tuple(f"{text} {CALLS[0]}" for text in corpus.texts)
        return replace(corpus, texts=texts), NOTHING


@mechanisms.register
class KeepsWords(PublishingMechanism[Params]):
    """Keeps a word far more often than its epsilon allows."""

    name = "keeps-words"
    unit = "word"
    rowwise = True

    def plan(self, stats):
        return (PrivacyEvent(unit="word", adjacency="replace-one", event=PureDP(epsilon=1.0)),)

    def publish(self, corpus, run):
        rng, public = run.rng("keeps-words"), corpus.where("public")
        texts = [
            text if is_public else " ".join(
                word if rng.random() < 0.9 else "the" for word in text.split()
            )
            for text, is_public in zip(corpus.texts, public, strict=True)
        ]  # fmt: skip
        return corpus.with_texts(texts), self.plan(None)


@mechanisms.register
class HidesNothing(PublishingMechanism[Params]):
    """Publishes text as it is, at an epsilon of 0.1."""

    name = "hides-nothing"
    rowwise = True

    def plan(self, stats):
        return (PrivacyEvent(unit="record", event=PureDP(epsilon=0.1)),)

    def publish(self, corpus, run):
        return corpus, self.plan(None)


@mechanisms.register
class ReadsValid(UserDP):
    """Trains on rows of the split valid, too."""

    name = "reads-valid"

    def train(self, learner, corpus, run):
        everything = corpus.with_split(corpus.where("valid"), "train")
        learner.corpus = everything
        return super().train(learner, everything, run)


@events.register
class Bit(Event):
    """A bit that is flipped in one unit of four, and promises that it tells less."""

    kind: Literal["optimistic-bit"] = "optimistic-bit"


@promises.register(Bit)
def _promise(event, adjacency):
    return Promise(0.5, 1e-6)


@loss_pairs.register(Bit)
def _pair(event, neighbours):
    pair = DiscretePair([0.75, 0.25], [0.25, 0.75])
    return pair, pair


@mechanisms.register
class PromisesLess(Shuffles):
    """Emits an event whose promise is smaller than what its pair of distributions allows."""

    name = "promises-less"
    unit = "record"

    def plan(self, stats):
        return (PrivacyEvent(unit="record", event=Bit()),)


@mechanisms.register
class MissesTarget(UeDPGroup):
    """Plans half of the noise that its target takes."""

    name = "misses-target"

    def noise(self, stats):
        return super().noise(stats) / 2.0


class MutableParams(Params):
    rate: float = 0.5  # without a description or a range


@mechanisms.register
class SaysNothing(TrainingMechanism[MutableParams]):
    name = "says-nothing"
    Params = MutableParams
    unit = "user"

    def plan(self, stats):
        return ()

    def train(self, learner, corpus, run):
        return learner.module.eval(), ()


@attacks.register
class FindsNothing(Attack[Params]):
    """Says that nothing leaks, whatever it sees."""

    name = "finds-nothing"
    metrics = (Metric.share("auc", "AUC", "of nothing", "lower", no_leak=0.5),)
    needs: ClassVar[tuple[type, ...]] = (RowScorer,)

    def plant(self, corpus, rng):
        return corpus, Planted()

    def run(self, release, planted, corpus, run):
        return Leakage({"auc": Estimate(value=0.5, low=0.4, high=0.6)})


@attacks.register
class AccusesAll(Attack[Params]):
    """Says that everything leaks, and plants by a generator of its own."""

    name = "accuses-all"
    metrics = FindsNothing.metrics
    needs: ClassVar[tuple[type, ...]] = (RowScorer,)

    def plant(self, corpus, rng):
        CALLS[0] += 1
        texts = (f"planted {CALLS[0]}", *corpus.texts[1:])
        return replace(corpus, texts=texts), Planted()

    def run(self, release, planted, corpus, run):
        return Leakage({"auc": Estimate(value=1.0, low=0.99, high=1.0)})


NextWord = known_tasks.get("next-word")


class _Mixed(Learner):
    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def batch(self, rows, seeds):
        return self.inner.batch(rows, seeds)

    def losses(self, module, batch):
        losses = self.inner.losses(module, batch)
        return Losses(losses.nats - losses.nats.mean(), losses.targets)

    def release(self, module):
        return self.inner.release(module)


@tasks.register
class MixesRows(NextWord):  # type: ignore[misc, valid-type]
    """Centres the losses of a batch, and declares a metric that it does not give."""

    name = "mixes-rows"
    metrics = (*NextWord.metrics, Metric("unheard-of"))

    def stages(self, corpus, vocabulary, run):
        *before, last = super().stages(corpus, vocabulary, run)
        mixed = _Mixed(last)
        for name in ("module", "vocabulary", "role", "schedule", "corpus", "vectorised",
                     "row_size", "row_lengths"):  # fmt: skip
            setattr(mixed, name, getattr(last, name))
        return [*before, mixed]


class OtherEachTimeParams(SourceParams):
    rows: int = Field(default=20, ge=1, description="rows")


@sources.register
class OtherEachTime(Source[OtherEachTimeParams]):
    """Reads another corpus each time, with a label that has no name."""

    name = "other-each-time"
    needs_path = False
    Params = OtherEachTimeParams

    def read(self):
        CALLS[0] += 1
        rows = self.params.rows
        return Corpus(
            texts=tuple(f"word{CALLS[0]} number {row}" for row in range(rows)),
            groups={"user": np.arange(rows)},
            split=np.arange(rows) % 3,
            labels=np.full(rows, 2),
            label_names=("no", "yes"),
        )
