"""A result in plain text: sentences, metrics, guarantees and cost, line by line."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from uedp_bench.accounting.events import DECLARED
from uedp_bench.contracts.results import Estimate, LowerBound, Result
from uedp_bench.leaderboard.run_pages.in_words import in_words

WIDE = 24


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
        yield f"  {one.kind:{WIDE}}{epsilon} for {one.unit}, delta {one.delta:g}{why}"
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
            yield f"  {name:{WIDE}}{value:,.6g}"


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
    wide = max([WIDE, *(len(name) + 1 for name in estimates)])
    for name, one in estimates.items():
        low, high = one.low, one.high
        interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
        most = f", proofs allow {allowed[name]:.4g}" if name in allowed else ""
        yield f"  {name:{wide}}{one.value:.4g}{interval}{most}"
