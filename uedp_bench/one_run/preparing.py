"""Preparation of runs: their execution and its costs, counts of rows, and a run ready to start.

Counts are made once for all runs of the same rows. A run that is ready has its components, its
planted corpus, its seed and its streams.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from uedp_bench.contracts.checkpoints import Pace, PublicStages
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.run_context import (
    Diary,
    Points,
    Progress,
    Run,
    Speed,
    no_points,
    no_progress,
)
from uedp_bench.contracts.source import CorpusStats, second_source
from uedp_bench.contracts.transcript import MessageLog
from uedp_bench.errors import InputError
from uedp_bench.one_run.components import Components, Sources, build
from uedp_bench.one_run.planted_elsewhere import planted_for
from uedp_bench.one_run.planting import Data, PlantedCorpus, load_data
from uedp_bench.one_run.public_sizes import TrainingUnits, check_units
from uedp_bench.one_run.publishing import check_there
from uedp_bench.randomness.streams import scope_of
from uedp_bench.spec.identity import Identity
from uedp_bench.store.run_files import checkpoints_beside, checkpoints_in


@dataclass(frozen=True)
class Execution:
    """Settings of an execution; none of them enters a run's identity.

    Attributes:
        out: folder of results; a run writes into `out/<id>/`.
        device: "auto", "cpu", "cuda" or any torch device.
        failures: number of earlier failures of the run, other than on bad input.
        keep_release: True to keep the release beside the result, and checkpoints of a run that
            failed.
        state: folder of checkpoints and of models that runs share, where they are kept whatever
            `keep_release` says; None: `out`.
        pace: interval between checkpoints of a training.
        points: receiver of the series of a run while it trains.
    """

    out: Path
    device: str = "auto"
    speed: Speed = field(default_factory=Speed)
    progress: Progress = no_progress
    failures: int = 0
    keep_release: bool = True
    state: Path | None = None
    pace: Pace = field(default_factory=Pace)
    points: Points = no_points

    @property
    def state_folder(self) -> Path:
        """Folder of checkpoints, by run, and of models that runs share."""
        return self.out if self.state is None else self.state

    @property
    def keeps_checkpoints(self) -> bool:
        """True if checkpoints of a run that failed are kept."""
        return self.keep_release or self.state is not None


class Meter:
    """Measures a run, and knows which phase it is in.

    Attributes:
        phase: phase that began last.
        seconds: seconds by phase.
        started: time of its creation, UTC.
    """

    def __init__(self, progress: Progress) -> None:
        self.started = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.phase, self._progress = "load", progress
        self.seconds: dict[str, float] = {}
        self._processor = time.process_time()
        self._memory, self._device = _PeakMemory(), "cpu"
        progress("load", 0, 1)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Time a block, and report that it begins."""
        self.phase, start = phase, time.perf_counter()
        self._progress(phase, 0, 1)
        yield
        self.add(phase, time.perf_counter() - start)

    def add(self, phase: str, seconds: float) -> None:
        """Add to the seconds of a phase."""
        self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def begin(self, device: str) -> None:
        """Measure memory from here on, of this device."""
        self._device = device
        self._memory.reset(device)

    def cost(self) -> dict[str, Any]:
        """Seconds by phase and of the processor, peak memory, device: fields of a result's cost."""
        seconds = {f"{phase}_seconds": round(s, 3) for phase, s in self.seconds.items()}
        peak = self._memory.peak_mb(self._device)
        spent = round(time.process_time() - self._processor, 3)
        return {**seconds, "cpu_seconds": spent, "peak_memory_mb": peak, "device": self._device}


class _PeakMemory:
    """Peak memory of a run: of the GPU where it trains on one, else of this process (Linux)."""

    def reset(self, device: str) -> None:
        """Start measuring. Where the kernel does not allow it, the process' peak counts."""
        if device.startswith("cuda"):
            import torch

            # A device by its number is unknown before.
            torch.cuda.init()  # type: ignore[no-untyped-call]
            torch.cuda.reset_peak_memory_stats(device)
            return
        try:
            Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        except OSError:
            return

    def peak_mb(self, device: str) -> float:
        """Peak since `reset`, in MB (10^6 bytes)."""
        if device.startswith("cuda"):
            import torch

            return round(torch.cuda.max_memory_allocated(device) / 1e6, 1)
        return round(_high_water_mark() / 1e6, 1)


def _high_water_mark() -> int:
    """Bytes of memory that this process held at most, since the last reset where there is one."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        status = []
    for line in status:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


@dataclass(frozen=True)
class RowCounts:
    """Counts of the rows of a run, known before it starts.

    Attributes:
        fingerprint: fingerprint of its data.
        stats: public sizes.
        columns: columns of the data, without rows.
        units: numbers of units that train.
        downstream: numbers of units that train, of the task's second source.
        unplanted: reasons why attacks could not plant.
    """

    fingerprint: str
    stats: CorpusStats
    columns: Data
    units: TrainingUnits
    downstream: TrainingUnits | None
    unplanted: tuple[str, ...]


class PlantedCounts:
    """Counts of planted corpora, made once for all runs of equal sources and attacks.

    The seed decides who is held out, not how many.
    """

    def __init__(self) -> None:
        self._rows: dict[str, RowCounts | InputError] = {}

    def counts_of(self, spec: RunSpec, parts: Components) -> RowCounts:
        """Counts of the rows of a run.

        Raises:
            InputError: if a source cannot be read, or an attack cannot plant.
        """
        refs = (spec.source, second_source(spec.task), spec.clients, *spec.attacks)
        training_elsewhere = str(parts.pipeline.elsewhere)
        key = json.dumps(
            [training_elsewhere, *(ref and ref.model_dump(mode="json") for ref in refs)]
        )
        if key not in self._rows:
            try:
                self._rows[key] = _row_counts(spec, parts)
            except InputError as error:  # said once, and not looked for again
                self._rows[key] = error
        rows = self._rows[key]
        if isinstance(rows, InputError):
            raise rows
        return rows


def _row_counts(spec: RunSpec, parts: Components) -> RowCounts:
    data = load_data(parts.sources)
    planted_corpus = planted_for(parts, data, spec)
    second = data.visible_downstream
    return RowCounts(
        data.fingerprint,
        planted_corpus.stats,
        data.columns(),
        TrainingUnits.in_corpus(planted_corpus.corpus),
        None if second is None else TrainingUnits.in_corpus(second),
        tuple(planted_corpus.unplanted.values()),
    )


# ------------------------------------------------------------------------------ a run that is ready


@dataclass(frozen=True)
class Prepared:
    """Prepared run: everything that its steps need, built once.

    Attributes:
        spec: spec of the run.
        identity: identity of the run on its corpus.
        parts: components of the run.
        planted_corpus: corpus of the run, with everything planted.
        run: context of the run.
        public_stages: store of models after training on public text, kept for other runs.
        cache: folder of models that runs share.
    """

    spec: RunSpec
    identity: Identity
    parts: Components
    planted_corpus: PlantedCorpus
    run: Run
    public_stages: PublicStages
    cache: Path


def check_read(parts: Components, data: Data) -> None:
    """Refuse a run some part of which reads what its sources do not fill.

    Raises:
        CapabilityError: naming the part and the column that it reads.
    """
    check_there(parts.pipeline.parts, data.corpus)
    check_there([parts.task], data.scored(data.corpus))


def prepare(
    spec: RunSpec,
    execution: Execution,
    source: tuple[Sources, Data],
    identity: Identity,
    meter: Meter,
) -> Prepared:
    """Build the components of a run and let its attacks plant.

    Args:
        spec: spec of the run.
        execution: settings of its execution.
        source: sources of the run, and the data as they made it.
        identity: identity of the run.
        meter: meter of the run.

    Raises:
        InputError: for any mistake that shows before training.
    """
    from uedp_bench.training.device import choose_device

    parts, (_, data) = build(spec, source[0]), source
    check_read(parts, data)
    meter.begin(device := choose_device(execution.device, execution.speed.threads))
    with meter("plant"):
        planted_corpus = planted_for(parts, data, spec)
    cache = execution.state_folder / "cache"
    folder = execution.state_folder / identity.id
    checkpoints = checkpoints_in(folder, identity.id, device, execution.speed, execution.pace)
    for message in checkpoints.messages:
        execution.progress(message, 0, 1)
    beside = partial(checkpoints_beside, checkpoints, device=device, speed=execution.speed)
    # They depend on task and model.
    shared = [identity.parts["task"], identity.parts["model"]]
    stages = PublicStages(cache, json.dumps(shared, sort_keys=True), beside)
    run = Run(
        spec.seed,
        planted_corpus.stats,
        device,
        execution.speed,
        planted_corpus.injected,
        spec.delta,
        progress=execution.progress,
        scope=scope_of(identity.parts, planted_corpus.corpus.fingerprint, planted_corpus.injected),
        noise_source=spec.noise_source,
        public_stages=stages,
        downstream=planted_corpus.data.visible_downstream,
        diary=Diary(messages=MessageLog(parts.keeps_messages, parts.payload_rounds)),
        checkpoints=checkpoints,
        points=execution.points,
    )
    check_units(parts.pipeline, planted_corpus.corpus, run)
    return Prepared(spec, identity, parts, planted_corpus, run, stages, cache)
