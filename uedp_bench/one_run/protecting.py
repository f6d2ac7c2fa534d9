"""From a planted corpus to the release: of a run, and again for models that attacks ask for."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from filelock import FileLock

from uedp_bench.components import registry
from uedp_bench.contracts.capabilities import Vocabulary, capabilities
from uedp_bench.contracts.mechanism import Events, TrainingMechanism, VocabularyMechanism
from uedp_bench.contracts.release import PublishedOnly, Release
from uedp_bench.contracts.results import ComponentSpec, RunSpec
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.task import WordCounts
from uedp_bench.corpus import SPLITS, BoolArray, Corpus
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.io.folders import private_folder, write_json
from uedp_bench.io.sealed_files import DamagedFileError
from uedp_bench.one_run.components import Components, spec_of
from uedp_bench.one_run.pipeline import Pipeline
from uedp_bench.one_run.planting import expected
from uedp_bench.one_run.preparing import Prepared
from uedp_bench.one_run.private_data import load_release, save_release
from uedp_bench.one_run.publishing import publish_all
from uedp_bench.one_run.training_stages import TrainedStages, train_stages
from uedp_bench.spec.identity import component_identity


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
    if trained.release is None and not pipeline.publishers:
        raise CapabilityError(
            f"the task {parts.task.name} trains nothing and needs a mechanism that publishes"
        )
    release = trained.release or PublishedOnly()
    events = pipeline.released(chosen, published, trained.events)
    release = _served(pipeline, release.showing(events=events), run)
    release = release.showing(**_shown(pipeline, visible, run))
    if (reason := lacks(parts.task.needs, release)) is not None:
        raise CapabilityError(f"the task {parts.task.name} {reason}")
    return Protected(release, vocabulary, trained)


def lacks(needs: tuple[type, ...], release: Release) -> str | None:
    """A sentence if a release has none of these capabilities; None if it has one."""
    if any(isinstance(release, need) for need in needs):
        return None
    names = " or ".join(need.__name__ for need in needs)
    offers = ", ".join(capabilities(release)) or "nothing"
    return f"needs a release that is a {names}; this one offers {offers}"


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


@dataclass(frozen=True)
class Retraining:
    """Trains releases on chosen users for one run.

    Attributes:
        ready: the run.
        vocabulary: vocabulary of the release under attack, so that scores compare token by token.
        base: the model before any private row; None where there is none.
    """

    ready: Prepared
    vocabulary: Vocabulary | None
    base: Release | None = None

    def bound(self) -> Run:
        """The run that attacks may ask for models; of training elsewhere the base alone."""
        if self.ready.parts.pipeline.elsewhere is not None:
            return self.ready.run.retraining(None, self.base)
        return self.ready.run.retraining(self._retrain, self.base)

    def _retrain(
        self,
        users: BoolArray,
        *,
        mechanism: Literal["same", "none"],
        seed: int,
        public_seed: int | None = None,
        splits: tuple[str, ...] = SPLITS,
    ) -> Release:
        """The function behind `Run.retrain`."""
        chosen = self._chosen(users, splits)
        seeds = (seed, seed if public_seed is None else public_seed)
        folder = self.ready.cache / self._key(chosen, mechanism, seeds)
        private_folder(folder.parent)  # these models are trained on private rows
        with FileLock(f"{folder}.lock"):
            kept = self._kept(folder)
            if kept is None:
                self._train(chosen, mechanism, seeds, folder)
                kept = self._kept(folder)
        if kept is None:
            raise OSError(f"{folder.name} is not what was written to it")
        cost, release = kept
        # Shared by several runs, and what each of them would have cost alone.
        self.ready.run.count({"reference_seconds": cost["seconds"], "reference_models": 1})
        return release

    def _kept(self, folder: Path) -> tuple[dict[str, Any], Release] | None:
        """Cost and release of a model that was trained before; None for none, or a damaged one."""
        if not (folder / "done.json").is_file():
            return None
        try:
            cost = json.loads((folder / "done.json").read_text(encoding="utf-8"))
            return cost, load_release(self.ready.parts.task, folder / "release")
        except (DamagedFileError, ValueError):
            shutil.rmtree(folder)
            return None

    def _train(self, chosen: Corpus, mechanism: str, seeds: tuple[int, int], folder: Path) -> None:
        start, run, parts = time.perf_counter(), self.ready.run, self.ready.parts
        if mechanism == "none":
            plain, rows = parts.unprotected, parts.task.private_rows()
            parts = replace(parts, pipeline=Pipeline.build([plain], plain, rows), attacks=())
        stages = replace(self.ready.public_stages, saved_seconds=0.0)
        checkpoints = stages.checkpoints(folder)
        private, public = seeds

        def progress(phase: str, done: int, total: int) -> None:
            run.progress(f"reference {phase}", done, total)

        inner = Run(public, run.stats, run.device, run.speed, _injected(mechanism, run), run.delta,
                    progress=progress, scope=f"retraining {folder.name}",
                    private_seed=None if private == public else private,
                    noise_source=run.noise_source, public_stages=stages,
                    downstream=run.downstream, checkpoints=checkpoints)  # fmt: skip
        protected = protect(parts, chosen, inner, self.vocabulary, keep_floor=False)
        save_release(protected.release, folder / "release")
        seconds = time.perf_counter() - start + stages.saved_seconds + checkpoints.earlier_seconds
        done = {"seconds": round(seconds, 3), "mechanism": mechanism}
        write_json(folder / "done.json", done)
        checkpoints.forget()

    def _chosen(self, users: BoolArray, splits: tuple[str, ...]) -> Corpus:
        """Rows of the chosen users as training split, after the public rows as they are.

        Where rows of the split `valid` are not to be trained on, they stay: mechanisms choose
        checkpoints by them, in the release and here.
        """
        corpus = self.ready.planted_corpus.trained_on
        mask = np.append(users, np.zeros(max(corpus.user_count - len(users), 0) + 1, dtype=bool))
        chosen = np.flatnonzero(mask[corpus.users] & corpus.where(*splits))
        if not len(chosen):
            raise InputError("retraining needs at least one user with text")
        kept = np.flatnonzero(corpus.where("public", *({"valid"} - set(splits))))
        taken = corpus.take(np.concatenate([kept, chosen]))
        train = np.arange(len(taken)) >= len(kept)
        # The copy that is trained on has the mentions of a row that stands twice.
        twice = np.append(np.isin(kept, chosen), np.zeros(len(chosen), dtype=bool))
        return replace(
            taken,
            split=np.where(train, SPLITS.index("train"), taken.split),
            entities=taken.entities.outside(twice),
        )

    def _key(self, chosen: Corpus, mechanism: str, seeds: tuple[int, int]) -> str:
        run, identity_parts = self.ready.run, self.ready.identity.parts
        mechanisms = identity_parts["mechanism"]
        if mechanism == "none":
            plain = spec_of(self.ready.parts.unprotected)
            mechanisms = [component_identity(plain, registry.mechanisms)]
        sizes = asdict(run.stats)
        if run.downstream is None:  # keys of models without a second source stay as they were
            del sizes["downstream"]
        if not run.stats.clients:  # likewise of models without clients
            del sizes["clients"]
        parts: dict[str, Any] = {
            "corpus": chosen.fingerprint,
            "task": identity_parts["task"],
            "model": identity_parts["model"],
            "vocabulary": self.vocabulary.fingerprint if self.vocabulary else None,
            "seed": seeds[0],
            "mechanism": mechanisms,
            "sizes": sizes if mechanism == "same" else None,
            "injected": _injected(mechanism, run),
        }
        if seeds[0] != seeds[1]:
            parts["public_seed"] = seeds[1]
        if run.downstream is not None:
            parts["downstream"] = run.downstream.fingerprint
        if run.noise_source != "seed":
            parts["noise_source"] = run.noise_source
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode())
        return f"retrain-{digest.hexdigest()[:16]}"


def check_retrainings(specs: Iterable[RunSpec], most: int) -> None:
    """Refuse runs whose attacks ask for more models than are allowed.

    Fewer models give other results, so that fewer are trained only where parameters say so.

    Args:
        specs: specs of the runs to start.
        most: largest number of models that each may train beside its release.

    Raises:
        InputError: for the first that asks for more.
    """
    for spec in specs:
        if any(_elsewhere(ref) for ref in spec.mechanism):
            continue  # no attack is given any model
        offers = expected(registry.tasks.create(spec.task.name, spec.task.params))
        models_by_field: dict[str, int] = {}
        for ref in spec.attacks:
            attack = registry.attacks.create(ref.name, ref.params)
            for field, models in attack.retrainings(offers).items():
                models_by_field[f"attack.{ref.name}{field and '.'}{field}"] = models
        if sum(models_by_field.values()) > most:
            counts = " and ".join(
                f"{name} asks for {n}" for name, n in models_by_field.items() if n
            )
            raise InputError(
                f"--max-retrain {most}: {counts} models beside the release, {most} allowed: set "
                f"it lower, leave an attack out, or allow {sum(models_by_field.values())}"
            )


def _elsewhere(ref: ComponentSpec) -> bool:
    mechanism = registry.mechanisms.create(ref.name, ref.params)
    return isinstance(mechanism, TrainingMechanism) and mechanism.elsewhere is not None


def _injected(mechanism: str, run: Run) -> tuple[int, ...]:
    """A reference model is shared by runs with and without an audit: nothing is injected."""
    return run.injected if mechanism == "same" else ()
