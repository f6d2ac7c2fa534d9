"""The guarantees of a run: from what happened, and with the cost of choosing parameters."""

from __future__ import annotations

from typing import Any

from uedp_bench import registry
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import check_plan, claimed, proven
from uedp_bench.errors import PrivacyError
from uedp_bench.harness.components import Parts, build_pipeline
from uedp_bench.harness.spec import tried_runs
from uedp_bench.harness.trials import trials_of
from uedp_bench.mechanism import CorpusStats
from uedp_bench.model import Vocabulary
from uedp_bench.release import Release
from uedp_bench.results import RunSpec


def guarantees(
    parts: Parts, release: Release, vocabulary: Vocabulary | None, spec: RunSpec, stats: CorpusStats
) -> tuple[Guarantee, ...]:
    """Claimed from parameters; proven from what happened, unless a condition is broken."""
    refusals = list(parts.pipeline.refusals(stats))
    refusals += registry.sources.create(spec.source.name, spec.source.params).refusals()
    second = parts.task.second_source()
    if second is not None and "downstream" in parts.task.private_rows():
        refusals += registry.sources.create(second.name, second.params).refusals()
    paid = parts.pipeline.only_processes(stats)
    if vocabulary is not None and vocabulary.private and release.events and not paid:
        refusals.append(f"the vocabulary comes from private text ({vocabulary.origin})")
    planned = parts.pipeline.plan(stats)
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

    pipelines = [
        build_pipeline(tried, registry.tasks.create(tried.task.name, tried.task.params))
        for tried in tried_runs(spec)
    ]
    return charge(given, trials_of(spec.selection, pipelines, stats))
