"""Conclusions about runs that differ in the seed only: headline, evidence, guarantees, bounds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.bounds.ceilings import JudgedUsers
from uedp_bench.bounds.consistency import STRICT_ERROR
from uedp_bench.contracts.results import Estimate, Headline, LowerBound, Result
from uedp_bench.contracts.task import headline_of

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
        ranked_by: headline of the results.
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
            # Nobody can say that a floor was beaten which is not known.
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


AREA, RATE, FALSE = "auc_user", "tpr_user_at_1pct_fpr", 0.01
"""Metrics that decide, and the false-positive rate of the second."""

_ERROR = 0.025
"""Probability of each of the two to decide by chance: 95 % intervals leave as much below."""

_Judgement = tuple[Mapping[str, Estimate], JudgedUsers | None]
"""Metrics of an attack in one run, and the users that it judged, where that is known."""


def judgements(results: Sequence[Result]) -> dict[str, list[_Judgement]]:
    """Judgements of users by attack, of the runs that have them."""
    by_attack: dict[str, list[_Judgement]] = {}
    for result in results:
        for attack, metrics in result.leakage.items():
            if AREA in metrics:
                judged = JudgedUsers.from_details(result.details.get(attack, {}))
                by_attack.setdefault(attack, []).append((metrics, judged))
    return by_attack


def leaks(runs: Sequence[_Judgement], ceilings: Mapping[str, float] | None = None) -> bool:
    """True if the attack tells users apart, by more than chance may.

    The AUC decides by its interval over seeds, and within the run where there is one alone or all
    agree; the true positive rate by exact limits of both rates, of the users of all seeds together.

    Args:
        runs: judgements of the seeds of one row, at least one.
        ceilings: largest honest values by metric; where a proof allows the AUC no more than one
            half, as of a model that has seen no private row, what was measured is chance.
    """
    if round((ceilings or {}).get(AREA, 1.0), 3) <= 0.5:
        return False
    areas = [metrics[AREA] for metrics, _ in runs]
    if all(_exceeds_chance(metrics[AREA], judged) for metrics, judged in runs):
        return True
    if len(areas) > 1:
        from uedp_bench.statistics.intervals import seed_estimate

        low = seed_estimate([area.value for area in areas]).low
        if low is not None and low > 0.5:
            return True
    return _finds_more_than_it_may(runs)


def _exceeds_chance(area: Estimate, judged: JudgedUsers | None) -> bool:
    """True if an AUC lies above one half by its interval, and by the law of Mann and Whitney.

    Resamples of few users, or of users with one score, vary less than chance does.
    """
    if area.low is None or area.low <= 0.5:
        return False
    if judged is None:
        return True
    pairs, users = judged.members * judged.non_members, judged.members + judged.non_members
    chance = 1.96 * math.sqrt((users + 1) / (12.0 * pairs)) + 0.5 / pairs
    return area.value > 0.5 + chance


def _finds_more_than_it_may(runs: Sequence[_Judgement]) -> bool:
    """True if surely more members than non-members pass the thresholds at 1 %."""
    from scipy.special import betaincinv

    hits = members = 0
    expected = variance = 0.0
    for metrics, judged in runs:
        if judged is None or RATE not in metrics:
            return False
        hits += round(metrics[RATE].value * judged.members)
        members += judged.members
        # A threshold is the score of a non-member: it passes as often as that one and those above.
        passed = math.floor(FALSE * judged.non_members + 1e-9) + 1
        weight = judged.members / (judged.non_members + 1)
        expected += weight * passed
        variance += weight**2 * passed
    if not hits:
        return False
    # Seeds weigh as their members do, whatever their sizes: a Beta law of that mean and variance.
    alike = expected**2 / variance
    most = float(betaincinv(alike, alike * (members / expected - 1.0), 1.0 - _ERROR / 2.0))
    return float(betaincinv(hits, members - hits + 1, _ERROR / 2.0)) > most


def common_ceilings(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """Ceilings of a row by attack and metric: the largest over its seeds; of all or none.

    Args:
        results: finished runs of the row.
    """
    return {
        attack: {
            name: max(each[name] for each in every)
            for name in every[0]
            if all(name in each for each in every)
        }
        for attack in (results[0].ceilings if results else ())
        if (every := [one.ceilings[attack] for one in results if attack in one.ceilings])
        and len(every) == len(results)
    }


def worst_guarantees(runs: Sequence[Sequence[Guarantee]]) -> tuple[Guarantee, ...]:
    """The largest epsilon, then the largest delta, of any run, for each kind of guarantee.

    A proof, or what is stated, that some run does not have is refused.
    """
    kept: dict[tuple[str, ...], Guarantee] = {}
    for g in (guarantee for run in runs for guarantee in run):
        key = (g.kind, g.notion, g.unit, g.adjacency, g.accountant, g.source)
        if key not in kept or _weight(g) > _weight(kept[key]):
            kept[key] = g
    of_all = [{_protects(g) for g in run if g.kind != "claimed"} for run in runs]
    without = {_protects(g) for g in kept.values() if math.isinf(g.epsilon)}
    out: dict[tuple[Any, ...], Guarantee] = {}
    for g in kept.values():
        if g.kind != "claimed" and math.isfinite(g.epsilon):
            if _protects(g) in without:
                continue
            have = sum(_protects(g) in proven for proven in of_all)
            if have < len(runs):
                g = _missing(g, f"{g.kind} of {have} of {len(runs)} seeds only")
        out[(g.kind, g.notion, g.unit, g.adjacency, g.accountant, g.source)] = g
    return tuple(out.values())


def _protects(guarantee: Guarantee) -> tuple[str, str, str]:
    return guarantee.kind, guarantee.unit, guarantee.adjacency


def _missing(guarantee: Guarantee, reason: str) -> Guarantee:
    """Takes the place of a proof that some run does not have."""
    return Guarantee(
        kind=guarantee.kind, notion="none", unit=guarantee.unit, adjacency=guarantee.adjacency,
        epsilon=math.inf, delta=guarantee.delta, accountant="none", status="refused", reason=reason,
    )  # fmt: skip


def _weight(guarantee: Guarantee) -> tuple[bool, float, float]:
    return guarantee.status == "refuted", guarantee.epsilon, guarantee.delta


def same_point(bound: LowerBound) -> tuple[Any, ...]:
    """A key of the guarantees that a bound is about, without their delta."""
    return bound.unit, bound.adjacency, bound.spread, bound.sentences


def highest_bounds(bounds: Sequence[LowerBound]) -> tuple[LowerBound, ...]:
    """One bound for each epsilon that is bounded: see `_combined`."""
    groups: dict[tuple[Any, ...], list[LowerBound]] = {}
    for bound in bounds:
        groups.setdefault((*same_point(bound), bound.delta), []).append(bound)
    return tuple(_combined(group) for group in groups.values())


def _combined(bounds: Sequence[LowerBound]) -> LowerBound:
    """The largest of several bounds on one epsilon; the errors of all of them add up.

    Bounds that rest on assumptions count only where no other does. Of so many that little
    confidence is left, the largest of the strict bounds; where not all have one, the first bound,
    which nobody chose by its value.
    """
    bounds = [bound for bound in bounds if not bound.assumptions] or bounds
    left = 1.0 - sum(1.0 - bound.confidence for bound in bounds)
    strict = [bound.strict_epsilon for bound in bounds if bound.strict_epsilon is not None]
    highest = max(bounds, key=lambda bound: bound.epsilon)
    most = max(strict, default=None)
    if left >= _LEAST_CONFIDENCE:
        return highest.model_copy(update={"confidence": round(left, 9), "strict_epsilon": most})
    if len(strict) < len(bounds):
        return bounds[0]
    loudest = max(bounds, key=lambda bound: bound.strict_epsilon or 0.0)
    surely = 1.0 - STRICT_ERROR * len(bounds)
    return loudest.model_copy(update={"epsilon": most, "confidence": surely})


_LEAST_CONFIDENCE = 0.8
