"""Utility of a release: the task's metrics, and those of the same model before training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from uedp_bench.components.metric import refuse_undeclared
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.results import Estimate
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.task import Task, Utility
from uedp_bench.corpus import Corpus
from uedp_bench.errors import PluginError
from uedp_bench.one_run.components import Components
from uedp_bench.one_run.preparing import Prepared
from uedp_bench.one_run.protecting import Protected, with_inputs
from uedp_bench.one_run.trained_before import scored_rows


@dataclass(frozen=True)
class Scored:
    """Utility of a release, as a task measured it.

    Attributes:
        release: release that was scored, with the test rows that mechanisms published.
        utility: the task's metrics.
        details: details of the task beside them.
        public_only: the headline metric of the model before any private row; None where it saw no
            public text either, or where what is served cannot be scored.
    """

    release: Release
    utility: Mapping[str, Estimate]
    details: Mapping[str, Any]
    public_only: float | None = None


def score(ready: Prepared, protected: Protected) -> Scored:
    """Score a release on the test rows of the planted corpus."""
    parts, planted_corpus, run = ready.parts, ready.planted_corpus, ready.run
    rows = planted_corpus.data.scored(planted_corpus.corpus)
    if parts.pipeline.elsewhere is not None:
        run.note(scored_split="test" if rows.where("test").any() else "held_out")
        rows = scored_rows(rows)
    release, rows = with_inputs(parts, protected.release, rows, run)
    task_utility = utility_of(parts.task, release, rows)
    floor = _public_only(parts, protected.trained.floor, rows, run)
    return Scored(release, task_utility.metrics, task_utility.details, floor)


def utility_of(task: Task[Any], release: Release, rows: Corpus) -> Utility:
    """Utility that a task measures; its details are empty where it returns the metrics alone.

    Raises:
        PluginError: if it returns something else.
        InputError: if it gives a metric that it does not declare.
    """
    score: object = task.score(release, rows)
    if isinstance(score, Mapping):
        score = Utility(score)
    if not isinstance(score, Utility):
        raise PluginError(
            f"the task {task.name}: `score` returned a {type(score).__name__}; it returns "
            "Utility(metrics, details), or the metrics alone by name"
        )
    refuse_undeclared(f"the task {task.name}", task.metrics, score.metrics)
    return score


def _public_only(
    parts: Components, release: Release | None, rows: Corpus, run: Run
) -> float | None:
    """The headline metric of the model before any private row, served as the release is."""
    if release is None:
        return None
    for server in parts.pipeline.servers:
        release = server.serve(release, run)
    if not isinstance(release, parts.task.needs):
        return None
    headline = utility_of(parts.task, release, rows).metrics.get(parts.task.metrics[0].name)
    return None if headline is None else headline.value
