"""Cost of choosing hyper-parameters by comparing trained models.

Papernot and Steinke 2022, "Hyperparameter Tuning with Renyi Differential Privacy"
(arXiv:2110.03620): where the number of trials is random and secret, releasing the best of them
costs little more than one. Where it is fixed, the best of all is post-processing of all: their
composition is what is proven.

Both need trials whose noise and coins are independent, and one pair of neighbouring data sets that
every trial was run on. Where either is not there, nothing is proven (`Trials.unsound`): two trials
that draw the same numbers tell the sum without its noise, and a cap that keeps other sentences in
each trial has no neighbours that differ in the removed ones alone.

The score by which trials are compared must be post-processing of the trained model for the unit
that is protected. It is so on public text, and on text of validation users for the users of the
training split, who are then protected while the validation users are not. Scores on the training
split itself are no post-processing: nothing is charged, and that is said.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from uedp_bench.accounting.accountants.renyi import ORDERS, Array, renyi, renyi_epsilon
from uedp_bench.accounting.by_unit import events_by_unit
from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.event_contract import Event, Protected
from uedp_bench.accounting.events import NonPrivate, PrivacyEvent, Repeated, one_and_count
from uedp_bench.accounting.guarantee import CurvePoint, Guarantee, Refusal
from uedp_bench.accounting.ledger import proven
from uedp_bench.accounting.sampler_end_delta import whole, within
from uedp_bench.errors import InputError


def epsilon_of_best(divergences: Array, selection: Selection, delta: float) -> float:
    """Epsilon of releasing the best of a random number of trials.

    Args:
        divergences: (ORDERS.size,) Renyi divergences of one trial, in both directions.
        selection: selection with random `repetitions`.
        delta: delta of the guarantee, in (0, 1).
    """
    return renyi_epsilon(best_of_random(divergences, selection), delta)


def best_of_random(divergences: Array, selection: Selection) -> Array:
    """Renyi divergences of the best of a random number of trials.

    Poisson (Theorem 6): with e^a <= 1 + 1/(order - 1) and d the delta of one trial at epsilon a,
    D + mean d + ln(mean) / (order - 1). With no trial at all, nothing of the data is released.
    Truncated negative binomial (Theorem 2): D + (1 + eta) min over other orders o of
    ((1 - 1/o) D(o) + ln(1/gamma) / o) + ln(mean) / (order - 1).

    Args:
        divergences: (ORDERS.size,) Renyi divergences of one trial, in both directions.
        selection: selection with random `repetitions`.

    Returns:
        (ORDERS.size,).

    Raises:
        InputError: if the number of repetitions is not random.
    """
    if selection.mean is None:
        raise InputError(f"repetitions is {selection.repetitions!r}: their number must be random")
    extra = math.log(selection.mean) / (ORDERS - 1.0)
    if selection.eta is None:
        from dp_accounting.rdp.rdp_privacy_accountant import compute_delta

        # dp-accounting takes no logarithm of a divergence that rounds to 0; more is the safe side.
        divergences = np.where(divergences > 0.0, np.maximum(divergences, 1e-15), 0.0)
        finite = np.isfinite(divergences)
        if not finite.any():
            return np.full(ORDERS.size, math.inf)
        deltas = [
            compute_delta(ORDERS[finite], divergences[finite], math.log1p(1.0 / (order - 1.0)))[0]
            for order in ORDERS
        ]
        return np.asarray(divergences + selection.mean * np.array(deltas) + extra)
    gamma = stopping_probability(selection.mean, selection.eta)
    other = np.min((1.0 - 1.0 / ORDERS) * divergences - math.log(gamma) / ORDERS)
    out = divergences + (1.0 + selection.eta) * other + extra
    # Divergences grow with the order: what holds for a larger order holds for a smaller one.
    return np.asarray(np.minimum.accumulate(out[::-1])[::-1])


def stopping_probability(mean: float, eta: float) -> float:
    """Gamma of the truncated negative binomial distribution of this mean (Definition 1).

    The mean is eta (1/gamma - 1) / (1 - gamma^eta); (1/gamma - 1) / ln(1/gamma) for eta 0.

    Returns:
        A value in (0, 1], rounded down, which is the safe side.
    """
    low, high = -745.0, 0.0  # of ln gamma
    while high - low > 1e-12 * max(1.0, -low):
        middle = (low + high) / 2.0
        if _mean(middle, eta) >= mean:
            low = middle
        else:
            high = middle
    return math.exp(low) if mean > 1.0 else 1.0


def _mean(log_gamma: float, eta: float) -> float:
    if log_gamma == 0.0:
        return 1.0
    if -log_gamma > 700.0 or -eta * log_gamma > 700.0:
        return math.inf if eta >= 0.0 else _tail_mean(log_gamma, eta)
    share = math.expm1(-log_gamma)
    if abs(eta * log_gamma) < 1e-12:
        return share / -log_gamma
    return eta * share / -math.expm1(eta * log_gamma)


def _tail_mean(log_gamma: float, eta: float) -> float:
    """The mean for a negative eta and so small a gamma that powers would overflow."""
    return -eta * math.exp(min(-log_gamma * (1.0 + eta), 700.0))


PAPER = "Papernot and Steinke 2022 (arXiv:2110.03620)"

_ANY = 10**6
"""Any number of sentences of a user: accountants know how many can matter."""

_SCORES = {
    "public": "settings were compared on public text",
    "validation": (
        "settings were compared on text of the validation users, which neighbouring data sets "
        "share: users of the training split are protected, validation users are not"
    ),
}
_NOT_CHARGED = "hyper-parameters were chosen on private validation data; not charged: {}"
_NOT_CHARGED_PUBLIC = "hyper-parameters were chosen by comparing trained models; not charged: {}"


@dataclass(frozen=True)
class Trials:
    """Trials of a selection.

    Attributes:
        selection: the declared selection.
        events: events of every setting of its grid, that of the released model among them.
        refusals: reasons why nothing can be proven for some setting; empty if it can.
        shared: reason why the trials' noise is not known to be independent; empty if it is.
        neighbours: reason why a user together with an entity has no common neighbours in all
            trials; empty if it has.
    """

    selection: Selection
    events: tuple[tuple[PrivacyEvent, ...], ...]
    refusals: tuple[str, ...] = ()
    shared: str = ""
    neighbours: str = ""

    def unsound(self, guarantee: Guarantee) -> str:
        """Reason why no theorem bounds what all trials tell of a unit; empty if one does."""
        chosen = self.selection
        if not chosen.charge or chosen.scores == "training":
            return ""  # nothing is charged, and that is said
        if chosen.repetitions == "fixed" and chosen.trainings == 1:
            return ""
        if self.shared:
            return f"trials are charged for as if their noise were independent: {self.shared}"
        return self.neighbours if guarantee.unit in ("user-entity", "entity") else ""


def charge(
    guarantees: Sequence[Guarantee], trials: Trials
) -> tuple[tuple[Guarantee, ...], dict[str, Any]]:
    """Guarantees of the selected model, and the record of the selection.

    Args:
        guarantees: guarantees of the released model as if its settings had been fixed in advance.
            Claims, simulations, and proofs that are refused or infinite, stay as they are.
        trials: all trials of the selection.

    Returns:
        Guarantees in the same order: proven ones cost the selection, or say in their assumptions
        that it was not charged, or are refused where no theorem covers the trials; and the JSON
        record for `Result.selection`.
    """
    out: list[Guarantee] = []
    record: list[dict[str, Any]] = []
    for guarantee in guarantees:
        charged = guarantee.kind != "claimed" and guarantee.notion != "simulation"
        if not charged or math.isinf(guarantee.epsilon):
            out.append(guarantee)
            continue
        charged_guarantee, reason = _charged(guarantee, trials)
        out.append(charged_guarantee)
        record.append({
            "unit": guarantee.unit, "adjacency": guarantee.adjacency, "delta": guarantee.delta,
            "epsilon_of_one_trial": guarantee.epsilon, "epsilon": charged_guarantee.epsilon,
            "charged": not reason, "reason": reason,
        })  # fmt: skip
    selection = trials.selection
    method = _method(selection) if any(entry["charged"] for entry in record) else ""
    return tuple(out), {
        **selection.model_dump(mode="json", exclude_none=True),
        "settings": selection.size,
        "seeds": selection.each,
        "method": method,
        "guarantees": record,
    }


def _charged(guarantee: Guarantee, trials: Trials) -> tuple[Guarantee, str]:
    """Charge a guarantee; where that fails, refuse it or keep it, with the reason."""
    selection = trials.selection
    if reason := trials.unsound(guarantee):
        refused = {"epsilon": math.inf, "pure": None, "notion": "none", "accountant": "none",
                   "curve": (), "status": "refused", "reason": reason}  # fmt: skip
        return guarantee.model_copy(update=refused), reason
    try:
        if not selection.charge:
            raise Refusal("the benchmark asks for no charge")
        if selection.scores == "training":
            raise Refusal("scores on the training split are no post-processing of a trained model")
        if trials.refusals:
            raise Refusal("; ".join(trials.refusals))
        if selection.repetitions == "fixed":
            charged = _composition(guarantee, trials)
        else:
            charged = _random(guarantee, trials)
        if math.isinf(charged.epsilon):
            raise Refusal("no finite epsilon covers all trials")
    except Refusal as refusal:
        text = _NOT_CHARGED_PUBLIC if selection.scores == "public" else _NOT_CHARGED
        stated = (*guarantee.assumptions, text.format(refusal))
        return guarantee.model_copy(update={"assumptions": stated}), str(refusal)
    return charged, ""


def _method(selection: Selection) -> str:
    each = f", {selection.each} seeds each" if selection.each > 1 else ""
    if selection.repetitions == "fixed":
        return f"composition of all {selection.trainings} trials" + (
            f" ({selection.size} settings{each})" if each else ""
        )
    if selection.repetitions == "poisson":
        return f"{PAPER}, Theorem 6, mean {selection.mean:g}{each}"
    return f"{PAPER}, Theorem 2, mean {selection.mean:g}, eta {selection.eta:g}{each}"


def _with(guarantee: Guarantee, selection: Selection, **fields: Any) -> Guarantee:
    trials = (
        "all trials are those declared"
        if selection.repetitions == "fixed"
        else "the number of trials was drawn at random and kept secret, each setting uniformly"
    )
    stated = (*guarantee.assumptions, _SCORES[selection.scores], trials)
    return guarantee.model_copy(update={**fields, "assumptions": stated})


# ----------------------------------------------------------------------------------- fixed numbers


def _composition(guarantee: Guarantee, trials: Trials) -> Guarantee:
    if any(not _events_of(events, guarantee) for events in trials.events):
        raise Refusal(f"not every trial protects the unit {guarantee.unit}")
    everything = proven(_in_sequence(trials), delta=guarantee.delta)
    same = next(
        g for g in everything if (g.unit, g.adjacency) == (guarantee.unit, guarantee.adjacency)
    )
    if same.status == "refused":
        raise Refusal(same.reason)
    return _with(
        guarantee, trials.selection, epsilon=same.epsilon, pure=same.pure, curve=same.curve,
        accountant=f"{same.accountant} + selection",
        source=f"{same.source}; {_method(trials.selection)}",
    )  # fmt: skip


def _in_sequence(trials: Trials) -> list[PrivacyEvent]:
    """The events of all trials; equal trials are counted together, others are stages apart."""
    counts = Counter(trials.events)
    return [
        event.model_copy(
            update={
                "event": _repeated(event.event, count * trials.selection.each),
                "stage": event.stage if len(counts) == 1 else f"trial {number}: {event.stage}",
            }
        )
        for number, (events, count) in enumerate(counts.items(), start=1)
        for event in events
    ]


def _repeated(event: Event, count: int) -> Event:
    if count == 1 or isinstance(event, NonPrivate):
        return event
    if isinstance(event, Repeated):
        return Repeated(count=count * event.count, event=event.event)
    return Repeated(count=count, event=event)


# ---------------------------------------------------------------------------------- random numbers


def _random(guarantee: Guarantee, trials: Trials) -> Guarantee:
    each = trials.selection.each
    groups = {
        tuple(_repeated(event, each) for event in _events_of(events, guarantee))
        for events in trials.events
    }
    if () in groups:
        raise Refusal(f"not every trial protects the unit {guarantee.unit}")
    longest = max(sum(_drawn(event) for event in events) for events in groups)
    drawn = (trials.selection.mean or 1.0) * longest

    @lru_cache
    def epsilon(point: Protected) -> float:
        # A setting drawn at random has no larger divergence than the worst of them.
        worst = np.max([renyi(events, guarantee.adjacency, point) for events in groups], axis=0)
        return within(
            guarantee.delta,
            lambda delta: epsilon_of_best(worst, trials.selection, delta),
            lambda ideal_epsilon: whole(drawn, ideal_epsilon),
        )

    curve = tuple(
        point.model_copy(update={"epsilon": epsilon(_protected(point))})
        for point in guarantee.curve
    )
    alone = Protected(spread=0)
    widest = _protected(guarantee.curve[-1]) if guarantee.curve else alone
    value = epsilon(guarantee.protected or widest)
    return _with(
        guarantee, trials.selection, epsilon=value, pure=None, curve=curve,
        accountant="rdp + selection",
        source=_method(trials.selection),
    )  # fmt: skip


def _drawn(event: Event) -> int:
    """Rounds of an event that may draw noise."""
    one, count = one_and_count(event)
    return count * max(1, one.gaussian_rounds)


def _events_of(events: Sequence[PrivacyEvent], guarantee: Guarantee) -> tuple[Event, ...]:
    """Select the events of one trial about the unit; none if it protects another.

    Raises:
        Refusal: if stages contradict each other, or used private data without protection.
    """
    for part in events_by_unit(events):
        if (part.unit, part.adjacency) == (guarantee.unit, guarantee.adjacency):
            if reasons := (*part.conflicts, *part.unprotected):
                raise Refusal("; ".join(reasons))
            return tuple(event.event for event in part.events)
    return ()


def _protected(point: CurvePoint) -> Protected:
    if point.spread == 0:
        return Protected(spread=0)
    if point.sentences is None:
        return Protected(spread=point.spread, sentences_per_user=_ANY)
    each = max(1, -(-point.sentences // point.spread))
    return Protected(spread=point.spread, sentences_per_user=each)
