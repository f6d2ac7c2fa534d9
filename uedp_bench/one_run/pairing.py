"""Pairs of releases with tasks and attacks, which name capabilities that releases offer.

Some attacks cannot apply to a run, which is known before anything is trained: a task says what it
releases (`Task.releases`), and the pipeline says whether anything is published. What is left out
for other reasons shows when the release is there (`evaluation`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from uedp_bench.contracts.capabilities import (
    Classifier,
    LabelOnly,
    RowScorer,
    Tokenised,
    capabilities,
)
from uedp_bench.contracts.release import Channel, Published, Release, Updates, published_of
from uedp_bench.contracts.transcript import Transcript
from uedp_bench.one_run.planting import before_training

if TYPE_CHECKING:
    from uedp_bench.accounting.events import PrivacyEvent
    from uedp_bench.contracts.leakage import Attack
    from uedp_bench.contracts.results import RunSpec
    from uedp_bench.contracts.task import Task
    from uedp_bench.one_run.components import Components
    from uedp_bench.one_run.pipeline import Pipeline


def lacks(needs: tuple[type, ...], release: Release) -> str | None:
    """A sentence if a release has none of these capabilities; None if it has one."""
    if any(isinstance(release, need) for need in needs):
        return None
    names = " or ".join(need.__name__ for need in needs)
    offers = ", ".join(capabilities(release)) or "nothing"
    return f"needs a release that is a {names}; this one offers {offers}"


def withheld(needs: tuple[type, ...], release: Release) -> str | None:
    """Reason why attacks cannot ask about rows of their choice; None if they can.

    A release may take vectors that only the mechanism makes, and none of them were released.
    """
    if published_of(release) is not None or not release.takes_vectors:
        return None
    offered = {need for need in needs if isinstance(release, need)}
    if not offered or not offered <= {Classifier, LabelOnly, RowScorer}:
        return None
    return "the classifier takes vectors that only the mechanism makes, and none were released"


# ---------------------------------------------------------------------------------- before training


def expected(task: Task[Any]) -> tuple[type, ...]:
    """Capabilities of the model that a task trains, as far as it says; none where it trains none.

    Every trained release is taken for a `RowScorer`, and one of which nothing is said for what the
    task itself asks of it.
    """
    if not task.roles():
        return ()
    return tuple(dict.fromkeys((*(task.releases or task.needs), RowScorer)))


def _cannot_apply(attack: Attack[Any], task: Task[Any], pipeline: Pipeline) -> str | None:
    """Reason why an attack cannot apply to a run; None if it can, or that is not known yet."""
    declared = not task.roles() or bool(task.releases)
    if not declared or pipeline.servers:  # what is served may offer other capabilities
        return None
    offered = [*expected(task), Transcript]  # any mechanism may send
    if task.roles():
        offered += [Updates, Tokenised]
    if pipeline.shows_published:
        offered += [Published, Channel]
    if any(need in offered for need in attack.required_capabilities()):
        return None
    named = " or ".join(need.__name__ for need in attack.required_capabilities())
    return f"{attack.name} needs a release that is a {named}"


def left_out(parts: Components, planned: Sequence[PrivacyEvent] = ()) -> tuple[str, ...]:
    """Reasons why attacks of a run cannot apply, as far as that is known.

    Args:
        parts: parts of the run.
        planned: its events.

    Raises:
        InputError: if an attack fails.
    """
    reasons: list[str] = []
    for attack in parts.attacks:
        reason = _cannot_apply(attack, parts.task, parts.pipeline)
        with before_training(attack, "judge the planned events"):
            reason = reason or attack.refuses_events(planned)
        reasons += [reason] if reason else []
    return tuple(reasons)


def impossible_pairs(runs: Iterable[tuple[RunSpec, tuple[str, ...]]]) -> tuple[str, ...]:
    """One line for each attack that some runs leave out, with the mechanisms of these runs.

    Args:
        runs: runs to start, each with the reasons of `left_out`.
    """
    mechanisms_by_reason: dict[str, dict[str, None]] = {}
    for spec, reasons in runs:
        for reason in reasons:
            mechanisms_by_reason.setdefault(reason, {})[
                "+".join(ref.name for ref in spec.mechanism)
            ] = None
    return tuple(
        f"{reason}: left out of runs of {', '.join(mechanisms)}"
        for reason, mechanisms in mechanisms_by_reason.items()
    )
