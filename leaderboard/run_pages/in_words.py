"""Results in plain words: sentences, and lines for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from uedp_bench.accounting.events import DECLARED
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.metric import Metric
from uedp_bench.contracts.results import Estimate, LowerBound, Result
from uedp_bench.leaderboard.cell_text import SURE, number, strictest_against
from uedp_bench.leaderboard.glossary import FLOORS, UNITS
from uedp_bench.leaderboard.installed import result_metrics
from uedp_bench.leaderboard.over_seeds import best, judgements
from uedp_bench.leaderboard.over_seeds import leaks as tells_users_apart
from uedp_bench.leaderboard.rows import Stat
from uedp_bench.leaderboard.table_columns import value_text
from uedp_bench.leaderboard.validation.receipts import receipt


@dataclass(frozen=True)
class Sentence:
    """One sentence, with the tone of its colour: "", "warn" or "bad"."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class _Leak:
    """A metric of an attack, as a share of the way from nothing to everything.

    Attributes:
        nothing: value where nothing leaks.
        surely: True if the interval lies above that value, and users, where the attack judges
            them, are told apart by more than chance (`over_seeds.leaks`).
    """

    attack: str
    metric: Metric
    estimate: Estimate
    nothing: float
    share: float
    surely: bool


def in_words(result: Result) -> tuple[Sentence, ...]:
    """The sentences at the top of a run's page; none for a run that failed."""
    if result.status != "finished":
        return ()
    worth, tone = _worth(result)
    sentences = [Sentence(f"{promise(result.guarantees)}, {worth}.", tone)]
    leaks = sorted(_leaks(result), key=lambda one: (-one.surely, -one.share))
    if leaks:
        sentences.append(_strongest(leaks[0]))
    sentences += [
        Sentence(f"The claim does not hold: {_refutation(one, result)}.", "bad")
        for one in result.guarantees
        if one.status == "refuted"
    ]
    return tuple(sentences)


# ---------------------------------------------------------------------------------------- promises


def promise(guarantees: Sequence[Guarantee]) -> str:
    """Sentence on the proven guarantee, or on its absence."""
    order = list(UNITS)
    proven = [one for one in guarantees if one.kind == "proven" and math.isfinite(one.epsilon)]
    proven.sort(key=lambda one: order.index(one.unit))
    data = [one for one in proven if one.unit != "computation"]
    hidden = " (the computation is hidden from who computes)" if len(data) < len(proven) else ""
    if not data:
        stated = [one for one in guarantees if one.kind == "stated" and math.isfinite(one.epsilon)]
        beside = f" (stated by a plug-in nobody reviewed: ε of {_listed(stated)})" if stated else ""
        return f"Without any proven protection of the data{hidden}{beside}"
    return f"At a proven ε of {_listed(data)}{hidden}"


def _listed(guarantees: Sequence[Guarantee]) -> str:
    """Epsilons with their units."""
    return " and ".join(
        f"{number(one.epsilon)} for {UNITS[one.unit]}"
        + (" per unit of distance" if one.notion == "metric-dp" else "")
        for one in guarantees
    )


def _refutation(claim: Guarantee, result: Result) -> str:
    """Claim, and the bound that refutes it; the stored reason where no bound does."""
    bound = strictest_against(claim, result.lower_bounds)
    if bound is None:
        return claim.reason or "an attack found more"
    declared = f" ({DECLARED})" if claim.accountant == DECLARED else ""
    claimed = f"it is ε = {number(claim.epsilon)} for {UNITS[claim.unit]}{declared}"
    return (
        f"{claimed}, and the attack {bound.attack} "
        f"finds at least {number(bound.strict_epsilon or 0.0)} ({SURE} sure)"
    )


# ----------------------------------------------------------------------------------------- utility


def _worth(result: Result) -> tuple[str, str]:
    """Utility of the release, beside its best floor."""
    name = result.headline.metric if result.headline else next(iter(result.utility), "")
    if name not in result.utility:
        return "nothing says how good the result is", ""
    metric = result_metrics(result).metric("utility", name)
    reached = f"{metric.label} {value_text(metric, result.utility[name].value)}"
    floor = best(result.floors, result.headline)
    if floor is None:
        return f"it reaches {reached}", ""
    value = result.utility[name].value
    larger = bool(result.headline and result.headline.larger_is_better)
    ahead = value > result.floors[floor] if larger else value < result.floors[floor]
    beside = f"{FLOORS.get(floor, floor)} ({value_text(metric, result.floors[floor])})"
    if result.learned is False:
        surely = "not surely" if ahead else "no"
        return f"the result is {surely} better than {beside}: {reached}", "warn"
    if result.learned:
        return f"it reaches {reached}, better than {beside}", ""
    return f"it reaches {reached}, where {beside} is the floor", ""


# ----------------------------------------------------------------------------------------- attacks


def _leaks(result: Result) -> Iterator[_Leak]:
    """The main metrics of the attacks of which it is known where nothing leaks."""
    metrics = result_metrics(result)
    # The interval of a rate takes its threshold for known: it excludes chance in a null in six.
    apart = {
        attack: tells_users_apart(runs, result.ceilings.get(attack))
        for attack, runs in judgements([result]).items()
    }
    for attack, values in result.leakage.items():
        for name, estimate in values.items():
            metric = metrics.metric("leakage", name, attack)
            top = _top(metric, values)
            nothing = no_leak_value(metric, values)
            if metric.main and metric.better == "lower" and nothing is not None and top:
                share = (estimate.value - nothing) / (top - nothing) if top > nothing else 0.0
                above = estimate.low is not None and estimate.low > nothing
                surely = above and apart.get(attack, True)
                yield _Leak(attack, metric, estimate, nothing, share, surely)


def no_leak_value(metric: Metric, values: Mapping[str, Estimate | Stat]) -> float | None:
    """Value of a metric where nothing leaks, beside the other values of its attack."""
    floor = values.get(metric.floor_metric)
    if metric.no_leak is None or floor is None:
        return metric.no_leak
    return max(metric.no_leak, floor.value)


def _top(metric: Metric, values: Mapping[str, Estimate]) -> float | None:
    """Its value where everything leaks."""
    if metric.limit_metric in values:
        return values[metric.limit_metric].value
    return metric.high if math.isfinite(metric.high) else None


def _strongest(leak: _Leak) -> Sentence:
    text = (
        f"The strongest attack, {leak.attack}, reaches {leak.metric.label} "
        f"{value_text(leak.metric, leak.estimate.value)}, where "
        f"{value_text(leak.metric, leak.nothing)} is expected if nothing leaks"
    )
    if leak.surely:
        return Sentence(f"{text}: it finds something.", "bad" if leak.share > _MUCH else "warn")
    return Sentence(f"{text}: this is not surely more than chance.")


_MUCH = 0.5
"""Share of the way to everything from which a leak is a bad one."""


_WIDE = 24


def result_lines(result: Result) -> Iterator[str]:
    """Lines of a result, from its first sentences to its cost."""
    spec = result.spec
    yield (
        f"{result.label}, task {spec.task.name}, model {spec.model.name}, source "
        f"{spec.source.name}, seed {spec.seed} ({result.id})"
    )
    if result.error is not None:
        yield f"It failed in the phase {result.error.phase}: {result.error.message}"
        return
    for sentence in in_words(result):
        yield sentence.text
    yield from _part("utility", result.utility)
    yield "\nguarantee"
    for one in result.guarantees or ():
        epsilon = "no epsilon" if math.isinf(one.epsilon) else f"epsilon {one.epsilon:.4g}"
        why = f" ({DECLARED})" if one.accountant == DECLARED else ""
        why += f" ({one.pure:.4g} at delta 0)" if one.pure is not None else ""
        why += f": {one.reason}" if one.reason else ""
        why += f" ({one.note})" if one.kind == "stated" else ""
        yield f"  {one.kind:{_WIDE}}{epsilon} for {one.unit}, delta {one.delta:g}{why}"
    if not result.guarantees:
        yield "  none: private rows were not used"
    for attack, estimates in result.leakage.items():
        yield from _part(f"attack {attack}", estimates, result.ceilings.get(attack, {}))
        yield from (_refuted(each) for each in result.lower_bounds if each.attack == attack)
    for skipped in result.skipped_attacks:
        yield f"\nattack {skipped.name} was left out: {skipped.reason}"
    for failure in result.failed_attacks:
        yield f"\nattack {failure.name} failed: {failure.reason}"
    yield "\ncost"
    for name, value in result.cost.model_dump().items():
        if isinstance(value, int | float) and not isinstance(value, bool) and value:
            yield f"  {name:{_WIDE - 1}} {value:,.6g}"
    yield f"\n{receipt(result)}"


def _refuted(bound: LowerBound) -> str:
    """Epsilon that an attack refuted, with all that the number depends on."""
    where = "" if bound.spread is None else f", spread {bound.spread}"
    where += "" if bound.sentences is None else f", {bound.sentences} sentences of others"
    assumed = f", if {' and '.join(bound.assumptions)}" if bound.assumptions else ""
    return (
        f"  refutes every epsilon below {bound.epsilon:.4g} for {bound.unit} ({bound.adjacency}, "
        f"delta {bound.delta:g}{where}), {100 * bound.confidence:g} % sure, by {bound.method}"
        f"{assumed}"
    )


def _part(
    title: str, estimates: dict[str, Estimate], ceilings: Mapping[str, float] | None = None
) -> Iterator[str]:
    yield f"\n{title}"
    allowed = ceilings or {}
    wide = max([_WIDE, *(len(name) + 1 for name in estimates)])
    for name, one in estimates.items():
        low, high = one.low, one.high
        interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
        most = f", proofs allow {allowed[name]:.4g}" if name in allowed else ""
        yield f"  {name:{wide}}{one.value:.4g}{interval}{most}"
