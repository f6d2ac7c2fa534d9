"""Every attack of a run meets the release, or says why it does not apply."""

from __future__ import annotations

from typing import Any

from uedp_bench.attack import Planted
from uedp_bench.corpus import Corpus
from uedp_bench.harness.components import Parts
from uedp_bench.harness.publishing import not_carried, not_there
from uedp_bench.release import Classifier, Release, RowScorer, capabilities, published_of
from uedp_bench.results import LowerBound, SkippedAttack
from uedp_bench.run import Run


def lacks(needs: tuple[type, ...], release: Release) -> str | None:
    """What a release lacks for those who need any one of these capabilities; None for nothing."""
    if any(isinstance(release, need) for need in needs):
        return None
    names = " or ".join(need.__name__ for need in needs)
    offers = ", ".join(capabilities(release)) or "nothing"
    return f"needs a release that is a {names}; this one offers {offers}"


def withheld(needs: tuple[type, ...], release: Release) -> str | None:
    """Why attacks cannot ask for classes or losses of rows that they choose; None where they can.

    A release may take vectors that only the mechanism makes, and none of them were released.
    """
    if published_of(release) is not None or not release.takes_vectors:
        return None
    asked = {need for need in needs if isinstance(release, need)}
    if not asked or not asked <= {Classifier, RowScorer}:
        return None
    return "the classifier takes vectors that only the mechanism makes, and none were released"


def attack_all(
    parts: Parts, release: Release, planted: dict[str, Planted], corpus: Corpus, run: Run
) -> dict[str, Any]:
    """Leakage, details, lower bounds and skipped attacks, as fields of a result."""
    leakage: dict[str, Any] = {}
    details: dict[str, Any] = {}
    bounds: list[LowerBound] = []
    skipped: list[SkippedAttack] = []
    for number, attack in enumerate(parts.attacks):
        run.progress(f"attack {attack.name}", number, len(parts.attacks))
        reason = lacks(attack.needs, release) or withheld(attack.needs, release)
        reason = reason or not_carried(attack, parts.pipeline) or not_there(attack, corpus)
        if reason is not None:
            skipped.append(SkippedAttack(name=attack.name, reason=reason))
            continue
        inner = run.within(f"attack {attack.name}")
        found = attack.run(release, planted[attack.name], corpus, inner)
        leakage[attack.name], details[attack.name] = found.metrics, found.details
        bounds += [b.model_copy(update={"attack": attack.name}) for b in found.lower_bounds]
    return {"leakage": leakage, "details": details, "lower_bounds": tuple(bounds),
            "skipped_attacks": tuple(skipped)}  # fmt: skip
