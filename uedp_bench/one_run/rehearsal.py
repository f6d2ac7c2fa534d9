"""Rehearsals that measure what a run would take: each training ends after its first steps.

A rehearsal does what the run does, in a folder that is thrown away: it plants, makes the
vocabulary, begins each training, scores what came of it and attacks it. The steps that were left
out of a training are counted at the pace of those that were done. Its numbers mean nothing.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.checkpoints import Checkpoints, ResumedRun
from uedp_bench.contracts.mechanism import PublishingMechanism, VocabularyMechanism
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.results import FailedAttack, RunSpec, SkippedAttack
from uedp_bench.contracts.run_context import Run, no_progress
from uedp_bench.corpus import BoolArray, FloatArray
from uedp_bench.errors import UedpBenchError
from uedp_bench.one_run.components import build_sources
from uedp_bench.one_run.evaluation import reason_against, run_attack, score
from uedp_bench.one_run.pipeline import Pipeline
from uedp_bench.one_run.planting import load_data
from uedp_bench.one_run.preparing import Execution, Prepared, prepare
from uedp_bench.one_run.protecting import Protected, Retraining, protect
from uedp_bench.one_run.runner import Meter
from uedp_bench.spec.identity import Identity

STEP_SECONDS, LEAST_STEPS = 0.4, 3
"""A training is rehearsed for so long, and for so many steps at least."""

MOST_SECONDS = 30.0
"""A rehearsal ends after so long; what it did not come to is not in its answer."""


@dataclass(frozen=True)
class Rehearsed:
    """Costs and failures that a rehearsal measured.

    Attributes:
        seconds: seconds that each phase of the run would take (train, score, attack); phases that
            were not reached are missing.
        cpu_seconds: CPU seconds of the process for each phase, all threads together.
        memory_mb: peak memory of the rehearsal (MB of 10^6 bytes), as a result says it.
        steps: name and number of steps of each training of the release, in order.
        weights: number of trained weights of the largest network; 0 if no training says.
        vocabulary: vocabulary of the release; None where it has none, or that was not reached.
        skipped: reasons against attacks, by their names.
        failures: errors of phases and of attacks, a sentence each. The run is to fail alike.
        why_not: why it ended early; empty where it did not.
    """

    seconds: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    memory_mb: float
    steps: tuple[tuple[str, int], ...]
    weights: int
    vocabulary: Vocabulary | None
    skipped: Mapping[str, str]
    failures: tuple[str, ...] = ()
    why_not: str = ""


def _clocks() -> FloatArray:
    """(2,) seconds of the clock, and of the CPU by this process."""
    return np.array([time.perf_counter(), time.process_time()])


_BEFORE_TRAINING = (VocabularyMechanism, PublishingMechanism)


class _TooLongError(BaseException):
    """Ends a rehearsal; a component that catches every `Exception` does not catch it."""


class FirstSteps(Checkpoints):
    """Trainings that end after their first steps.

    Attributes:
        left: (2,) seconds that the other steps would take, by the clock and of the CPU.
        begun: name and steps of each training.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left, self.begun = np.zeros(2), list[tuple[str, int]]()
        self._step: tuple[FloatArray, int] | None = None

    def stop(self) -> None:
        """Count each step after one that has not ended as long as that one lasts by now."""
        if self._step is not None:
            (start, after), self._step = self._step, None
            self.left = self.left + after * (_clocks() - start)

    def steps(
        self, name: str, run: ResumedRun, total: int, parts: Mapping[str, Any]
    ) -> Iterator[int]:
        """The first steps of a training; see `Run.checkpointed`."""
        self.begun.append((name, total))
        took: list[FloatArray] = []
        for done in range(total):
            start = _clocks()
            self._step = start, total - done - 1
            yield done
            self._step = None
            took.append(_clocks() - start)
            if np.sum(took, axis=0)[0] > STEP_SECONDS and len(took) >= LEAST_STEPS:
                # The first step also warms up, and a busy machine makes single ones long.
                self.left = self.left + (total - len(took)) * np.median(took[1:], axis=0)
                return


def rehearse(spec: RunSpec, out: Path, device: str, *, attacks: bool) -> Rehearsed:
    """Rehearse a run.

    Args:
        spec: spec of the run.
        out: folder for its files. Rehearsals of one folder share models as runs do.
        device: device of the run.
        attacks: True to rehearse the attacks, too.

    Raises:
        InputError: for what makes the run impossible.
    """
    sources = build_sources(spec)
    data = load_data(sources)
    identity = Identity.from_spec(spec, data.fingerprint)
    meter = Meter(no_progress)
    ready = prepare(spec, Execution(out, device), (sources, data), identity, meter.planting)
    first = FirstSteps()
    stages = replace(ready.public_stages, checkpoints=lambda folder: first)
    run = replace(ready.run, checkpoints=first, public_stages=stages)
    rehearsal = _Rehearsal(replace(ready, run=run, public_stages=stages), first)
    try:
        with _at_most(MOST_SECONDS):
            rehearsal.perform(attacks=attacks)
    except _TooLongError:
        rehearsal.why_not = f"it ended after {MOST_SECONDS:g} seconds"
    except MemoryError:
        raise
    except Exception as error:
        message = " ".join(str(error).split())
        is_own = isinstance(error, UedpBenchError)
        rehearsal.why_not = message if is_own else f"{type(error).__name__}: {message}"
        if rehearsal.phase:
            rehearsal.failures.append(f"{rehearsal.phase}: {rehearsal.why_not}")
    weights = [n for name, n in run.counts.items() if name.startswith("weights_")]
    return Rehearsed(
        seconds={phase: float(each[0]) for phase, each in rehearsal.seconds.items()},
        cpu_seconds={phase: float(each[1]) for phase, each in rehearsal.seconds.items()},
        memory_mb=float(meter.cost()["peak_memory_mb"]),
        steps=rehearsal.steps or tuple(first.begun),  # it may have ended while it trained
        weights=int(max(weights, default=0)),
        vocabulary=rehearsal.vocabulary,
        skipped=rehearsal.skipped,
        failures=tuple(rehearsal.failures),
        why_not=rehearsal.why_not,
    )


class _Rehearsal:
    """One run, as it goes.

    Attributes:
        seconds: (2,) of each phase, by the clock and of the CPU.
        phase: phase whose errors are those of the run; empty where they need not be.
    """

    def __init__(self, ready: Prepared, first: FirstSteps) -> None:
        self._ready, self._first = ready, first
        self.seconds: dict[str, FloatArray] = {}
        self.steps: tuple[tuple[str, int], ...] = ()
        self.skipped: dict[str, str] = {}
        self.failures: list[str] = []
        self.phase = "train"
        self.vocabulary: Vocabulary | None = None
        self.why_not = ""

    def perform(self, *, attacks: bool) -> None:
        """Train, score and attack."""
        protected: Protected | None = None
        with self._timed("train"):
            try:
                protected = protect(
                    self._ready.parts, self._ready.planted_corpus.corpus, self._ready.run
                )
            except Exception:
                # Mechanisms that protect refuse to say what happened in a part of their rounds.
                if not self._first.left[0]:
                    raise
        self.steps = tuple(self._first.begun)
        if protected is None:
            self.phase = ""  # the run trains otherwise: what fails in here need not fail there
            self._ready = _trained_plainly(self._ready)
            protected = protect(
                self._ready.parts, self._ready.planted_corpus.corpus, self._ready.run
            )
        self.vocabulary = protected.vocabulary
        with self._timed("score"):
            scored = score(self._ready, protected)
        self._attack(protected, scored.release, attacks=attacks)

    def _attack(self, protected: Protected, release: Release, *, attacks: bool) -> None:
        ready = self._ready
        if not attacks:
            reasons = {one.name: reason_against(one, ready, release) for one in ready.parts.attacks}
            self.skipped = {name: reason for name, reason in reasons.items() if reason}
            if len(self.skipped) < len(reasons):
                return
        retraining = _AskedAgain(Retraining(ready, protected.vocabulary).bound(), self._first)
        with self._timed("attack"):
            run = ready.run.retraining(retraining, protected.trained.floor)
            for attack in ready.parts.attacks:
                outcome = run_attack(attack, ready, release, run)
                if isinstance(outcome, SkippedAttack):
                    self.skipped[attack.name] = outcome.reason
                elif isinstance(outcome, FailedAttack):
                    self.failures.append(f"the attack {attack.name}: {outcome.reason}")
        # Models that the mechanism of the run trains for attacks take as long as its release.
        self.seconds["attack"] += retraining.models * self.seconds["train"] - retraining.seconds

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start, left = _clocks(), self._first.left
        self.phase = phase
        try:
            yield
        finally:
            self._first.stop()
            self.seconds[phase] = _clocks() - start + self._first.left - left


class _AskedAgain:
    """Makes the models that attacks ask for, and knows which of them the run's mechanism trains.

    Attributes:
        models, seconds: number and seconds of those.
    """

    def __init__(self, run: Run, first: FirstSteps) -> None:
        self._run, self._first = run, first
        self.models, self.seconds = 0, np.zeros(2)

    def __call__(self, users: BoolArray, *, mechanism: Any, **more: Any) -> Release:
        """See `Run.retrain`."""
        start, left = _clocks(), self._first.left
        release = self._run.retrain(users, mechanism=mechanism, **more)
        if mechanism == "same":
            self.models += 1
            self.seconds = self.seconds + _clocks() - start + self._first.left - left
        return release


def _trained_plainly(ready: Prepared) -> Prepared:
    """The run without noise, whose release is scored and attacked alike."""
    parts = ready.parts
    before = [p for p in parts.pipeline.parts if isinstance(p, _BEFORE_TRAINING)]
    plain = parts.unprotected
    pipeline = Pipeline.build([*before, plain], plain, parts.task.private_rows())
    return replace(ready, parts=replace(parts, pipeline=pipeline))


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End the block after a time; only the main thread of POSIX systems can."""
    main = threading.current_thread() is threading.main_thread()
    if not (main and hasattr(signal, "setitimer")):
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
