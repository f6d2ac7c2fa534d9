"""From a planted corpus to the release: vocabulary, publishing, training, serving."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.mechanism import Events, TrainingMechanism, VocabularyMechanism
from uedp_bench.contracts.release import PublishedOnly, Release, protected_rows
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.task import WordCounts
from uedp_bench.corpus import Corpus, concatenate
from uedp_bench.errors import CapabilityError
from uedp_bench.one_run.components import Components
from uedp_bench.one_run.pairing import lacks
from uedp_bench.one_run.pipeline import Pipeline
from uedp_bench.one_run.publishing import publish, publish_all, wanted
from uedp_bench.one_run.training_stages import TrainedStages, train_stages


@dataclass(frozen=True)
class Protected:
    """Release that leaves the protected side, with its vocabulary and training.

    Attributes:
        release: release as the adversary meets it.
        vocabulary: vocabulary of the release.
        trained: trained stages of the task.
    """

    release: Release
    vocabulary: Vocabulary | None
    trained: TrainedStages

    def seen_as(self, release: Release) -> Protected:
        """Copy as an adversary meets it, without the models that nobody needs any more."""
        return replace(
            self, release=release, trained=self.trained._replace(release=None, floor=None)
        )


def protect(
    parts: Components,
    corpus: Corpus,
    run: Run,
    vocabulary: Vocabulary | None = None,
    *,
    keep_floor: bool = True,
) -> Protected:
    """Vocabulary, publishing, training, serving: from a planted corpus to the release.

    Args:
        parts: the components.
        corpus: planted corpus.
        run: around them.
        vocabulary: chosen before; by default the pipeline or the task makes one.
        keep_floor: see `train_stages`.

    Raises:
        CapabilityError: if the mechanisms make nothing that the task can score.
    """
    pipeline = parts.pipeline
    chosen: Events = ()
    visible = corpus.only("train", "valid", "public")
    words: WordCounts | None = None
    if vocabulary is None and pipeline.vocabulary is not None:
        words, chosen = _chosen(parts, pipeline.vocabulary, visible, run)
    visible, published = publish_all(pipeline, visible, run, parts.task)
    if vocabulary is None:
        task = parts.task
        vocabulary = task.vocabulary(visible) if words is None else task.vocabulary(visible, words)
    trained = train_stages(parts, visible, vocabulary, run, keep_floor=keep_floor)
    release = trained.release or _published_only(parts)
    events = pipeline.released(chosen, published, trained.events)
    release = _served(pipeline, release.showing(events=events), run)
    release = release.showing(**_shown(pipeline, visible, run))
    if (reason := lacks(parts.task.needs, release)) is not None:
        raise CapabilityError(f"the task {parts.task.name} {reason}")
    return Protected(release, vocabulary, trained)


def _chosen(
    parts: Components, mechanism: VocabularyMechanism[Any], visible: Corpus, run: Run
) -> tuple[WordCounts, Events]:
    """Words that a mechanism chooses, and the privacy events of choosing them."""
    inner = run.within(parts.pipeline.stage_of(mechanism))
    if not mechanism.plan(inner.stats):  # nothing is charged, so nothing private is looked at
        visible = visible.only("public")
    return mechanism.choose(visible, parts.task.words(visible), inner)


def _served(pipeline: Pipeline, release: Release, run: Run) -> Release:
    """The release as its users see it, after every mechanism at inference."""
    for server in pipeline.servers:
        before = release.events
        release = server.serve(release, run.within(pipeline.stage_of(server)))
        # A server that trained for itself emitted everything then.
        own = isinstance(server, TrainingMechanism)
        release = release.showing(events=before if own else pipeline.staged(server, release.events))
    return release


def _shown(pipeline: Pipeline, visible: Corpus, run: Run) -> dict[str, Any]:
    """Attributes of the release that show what publishers published."""
    if pipeline.shows_published:
        shown: dict[str, Any] = {"published": visible}
        channels = [part.word_channel(run) for part in pipeline.publishers]
        if len(channels) == 1 and channels[0] is not None:
            shown["word_channel"] = channels[0]
        # Only the first publisher reads the text that people wrote.
        if (detector := pipeline.publishers[0].entity_detector()) is not None:
            shown["entity_detector"] = detector
        return shown
    if any(part.at_inference for part in pipeline.publishers):
        return {"inputs": visible}
    return {}


def _published_only(parts: Components) -> Release:
    """Release of a task that trains nothing: the published corpus."""
    if not parts.pipeline.publishers:
        raise CapabilityError(
            f"the task {parts.task.name} trains nothing and needs a mechanism that publishes"
        )
    return PublishedOnly()


def with_inputs(
    parts: Components, release: Release, corpus: Corpus, run: Run
) -> tuple[Release, Corpus]:
    """The release as it is asked about test rows, and these rows.

    Test text is the original, except for mechanisms that perturb inputs at inference: their test
    rows are published as well. All else stays original, unless it became vectors.
    """
    pipeline = parts.pipeline
    publishers = [part for part in pipeline.publishers if part.at_inference]
    if not publishers:
        return release, corpus
    # Public rows are there for what mechanisms make of them; they were published before.
    test = corpus.only("test", "public")
    for publisher in publishers:
        within = run.within(pipeline.stage_of(publisher))
        test, _ = publish(publisher, test, within, wanted(pipeline, publisher, parts.task))
    test = test.only("test")
    trained_on = protected_rows(release)
    if trained_on is None:
        raise CapabilityError("the release shows no rows, though a mechanism perturbs its inputs")
    shown = concatenate(trained_on, test)
    release = release.showing(**{"published" if pipeline.shows_published else "inputs": shown})
    if parts.task.scores_original:
        return release, corpus
    if test.vectors is not None:
        return release, shown
    return release, concatenate(corpus.take(np.flatnonzero(~corpus.where("test"))), test)
