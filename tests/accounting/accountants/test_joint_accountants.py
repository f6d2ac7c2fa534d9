"""Curves, declared points, composition of unlike rounds, and what every stage must say."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from machine_pace import processor_pace

from uedp_bench.accounting.accountants.user_entity import user_entity_epsilon
from uedp_bench.accounting.events import (
    AnyEvent,
    ApproximateDP,
    Claim,
    FixedSizeSampled,
    Gaussian,
    LaplaceVector,
    MetricPrivacy,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    PrivacyUnit,
    Protected,
    PureDP,
    Repeated,
    SentenceSampledGaussian,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)
from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.ledger import claimed, proven, proven_at

DELTA = 1e-5
ONE = UserEntityGaussian(rate=0.1, noise_multiplier=9.74, users=400)
TWO = TwoLevelUserEntityGaussian(rate=0.1, noise_multiplier=1.61, users=400, sentence_bound=1 / 6)
SENTENCES = SentenceSampledGaussian(
    rate=0.1, noise_multiplier=7.74, sentences_per_user=6, users=400
)


def privacy_event(
    event: AnyEvent,
    rounds: int = 60,
    protected: Protected | None = None,
    unit: PrivacyUnit = "user-entity",
    stage: str = "",
) -> PrivacyEvent:
    repeated = Repeated(count=rounds, event=event)
    return PrivacyEvent(unit=unit, event=repeated, protected=protected, stage=stage)


def by_unit(*events: PrivacyEvent, **more: object) -> dict[str, Guarantee]:
    return {g.unit: g for g in proven(events, delta=DELTA, **more)}


def shape(guarantee: Guarantee) -> list[tuple[int, int | None]]:
    return [(point.spread, point.sentences) for point in guarantee.curve]


@pytest.mark.parametrize(
    ("event", "declared", "points"),
    [
        (ONE, None, [(k, None) for k in (0, 1, 3, 10, 30, 100, 399)]),
        (ONE, Protected(spread=7), [(k, None) for k in (0, 1, 3, 7, 10, 30, 100, 399)]),
        (TWO, None, [(k, None) for k in (0, 1, 3, 10, 30, 100, 399)]),
        (
            TWO,
            Protected(spread=3, sentences_per_user=2),
            [(0, 0), (1, 2), (3, 6), (10, 20), (30, 60), (100, 200), (399, None)],
        ),
        (SENTENCES, None, [*((e, e) for e in (0, 1, 3, 10, 30, 100)), (399, 2394)]),
        (
            SENTENCES,
            Protected(spread=2, sentences_per_user=3),
            [(0, 0), (1, 1), (2, 6), (3, 3), (10, 10), (30, 30), (100, 100), (399, 2394)],
        ),
        (
            SENTENCES.model_copy(update={"users": 3}),
            None,
            [(0, 0), (1, 1), (2, 3), (2, 10), (2, 12)],
        ),
        (SENTENCES.model_copy(update={"users": 1}), None, [(0, 0)]),
        (ONE.model_copy(update={"users": 4}), None, [(0, None), (1, None), (3, None)]),
        (ONE.model_copy(update={"users": 1}), None, [(0, None)]),
    ],
)  # fmt: skip
def test_points_of_the_curve(
    event: AnyEvent, declared: Protected | None, points: list[tuple[int, int | None]]
) -> None:
    result = by_unit(privacy_event(event, 2, declared))["user-entity"]
    assert shape(result) == points
    assert result.protected == declared
    at = declared or Protected(spread=event.users - 1, sentences_per_user=50)
    ideal = user_entity_epsilon(((event, 2),), at, DELTA)
    # What the end of the sampler adds shows far out alone, and leaves nothing to prove there.
    if ideal < 20.0:
        assert result.epsilon == pytest.approx(ideal, rel=1e-6)
    assert result.epsilon >= ideal
    assert math.isfinite(result.epsilon) or ideal > 40.0
    assert result.epsilon in {point.epsilon for point in result.curve}
    epsilons = [p.epsilon for p in sorted(result.curve, key=lambda p: p.sentences or p.spread)]
    assert epsilons[:-1] == sorted(epsilons[:-1])
    assert epsilons[-1] >= max(epsilons) * (1 - 1e-9) or result.curve[-1].sentences is None


def test_declared_points_give_the_published_epsilon() -> None:
    for event in (ONE, TWO, SENTENCES):
        result = by_unit(privacy_event(event, 60, Protected(spread=10)))["user-entity"]
        assert result.epsilon == pytest.approx(8.0, abs=0.07)
        assert result.epsilon <= 8.0
        assert by_unit(privacy_event(event))["user-entity"].epsilon > 100.0


def test_points_asked_for() -> None:
    points = [Protected(spread=5), Protected(spread=2, sentences_per_user=4)]
    result = by_unit(privacy_event(TWO, 9, Protected(spread=1)), points=points)["user-entity"]
    assert shape(result) == [(2, 8), (5, 5)]
    for point, at in zip(points, (result.curve[1], result.curve[0]), strict=True):
        value = proven_at(
            [privacy_event(TWO, 9)],
            unit="user-entity",
            adjacency="add-or-remove",
            delta=DELTA,
            point=point,
        )
        assert value == at.epsilon
    assert result.epsilon == proven_at(
        [privacy_event(TWO, 9)], unit="user-entity", adjacency="add-or-remove", delta=DELTA,
        point=Protected(spread=1),
    )  # fmt: skip


def test_proven_at_without_a_curve() -> None:
    poisson = PoissonSampled(rate=0.01, event=Gaussian(noise_multiplier=1.0))
    events = [privacy_event(poisson, 1_000, unit="user")]
    more = {"delta": DELTA, "point": Protected(spread=3), "adjacency": "add-or-remove"}
    assert proven_at(events, unit="user", **more) == pytest.approx(1.828244, abs=1e-6)
    assert proven_at(events, unit="user-entity", **more) == math.inf
    drawn = FixedSizeSampled(population=9, sample=3, event=poisson.event)
    refused = [*events, privacy_event(drawn, unit="user")]
    assert proven_at(refused, unit="user", **more) == math.inf


def test_different_declared_points_are_refused() -> None:
    points = Protected(spread=3), Protected(spread=3, sentences_per_user=2)
    both = by_unit(*(privacy_event(SENTENCES, 2, point) for point in points))
    assert both["user-entity"].status == "refused"
    assert "different points" in both["user-entity"].reason
    assert both["user"].status == "given"
    half = by_unit(privacy_event(SENTENCES, 2, points[0]), privacy_event(SENTENCES, 2))
    assert half["user-entity"].protected == points[0]


@pytest.mark.parametrize("event", [ONE, TWO, SENTENCES])
def test_the_user_alone_is_the_point_without_others(event: AnyEvent) -> None:
    both = by_unit(privacy_event(event, 60, Protected(spread=10)))
    assert both["user"].epsilon == both["user-entity"].curve[0].epsilon < 8.0
    assert (both["user"].curve, both["user"].protected) == ((), None)


# Composition


@pytest.mark.parametrize("event", [ONE, TWO, SENTENCES])
def test_halves_make_a_whole_in_any_order(event: AnyEvent) -> None:
    point = Protected(spread=10)
    quiet = event.model_copy(update={"noise_multiplier": event.noise_multiplier * 2, "rate": 0.3})
    halves = ((event, 20), (quiet, 5), (event, 40))
    whole = user_entity_epsilon(((event, 60), (quiet, 5)), point, DELTA)
    assert user_entity_epsilon(halves, point, DELTA) == pytest.approx(whole, rel=1e-6)
    assert user_entity_epsilon(halves[::-1], point, DELTA) == pytest.approx(whole, rel=1e-6)
    assert whole > user_entity_epsilon(((event, 60),), point, DELTA)


def test_changing_noise_and_rate_against_dp_accounting() -> None:
    import dp_accounting as dp
    from dp_accounting.pld import PLDAccountant

    accountant = PLDAccountant(value_discretization_interval=1e-3)
    rounds = []
    for rate, noise, count in ((0.05, 0.9, 40), (0.2, 1.7, 20), (0.02, 0.6, 30)):
        accountant.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise)), count)
        rounds.append((UserEntityGaussian(rate=rate, noise_multiplier=noise, users=9), count))
    ours = user_entity_epsilon(tuple(rounds), Protected(spread=0), DELTA)
    assert ours == pytest.approx(accountant.get_epsilon(DELTA), rel=1e-3)


def test_unlike_rounds_compose() -> None:
    """More than each alone, less than the sum of all at a share of delta."""
    point = Protected(spread=3)
    release = Gaussian(noise_multiplier=4.0)
    vocabulary = PoissonSampled(rate=0.5, event=Gaussian(noise_multiplier=5.0))
    parts = ((ONE, 30), (TWO, 30), (SENTENCES, 30), (release, 1), (vocabulary, 2))
    together = user_entity_epsilon(parts, point, DELTA)
    alone = [user_entity_epsilon((part,), point, DELTA / 5) for part in parts]
    assert max(user_entity_epsilon((part,), point, DELTA) for part in parts) < together < sum(alone)
    result = by_unit(*(privacy_event(event, count) for event, count in parts))
    assert shape(result["user-entity"])[-1] == (399, 399 * 6)
    assert result["user-entity"].curve[2].epsilon == pytest.approx(together, rel=1e-9)


def test_weak_rounds_beside_strong_ones_keep_a_fine_grid() -> None:
    weak = ONE.model_copy(update={"noise_multiplier": 2_000.0})
    point = Protected(spread=3)
    base = user_entity_epsilon(((ONE, 10),), point, DELTA)
    assert base <= user_entity_epsilon(((ONE, 10), (weak, 1_000)), point, DELTA) < 1.02 * base


# Stages


def test_every_stage_must_speak_of_a_unit() -> None:
    vocabulary = privacy_event(Gaussian(noise_multiplier=5.0), 1, unit="user", stage="words")
    training = privacy_event(SENTENCES, 60, Protected(spread=10), stage="uedp-group")
    both = by_unit(vocabulary, training)
    assert both["user-entity"].status == "refused"
    assert "stage words" in both["user-entity"].reason
    assert "user (add-or-remove)" in both["user-entity"].reason
    alone = by_unit(training)["user"].epsilon
    assert alone < both["user"].epsilon < math.inf
    # One stage that says both describes one release twice, and nothing composes.
    views = by_unit(vocabulary.model_copy(update={"stage": "uedp-group"}), training)
    assert views["user-entity"].epsilon == by_unit(training)["user-entity"].epsilon


def test_a_stage_for_the_whole_unit_composes_with_the_curve() -> None:
    vocabulary = privacy_event(Gaussian(noise_multiplier=5.0), 1, stage="words")
    training = privacy_event(SENTENCES, 60, Protected(spread=10), stage="uedp-group")
    both, alone = by_unit(vocabulary, training), by_unit(training)
    assert alone["user-entity"].epsilon < both["user-entity"].epsilon < 9.0
    assert alone["user"].epsilon < both["user"].epsilon < math.inf
    assert both["user-entity"].protected == Protected(spread=10)


def test_stages_of_different_units_prove_nothing() -> None:
    record = privacy_event(Gaussian(noise_multiplier=5.0), 1, unit="record", stage="one")
    user = privacy_event(Gaussian(noise_multiplier=5.0), 1, unit="user", stage="two")
    for result in proven([record, user], delta=DELTA):
        assert (result.status, result.epsilon) == ("refused", math.inf)
    raw = PrivacyEvent(unit="record", event=NonPrivate(reason="as it is"), stage="three")
    for result in proven([user, raw], delta=DELTA):
        assert (result.epsilon, result.notion) == (math.inf, "none")
        assert "as it is" in result.reason


def test_fixed_size_rounds_prove_nothing_about_entities() -> None:
    drawn = FixedSizeSampled(population=400, sample=40, event=Gaussian(noise_multiplier=5.0))
    for adjacency in ("add-or-remove", "replace-one"):
        event = privacy_event(drawn).model_copy(update={"adjacency": adjacency})
        (result,) = proven([event], delta=DELTA)
        assert (result.status, result.unit, result.epsilon) == ("refused", "user-entity", math.inf)
        assert "fixed-size" in result.reason


# Local noise


def test_no_more_sentences_than_two_levels_were_asked_for() -> None:
    """Where both kinds of rounds meet, a point never says more a user than theorem B assumed."""
    both = [event.model_copy(update={"users": 20}) for event in (SENTENCES, TWO)]
    point = Protected(spread=60)
    guarantee = by_unit(
        *(privacy_event(event, protected=point, stage=event.kind) for event in both)
    )["user-entity"]
    for at in guarantee.curve[:-1]:
        assert at.sentences is not None
        each = max(1, -(-at.sentences // max(1, at.spread)))
        protected = Protected(spread=at.spread, sentences_per_user=each)
        rounds = tuple((event, 60) for event in both)
        assert at.epsilon >= user_entity_epsilon(rounds, protected, DELTA) * (1 - 1e-9)


def test_local_noise_adds_up() -> None:
    laplace = LaplaceVector(scale=2.0, sensitivity=6.0)
    result = by_unit(
        privacy_event(laplace, 2, unit="word"), privacy_event(PureDP(epsilon=0.5), 1, unit="word")
    )["word"]
    assert (result.epsilon, result.delta, result.notion) == (6.5, 0.0, "dp")
    assert result.accountant == "basic" and result.source
    approximate = by_unit(privacy_event(ApproximateDP(epsilon=1.0, delta=1e-6), 3, unit="word"))[
        "word"
    ]
    assert (approximate.epsilon, approximate.delta) == (3.0, pytest.approx(3e-6))
    over = by_unit(privacy_event(ApproximateDP(epsilon=1.0, delta=1e-5), 3, unit="word"))["word"]
    assert (over.epsilon, over.notion) == (math.inf, "none")
    assert over.reason


def test_local_noise_beside_central_noise() -> None:
    local = privacy_event(ApproximateDP(epsilon=0.5, delta=4e-6), 1, stage="words")
    training = privacy_event(SENTENCES, 12, Protected(spread=10), stage="uedp-group")
    result = by_unit(local, training)["user-entity"]
    rest = user_entity_epsilon(((SENTENCES, 12),), Protected(spread=10), 6e-6)
    assert 0.97 * (0.5 + rest) <= result.epsilon <= 0.5 + rest  # a composition, or the sum
    assert result.delta == DELTA
    assert result.curve[0].epsilon > 0.5
    assert result.accountant in ("pairs-pld", "user-entity-pld + basic")
    starved = privacy_event(ApproximateDP(epsilon=0.5, delta=1e-5), 1, stage="words")
    assert by_unit(starved, training)["user-entity"].epsilon == math.inf


def test_metric_privacy_keeps_to_itself() -> None:
    metric = MetricPrivacy(epsilon=3.0, metric="euclidean")
    result = by_unit(privacy_event(metric, 2, unit="word"))["word"]
    assert (result.epsilon, result.delta, result.notion) == (6.0, 0.0, "metric-dp")
    for other in (PureDP(epsilon=1.0), Gaussian(noise_multiplier=1.0)):
        refused = by_unit(
            privacy_event(metric, 1, unit="word"), privacy_event(other, 1, unit="word")
        )["word"]
        assert (refused.status, refused.epsilon) == ("refused", math.inf)


def test_claims_of_local_noise() -> None:
    def claim(event: AnyEvent, accountant: str) -> Guarantee:
        word_claim = Claim(unit="word", event=event, accountant=accountant, source="a paper")
        return claimed([word_claim], DELTA)[0]

    pure = claim(PureDP(epsilon=0.05), "basic")
    assert (pure.epsilon, pure.delta, pure.notion) == (0.05, 0.0, "dp")
    metric = claim(MetricPrivacy(epsilon=8.0, metric="euclidean"), "basic")
    assert (metric.epsilon, metric.delta, metric.notion) == (8.0, 0.0, "metric-dp")
    for event, accountant in (
        (PureDP(epsilon=1.0), "rdp"),
        (Gaussian(noise_multiplier=1.0), "basic"),
    ):
        assert claim(event, accountant).status == "refused"


def test_curves_come_fast_and_without_dp_accounting() -> None:
    event = privacy_event(TWO, 60, Protected(spread=3)).model_dump_json()
    code = f"""
import sys, time
start = time.process_time()
from uedp_bench.accounting.events import *
from uedp_bench.accounting.ledger import proven
events = [PrivacyEvent.model_validate_json({event!r})]
for guarantee in proven(events, delta=1e-5):
    assert guarantee.epsilon < 1000
seconds = time.process_time() - start
heavy = {{"torch", "dp_accounting", "scipy.stats"}} & set(sys.modules)
sys.exit(", ".join(heavy) or (f"{{seconds}} seconds" if seconds > {2.0 * processor_pace()} else 0))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
