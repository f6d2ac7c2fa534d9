"""Trials of a selection: the runs at every setting, and the check that they compose."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from uedp_bench.accounting.declarations import Selection
from uedp_bench.contracts.mechanism import CorpusStats, Mechanism, PublishingMechanism
from uedp_bench.one_run.pipeline import Pipeline

if TYPE_CHECKING:
    from uedp_bench.accounting.selection import Trials


def trials_of(selection: Selection, pipelines: Sequence[Pipeline], stats: CorpusStats) -> Trials:
    """Trials that the choice of hyper-parameters looked at.

    Args:
        selection: declaration in the spec.
        pipelines: mechanisms at every setting of the grid.
        stats: sizes of the training split.
    """
    from uedp_bench.accounting.selection import Trials

    refusals = dict.fromkeys(text for part in pipelines for text in part.refusals(stats))
    return Trials(
        selection,
        tuple(pipeline.plan(stats) for pipeline in pipelines),
        tuple(refusals),
        shared_noise(pipelines),
        no_common_neighbours(pipelines, several=selection.each > 1 or selection.random),
    )


def shared_noise(pipelines: Sequence[Pipeline]) -> str:
    """Reason why runs at these settings may draw the same noise; empty where they do not."""
    for part in _parts(pipelines):
        if part.unit is not None and not part.fresh_noise:
            return (
                f"{part.name} does not say that each run draws noise of its own (fresh_noise), and "
                "two runs with the same noise show the sum that it hides"
            )
    return ""


def no_common_neighbours(pipelines: Sequence[Pipeline], *, several: bool) -> str:
    """Reason why removing a user with an entity changes trials differently; empty if it does not.

    A guarantee for a user together with an entity is about the sentences that are left after caps
    and after publishers in front of the training. Where these differ from trial to trial, what is
    removed from one data set lets other sentences into the next. Runs of one cap keep the same
    sentences if the cap looks at names alone, which nobody promises of a plug-in: with several
    seeds it is refused.

    Args:
        pipelines: the mechanisms at every setting.
        several: True if trials had several seeds.
    """
    caps: dict[str, set[Any]] = {}
    for part in _parts(pipelines):
        if isinstance(part, PublishingMechanism):
            return (
                f"{part.name} rewrites text before it is trained on, in each trial anew: data sets "
                "that are neighbours in one trial need not be in another"
            )
        for name in part.data_set:
            caps.setdefault(f"{part.name}.{name}", set()).add(getattr(part.params, name))
    for cap, values in caps.items():
        if len(values) > 1 or (several and values != {None}):
            which = "of different caps" if len(values) > 1 else "of several seeds"
            return (
                f"{cap} may keep other sentences in trials {which}, so no two data sets are "
                "neighbours in all of them: a sentence that is removed from one lets another into "
                "the next"
            )
    return ""


def _parts(pipelines: Sequence[Pipeline]) -> list[Mechanism[Any]]:
    """The mechanisms of all pipelines, each setting of each once."""
    parts_by_key: dict[str, Mechanism[Any]] = {}
    for pipeline in pipelines:
        for part in (*pipeline.parts, *pipeline.trainers):
            key = json.dumps([part.name, part.params.model_dump(mode="json")], sort_keys=True)
            parts_by_key.setdefault(key, part)
    return list(parts_by_key.values())
