"""Lower bounds against guarantees: no proof below an attack, no refuted claim unmarked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from uedp_bench.accounting.events import Adjacency, PrivacyUnit, Protected
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import LowerBound
from uedp_bench.errors import PrivacyError

if TYPE_CHECKING:
    from uedp_bench.bounds.trade_off import TradeOffCurve

STRICT_ERROR = 1e-6
"""One minus the confidence of every `LowerBound.strict_epsilon`: n bounds, over all attacks and
seeds, err together with probability n * 1e-6 at most (union bound)."""

_ANY = 10**6
"""Any number of sentences of a user: accountants know how many can matter."""


class ProvenAt(Protocol):
    """`ledger.proven_at` of the events that happened."""

    def __call__(
        self, *, unit: PrivacyUnit, adjacency: Adjacency, delta: float, point: Protected
    ) -> float:
        """Epsilon at one delta and one point of the curve; infinite without a guarantee."""
        ...


ClaimedAt = Callable[[float], Sequence[Guarantee]]
"""Function from a delta to the mechanism's claims there, in order (`ledger.claimed`)."""


def check_bounds(
    bounds: Sequence[LowerBound],
    guarantees: Sequence[Guarantee],
    proven_at: ProvenAt,
    claimed_at: ClaimedAt | None = None,
) -> tuple[Guarantee, ...]:
    """Compare every lower bound with the guarantees that it speaks of.

    A bound is compared at its own unit, adjacency, delta and point of the curve, and a bound for
    users with user-entity guarantees too, because a user alone is a user together with an entity
    that nobody mentions. Where it has `evidence`, the whole trade-off curve of the guarantee is
    tested, which is refuted long before its epsilon at a single delta is. Bounds without
    `strict_epsilon` are left out: they rest on more than the coins of their attack.

    Args:
        bounds: lower bounds of all attacks.
        guarantees: claimed, stated and proven guarantees of a single training run.
        proven_at: proofs by delta and point; called only where there is a finite proof.
        claimed_at: claims by delta. A paper that claims an epsilon by an accountant claims what the
            accountant says at every delta; without it, only bounds at a claim's delta or above
            can refute it.

    Returns:
        The guarantees, in order; what is claimed or stated and lies below a bound has the status
        "refuted", with the reason.

    Raises:
        PrivacyError: if a bound exceeds what is proven: an error in the mechanism, the accountant
            or the attack.
    """
    strict = [bound for bound in bounds if bound.strict_epsilon is not None]
    against = [bound for bound in strict if _refutes_something(bound)]
    for bound in strict:
        for guarantee in guarantees:
            if guarantee.kind == "proven" and _speaks_of(bound, guarantee):
                _check(bound, guarantee, proven_at, tested=bound in against)
    curves = _claimed_curves(guarantees, claimed_at) if against else {}
    at_delta: dict[float, Iterator[Guarantee]] = {}
    if claimed_at is not None:
        at_delta = {
            bound.delta: iter(claimed_at(bound.delta)) for bound in strict if 0 < bound.delta < 1
        }
    judged = []
    for number, guarantee in enumerate(guarantees):
        if guarantee.kind == "claimed":
            claims = {delta: next(column) for delta, column in at_delta.items()}
            by_points = _judged(guarantee, strict, claims)
            judged.append(_judged_curve(by_points, against, curves.get(number)))
        elif guarantee.kind == "stated":
            judged.append(_judged_stated(guarantee, strict, proven_at, against))
        else:
            judged.append(guarantee)
    return tuple(judged)


def _judged_stated(
    guarantee: Guarantee,
    bounds: Sequence[LowerBound],
    proven_at: ProvenAt,
    against: Sequence[LowerBound],
) -> Guarantee:
    """Refute a stated guarantee if a bound or its scores contradict what events are worth."""
    for bound in bounds:
        if _speaks_of(bound, guarantee):
            worth = _proven(bound, guarantee, proven_at)
            if (bound.strict_epsilon or 0.0) > worth:
                return _refuted(guarantee, f"{_described(bound)} exceeds the stated {worth:.6g}")
            if bound in against and _contradicts(bound, guarantee, proven_at):
                return _refuted(guarantee, _impossible(bound, "stated"))
    return guarantee


def _refuted(guarantee: Guarantee, reason: str) -> Guarantee:
    return guarantee.model_copy(update={"status": "refuted", "reason": reason})


def _refutes_something(bound: LowerBound) -> bool:
    """True if the scores behind a bound show any leak at all, at the confidence of checks."""
    if bound.evidence is None:
        return False
    from uedp_bench.bounds.trade_off import PERFECT, refutes

    return refutes(bound.evidence, PERFECT)


def _contradicts(bound: LowerBound, guarantee: Guarantee, proven_at: ProvenAt) -> bool:
    """True if the scores behind a bound are impossible under all that events are worth."""
    from uedp_bench.bounds.trade_off import TradeOffCurve, refutes

    def epsilon_at(delta: float) -> float:
        return _proven(bound.model_copy(update={"delta": delta}), guarantee, proven_at)

    return bound.evidence is not None and refutes(bound.evidence, TradeOffCurve.sampled(epsilon_at))


def _claimed_curves(
    guarantees: Sequence[Guarantee], claimed_at: ClaimedAt | None
) -> dict[int, TradeOffCurve]:
    """Curve of each claim, by its number among the guarantees: its point alone by default."""
    from uedp_bench.bounds.trade_off import DELTAS, TradeOffCurve

    numbers = [n for n, one in enumerate(guarantees) if one.kind == "claimed"]
    rows = [[guarantees[number] for number in numbers]]
    if claimed_at is not None and numbers:
        rows += [list(claimed_at(delta)) for delta in DELTAS]
    return {
        number: TradeOffCurve.from_points(
            (claim.epsilon, claim.delta) for claim in column if claim.status != "refused"
        )
        for number, column in zip(numbers, zip(*rows, strict=True), strict=True)
    }


def _judged_curve(
    claim: Guarantee, against: Sequence[LowerBound], curve: TradeOffCurve | None
) -> Guarantee:
    """Refute a claim if scores are impossible under its whole curve."""
    from uedp_bench.bounds.trade_off import refutes

    if claim.status == "refuted" or curve is None:
        return claim
    for bound in against:
        speaks = _speaks_of(bound, claim) and _covers(claim, bound)
        if speaks and bound.evidence is not None and refutes(bound.evidence, curve):
            return _refuted(claim, _impossible(bound, "claimed"))
    return claim


def _impossible(bound: LowerBound, what: str) -> str:
    return (
        f"{_described(bound)}: no mechanism with the trade-off curve {what} gives such scores, "
        f"except with probability {STRICT_ERROR:g}"
    )


def _speaks_of(bound: LowerBound, guarantee: Guarantee) -> bool:
    """True if the guarantee, if it holds, limits the bound (deltas aside)."""
    if guarantee.status == "refused" or math.isinf(guarantee.epsilon):
        return False
    same = bound.unit == guarantee.unit or (bound.unit, guarantee.unit) == ("user", "user-entity")
    return same and bound.adjacency == guarantee.adjacency and guarantee.notion == "dp"


def _check(bound: LowerBound, guarantee: Guarantee, proven_at: ProvenAt, *, tested: bool) -> None:
    epsilon = _proven(bound, guarantee, proven_at)
    strict = bound.strict_epsilon
    if strict is not None and strict > epsilon:
        raise PrivacyError(
            f"{_described(bound)} exceeds the proven {epsilon:.6g} for {guarantee.unit} "
            f"({guarantee.adjacency}, {guarantee.accountant}): the mechanism, the accountant or "
            "the attack is wrong"
        )
    if tested and _contradicts(bound, guarantee, proven_at):
        raise PrivacyError(
            f"{_impossible(bound, 'proven')} ({guarantee.unit}, {guarantee.adjacency}, "
            f"{guarantee.accountant}): the mechanism, the accountant or the attack is wrong"
        )


def _proven(bound: LowerBound, guarantee: Guarantee, proven_at: ProvenAt) -> float:
    """Proven epsilon at the delta and the point of the bound."""
    if bound.delta <= 0.0 or bound.delta >= 1.0:
        # Pure guarantees have one value at every delta; the others have none at delta 0.
        if guarantee.pure is not None and bound.delta <= 0.0:
            return guarantee.pure
        return guarantee.epsilon if bound.delta >= guarantee.delta else math.inf
    point = Protected(spread=0)
    if guarantee.unit == "user-entity" and bound.unit == "user-entity":
        point = _point(bound, guarantee)
    return proven_at(
        unit=guarantee.unit, adjacency=guarantee.adjacency, delta=bound.delta, point=point
    )


def _point(bound: LowerBound, guarantee: Guarantee) -> Protected:
    """The point of a bound; the widest of the curve where it names none."""
    if bound.spread is None:
        widest = max(guarantee.curve, key=lambda at: at.spread, default=None)
        if widest is None:
            return Protected(spread=0)
        bound = bound.model_copy(update={"spread": widest.spread, "sentences": widest.sentences})
    spread = bound.spread or 0
    if spread == 0 or bound.sentences is None:
        return Protected(spread=spread, sentences_per_user=_ANY)
    return Protected(spread=spread, sentences_per_user=max(1, -(-bound.sentences // spread)))


def _judged(
    guarantee: Guarantee, bounds: Sequence[LowerBound], at_delta: Mapping[float, Guarantee]
) -> Guarantee:
    """Refute a claim if a bound lies above the claimed epsilon at the bound's delta."""
    against = [b for b in bounds if _refutes(b, at_delta.get(b.delta, guarantee))]
    if not against:
        return guarantee
    # All of these refute the claim; the one to name is the one that tables show.
    highest = max(against, key=lambda bound: (bound.epsilon, bound.strict_epsilon or 0.0))
    claim = at_delta.get(highest.delta, guarantee)
    what = (
        "it" if claim.delta == guarantee.delta else f"the {claim.epsilon:.6g} claimed at that delta"
    )
    return _refuted(guarantee, f"{_described(highest)} exceeds {what}")


def _refutes(bound: LowerBound, claim: Guarantee) -> bool:
    """True if the claim would forbid the bound: a claim holds at its own delta and above."""
    if not _speaks_of(bound, claim) or bound.delta < claim.delta:
        return False
    return _covers(claim, bound) and (bound.strict_epsilon or 0.0) > claim.epsilon


def _covers(claim: Guarantee, bound: LowerBound) -> bool:
    """True if the claim protects the bound's entity; a claim without a point protects all."""
    if claim.protected is None or bound.unit != "user-entity":
        return True
    if bound.spread is None or bound.spread > claim.protected.spread:
        return False
    return bound.sentences is not None and bound.sentences <= claim.protected.sentences


def _described(bound: LowerBound) -> str:
    where = "" if bound.spread is None else f", spread {bound.spread}"
    where += "" if bound.sentences is None else f", {bound.sentences} sentences of others"
    return (
        f"lower bound {bound.epsilon:.6g} (confidence {bound.confidence:.6g}; at 1 - "
        f"{STRICT_ERROR:g}, which decides, {bound.strict_epsilon:.6g}) for {bound.unit} "
        f"({bound.adjacency}, delta {bound.delta:g}{where}) of the attack "
        f"{bound.attack or 'unnamed'} ({bound.method})"
    )
