"""Numbers of a result that are functions of private rows: only a simulation may print them.

A deployment may show what was released with its guarantee, and whatever follows from that, from
public text and from test rows. All else that a result holds was computed from training rows without
noise: counts, times, losses, word statistics, hashes, and what attacks find, for they know the
truth. A new field of a result is private until it is named here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Result
    from uedp_bench.contracts.source import CorpusStats
    from uedp_bench.contracts.task import Task
    from uedp_bench.one_run.pipeline import Pipeline

KEY = "simulation_only"
"""Of `diagnostics`: the list of names. A name stands for everything below it; names without a dot
are diagnostics, or fields of the result."""

PUBLIC = frozenset({
    "schema_version", "status", "error", "spec", "headline", "lower_bounds", "skipped_attacks",
    "pretraining", "stages", "stored", "tracking", "metrics",
})  # fmt: skip
"""Fields that are functions of the spec, of public text, of downstream rows, which no guarantee
speaks of, and of what was released. A lower bound comes from the coins of an auditor who asks the
release."""

_IN_PARTS = frozenset({
    "utility", "floors", "learned", "events", "guarantees", "selection", "diagnostics",
    "provenance",
})  # fmt: skip


def marked(result: Result, task: type[Task[Any]], *, counted_sizes: bool) -> Result:
    """Add every name of `simulation_only` to a result, after those that mechanisms gave.

    Args:
        result: result with the names that mechanisms gave.
        task: task that declares which of its metrics are counted on training rows.
        counted_sizes: True if sizes that entered the accounting were counted from private rows.
    """
    mechanism_names = result.diagnostics.get(KEY, [])
    names = dict.fromkeys([*mechanism_names, *_names(result, task, counted_sizes)])
    return result.model_copy(update={"diagnostics": {**result.diagnostics, KEY: list(names)}})


def counts_sizes(pipeline: Pipeline, stats: CorpusStats) -> bool:
    """True if mechanisms took sizes that were counted from private rows for public ones."""
    from dataclasses import replace

    later = stats.downstream
    if stats.public and (later is None or later.public):
        return False
    public_stats = replace(
        stats, public=True, downstream=None if later is None else replace(later, public=True)
    )
    return pipeline.refusals(stats) != pipeline.refusals(public_stats)


def covers(names: Iterable[str], path: str) -> bool:
    """True if the dotted path of a value is named, by itself or by what it is a part of."""
    return any(path == name or path.startswith(f"{name}.") for name in names)


def _names(result: Result, task: type[Task[Any]], counted_sizes: bool) -> Iterator[str]:
    yield from (f"utility.{name}" for name in task.counted if name in result.utility)
    floors = [name for name, at in task.floors.items() if at in task.counted]
    floors = [name for name in floors if name in result.floors]
    yield from (f"floors.{name}" for name in floors)
    if floors:
        yield "learned"
    if counted_sizes:
        yield from ("events", "guarantees", "selection")
    # Both hash the corpus, and so tell two corpora apart.
    yield from ("provenance.corpus", "provenance.identity.corpus")
    if "downstream" in result.provenance:
        yield from ("provenance.downstream", "provenance.identity.downstream")
    vocabulary = result.provenance.get("vocabulary")
    if isinstance(vocabulary, dict) and vocabulary.get("private"):
        yield "provenance.vocabulary"
    rest = type(result).model_fields.keys() - PUBLIC - _IN_PARTS
    rest -= {
        name for name in ("samples", "failed_attacks", "ceilings") if not getattr(result, name)
    }
    yield from (name for name in type(result).model_fields if name in rest)
