"""One run: plant, protect, score, attack, account. It reads like the picture in the docs."""

from __future__ import annotations

import errno
from functools import partial
from typing import Any

import numpy as np

from uedp_bench.accounting.consistency import check_bounds
from uedp_bench.accounting.ledger import claimed, proven_at
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.files.output_folder import disk_is_full, sync_files
from uedp_bench.harness.attacking import attack_all, lacks
from uedp_bench.harness.clock import Clock
from uedp_bench.harness.components import build
from uedp_bench.harness.execution import Execution
from uedp_bench.harness.failures import failed, reason_of
from uedp_bench.harness.guaranteeing import guarantees, select
from uedp_bench.harness.planting import Data, load_data, plant, public_sizes, withdrawn
from uedp_bench.harness.protecting import as_scored, protect
from uedp_bench.harness.provenance import PeakMemory, provenance
from uedp_bench.harness.public_sizes import check_units
from uedp_bench.harness.publishing import check_there
from uedp_bench.harness.retraining import Retraining
from uedp_bench.harness.saved_release import check_saved
from uedp_bench.harness.simulation import counts_sizes, marked
from uedp_bench.harness.spec import identity_of, identity_parts, tried_runs
from uedp_bench.harness.stored import Keeper
from uedp_bench.harness.utility import judged, public_only
from uedp_bench.model import Vocabulary
from uedp_bench.randomness.streams import scope_of
from uedp_bench.results import Cost, Result, RunSpec, write_result
from uedp_bench.run import Run


def execute(spec: RunSpec, settings: Execution, fingerprint: str = "") -> Result:
    """Runs a spec and writes its result; an error becomes a failed result, which is written too.

    Args:
        spec: what to run.
        settings: how.
        fingerprint: that the corpus must have; empty for any.

    Raises:
        OSError: if the disk is full, for then no further run can succeed either, or the result
            cannot be written.
    """
    clock = Clock(settings.progress)
    # A run without a corpus has no fingerprint: its identity is that of its spec alone.
    parts = identity_parts(spec, fingerprint)
    try:
        data = load_data(spec)
        if fingerprint and data.fingerprint != fingerprint:
            raise InputError(f"the data of {spec.source.name} changed after the runs were planned")
        parts = identity_parts(spec, data.fingerprint)
        result = _execute(spec, settings, data, (parts, clock, PeakMemory()))
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
    settings: Execution,
    data: Data,
    around: tuple[dict[str, Any], Clock, PeakMemory],
) -> Result:
    from uedp_bench.harness.training_stages import public_stages
    from uedp_bench.training.device import choose_device

    identity, clock, memory = around
    identifier, group = identity_of(identity)
    parts = build(spec)
    check_there(parts.pipeline.parts, data.corpus)
    check_there([parts.task], data.scored(data.corpus))
    tried_runs(spec)  # a selection that does not fit the run fails before it trains
    memory.reset(device := choose_device(settings.device, settings.speed.threads))
    with clock("plant"):
        source = data.corpus
        corpus, planted = plant(parts.attacks, source, spec.seed, public_sizes(spec, *data))
    injected = tuple(user for value in planted.values() for user in value.injected)
    stats = public_sizes(spec, corpus, data.downstream)
    out = withdrawn(planted, len(corpus))
    corpus = corpus.with_split(out, "held_out")
    run = Run(spec.seed, stats, device, settings.speed, injected, spec.delta,
              progress=settings.progress, scope=scope_of(identity, corpus.fingerprint, injected),
              noise_source=spec.noise_source, downstream=data.visible_downstream)  # fmt: skip
    run.public_stages = stages = public_stages(spec, settings.out / "cache")
    check_units(parts.pipeline, corpus, run)
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
        scored = as_scored(parts, release, data.scored(corpus), run)
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
        stages=run.stages,
        series=run.series,
        diagnostics=run.diagnostics,
        selection=selection,
        stored=stored,
        cost=Cost(**seconds, **run.counts, peak_memory_mb=memory.peak_mb(device), device=device),
        provenance=provenance(identity, data, corpus)
        | {"vocabulary": _describe(vocabulary), "release": release.view},
        **attacked,
    )
    return marked(result, type(parts.task), counted_sizes=counted)


def _describe(vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    if vocabulary is None:
        return None
    return {"size": vocabulary.size, "fingerprint": vocabulary.fingerprint,
            "origin": vocabulary.origin, "private": vocabulary.private}  # fmt: skip
