"""One run: plant, protect, score, attack, account. It reads like the picture in the docs."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from uedp_bench import registry
from uedp_bench.accounting.consistency import check_bounds
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import check_plan, claimed, proven, proven_at
from uedp_bench.attack import Attack, Planted
from uedp_bench.corpus import BoolArray, Corpus, concatenate
from uedp_bench.errors import CapabilityError, InputError, PrivacyError
from uedp_bench.files.output_folder import disk_is_full, sync_files
from uedp_bench.harness.failures import failed, reason_of
from uedp_bench.harness.pipeline import Pipeline
from uedp_bench.harness.provenance import PeakMemory, provenance
from uedp_bench.harness.public_sizes import check_units
from uedp_bench.harness.publishing import check_carried, not_carried, publish, publish_all
from uedp_bench.harness.retraining import Retraining
from uedp_bench.harness.saved_release import check_saved
from uedp_bench.harness.simulation import counts_sizes, marked
from uedp_bench.harness.spec import identity_of, identity_parts, tried_runs
from uedp_bench.harness.stored import Keeper
from uedp_bench.harness.trials import trials_of
from uedp_bench.harness.utility import before_private, judged, public_only
from uedp_bench.mechanism import CorpusStats, Events, TrainingMechanism
from uedp_bench.model import Vocabulary
from uedp_bench.randomness.streams import scope_of
from uedp_bench.release import (
    Classifier,
    Published,
    PublishedOnly,
    Release,
    capabilities,
)
from uedp_bench.results import (
    ComponentSpec,
    Cost,
    LowerBound,
    Result,
    RunSpec,
    SkippedAttack,
    write_result,
)
from uedp_bench.run import Progress, Run, Speed, no_progress
from uedp_bench.task import Task


@dataclass(frozen=True)
class Settings:
    """How to run, never what: nothing here enters a run's identity.

    Attributes:
        out: folder of results; a run writes into `out/<id>/`.
        device: "auto", "cpu", "cuda" or any torch device.
        failures: how often the run has failed before, other than on bad input.
        keep_release: what was released is kept beside the result.
    """

    out: Path
    device: str = "auto"
    speed: Speed = field(default_factory=Speed)
    progress: Progress = no_progress
    failures: int = 0
    keep_release: bool = True


@dataclass(frozen=True)
class Parts:
    """The live components of a run."""

    task: Task[Any]
    pipeline: Pipeline
    attacks: tuple[Attack[Any], ...]


@lru_cache(maxsize=2)
def load_corpus(source: str) -> Corpus:
    """The corpus of a source given as the JSON of its `ComponentSpec` (kept for the next run)."""
    ref = ComponentSpec.model_validate_json(source)
    corpus: Corpus = registry.sources.create(ref.name, ref.params).load()
    return corpus


def build(spec: RunSpec) -> Parts:
    """The components of a run.

    Raises:
        InputError: if names or parameters are wrong, the model is none that the task learns, or
            an attack is named twice.
    """
    model = registry.models.create(spec.model.name, spec.model.params)
    task_class = registry.tasks.get(spec.task.name)
    if task_class.models is not None and not isinstance(model, task_class.models):
        raise CapabilityError(
            f"the task {spec.task.name} learns a {task_class.models.__name__}, and the model "
            f"{spec.model.name} is none"
        )
    task = task_class.create(spec.task.params)
    task.model = model
    pipeline = _pipeline(spec)
    check_carried(pipeline, task)
    attacks = tuple(registry.attacks.create(ref.name, ref.params) for ref in spec.attacks)
    names = [attack.name for attack in attacks]
    if len(set(names)) < len(names):
        raise InputError(
            f"attacks {', '.join(names)}: one run cannot hold an attack twice; give its "
            "parameters as lists to compare several"
        )
    return Parts(task, pipeline, attacks)


def _pipeline(spec: RunSpec) -> Pipeline:
    mechanisms = [registry.mechanisms.create(ref.name, ref.params) for ref in spec.mechanism]
    return Pipeline.build(mechanisms, registry.mechanisms.create("noiseless"))


def plant(
    attacks: tuple[Attack[Any], ...], corpus: Corpus, seed: int, stats: CorpusStats
) -> tuple[Corpus, dict[str, Planted]]:
    """The corpus with everything planted, nothing withdrawn yet.

    Attacks that hold users out come first, then those that replace users.
    """
    planted: dict[str, Planted] = {}
    for attack in sorted(attacks, key=lambda a: (not a.holds_out, not a.replaces_users)):
        rng = Run(seed, stats).shared("plant", attack.name)
        corpus, planted[attack.name] = attack.plant(corpus, rng)
    return corpus, planted


def withdrawn(planted: dict[str, Planted], rows: int) -> BoolArray:
    """(rows,) what audits withdraw once public sizes are counted."""
    out = np.zeros(rows, dtype=bool)
    for value in planted.values():
        out[list(value.withdrawn)] = True
    return out


def public_sizes(spec: RunSpec, corpus: Corpus) -> CorpusStats:
    """Sizes of the training split: documented by the source, else counted (and not public).

    Users held out are a public choice of the experiment and are taken off. A number that a
    mechanism declares is used as it is: it is that of the users who are left after every cut.
    """
    source = registry.sources.create(spec.source.name, spec.source.params)
    documented: CorpusStats | None = None if source.params.selects else source.documented()
    held_out = len(np.unique(corpus.users[corpus.where("held_out")]))
    if documented is not None:
        return CorpusStats(
            documented.users - held_out, documented.rows, documented.sensitive_rows,
            documented.entities, documented.public,
        )  # fmt: skip
    train = corpus.where("train")
    mentioned = corpus.entities.entity[train[corpus.entities.row]]
    return CorpusStats(
        users=len(np.unique(corpus.users[train])),
        rows=int(train.sum()),
        sensitive_rows=int((train & corpus.sensitive).sum()),
        entities=len(np.unique(mentioned)),
        public=False,
    )


def protect(
    parts: Parts, corpus: Corpus, run: Run, vocabulary: Vocabulary | None = None
) -> tuple[Release, Vocabulary | None]:
    """Vocabulary, publishing, training, serving: from a planted corpus to the release."""
    from uedp_bench.training.stages import train_stage

    pipeline = parts.pipeline
    chosen: Events = ()
    visible = corpus.only("train", "valid", "public")
    if vocabulary is None and pipeline.vocabulary is not None:
        stage = pipeline.stage_of(pipeline.vocabulary)
        vocabulary, chosen = pipeline.vocabulary.vocabulary(visible, run.within(stage))
    visible, published = publish_all(pipeline, visible, run)
    if vocabulary is None:
        vocabulary = parts.task.vocabulary(visible)
    trained: Events = ()
    release: Release | None = None
    module = None
    for learner in parts.task.stages(visible, vocabulary, run):
        if module is not None:
            learner.module.load_state_dict(module.state_dict())
        if learner.plan is not None:
            run.pretraining = {"rows": len(learner.corpus), **learner.plan}
        else:
            run.public_only = before_private(parts.task, learner, run)
        inner = run.within(pipeline.stage_of(pipeline.trainer))
        module, events = train_stage(learner, pipeline.trainer, inner)
        trained += events
        release = learner.release(module)
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


def lacks(needs: tuple[type, ...], release: Release) -> str | None:
    """What a release lacks for those who need any one of these capabilities; None for nothing."""
    if any(isinstance(release, need) for need in needs):
        return None
    names = " or ".join(need.__name__ for need in needs)
    offers = ", ".join(capabilities(release)) or "nothing"
    return f"needs a release that is a {names}; this one offers {offers}"


def withheld(needs: tuple[type, ...], release: object) -> str | None:
    """Why attacks on classes cannot ask for those of rows that they choose; None where they can.

    A classifier takes vectors that only the mechanism makes, and none of them were released.
    """
    asked = [need for need in needs if isinstance(release, need)]
    if isinstance(release, Published) or not getattr(release, "takes_vectors", False):
        return None
    if asked != [Classifier]:
        return None
    return "the classifier takes vectors that only the mechanism makes, and none were released"


def attack_all(
    parts: Parts, release: Release, planted: dict[str, Planted], corpus: Corpus, run: Run
) -> dict[str, Any]:
    """Leakage, details, lower bounds and skipped attacks, as fields of a result."""
    leakage: dict[str, Any] = {}
    details: dict[str, Any] = {}
    bounds: list[LowerBound] = []
    skipped: list[SkippedAttack] = []
    for number, attack in enumerate(parts.attacks):
        run.progress(f"attack {attack.name}", number, len(parts.attacks))
        reason = lacks(attack.needs, release) or withheld(attack.needs, release)
        reason = reason or not_carried(attack, parts.pipeline)
        if reason is not None:
            skipped.append(SkippedAttack(name=attack.name, reason=reason))
            continue
        inner = run.within(f"attack {attack.name}")
        found = attack.run(release, planted[attack.name], corpus, inner)
        leakage[attack.name], details[attack.name] = found.metrics, found.details
        bounds += [b.model_copy(update={"attack": attack.name}) for b in found.lower_bounds]
    return {"leakage": leakage, "details": details, "lower_bounds": tuple(bounds),
            "skipped_attacks": tuple(skipped)}  # fmt: skip


def guarantees(
    parts: Parts, release: Release, vocabulary: Vocabulary | None, spec: RunSpec, stats: CorpusStats
) -> tuple[Guarantee, ...]:
    """Claimed from parameters; proven from what happened, unless a condition is broken."""
    source = registry.sources.create(spec.source.name, spec.source.params)
    refusals = [*parts.pipeline.refusals(stats), *source.refusals()]
    paid = parts.pipeline.only_processes(stats)
    if vocabulary is not None and vocabulary.private and release.events and not paid:
        refusals.append(f"the vocabulary comes from private text ({vocabulary.origin})")
    planned = parts.pipeline.plan(stats)
    if isinstance(release, PublishedOnly):  # the task had nothing for the trainer to train
        training = parts.pipeline.stage_of(parts.pipeline.trainer)
        planned = tuple(event for event in planned if event.stage != training)
    try:
        check_plan(planned, release.events)
    except PrivacyError as error:
        refusals.append(str(error))
    # Where nothing was reported, what was planned says for which unit the proof is refused.
    return (
        *claimed(parts.pipeline.claims(stats), spec.delta),
        *proven(release.events or planned, delta=spec.delta, refusals=refusals,
                source=spec.noise_source),
    )  # fmt: skip


def select(
    spec: RunSpec, given: tuple[Guarantee, ...], stats: CorpusStats
) -> tuple[tuple[Guarantee, ...], dict[str, Any]]:
    """Guarantees with the cost of choosing hyper-parameters, and the record of the choice."""
    if spec.selection is None:
        return given, {}
    from uedp_bench.accounting.selection import charge

    pipelines = [_pipeline(tried) for tried in tried_runs(spec)]
    return charge(given, trials_of(spec.selection, pipelines, stats))


class _Clock:
    """Seconds by phase, and which phase is running."""

    def __init__(self, progress: Progress) -> None:
        self.phase, self._progress = "load", progress
        self.seconds: dict[str, float] = {}
        progress("load", 0, 1)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        self.phase, start = phase, time.perf_counter()
        self._progress(phase, 0, 1)
        yield
        self.seconds[phase] = self.seconds.get(phase, 0.0) + time.perf_counter() - start


def execute(spec: RunSpec, settings: Settings, fingerprint: str = "") -> Result:
    """Runs a spec and writes its result; an error becomes a failed result, which is written too.

    Args:
        spec: what to run.
        settings: how.
        fingerprint: that the corpus must have; empty for any.

    Raises:
        OSError: if the disk is full, for then no further run can succeed either, or the result
            cannot be written.
    """
    clock = _Clock(settings.progress)
    # A run without a corpus has no fingerprint: its identity is that of its spec alone.
    parts = identity_parts(spec, fingerprint)
    try:
        corpus = load_corpus(spec.source.model_dump_json())
        if fingerprint and corpus.fingerprint != fingerprint:
            raise InputError(f"the data of {spec.source.name} changed after the runs were planned")
        parts = identity_parts(spec, corpus.fingerprint)
        result = _execute(spec, settings, corpus, (parts, clock, PeakMemory()))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() in a component is no end of the benchmark
        if disk_is_full(error, settings.out):
            raise OSError(errno.ENOSPC, "no space left on device", str(settings.out)) from error
        result = failed(spec, parts, reason_of(error, clock.phase, settings.failures))
    folder = settings.out / result.id
    folder.mkdir(parents=True, exist_ok=True)
    sync_files(folder)  # the result is written last, and says that all else is there
    write_result(result, folder / "result.json")
    return result


def _execute(
    spec: RunSpec,
    settings: Settings,
    corpus: Corpus,
    around: tuple[dict[str, Any], _Clock, PeakMemory],
) -> Result:
    from uedp_bench.training.device import choose_device
    from uedp_bench.training.public_stage import PublicStages

    identity, clock, memory = around
    identifier, group = identity_of(identity)
    parts = build(spec)
    tried_runs(spec)  # a selection that does not fit the run fails before it trains
    memory.reset(device := choose_device(settings.device, settings.speed.threads))
    with clock("plant"):
        source = corpus
        corpus, planted = plant(parts.attacks, source, spec.seed, public_sizes(spec, source))
    injected = tuple(user for value in planted.values() for user in value.injected)
    stats, out = public_sizes(spec, corpus), withdrawn(planted, len(corpus))
    corpus = corpus.with_split(out, "held_out")
    run = Run(spec.seed, stats, device, settings.speed, injected, spec.delta,
              progress=settings.progress, scope=scope_of(identity, corpus.fingerprint, injected),
              noise_source=spec.noise_source)  # fmt: skip
    run.public_stages = stages = PublicStages.of(spec, settings.out / "cache")
    check_units(parts.pipeline.trainer, corpus, run)
    with clock("train"):
        release, vocabulary = protect(parts, corpus, run)
    clock.seconds["train"] += stages.saved_seconds  # as if it had been alone
    there = corpus.take(np.flatnonzero(~out)) if out.any() else corpus
    retraining = Retraining(spec, parts, there, vocabulary, settings.out / "cache")
    run.retrainer = retraining.bind(run)
    keeper = Keeper(
        settings.out / identifier, settings.keep_release, seeded=spec.noise_source == "seed"
    )
    if (reason := lacks(parts.task.needs, release)) is not None:
        raise CapabilityError(f"the task {parts.task.name} {reason}")
    with clock("save"):
        keeper.save(release, planted)
        if keeper.keeps_release:
            check_saved(parts.task, keeper.folder / "release", release, corpus)
    with clock("score"):
        scored = _as_scored(parts, release, corpus, run)
        utility = parts.task.score(release, scored)
        floor = public_only(parts.task, parts.pipeline, scored, run)
    with clock("attack"):
        attacked = attack_all(parts, release, planted, corpus, run)
    with clock("account"):
        guaranteed = guarantees(parts, release, vocabulary, spec, run.stats)
        guaranteed = check_bounds(
            attacked["lower_bounds"],
            guaranteed,
            partial(proven_at, release.events),
            partial(claimed, parts.pipeline.claims(run.stats)),
        )
        guaranteed, selection = select(spec, guaranteed, run.stats)
        references = int(run.counts.get("reference_models", 0))
        stored = keeper.stored(
            release, vocabulary, guaranteed, attacked["details"], source, references
        )
    counted = counts_sizes(parts.pipeline, run.stats)
    seconds = {f"{phase}_seconds": round(s, 3) for phase, s in clock.seconds.items()}
    result = Result(
        id=identifier,
        group=group,
        status="finished",
        spec=spec,
        utility=utility,
        **judged(parts.task, utility, floor),
        guarantees=guaranteed,
        events=release.events,
        pretraining=run.pretraining,
        series=run.series,
        diagnostics=run.diagnostics,
        selection=selection,
        stored=stored,
        cost=Cost(**seconds, **run.counts, peak_memory_mb=memory.peak_mb(device), device=device),
        provenance=provenance(identity, source, corpus)
        | {"vocabulary": _describe(vocabulary), "release": release.view},
        **attacked,
    )
    return marked(result, type(parts.task), counted_sizes=counted)


def _as_scored(parts: Parts, release: Release, corpus: Corpus, run: Run) -> Corpus:
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


def _describe(vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    if vocabulary is None:
        return None
    return {"size": vocabulary.size, "fingerprint": vocabulary.fingerprint,
            "origin": vocabulary.origin, "private": vocabulary.private}  # fmt: skip
