"""Checks that mechanisms protect: what they depend on, what they bound, and what they say."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.accounting.accountants.basic_composition import promises
from uedp_bench.accounting.accountants.loss_pairs import loss_pairs
from uedp_bench.accounting.event_contract import ALONE, Neighbours, UnknownEvent
from uedp_bench.accounting.events import NonPrivate, PrivacyEvent, one_and_count
from uedp_bench.accounting.ledger import check_plan, proven
from uedp_bench.contracts.mechanism import (
    Events,
    PublishingMechanism,
    RepresentationMechanism,
    TrainingMechanism,
)
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import BoolArray, Corpus
from uedp_bench.errors import CapabilityError
from uedp_bench.testing.checks import NotApplicable, Subject, check
from uedp_bench.testing.small_runs import Secret, again, difference, digest, equal_parts, small_run

if TYPE_CHECKING:
    from uedp_bench.testing.adversarial_training import AdversarialLearner, Sums

STATS = CorpusStats(users=1000, rows=5000, sensitive_rows=2000, entities=300, public=True,
                    clients=(0.25,) * 4)  # fmt: skip
DELTA = 1e-5

FRESH_SEEDED = tuple(Secret(scope) for scope in ("check", "check 2", "check 3", "check 4"))
"""Secret random numbers of several runs; releases that are discrete may agree in some of them."""

FRESH_OS = (Secret(source="os"),) * 4


@check("mechanism")
def check_plan_is_accounted(subject: Subject) -> None:
    """A plan that no accountant understands leaves a run without guarantee and without a reason.

    Every event has an epsilon, or a refusal that says why there is none.
    """
    mechanism = subject.create()
    planned = mechanism.plan(STATS)
    assert isinstance(planned, tuple) and all(isinstance(e, PrivacyEvent) for e in planned), (
        f"`plan` returns {planned!r}; it returns a tuple of PrivacyEvent"
    )
    assert mechanism.plan(STATS) == planned, "`plan` gives other events when it is asked again"
    for event in planned:
        text = event.model_dump_json()
        assert PrivacyEvent.model_validate_json(text) == event, f"JSON changes the event {text}"
        assert not isinstance(event.event, UnknownEvent), f"nobody registered the event {text}"
    hidden = [e for e in planned if not isinstance(e.event, NonPrivate)]
    assert not (hidden and mechanism.unprotected), (
        "it declares that it is `unprotected`, and its plan protects: boards would compare with it"
    )
    if hidden and mechanism.protects is None:
        units = ", ".join(sorted({e.unit for e in hidden}))
        raise AssertionError(f"its events protect a {units}, and `unit` (`protects`) says nothing")
    if mechanism.protects is not None:
        assert any(event.unit == mechanism.protects for event in planned), (
            f"it protects a {mechanism.protects}, and no event of its plan speaks of one"
        )
    for guarantee in proven(planned, delta=DELTA, refusals=mechanism.refusals(STATS)):
        is_explained = guarantee.reason or any(isinstance(e.event, NonPrivate) for e in planned)
        assert math.isfinite(guarantee.epsilon) or is_explained, (
            f"no epsilon and no reason: {guarantee}"
        )


ROUNDED = 1e-6
"""Relative error of epsilons and deltas that are compared; a thousandth of it is added to delta."""


@check("mechanism")
def check_promises_agree(subject: Subject) -> None:
    """A promise that is smaller than the event's own pair allows is printed, and does not hold.

    The divergence of an event's pair at the promised epsilon is at most the promised delta. A
    mechanism whose noise is chosen for (epsilon, delta) is proven to keep that target.
    """
    mechanism = subject.create()
    planned = mechanism.plan(STATS)
    compared = [_check_promise(event) for event in planned]
    target = mechanism.params
    chooses = mechanism.takes_delta and getattr(target, "noise_multiplier", None) is None
    if chooses and target.epsilon is not None:
        delta = DELTA if target.delta is None else target.delta
        for g in proven(planned, delta=delta, refusals=mechanism.refusals(STATS)):
            if g.unit == mechanism.protects and math.isfinite(g.epsilon):
                compared.append(True)
                assert g.epsilon <= target.epsilon * (1 + ROUNDED), (
                    f"its parameters promise (epsilon, delta) = ({target.epsilon:g}, {delta:g}), "
                    f"and its events are worth ({g.epsilon:.6g}, {g.delta:g})"
                )
    if not any(compared):
        raise NotApplicable("no event has a promise and a pair, and it takes no target")


def _check_promise(event: PrivacyEvent) -> bool:
    """Compare the promises of an event and of its parts with their pairs; True if one has both."""
    one, _ = one_and_count(event.event)
    if parts := [part for sequence in one.disjoint() for part in sequence]:
        return max(_check_promise(event.model_copy(update={"event": part})) for part in parts)
    promise = promises(one, event.adjacency)
    pair = loss_pairs(one, Neighbours(event.adjacency, event.protected or ALONE))
    if promise is None or pair is None:
        return False
    worth = max(float(side.deltas(np.array([promise.epsilon]))[0]) for side in pair)
    assert worth <= promise.delta * (1 + ROUNDED) + 1e-3 * ROUNDED, (
        f"{one.kind} promises (epsilon, delta) = ({promise.epsilon:.6g}, {promise.delta:.3g}), and "
        f"its pair is worth ({promise.epsilon:.6g}, {worth:.3g}): one of them is wrong, or loose"
    )
    return True


@check("mechanism")
def check_events_as_planned(subject: Subject) -> None:
    """Events must be those of the plan: otherwise the printed epsilon is that of another run.

    Events of what happened are built from what was drawn, never from the plan.
    """
    trained = small_run(subject)
    pipeline, stats = trained.ready.parts.pipeline, trained.ready.run.stats
    check_plan(pipeline.plan(stats), trained.release.events)
    for event in trained.release.events:
        assert json.loads(event.model_dump_json()), "an event is no JSON"


@check("mechanism", "task", "model")
def check_deterministic(subject: Subject) -> None:
    """A run that nobody can repeat proves nothing: equal seeds give equal releases."""
    changed = difference(small_run(subject), again(subject))
    assert changed is None, (
        f"two runs of one seed differ in {changed}: draw from `run.rng`, `run.stream` or the seed "
        "that you are given, and keep nothing between runs"
    )


@check("mechanism")
def check_noise_is_fresh(subject: Subject) -> None:
    """Two runs that share their noise cancel it, and a release without any hides nothing.

    Whatever has a finite epsilon above 0 releases something else with other secret random numbers,
    whether they come from a seed or from the operating system. At epsilon 0 nothing that is
    released depends on private text.
    """
    first = small_run(subject)
    stats = first.ready.run.stats
    guarantees = proven(
        first.release.events, delta=DELTA, refusals=subject.create().refusals(stats)
    )
    finite = [g for g in guarantees if math.isfinite(g.epsilon) and g.notion != "simulation"]
    if not finite:
        raise NotApplicable("it promises nothing of the data: nothing is hidden")
    if all(g.epsilon == 0.0 for g in finite):
        changed = difference(first, again(subject, change=with_other_private_text))
        assert changed is None, f"epsilon is 0, and with other private text differs {changed}"
        return
    for source, others in (("seed", FRESH_SEEDED), ("os", FRESH_OS)):
        equal: set[str] | None = None
        base = first if source == "seed" else again(subject, secret=others[0])
        for secret in others[1:]:
            parts = set(equal_parts(base, again(subject, secret=secret)))
            equal = parts if equal is None else equal & parts
            if not equal:
                break
        assert not equal, (
            f"epsilon is {finite[0].epsilon:.4g}, and {' and '.join(sorted(equal or ()))} are the "
            f"same with other secret random numbers (noise source {source}): draw what protects "
            "from `run.rng` or `run.stream`"
        )


COUNTED = 20_000
"""Copies of a word whose answers are counted."""

CERTAIN = 1e-7
"""Error of a limit of a probability: an honest mechanism never fails by chance."""


@check("mechanism")
def check_word_law(subject: Subject) -> None:
    """A word that is answered more often than its epsilon allows tells which word it was.

    Publishes many copies of two public words, and counts answers: of the answer that tells them
    apart best in one publication, another one has to keep P(answer | word) <= e^epsilon
    P(answer | other word) + delta. Words are taken to be answered independently of each other.
    """
    from scipy.stats import binomtest

    mechanism = subject.create()
    if not isinstance(mechanism, PublishingMechanism):
        raise NotApplicable("it does not publish")
    guarantees = proven(mechanism.plan(STATS), delta=DELTA, refusals=mechanism.refusals(STATS))
    claims = [g for g in guarantees if g.unit == "word" and g.notion == "dp"]
    if not claims or not math.isfinite(claims[0].epsilon):
        raise NotApplicable("it promises nothing of a word")
    trained = small_run(subject)
    visible = trained.ready.planted_corpus.corpus.only("train", "valid", "public")
    public = Counter(" ".join(visible.only("public").texts).split())
    words = [word for word, _ in public.most_common(2)]
    if len(words) < 2:
        raise NotApplicable("no public text has two words")
    first, second = (
        [_answers(mechanism, visible, word, replace(trained.ready.run, scope=secret.scope))
         for word in words]
        for secret in FRESH_SEEDED[:2]
    )  # fmt: skip
    claim = claims[0]
    for at, other in ((0, 1), (1, 0)):
        answer = max(first[at], key=lambda one: first[at][one] / (1 + first[other][one]))
        low, high = (
            binomtest(counts[answer], counts.total()).proportion_ci(1.0 - 2 * CERTAIN)[end]
            for end, counts in enumerate((second[at], second[other]))
        )
        assert low <= math.exp(claim.epsilon) * high + claim.delta, (
            f"epsilon of a word is {claim.epsilon:.4g}, and {words[at]!r} is answered by "
            f"{answer!r} at least {low:.4f} of the time, {words[other]!r} at most {high:.4f}: "
            f"that takes an epsilon of {math.log((low - claim.delta) / high):.4g}"
        )


def _answers(
    mechanism: PublishingMechanism[Any], corpus: Corpus, word: str, run: Run
) -> Counter[str]:
    """Words published for copies of one word in all private rows."""
    private = ~corpus.where("public")
    text = " ".join([word] * -(-COUNTED // int(private.sum())))
    rows = zip(corpus.texts, private, strict=True)
    copies = corpus.with_texts([text if hidden else kept for kept, hidden in rows])
    out, _ = mechanism.publish(copies, run.within("check"))
    answers = Counter(" ".join(out.only("train", "valid").texts).split())
    if out.vectors is not None or not answers:
        raise NotApplicable("it publishes no words")
    return answers


@check("mechanism", "task", "model")
def check_inputs_unchanged(subject: Subject) -> None:
    """Whoever changes the corpus in place changes what other mechanisms and attacks read."""
    trained = small_run(subject)
    assert trained.before == trained.after, "the corpus was changed in place: make a new one"


@check("mechanism")
def check_trains_on_training_rows(subject: Subject) -> None:
    """Events speak of training rows: whoever trains on others, too, gives them no protection."""
    mechanism = subject.create()
    if not isinstance(mechanism, TrainingMechanism):
        raise NotApplicable("it does not train")
    others = _rows_asked(mechanism)
    assert not others, f"it trains on row {others[0]}, which is in the split valid"
    changed = difference(small_run(subject), again(subject, change=with_other_held_back_text))
    assert changed is None, (
        f"with other text in the splits valid and held_out, there are differences in {changed}"
    )


def _rows_asked(mechanism: TrainingMechanism[Any]) -> list[int]:
    """Rows of other splits than train that it trains on, of a learner that any trainer can train.

    One that promises nothing may compare its epochs on them.
    """
    from uedp_bench.testing.adversarial_training import USERS, AdversarialLearner

    learner = AdversarialLearner(gentle=True)
    try:
        _, events = mechanism.train(learner, learner.corpus, Run(1, learner.sizes()))
    except CapabilityError:
        return []  # it trains networks of another kind alone
    open_to_all = any(isinstance(event.event, NonPrivate) for event in events)
    rows = learner.differentiated if open_to_all else learner.batched_rows
    return sorted(row for row in rows if row >= 2 * USERS)


def with_other_private_text(corpus: Corpus) -> Corpus:
    """The corpus with words of private training rows in another order."""
    return _with_words_reversed(corpus, corpus.where("train"))


def with_other_held_back_text(corpus: Corpus) -> Corpus:
    """The corpus with words of the rows that nobody trains on in another order."""
    return _with_words_reversed(corpus, corpus.where("valid", "held_out"))


def _with_words_reversed(corpus: Corpus, rows: BoolArray) -> Corpus:
    texts = tuple(
        " ".join(reversed(text.split(" "))) if is_chosen else text
        for text, is_chosen in zip(corpus.texts, rows.tolist(), strict=True)
    )
    return replace(corpus, texts=texts)


@check("mechanism")
def check_published_corpus(subject: Subject) -> None:
    """A publisher that mixes up splits, users or rows publishes what nobody can score.

    A row-wise one keeps as many rows; public rows stay public.
    """
    mechanism = subject.create()
    if not isinstance(mechanism, PublishingMechanism):
        raise NotApplicable("it does not publish")
    trained = small_run(subject)
    visible = trained.ready.planted_corpus.corpus.only("train", "valid", "public")
    before = digest(visible)
    out, events = mechanism.publish(visible, trained.ready.run.within("check"))
    assert digest(visible) == before, "the corpus was changed in place: make a new one"
    assert isinstance(out, Corpus), f"`publish` returns a {type(out).__name__}, and no Corpus"
    check_plan(mechanism.plan(trained.ready.run.stats), events)
    if mechanism.rowwise:
        assert len(out) == len(visible), (
            f"it is row-wise, and {len(visible)} rows became {len(out)}"
        )
        assert np.array_equal(out.split, visible.split), "it is row-wise, and splits changed"
        assert np.array_equal(out.users, visible.users), "it is row-wise, and users changed"
    if out.vectors is None:
        texts = [t for t, p in zip(visible.texts, visible.where("public"), strict=True) if p]
        kept = [t for t, p in zip(out.texts, out.where("public"), strict=True) if p]
        assert texts == kept, "public text needs no protection and stays as it is"


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

    `run.injected` names users whose updates are replaced (`uedp_bench.training.vector`).
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
    from uedp_bench.testing.adversarial_training import watched

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
    from uedp_bench.testing.adversarial_training import AdversarialLearner

    learner = AdversarialLearner(other)
    if not noisy_sums(mechanism.plan(learner.sizes())):
        raise NotApplicable("its plan speaks of no noise on a sum")
    return learner, mechanism


def noisy_sums(events: Events) -> bool:
    """True if events speak of noise on a sum of updates."""
    text = " ".join(event.model_dump_json() for event in events)
    return any(kind in text for kind in NOISY_SUMS)


def _norm(vector: Any) -> float:
    """l2 norm of a tensor, in float64."""
    return float(vector.double().norm())
