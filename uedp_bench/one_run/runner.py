"""One run: plant, protect, score, attack, account. It reads like the picture in the docs.

The outcomes of its steps are assembled into the result.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from uedp_bench.components.metric import Declared
from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.checkpoints import remove
from uedp_bench.contracts.results import Cost, Result, RunSpec
from uedp_bench.contracts.run_context import Progress
from uedp_bench.contracts.task import judged
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.io.folders import CHECKPOINT, disk_is_full
from uedp_bench.one_run.components import build_sources
from uedp_bench.one_run.evaluation import Attacked, Scored, attack_all, score
from uedp_bench.one_run.guaranteeing import Accounted, account
from uedp_bench.one_run.planting import Data, load_data
from uedp_bench.one_run.preparing import Execution, Prepared, prepare
from uedp_bench.one_run.private_data import Keeper, keep_result
from uedp_bench.one_run.protecting import Protected, Retraining, protect
from uedp_bench.one_run.stored_run import (
    after_failure,
    check_reads_back,
    failed,
    provenance,
    reason_of,
)
from uedp_bench.spec.identity import Identity


def _assembled(
    ready: Prepared,
    protected: Protected,
    scored: Scored,
    attacked: Attacked,
    accounted: Accounted,
    cost: dict[str, Any],
) -> Result:
    """Assemble the outcomes of the steps of a run; `cost` is beside what it counted itself."""
    run, task = ready.run, ready.parts.task
    details = ({task.name: dict(scored.details)} if scored.details else {}) | {**attacked.details}
    resumed = {"resumed": run.checkpoints.resumed} if run.checkpoints.resumed else {}
    return Result(
        id=ready.identity.id,
        group=ready.identity.group,
        status="finished",
        spec=ready.spec,
        utility=dict(scored.utility),
        metrics=_metrics(ready, attacked),
        **judged(task, scored.utility, scored.public_only),
        events=protected.release.events,
        pretraining=dict(protected.trained.pretraining),
        stages=protected.trained.record,
        series=dict(run.series),
        diagnostics=dict(run.diagnostics),
        cost=Cost(**cost, **run.counts, **run.diary.ways, **run.diary.messages.cost(), **resumed),
        provenance=provenance(ready.identity.parts)
        | _corpus_sizes(ready.planted_corpus.data, ready.planted_corpus.corpus)
        | {
            "vocabulary": _vocabulary_record(protected.vocabulary),
            "release": protected.release.view,
        }
        | ({"coins": commitment} if (commitment := ready.planted_corpus.commitment) else {}),
        **vars(accounted),
        **vars(attacked) | {"details": details},
    )


def _corpus_sizes(data: Data, planted: Corpus) -> dict[str, Any]:
    """Fingerprints and sizes of a run's corpora, as the sources made them and as planted."""
    fingerprints = {"fingerprint": data.corpus.fingerprint,
                    "planted_fingerprint": planted.fingerprint}  # fmt: skip
    out = {"corpus": fingerprints | _sizes(planted)}
    if (second := data.downstream) is not None:
        out["downstream"] = {"fingerprint": second.fingerprint} | _sizes(second)
    return out


def _sizes(corpus: Corpus) -> dict[str, Any]:
    return {
        "rows": len(corpus),
        "train_rows": int(corpus.where("train").sum()),
        "users": corpus.user_count,
    }


def _metrics(ready: Prepared, attacked: Attacked) -> Declared:
    """Declarations of the run's components."""
    parts = ready.parts
    return Declared(
        utility=parts.task.metrics,
        leakage={one.name: one.metrics for one in parts.attacks if one.name in attacked.leakage},
        cost=tuple(metric for one in parts.pipeline.parts for metric in one.metrics),
    )


def _vocabulary_record(vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    if vocabulary is None:
        return None
    return {"size": vocabulary.size, "fingerprint": vocabulary.fingerprint,
            "origin": vocabulary.origin, "private": vocabulary.private}  # fmt: skip


def execute(spec: RunSpec, execution: Execution, identity: Identity | None = None) -> Result:
    """Run a spec and write its result; an error becomes a failed result, which is written too.

    Args:
        spec: spec of the run.
        execution: settings of its execution.
        identity: identity of the run on the corpus that it must find; None for any corpus.

    Raises:
        OSError: if the disk is full, for then no further run can succeed either, or the result
            cannot be written.
    """
    meter = Meter(execution.progress)
    # A run without a corpus has no fingerprint: its identity is that of its spec alone.
    current = identity or Identity.from_spec(spec)
    process = os.getpid()
    try:
        sources = build_sources(spec)
        data = load_data(sources)
        if identity is not None and data.fingerprint != identity.fingerprint:
            raise InputError(f"the data of {spec.source.name} changed after the runs were checked")
        current = identity or current.on(data.fingerprint)
        _check_files(spec, current)
        ready = prepare(spec, execution, (sources, data), current, meter.planting)
        keeper = Keeper(ready, execution.out / current.id, execution.keep_release)
        result = _finished(ready, keeper, meter)
        check_reads_back(result)
        _check_files(spec, current)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() in a component is no end of the benchmark
        if disk_is_full(error, execution.out):
            raise OSError(errno.ENOSPC, "no space left on device", str(execution.out)) from error
        goes_on = execution.keeps_checkpoints and not isinstance(error, InputError)
        stored = after_failure(execution.state_folder / current.id, goes_on=goes_on)
        result = failed(spec, current, reason_of(error, meter.phase, execution.failures), stored)
    if os.getpid() != process:  # a copy that a component forked, and that came back
        os._exit(1)
    # This attempt's own time: training that others did for it, or before it, is in its cost.
    began = {**result.provenance, "started": meter.started}
    result = result.model_copy(update={"provenance": began})
    keep_result(result, execution.out)
    if result.error is None:
        remove(execution.state_folder / current.id / CHECKPOINT)
    return result


def _check_files(spec: RunSpec, identity: Identity) -> None:
    """Refuse files and plug-ins that are not those that the run's id is the hash of.

    Raises:
        InputError: if one changed.
    """
    if Identity.from_spec(spec, identity.fingerprint).id != identity.id:
        raise InputError("a file that the run names changed after the runs were checked")


def _finished(ready: Prepared, keeper: Keeper, meter: Meter) -> Result:
    with meter("train"):
        protected = protect(ready.parts, ready.planted_corpus.corpus, ready.run)
    # As if it had been alone, and not been interrupted.
    before = ready.run.checkpoints.earlier_seconds
    meter.add("train", ready.public_stages.saved_seconds + before)
    with meter("save"):
        keeper.save(protected.release)
    with meter("score"):
        scored = score(ready, protected)
    retraining = Retraining(ready, protected.vocabulary, protected.trained.floor)
    # Nobody needs the models behind the release any more.
    trained = protected.trained._replace(release=None, floor=None)
    protected = replace(protected, release=scored.release, trained=trained)
    with meter("attack"):
        attacked = attack_all(ready, protected.release, retraining.bound())
    meter.add("attack", ready.run.checkpoints.earlier_seconds - before)
    with meter("account"):
        accounted = account(ready, protected, attacked)
    result = _assembled(ready, protected, scored, attacked, accounted, meter.cost())
    return keeper.described(result, protected, attacked)


# ------------------------------------------------------------------------------------------- costs


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
        self._device = "cpu"
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

    @contextmanager
    def planting(self, device: str) -> Iterator[None]:
        """Time the planting, and measure memory of this device from its begin on."""
        self._device = device
        _reset_peak(device)
        with self("plant"):
            yield

    def cost(self) -> dict[str, Any]:
        """Seconds by phase and of the processor, peak memory, device: fields of a result's cost."""
        seconds = {f"{phase}_seconds": round(s, 3) for phase, s in self.seconds.items()}
        peak = _peak_mb(self._device)
        spent = round(time.process_time() - self._processor, 3)
        return {**seconds, "cpu_seconds": spent, "peak_memory_mb": peak, "device": self._device}


def _reset_peak(device: str) -> None:
    """Start to measure the peak memory of a GPU, or of this process where the kernel allows it."""
    if device.startswith("cuda"):
        import torch

        # A device by its number is unknown before.
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_mb(device: str) -> float:
    """Peak memory since `_reset_peak`, in MB (10^6 bytes)."""
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
