"""Every attack of a run meets the release, or says why it does not apply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from uedp_bench.harness.components import Sources
from uedp_bench.harness.pairing import lacks, withheld
from uedp_bench.harness.preparing import Prepared
from uedp_bench.harness.publishing import not_carried, not_there
from uedp_bench.leakage import Attack
from uedp_bench.release import Release
from uedp_bench.results import MOST_SAMPLES, Estimate, LowerBound, Sample, SkippedAttack
from uedp_bench.run_context import Run


@dataclass(frozen=True)
class Attacked:
    """What the attacks of a run found, by their names; fields of a result."""

    leakage: Mapping[str, dict[str, Estimate]]
    details: Mapping[str, dict[str, Any]]
    lower_bounds: tuple[LowerBound, ...]
    samples: Mapping[str, tuple[Sample, ...]]
    skipped_attacks: tuple[SkippedAttack, ...]


def with_messages(release: Release, run: Run) -> Release:
    """The release with what parties said to each other to make it, where that was kept.

    What the questions of attacks have them say is no part of it.
    """
    messages = run.diary.messages.closed()
    return release if messages is None else release.showing(transcript=messages)


def attack_all(ready: Prepared, release: Release, run: Run) -> Attacked:
    """Runs every attack that applies.

    Args:
        ready: the run.
        release: as the adversary meets it.
        run: its context, which attacks may ask for models.
    """
    parts, there = ready.parts, ready.there
    leakage: dict[str, dict[str, Estimate]] = {}
    details: dict[str, dict[str, Any]] = {}
    bounds: list[LowerBound] = []
    samples: dict[str, tuple[Sample, ...]] = {}
    skipped: list[SkippedAttack] = []
    for number, attack in enumerate(parts.attacks):
        run.progress(f"attack {attack.name}", number, len(parts.attacks))
        reason = reason_against(attack, ready, release)
        if reason is not None:
            skipped.append(SkippedAttack(name=attack.name, reason=reason))
            continue
        found = attack.run(
            release, there.planted[attack.name], there.corpus, run.within(f"attack {attack.name}")
        )
        leakage[attack.name], details[attack.name] = found.metrics, found.details
        if found.samples and _may_show(parts.sources):
            samples[attack.name] = found.samples[:MOST_SAMPLES]
        bounds += [b.model_copy(update={"attack": attack.name}) for b in found.lower_bounds]
    return Attacked(leakage, details, tuple(bounds), samples, tuple(skipped))


def reason_against(attack: Attack[Any], ready: Prepared, release: Release) -> str | None:
    """Why an attack of a run does not apply to its release; None if it does."""
    parts, corpus = ready.parts, ready.there.corpus
    return (
        ready.there.unplanted.get(attack.name)
        or lacks(attack.needs, release)
        or withheld(attack.needs, release)
        or not_carried(attack, parts.pipeline, parts.task)
        or not_there(attack, corpus)
        or attack.refuses(release, corpus)
        or attack.refuses_events(release.events)
    )


def _may_show(sources: Sources) -> bool:
    """True if text of all sources of a run may stand in its result."""
    return all(source.shows_samples() for source in sources if source is not None)
