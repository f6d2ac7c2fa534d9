"""One run: plant, protect, score, attack, account. It reads like the picture in the docs."""

from __future__ import annotations

import errno

from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.errors import InputError
from uedp_bench.io.output_folder import disk_is_full
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


def execute(spec: RunSpec, how: Execution, identity: Identity | None = None) -> Result:
    """Runs a spec and writes its result; an error becomes a failed result, which is written too.

    Args:
        spec: what to run.
        how: to run it.
        identity: of the run on the corpus that it must find; None for any corpus.

    Raises:
        OSError: if the disk is full, for then no further run can succeed either, or the result
            cannot be written.
    """
    meter = Meter(how.progress)
    # A run without a corpus has no fingerprint: its identity is that of its spec alone.
    known = identity or Identity.of(spec)
    try:
        sources = build_sources(spec)
        data = load_data(sources)
        if identity is not None and data.fingerprint != identity.fingerprint:
            raise InputError(f"the data of {spec.source.name} changed after the runs were checked")
        known = identity or known.on(data.fingerprint)
        _check_files(spec, known)
        ready = prepare(spec, how, (sources, data), known, meter)
        result = _finished(ready, Keeper.of(ready, how), meter)
        _check_files(spec, known)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() in a component is no end of the benchmark
        if disk_is_full(error, how.out):
            raise OSError(errno.ENOSPC, "no space left on device", str(how.out)) from error
        goes_on = how.keeps_checkpoints and not isinstance(error, InputError)
        stored = after_failure(how.state_folder / known.id, goes_on=goes_on)
        result = failed(spec, known, reason_of(error, meter.phase, how.failures), stored)
    # This attempt's own time: training that others did for it, or before it, is in its cost.
    began = {**result.provenance, "started": meter.started}
    result = result.model_copy(update={"provenance": began})
    keep_result(result, how.out)
    if result.error is None:
        forget(how.state_folder / known.id)
    return result


def _check_files(spec: RunSpec, known: Identity) -> None:
    """Refuses files and plug-ins that are not those that the run's id is the hash of.

    Raises:
        InputError: if one changed.
    """
    if Identity.of(spec, known.fingerprint).id != known.id:
        raise InputError("a file that the run names changed after the runs were checked")


def _finished(ready: Prepared, keeper: Keeper, meter: Meter) -> Result:
    with meter("train"):
        made = protect(ready.parts, ready.there.corpus, ready.run)
    # As if it had been alone, and not been interrupted.
    before = ready.run.checkpoints.earlier_seconds
    meter.add("train", ready.public_stages.saved_seconds + before)
    with meter("save"):
        keeper.save(made.release, ready.there, ready.parts.task)
    with meter("score"):
        scored = score(ready, made)
    base = made.trained.floor
    made = made.seen_as(with_messages(scored.release, ready.run))
    with meter("attack"):
        retraining = Retraining(ready, made.vocabulary, base)
        attacked = attack_all(ready, made.release, retraining.bound())
    meter.add("attack", ready.run.checkpoints.earlier_seconds - before)
    with meter("account"):
        given, selection = guarantees(ready, made, attacked.lower_bounds)
        limits = checked_ceilings(given, made.release.events, attacked)
        stored = keeper.stored(ready, made, given, attacked)
    return assemble(
        ready, Outcome(made, scored, attacked, given, limits, selection, stored), meter.cost()
    )
