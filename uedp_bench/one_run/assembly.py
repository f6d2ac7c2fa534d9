"""Result of a finished run, assembled from the outcomes of its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.metric import Declared
from uedp_bench.contracts.model import Vocabulary
from uedp_bench.contracts.results import Cost, Result
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus
from uedp_bench.one_run.attacking import Attacked
from uedp_bench.one_run.planting import Data
from uedp_bench.one_run.preparing import Prepared
from uedp_bench.one_run.protecting import Protected
from uedp_bench.one_run.scoring import Scored
from uedp_bench.one_run.simulation import counts_sizes, marked
from uedp_bench.one_run.utility import judged
from uedp_bench.store.provenance import provenance


@dataclass(frozen=True)
class Outcome:
    """Outcomes of the steps of a run.

    Attributes:
        protected: release, with its vocabulary and training.
        scored: utility of the release.
        attacked: measurements of attacks.
        guarantees: claimed and proven guarantees.
        ceilings: limits that proofs set to metrics, by attack.
        selection: record of the choice of parameters.
        stored: private data in the folder of the run, by kind.
    """

    protected: Protected
    scored: Scored
    attacked: Attacked
    guarantees: tuple[Guarantee, ...]
    ceilings: dict[str, dict[str, float]]
    selection: dict[str, Any]
    stored: dict[str, str]


def assemble(ready: Prepared, outcome: Outcome, cost: dict[str, Any]) -> Result:
    """Assemble the result, with the names of what only a simulation may print.

    Args:
        ready: prepared run.
        outcome: outcomes of its steps.
        cost: costs beside those that the run counted itself.
    """
    run, task, scored = ready.run, ready.parts.task, outcome.scored
    result = Result(
        id=ready.identity.id,
        group=ready.identity.group,
        status="finished",
        spec=ready.spec,
        utility=dict(scored.utility),
        metrics=_metrics(ready, outcome.attacked),
        **judged(task, scored.utility, scored.public_only),
        guarantees=outcome.guarantees,
        ceilings=outcome.ceilings,
        events=outcome.protected.release.events,
        pretraining=dict(outcome.protected.trained.pretraining),
        stages=outcome.protected.trained.record,
        series=dict(run.series),
        diagnostics=dict(run.diagnostics),
        selection=outcome.selection,
        stored=outcome.stored,
        cost=Cost(
            **cost, **run.counts, **run.diary.ways, **run.diary.messages.cost(), **_resumed(run)
        ),
        provenance=provenance(ready.identity.parts)
        | _corpus_sizes(ready.planted_corpus.data, ready.planted_corpus.corpus)
        | {
            "vocabulary": _vocabulary_record(outcome.protected.vocabulary),
            "release": outcome.protected.release.view,
        },
        **vars(outcome.attacked) | {"details": _details(task.name, outcome)},
    )
    counted = counts_sizes(ready.parts.pipeline, run.stats)
    return marked(result, type(task), counted_sizes=counted)


def _corpus_sizes(data: Data, planted: Corpus) -> dict[str, Any]:
    """Fingerprints and sizes of a run's corpora, by the name of each.

    Args:
        data: rows of the sources; their fingerprints are the same for all seeds.
        planted: first corpus with canaries in and held-out users out.
    """
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


def _details(task: str, outcome: Outcome) -> dict[str, Any]:
    """Details of the task beside its utility, and of every attack beside its metrics."""
    task_details = dict(outcome.scored.details)
    return ({task: task_details} if task_details else {}) | dict(outcome.attacked.details)


def _resumed(run: Run) -> dict[str, int]:
    """Count of resumptions from a checkpoint; empty for a run that was never interrupted."""
    return {"resumed": run.checkpoints.resumed} if run.checkpoints.resumed else {}


def _vocabulary_record(vocabulary: Vocabulary | None) -> dict[str, Any] | None:
    if vocabulary is None:
        return None
    return {"size": vocabulary.size, "fingerprint": vocabulary.fingerprint,
            "origin": vocabulary.origin, "private": vocabulary.private}  # fmt: skip
