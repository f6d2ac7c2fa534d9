"""Ranking metric, floors, and rows that learnt nothing, as results declare them.

A plug-in's task need not be loaded, and a task that has changed since does not turn old boards
upside down. Only files from before results said so ask the registered task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from uedp_bench.contracts.results import Headline, Result
from uedp_bench.one_run.utility import headline_of

NOTHING = "learned nothing"
"""Marks a row whose model is no better than what needs no private text."""


def headline(results: Sequence[Result]) -> Headline | None:
    """Headline of one spec's results; None if neither they nor a registered task declare it."""
    for result in results:
        if result.headline is not None:
            return result.headline
    return _registered(results[0].spec.task.name) if results else None


def _registered(task: str) -> Headline | None:
    from uedp_bench.components.registry import tasks
    from uedp_bench.errors import UedpBenchError

    try:
        return headline_of(tasks.get(task))
    except UedpBenchError:
        return None


def learned(
    results: Sequence[Result],
    ranked_by: Headline | None,
    interval: tuple[float | None, float | None],
) -> bool | None:
    """True if a row has learnt anything: all its seeds have, or their mean surely has.

    Args:
        results: finished runs that differ in the seed.
        ranked_by: the headline.
        interval: interval of the headline over seeds; None where it has no ends.

    Returns:
        None where that is not known.
    """
    verdicts = [result.learned for result in results]
    if verdicts and all(verdicts):
        return True
    if ranked_by is not None and all(result.floors for result in results):
        sign = 1.0 if ranked_by.larger_is_better else -1.0
        worst = interval[0] if ranked_by.larger_is_better else interval[1]
        floors = [sign * floor for result in results for floor in result.floors.values()]
        if worst is not None and floors and sign * worst > max(floors):
            # Where a floor is not known, nobody can say that it was beaten.
            return None if None in verdicts else True
    return False if False in verdicts else None


def best(floors: Mapping[str, float], ranked_by: Headline | None) -> str | None:
    """The name of the floor that is hardest to beat; None if there is no floor."""
    if not floors or ranked_by is None:
        return None
    sign = 1.0 if ranked_by.larger_is_better else -1.0
    return max(floors, key=lambda name: sign * floors[name])


def disagreements(results: Iterable[Result]) -> tuple[str, ...]:
    """A sentence for every task whose results do not agree on what ranks them."""
    headlines: dict[str, dict[Headline, int]] = {}
    for result in results:
        if result.headline is not None:
            counts = headlines.setdefault(result.spec.task.name, {})
            counts[result.headline] = counts.get(result.headline, 0) + 1
    return tuple(
        f"results of task {task} disagree on what ranks them, and stand on boards of their own: "
        + "; ".join(f"{_words(one)} in {count}" for one, count in sorted(counts.items(), key=str))
        for task, counts in sorted(headlines.items())
        if len(counts) > 1
    )


def _words(ranked_by: Headline) -> str:
    direction = "larger" if ranked_by.larger_is_better else "smaller"
    within = ", within a vocabulary" if ranked_by.by_vocabulary else ""
    return f"{ranked_by.metric} ({direction} is better{within})"
