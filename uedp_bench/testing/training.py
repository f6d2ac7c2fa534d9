"""Checks of what trains with noise: the bound of a unit, whose data it depends on, and audits."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from uedp_bench.contracts.mechanism import Events, RepresentationMechanism, TrainingMechanism
from uedp_bench.contracts.run_context import Run
from uedp_bench.testing.checks import NotApplicable, check
from uedp_bench.testing.subjects import Subject

if TYPE_CHECKING:
    from uedp_bench.testing.adversarial_rows import AdversarialLearner
    from uedp_bench.testing.sums import Sums

ROUNDING = 3e-6
"""Rounding of float32: a bound may be passed by this fraction and no more."""

NOISY_SUMS = ('"gaussian"', "user-entity-gaussian", "sentence-sampled", "banded-factorization")
"""Kinds of events that speak of noise on a sum, as JSON has them."""


@check("mechanism")
def check_bound_is_kept(subject: Subject) -> None:
    """One unit that moves a sum by more than its bound is visible through the noise.

    Rows have gradients of all sizes, among them what overflows and what is no number.
    """
    sums = _watched(subject)
    reached = 0.0
    for number, (parts, total) in enumerate(zip(sums.parts, sums.totals, strict=True)):
        together = 0.0
        for part in parts:
            moved = _norm(part.sent)
            allowed = part.bound * part.weight
            assert math.isfinite(part.bound), f"sum {number} bounds nothing, and noise is claimed"
            assert moved <= allowed * (1 + ROUNDING), (
                f"the unit of row {part.row} adds {moved:.6g} to sum {number}: its bound is "
                f"{allowed:.6g}"
            )
            together = together + part.sent.double()  # type: ignore[assignment]
            reached = max(reached, moved / allowed if allowed else 0.0)
        if parts:
            gap = _norm(total.double() - together)
            most = sum(part.bound for part in parts)
            assert gap <= 1e-5 * most, (
                f"sum {number} is not that of its units: it is off by {gap:.3g}"
            )
    assert reached > 0, "no unit adds anything, though rows push as hard as numbers go"


@check("mechanism")
def check_units_do_not_touch_others(subject: Subject) -> None:
    """If what a unit adds depends on another's data, that other one moves the sum twice."""
    before, after = (_watched(subject, other) for other in (None, 4))
    rows = {2 * 4, 2 * 4 + 1}
    first, second = before.parts[0], after.parts[0]
    assert [part.row for part in first] == [part.row for part in second], (
        "who takes part depends on the data of a user"
    )
    for one, two in zip(first, second, strict=True):
        same = one.row in rows or bool((one.sent == two.sent).all())
        assert same, f"the unit of row {one.row} changed with the data of another user"


@check("mechanism")
def check_audit_reaches_updates(subject: Subject) -> None:
    """An audit whose canaries are not put in finds nothing, and a leak looks like a guarantee.

    `run.injected` names users whose updates are replaced (`uedp_bench.training.injection`).
    """
    learner, mechanism = _adversarial(subject)
    run = Run(1, learner.sizes(), injected=tuple(range(12)))
    mechanism.train(learner, learner.corpus, run)
    put = int(run.diagnostics.get("injected_updates", 0))
    assert put, (
        "run.injected names users whose updates an audit replaces, and none was replaced: train "
        "by `train_federated`, or call `inject` before you clip"
    )


def _watched(subject: Subject, other: int | None = None) -> Sums:
    """The sums of a small training on adversarial rows."""
    from uedp_bench.testing.sums import watched

    learner, mechanism = _adversarial(subject, other)
    with watched() as sums:
        mechanism.train(learner, learner.corpus, Run(1, learner.sizes()))
    if not sums.parts:
        raise NotApplicable(
            "it adds up updates itself, where nobody can look: measure its sensitivity in a test "
            "of your own, or train by `train_federated`"
        )
    return sums


def _adversarial(
    subject: Subject, other: int | None = None
) -> tuple[AdversarialLearner, TrainingMechanism[object]]:  # type: ignore[type-var]
    mechanism = subject.create()
    if not isinstance(mechanism, TrainingMechanism):
        raise NotApplicable("it does not train")
    if isinstance(mechanism, RepresentationMechanism):
        raise NotApplicable("its noise is on representations, not on sums")
    from uedp_bench.testing.adversarial_rows import AdversarialLearner

    learner = AdversarialLearner(other)
    if not noisy_sums(mechanism.plan(learner.sizes())):
        raise NotApplicable("its plan speaks of no noise on a sum")
    return learner, mechanism


def noisy_sums(events: Events) -> bool:
    """True if events speak of noise on a sum of updates."""
    text = " ".join(event.model_dump_json() for event in events)
    return any(kind in text for kind in NOISY_SUMS)


def _norm(vector: object) -> float:
    from uedp_bench.testing.sums import norm

    return norm(vector)  # type: ignore[arg-type]
