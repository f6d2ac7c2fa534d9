"""From a planted corpus to the release: vocabulary, publishing, training, serving."""

from __future__ import annotations

import numpy as np

from uedp_bench.corpus import Corpus, concatenate
from uedp_bench.errors import CapabilityError
from uedp_bench.harness.components import Parts
from uedp_bench.harness.publishing import publish, publish_all
from uedp_bench.mechanism import Events, TrainingMechanism
from uedp_bench.model import Vocabulary
from uedp_bench.release import PublishedOnly, Release
from uedp_bench.run import Run


def protect(
    parts: Parts,
    corpus: Corpus,
    run: Run,
    vocabulary: Vocabulary | None = None,
    *,
    keep_floor: bool = True,
) -> tuple[Release, Vocabulary | None]:
    """Vocabulary, publishing, training, serving: from a planted corpus to the release.

    Args:
        parts: the components.
        corpus: as it was planted.
        run: around them.
        vocabulary: chosen before; by default the pipeline or the task makes one.
        keep_floor: see `train_stages`.
    """
    from uedp_bench.harness.training_stages import train_stages

    pipeline = parts.pipeline
    chosen: Events = ()
    visible = corpus.only("train", "valid", "public")
    if vocabulary is None and pipeline.vocabulary is not None:
        stage = pipeline.stage_of(pipeline.vocabulary)
        vocabulary, chosen = pipeline.vocabulary.vocabulary(visible, run.within(stage))
    visible, published = publish_all(pipeline, visible, run)
    if vocabulary is None:
        vocabulary = parts.task.vocabulary(visible)
    release, trained = train_stages(parts, visible, vocabulary, run, keep_floor=keep_floor)
    if release is None:
        release = _published_only(parts)
    release.events = pipeline.released(chosen, published, trained)
    for server in pipeline.servers:
        events = release.events
        release = server.serve(release, run.within(pipeline.stage_of(server)))
        if isinstance(server, TrainingMechanism):  # emitted when it trained
            release.events = events
        else:
            release.events = pipeline.staged(server, release.events)
    if pipeline.shows_published:
        release.published = visible
        channels = [part.word_channel(run) for part in pipeline.publishers]
        if len(channels) == 1 and channels[0] is not None:
            release.word_channel = channels[0]
    elif any(part.at_inference for part in pipeline.publishers):
        release.inputs = visible
    return release, vocabulary


def _published_only(parts: Parts) -> Release:
    """The release of a task that trains nothing: what was published."""
    if not parts.pipeline.publishers:
        raise CapabilityError(
            f"the task {parts.task.name} trains nothing and needs a mechanism that publishes"
        )
    return PublishedOnly()


def as_scored(parts: Parts, release: Release, corpus: Corpus, run: Run) -> Corpus:
    """Test text is the original, except for mechanisms that perturb inputs at inference.

    Their test rows are published as well. All else stays original, unless it became vectors.
    """
    publishers = [part for part in parts.pipeline.publishers if part.at_inference]
    if not publishers:
        return corpus
    # Public rows are there for what mechanisms make of them; they were published before.
    test = corpus.only("test", "public")
    for publisher in publishers:
        stage = parts.pipeline.stage_of(publisher)
        test, _ = publish(publisher, test, run.within(stage))
    test = test.only("test")
    if parts.pipeline.shows_published:
        shown = release.published = concatenate(release.published, test)
    else:
        shown = release.inputs = concatenate(release.inputs, test)
    if parts.task.scores_original:
        return corpus
    if test.vectors is not None:
        return shown
    return concatenate(corpus.take(np.flatnonzero(~corpus.where("test"))), test)
