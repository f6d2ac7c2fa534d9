"""Ceilings that proofs set to telling users of the training data from users that were held out.

A proof for a user bounds every test of "this user was in" against "this user was not": at a
false-positive rate a, no test has more true positives than 1 - f(a), where f is the trade-off
function of the guarantee (Dong, Roth and Su 2022, "Gaussian Differential Privacy", section 2), and
its area under the curve is at most 1 minus the integral of f. f is taken from below, by the proven
epsilons at a few deltas, so that no ceiling is lower than the proof.

A proof for a record bounds it through all records of a user (theorem 2.14 there). The
neighbours that a held-out user makes are in `docs/proofs.md`, section 21.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from uedp_bench.accounting.event_contract import ALONE, Adjacency, Count, Frozen, PrivacyUnit
from uedp_bench.accounting.events import PrivacyEvent
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import proven_at
from uedp_bench.bounds.consistency import STRICT_ERROR
from uedp_bench.bounds.trade_off import TradeOffCurve
from uedp_bench.errors import PrivacyError

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Estimate

FloatArray = NDArray[np.float64]

RATES: Mapping[str, float | None] = {
    "auc": None,
    "auc_user": None,
    "tpr_at_1pct_fpr": 0.01,
    "tpr_at_0.1pct_fpr": 0.001,
    "tpr_user_at_1pct_fpr": 0.01,
    "tpr_user_at_0.1pct_fpr": 0.001,
}
"""Metrics that have a ceiling: false-positive rate of a true-positive rate, None of an AUC."""

DELTAS = (1e-6, *np.geomspace(1e-4, 0.12, 15).tolist(), *np.linspace(0.15, 0.94, 14).tolist(), 0.99)
"""Deltas at which epsilon is computed; 1 % above Gaussian curves of mu <= 3 at most."""


class JudgedUsers(Frozen):
    """Users whom an attack tells apart by scores, and who were held out at random.

    Attributes:
        members, non_members: numbers of scored users on either side.
        most_records: most records of one of them in the training data.
    """

    members: Count
    non_members: Count
    most_records: Count

    @classmethod
    def from_details(cls, details: Mapping[str, Any]) -> JudgedUsers | None:
        """Read the judged users from an attack's details; None if it has none."""
        try:
            return cls.model_validate(details.get("judged"))
        except ValidationError:
            return None


@lru_cache(maxsize=64)
def proven_curve(
    events: tuple[PrivacyEvent, ...], unit: PrivacyUnit, adjacency: Adjacency
) -> TradeOffCurve:
    """The proven curve of a unit, at `DELTAS`.

    Args:
        events: events of all stages, as for `ledger.proven_at`.
        unit: unit of the guarantee.
        adjacency: adjacency of the guarantee.
    """
    points = [
        (proven_at(events, unit=unit, adjacency=adjacency, delta=delta, point=ALONE), delta)
        for delta in DELTAS
    ]
    finite = [point for point in points if math.isfinite(point[0])]
    epsilons, deltas = np.array(finite, dtype=np.float64).reshape(-1, 2).T
    return TradeOffCurve(epsilons, deltas)


def ceilings(
    metrics: Iterable[str],
    judged: JudgedUsers,
    guarantees: Sequence[Guarantee],
    events: Sequence[PrivacyEvent],
) -> dict[str, float]:
    """Largest honest value of each metric of `RATES`; empty where no proof bounds them.

    Args:
        metrics: names of metrics.
        judged: users whom the attack tells apart.
        guarantees: guarantees of the run.
        events: events of a single training, on which the guarantees rest.
    """
    curves = list(_curves(judged, guarantees, events))
    return {
        name: min(_ceiling(curve, group, RATES[name]) for _, curve, group in curves)
        for name in metrics
        if name in RATES and curves
    }


def _ceiling(curve: TradeOffCurve, group: int, rate: float | None) -> float:
    return curve.area(group) if rate is None else float(curve.true_positives(rate, group)[0])


def bounds_users(guarantee: Guarantee, judged: JudgedUsers) -> int:
    """Most units of a guarantee that one user is; 0 if it bounds no test about users."""
    finite = guarantee.status == "given" and math.isfinite(guarantee.epsilon)
    if guarantee.kind != "proven" or guarantee.notion != "dp" or not finite:
        return 0
    if guarantee.unit == "user":
        return 1
    if guarantee.unit != "record":
        return 0
    # Users of unlike numbers of records do not take each other's place one record by one.
    swapped = guarantee.adjacency == "replace-one" and judged.most_records > 1
    return 0 if swapped else judged.most_records


def _curves(
    judged: JudgedUsers, guarantees: Sequence[Guarantee], events: Sequence[PrivacyEvent]
) -> Iterator[tuple[Guarantee, TradeOffCurve, int]]:
    """Guarantees that bound tests about users, with their curves and the units that a user is."""
    for guarantee in guarantees:
        if group := bounds_users(guarantee, judged):
            curve = proven_curve(tuple(events), guarantee.unit, guarantee.adjacency)
            yield guarantee, curve, group


# ------------------------------------------------------------------------------------------ checks


def check_measured(
    metrics: Mapping[str, Estimate],
    judged: JudgedUsers,
    guarantees: Sequence[Guarantee],
    events: Sequence[PrivacyEvent],
    attack: str,
) -> None:
    """Compare an attack's metrics of users with their ceilings.

    Records of one user are in or out together: limits of their metrics are not known, and metrics
    of users are compared alone. Each comparison errs with a probability of at most `STRICT_ERROR`.

    Args:
        metrics: metrics of the attack.
        judged: users whom it tells apart.
        guarantees: guarantees of the run.
        events: events of a single training, on which the guarantees rest.
        attack: name of the attack, for the message.

    Raises:
        PrivacyError: if a metric lies above its ceiling by more than chance: an error in the
            mechanism, the accountant or the attack.
    """
    for guarantee, curve, group in _curves(judged, guarantees, events):
        for name in metrics:
            if name not in RATES or "_user" not in name:
                continue
            least, most, at = _limits(metrics[name].value, judged, (curve, group), RATES[name])
            if least > most:
                raise PrivacyError(
                    f"{attack}.{name} is {metrics[name].value:.6g} (at confidence 1 - "
                    f"{STRICT_ERROR:g}, which decides, at least {least:.6g}{at}), and the proof "
                    f"for {guarantee.unit} ({guarantee.adjacency}, {guarantee.accountant}) allows "
                    f"at most {most:.6g}: the mechanism, the accountant or the attack is wrong"
                )


def _limits(
    value: float, judged: JudgedUsers, bound: tuple[TradeOffCurve, int], rate: float | None
) -> tuple[float, float, str]:
    """Lower limit of a metric, its ceiling, and the place on the curve in words."""
    curve, group = bound
    if rate is None:
        pairs = min(judged.members, judged.non_members)
        return least_auc(value, pairs, STRICT_ERROR), curve.area(group), ""
    from scipy.special import betaincinv

    # The threshold is the score of a non-member, whose true rate has this Beta distribution
    # (Clopper-Pearson, exactly); given the threshold, hits are binomial.
    n, tail = judged.non_members, STRICT_ERROR / 2.0
    false = math.floor(rate * n + 1e-9)
    hits = round(value * judged.members)
    worst = 1.0 if false >= n else float(betaincinv(false + 1, n - false, 1.0 - tail))
    least = float(betaincinv(hits, judged.members - hits + 1, tail)) if hits else 0.0
    most = float(curve.true_positives(worst, group)[0])
    return least, most, f" where at most {worst:.6g} of non-members are"


def least_auc(value: float, pairs: int, error: float) -> float:
    """Lower limit of an AUC that is measured on independent users.

    An AUC is a mean over orders of users of means over disjoint pairs, so Chernoff's bound for so
    many pairs holds (Hoeffding 1963, section 5): values v of a true p have a probability of at most
    exp(-pairs KL(v, p)).

    Args:
        value: measured AUC.
        pairs: disjoint pairs of a member and a non-member.
        error: probability that the true AUC is below the limit.
    """
    from scipy.special import rel_entr

    def excess(p: float) -> float:
        return float(rel_entr(value, p) + rel_entr(1.0 - value, 1.0 - p)) + math.log(error) / pairs

    low, high = 0.0, value
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return low
