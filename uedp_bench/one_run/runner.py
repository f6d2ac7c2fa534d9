"""One run: plant, protect, score, attack, account. It reads like the picture in the docs."""

from __future__ import annotations

import errno

from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.errors import InputError
from uedp_bench.io.folders import disk_is_full
from uedp_bench.one_run.assembly import Outcome, assemble
from uedp_bench.one_run.attacking import attack_all, with_messages
from uedp_bench.one_run.components import build_sources
from uedp_bench.one_run.execution import Execution
from uedp_bench.one_run.guaranteeing import checked_ceilings, guarantees
from uedp_bench.one_run.meter import Meter
from uedp_bench.one_run.planting import load_data
from uedp_bench.one_run.preparing import Prepared, prepare
from uedp_bench.one_run.protecting import protect
from uedp_bench.one_run.retraining import Retraining
from uedp_bench.one_run.scoring import score
from uedp_bench.one_run.stored import Keeper, keep_result
from uedp_bench.spec.identity import Identity
from uedp_bench.store.checkpointing import after_failure, forget
from uedp_bench.store.failures import failed, reason_of


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
    try:
        sources = build_sources(spec)
        data = load_data(sources)
        if identity is not None and data.fingerprint != identity.fingerprint:
            raise InputError(f"the data of {spec.source.name} changed after the runs were checked")
        current = identity or current.on(data.fingerprint)
        _check_files(spec, current)
        ready = prepare(spec, execution, (sources, data), current, meter)
        result = _finished(ready, Keeper.from_run(ready, execution), meter)
        _check_files(spec, current)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() in a component is no end of the benchmark
        if disk_is_full(error, execution.out):
            raise OSError(errno.ENOSPC, "no space left on device", str(execution.out)) from error
        goes_on = execution.keeps_checkpoints and not isinstance(error, InputError)
        stored = after_failure(execution.state_folder / current.id, goes_on=goes_on)
        result = failed(spec, current, reason_of(error, meter.phase, execution.failures), stored)
    # This attempt's own time: training that others did for it, or before it, is in its cost.
    began = {**result.provenance, "started": meter.started}
    result = result.model_copy(update={"provenance": began})
    keep_result(result, execution.out)
    if result.error is None:
        forget(execution.state_folder / current.id)
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
        keeper.save(protected.release, ready.planted_corpus, ready.parts.task)
    with meter("score"):
        scored = score(ready, protected)
    base = protected.trained.floor
    protected = protected.seen_as(with_messages(scored.release, ready.run))
    with meter("attack"):
        retraining = Retraining(ready, protected.vocabulary, base)
        attacked = attack_all(ready, protected.release, retraining.bound())
    meter.add("attack", ready.run.checkpoints.earlier_seconds - before)
    with meter("account"):
        run_guarantees, selection = guarantees(ready, protected, attacked.lower_bounds)
        limits = checked_ceilings(run_guarantees, protected.release.events, attacked)
        stored = keeper.stored(ready, protected, run_guarantees, attacked)
    return assemble(
        ready,
        Outcome(protected, scored, attacked, run_guarantees, limits, selection, stored),
        meter.cost(),
    )
