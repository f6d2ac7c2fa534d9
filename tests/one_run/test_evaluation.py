"""What a task may return of its scores, and what a task of an older contract is told."""

from __future__ import annotations

from typing import Any

import pytest

from uedp_bench.components.metric import Metric
from uedp_bench.contracts.release import PublishedOnly, Release
from uedp_bench.contracts.results import Estimate
from uedp_bench.contracts.task import Utility
from uedp_bench.errors import InputError, PluginError
from uedp_bench.one_run.evaluation import utility_of
from uedp_bench.tasks.untrained import UntrainedTask

FOUND = {"rows": Estimate(value=3.0)}


class Counts(UntrainedTask[Any]):
    """Returns whatever it was given."""

    name = "counts"
    needs = (PublishedOnly,)
    metrics = (Metric("rows", better="higher"),)
    answer: Any = None

    def score(self, release: Release, corpus: object) -> Any:
        return self.answer


def evaluated(answer: object) -> Utility:
    task = Counts()
    task.answer = answer
    return utility_of(task, PublishedOnly(), None)  # type: ignore[arg-type]


def test_metrics_come_alone_or_with_details() -> None:
    assert evaluated(FOUND) == Utility(FOUND, {})
    assert evaluated(Utility(FOUND, {"notes": ["three"]})).details == {"notes": ["three"]}


@pytest.mark.parametrize("answer", [None, 3.0, (FOUND, {})])
def test_anything_else_is_refused_by_name(answer: object) -> None:
    with pytest.raises(PluginError, match=r"counts: `score`.*Utility\("):
        evaluated(answer)


def test_a_metric_that_is_not_declared_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"counts.*'row'.*'rows'"):
        evaluated({"row": Estimate(value=3.0)})


@pytest.mark.parametrize("fields", [{"utility": ("rows",)}, {"metrics": ()}])
def test_a_task_without_declared_metrics_is_refused_before_it_runs(fields: Any) -> None:
    with pytest.raises(PluginError, match=r"metrics = \(Metric"):
        type("Silent", (Counts,), {"name": "silent", **fields})()


def test_details_as_a_method_of_their_own_are_refused_with_what_to_write() -> None:
    with pytest.raises(PluginError, match=r"Tells.*`details`.*Utility\(metrics, deta"):

        class Tells(Counts):
            def details(self, release: Release, corpus: object) -> dict[str, Any]:
                return {"rows": 3}
