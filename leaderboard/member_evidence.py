"""Evidence of attacks that tell users of the training data from users that were held out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from uedp_bench.bounds.ceilings import JudgedUsers
from uedp_bench.contracts.results import Estimate, Result

AREA, RATE, FALSE = "auc_user", "tpr_user_at_1pct_fpr", 0.01
"""Metrics that decide, and the false-positive rate of the second."""

ERROR = 0.025
"""Probability of each of the two to decide by chance: 95 % intervals leave as much below."""

Judgement = tuple[Mapping[str, Estimate], JudgedUsers | None]
"""Metrics of an attack in one run, and the users that it judged, where that is known."""


def judgements(results: Sequence[Result]) -> dict[str, list[Judgement]]:
    """Judgements of users by attack, of the runs that have them."""
    by_attack: dict[str, list[Judgement]] = {}
    for result in results:
        for attack, metrics in result.leakage.items():
            if AREA in metrics:
                judged = JudgedUsers.from_details(result.details.get(attack, {}))
                by_attack.setdefault(attack, []).append((metrics, judged))
    return by_attack


def leaks(runs: Sequence[Judgement]) -> bool:
    """True if the attack tells users apart, by more than chance may.

    The AUC decides by its interval over seeds, and within the run where there is one alone or all
    agree; the true positive rate by exact limits of both rates, of the users of all seeds together.

    Args:
        runs: seeds of one row, at least one.
    """
    areas = [metrics[AREA] for metrics, _ in runs]
    if all(area.low is not None and area.low > 0.5 for area in areas):
        return True
    if len(areas) > 1:
        from uedp_bench.statistics.intervals import seed_estimate

        low = seed_estimate([area.value for area in areas]).low
        if low is not None and low > 0.5:
            return True
    return _finds_more_than_it_may(runs)


def _finds_more_than_it_may(runs: Sequence[Judgement]) -> bool:
    """True if surely more members than non-members pass the thresholds at 1 %."""
    from scipy.special import betaincinv

    hits = members = 0
    passed = others = 0
    for metrics, judged in runs:
        if judged is None or RATE not in metrics:
            return False
        hits += round(metrics[RATE].value * judged.members)
        members += judged.members
        # A threshold is the score of a non-member: it passes as often as that one and those above.
        false = math.floor(FALSE * judged.non_members + 1e-9)
        passed += false + 1
        others += judged.non_members + 1
    least = float(betaincinv(hits, members - hits + 1, ERROR / 2.0)) if hits else 0.0
    return least > float(betaincinv(passed, others - passed, 1.0 - ERROR / 2.0))


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
