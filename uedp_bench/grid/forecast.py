"""Forecast of a spec: sizes, guarantees, skipped attacks, and duration, before it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.results import RunSpec
from uedp_bench.corpus import distinct
from uedp_bench.grid.scheduler import Job
from uedp_bench.io.folders import scratch_folder
from uedp_bench.one_run.components import Components, build
from uedp_bench.one_run.guaranteeing import planned_guarantees
from uedp_bench.one_run.planting import PlantedCorpus, load_data
from uedp_bench.one_run.preparing import PublicSizes, TrainingUnits, planted_for, unit_sizes
from uedp_bench.one_run.rehearsal import Rehearsed, rehearse

MOST_MEASURED = 60.0
"""Settings are rehearsed for so many seconds; others are taken for one of the same mechanisms."""

FAST = 4.0
"""Attacks that take longer are made in the rehearsal of one setting."""

IN_PART, OTHER = "in part", "as another setting of the same mechanisms"
"""Beginning of `measured` where a run takes longer than is said, and what is taken for another."""

METHOD = (
    "each setting is rehearsed: every training in it ends after its first steps, and the others "
    "are counted at their pace; attacks that take long are made once"
)


@dataclass(frozen=True)
class SettingForecast:
    """One setting of a spec: runs that differ in the seed alone.

    Attributes:
        spec: spec of its first seed.
        seeds: seeds of its runs.
        finished: seeds whose runs are finished already.
        rows, users: rows and users by split.
        units: declared and training ones of each private stage, and how many a round.
        vocabulary: its size; None where it is not known before.
        guarantees: guarantees that a result will hold.
        skipped: reasons against attacks.
        failures: failures in the rehearsal, a sentence each.
        seconds: seconds of one run by phase; empty where nobody measured it.
        cpu_seconds: CPU seconds of one run by phase.
        memory_mb: memory of one run in MB; None where nobody measured it.
        steps: steps of each training of a run, in order, with its name; empty where nobody counted
            them.
        weights: weights that are trained; None where no training says.
        measured: origin of these figures in words.
    """

    spec: RunSpec
    seeds: tuple[int, ...]
    finished: tuple[int, ...]
    rows: Mapping[str, int]
    users: Mapping[str, int]
    units: tuple[PublicSizes, ...]
    vocabulary: int | None
    guarantees: tuple[Guarantee, ...]
    skipped: tuple[str, ...]
    failures: tuple[str, ...]
    seconds: Mapping[str, float]
    cpu_seconds: Mapping[str, float]
    memory_mb: float | None
    steps: tuple[tuple[str, int], ...]
    weights: int | None
    measured: str

    @property
    def todo(self) -> int:
        """Runs that are left to do."""
        return len(self.seeds) - len(self.finished)

    @property
    def lower_limit(self) -> bool:
        """True if a run takes longer than is said here."""
        return self.todo > 0 and (not self.seconds or self.measured.startswith(IN_PART))

    @property
    def rough(self) -> bool:
        """True if the time is that of another setting, which may have other numbers of steps."""
        return self.todo > 0 and OTHER in self.measured

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "label": self.spec.label,
            "spec": self.spec.model_dump(mode="json", exclude={"seed"}),
            "seeds": list(self.seeds),
            "finished": list(self.finished),
            "rows": dict(self.rows),
            "users": dict(self.users),
            "units": [each.model_dump(exclude_none=True) for each in self.units],
            "vocabulary": self.vocabulary,
            "guarantees": [each.model_dump(mode="json") for each in self.guarantees],
            "skipped_attacks": list(self.skipped),
            "failures": list(self.failures),
            "seconds": {phase: round(value, 1) for phase, value in self.seconds.items()},
            "cpu_seconds": {phase: round(value, 1) for phase, value in self.cpu_seconds.items()},
            "memory_mb": self.memory_mb,
            "steps": [{"training": name, "steps": steps} for name, steps in self.steps],
            "weights": self.weights,
            "measured": self.measured,
            "lower_limit": self.lower_limit,
            "rough": self.rough,
        }


@dataclass(frozen=True)
class Forecast:
    """Forecast of a spec.

    Attributes:
        settings: forecasts of its settings, in the order of the spec.
        workers: processes that share the runs.
        took: seconds of the rehearsals.
    """

    settings: tuple[SettingForecast, ...]
    workers: int
    took: float

    @property
    def lower_limit(self) -> bool:
        """True if all that is left takes longer than is said."""
        return any(one.lower_limit for one in self.settings)

    @property
    def rough(self) -> bool:
        """True if the time of any setting is that of another."""
        return any(one.rough for one in self.settings)

    @property
    def minutes(self) -> float:
        """Expected, of all runs that are left; those of which nothing is known count nothing."""
        each = [sum(one.seconds.values()) for one in self.settings for _ in range(one.todo)]
        if not each:
            return 0.0
        return max(sum(each) / max(1, min(self.workers, len(each))), max(each)) / 60

    @property
    def cpu_hours(self) -> float:
        """Hours of the CPU, of all runs that are left; see `minutes`."""
        return sum(one.todo * sum(one.cpu_seconds.values()) for one in self.settings) / 3600

    @property
    def memory_mb(self) -> float:
        """Memory of the largest runs that are left, as many as there are workers, side by side."""
        each = [one.memory_mb or 0.0 for one in self.settings for _ in range(one.todo)]
        return sum(sorted(each, reverse=True)[: self.workers])

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "settings": [one.to_dict() for one in self.settings],
            "runs": sum(len(one.seeds) for one in self.settings),
            "finished": sum(len(one.finished) for one in self.settings),
            "workers": self.workers,
            "expected_minutes": round(self.minutes, 1),
            "expected_cpu_hours": round(self.cpu_hours, 3),
            "expected_memory_mb": round(self.memory_mb, 1),
            "lower_limit": self.lower_limit,
            "rough": self.rough,
            "method": METHOD,
            "measuring_seconds": round(self.took, 1),
        }


def forecast(jobs: Sequence[Job], device: str, workers: int, most: float | None = None) -> Forecast:
    """Forecast the jobs of a spec; nothing is written, and no training is finished.

    Args:
        jobs: checked jobs, finished ones among them.
        device: device of the runs.
        workers: processes that share the runs.
        most: seconds after which no other rehearsal begins; None for `MOST_MEASURED`.

    Raises:
        InputError: for anything that makes a run impossible.
    """
    begun = time.perf_counter()
    settings: dict[str, list[Job]] = {}
    for job in jobs:
        key = json.dumps(job.spec.model_dump(mode="json", exclude={"seed"}), sort_keys=True)
        settings.setdefault(key, []).append(job)
    with scratch_folder() as folder:
        measuring = _Measuring(Path(folder), device, MOST_MEASURED if most is None else most)
        forecasts = tuple(_of_setting(same, measuring) for same in settings.values())
    return Forecast(forecasts, max(1, workers), time.perf_counter() - begun)


class _Measuring:
    """Rehearses settings, and begins no other rehearsal after `most` seconds."""

    def __init__(self, folder: Path, device: str, most: float) -> None:
        self._folder, self._device = folder, device
        self._left, self._attack = most, dict[str, tuple[float, float]]()
        self._rehearsals: dict[str, Rehearsed] = {}

    def measure(self, spec: RunSpec) -> tuple[Rehearsed | None, str]:
        """Rehearse a run, or take a similar rehearsal; return it with its origin in words."""
        name = "+".join(ref.name for ref in spec.mechanism)
        key = json.dumps([name, spec.task.name, spec.source.name, spec.model.name])
        if self._left <= 0:
            rehearsed = self._rehearsals.get(key)
            if rehearsed is None:
                return None, "not measured"
            return (
                rehearsed,
                f"{IN_PART}: {OTHER}, {rehearsed.why_not}" if rehearsed.why_not else OTHER,
            )
        attacks = json.dumps([spec.task.name, spec.model.name, *(ref.name for ref in spec.attacks)])
        before = self._attack.get(attacks)
        begun = time.perf_counter()
        attack = before is None or before[0] < FAST
        rehearsal = rehearse(spec, self._folder, self._device, attacks=attack)
        self._left -= time.perf_counter() - begun
        took = rehearsal.seconds.get("attack")
        if took is not None and not rehearsal.why_not:
            self._attack[attacks] = took, rehearsal.cpu_seconds["attack"]
        elif took is None and before is not None:
            rehearsal = replace(
                rehearsal, seconds={**rehearsal.seconds, "attack": before[0]},
                cpu_seconds={**rehearsal.cpu_seconds, "attack": before[1]},
            )  # fmt: skip
        self._rehearsals[key] = rehearsal
        return rehearsal, f"{IN_PART}: {rehearsal.why_not}" if rehearsal.why_not else "rehearsed"


def _of_setting(jobs: Sequence[Job], measuring: _Measuring) -> SettingForecast:
    spec = jobs[0].spec
    parts = build(spec)
    data = load_data(parts.sources)
    planted_corpus = planted_for(parts, data, spec)
    todo = [job for job in jobs if job.done is None]
    rehearsal, origin = measuring.measure(spec) if todo else (None, "finished")
    words = _vocabulary(parts, planted_corpus) if rehearsal is None else rehearsal.vocabulary
    corpus, skipped = planted_corpus.corpus, jobs[0].left_out
    splits = ("train", "valid", "test", "public", "held_out")
    inside = {split: rows for split in splits if (rows := corpus.where(split)).any()}
    more = {} if rehearsal is None else rehearsal.skipped
    return SettingForecast(
        spec=spec,
        seeds=tuple(job.spec.seed for job in jobs),
        finished=tuple(job.spec.seed for job in jobs if job.done is not None),
        rows={split: int(rows.sum()) for split, rows in inside.items()},
        users={
            split: count
            for split, rows in inside.items()
            if (count := len(distinct(corpus.users[rows])))
        },
        units=_units(parts, planted_corpus),
        vocabulary=None if words is None else words.size,
        guarantees=planned_guarantees(parts, spec, planted_corpus, words),
        skipped=skipped or tuple(f"{name}: {reason}" for name, reason in more.items()),
        failures=() if rehearsal is None else rehearsal.failures,
        seconds={} if rehearsal is None else rehearsal.seconds,
        cpu_seconds={} if rehearsal is None else rehearsal.cpu_seconds,
        memory_mb=None if rehearsal is None else rehearsal.memory_mb,
        steps=() if rehearsal is None else rehearsal.steps,
        weights=None if rehearsal is None else rehearsal.weights or None,
        measured=origin,
    )


def _vocabulary(parts: Components, planted_corpus: PlantedCorpus) -> Vocabulary | None:
    """Vocabulary of the task, where no mechanism chooses it."""
    if parts.pipeline.vocabulary is not None or parts.pipeline.publishers:
        return None
    return parts.task.vocabulary(planted_corpus.corpus.only("train", "valid", "public"))


def _units(parts: Components, planted_corpus: PlantedCorpus) -> tuple[PublicSizes, ...]:
    second = planted_corpus.data.visible_downstream
    sizes = unit_sizes(
        parts.pipeline,
        TrainingUnits.in_corpus(planted_corpus.corpus),
        None if second is None else TrainingUnits.in_corpus(second),
        planted_corpus.stats,
    )
    return tuple(each for each in sizes if each is not None)
