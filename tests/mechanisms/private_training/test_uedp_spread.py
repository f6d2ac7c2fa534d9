"""uedp-spread: its noise, its events, and conditions C1 to C6, each enforced or refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from learners import EntityLearner, flat, run_of, sizes
from sums import Sentence, learner_of, watched
from toy import ToyLearner

from uedp_bench.accounting.events import (
    Protected,
    Repeated,
    TwoLevelUserEntityGaussian,
    UserEntityGaussian,
)
from uedp_bench.accounting.ledger import check_plan, proven
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP

STATS = sizes(users=1000, rows=6000)
ROUNDS = {"rounds": 60, "users_per_round": 100}
QUIET = {"rounds": 1, "users_per_round": 4, "noise_multiplier": 0.0, "clip": 1.0}
POINTS = np.random.default_rng(4).normal(size=(9, 5))
USERS = [0, 0, 0, 0, 1, 1, 2, 2, 3]


def _noise(**params: Any) -> float:
    (event,) = UeDPSpread.create({**ROUNDS, **params}).plan(STATS)
    assert isinstance(event.event, Repeated)
    assert isinstance(event.event.event, UserEntityGaussian | TwoLevelUserEntityGaussian)
    return event.event.event.noise_multiplier


def _trained(**params: Any) -> torch.Tensor:
    learner = ToyLearner(POINTS, USERS)
    mechanism = UeDPSpread.create({**QUIET, **params})
    return flat(mechanism.train(learner, learner.corpus, run_of(learner))[0])


@pytest.mark.parametrize(
    ("clipping", "spread", "expected"),
    [
        ("one-level", 0, 0.84), ("one-level", 1, 1.52), ("one-level", 3, 3.27),
        ("two-level", 0, 0.84), ("two-level", 1, 0.90), ("two-level", 3, 1.05),
    ],
)  # fmt: skip
def test_the_noise_for_epsilon_8_is_that_of_an_independent_calculation(
    clipping: str, spread: int, expected: float
) -> None:
    noise = _noise(clipping=clipping, protected_spread=spread)
    assert noise == pytest.approx(expected, abs=0.011)


def test_the_default_noise_meets_the_target_and_hardly_more() -> None:
    for clipping in ("one-level", "two-level"):
        mechanism = UeDPSpread.create({**ROUNDS, "clipping": clipping, "protected_spread": 2})
        guarantee, alone = proven(mechanism.plan(STATS), delta=1e-5)
        assert guarantee.protected == Protected(spread=2)
        assert 7.98 < guarantee.epsilon <= 8.0
        assert len(guarantee.curve) > 2
        assert alone.unit == "user"
        assert alone.epsilon < guarantee.epsilon


def test_more_protection_needs_more_noise() -> None:
    base = _noise()
    assert _noise(epsilon=2.0) > base
    assert _noise(protected_spread=4) > base
    assert _noise(protected_sentences_per_user=2) > base
    assert _noise(delta=1e-7) > base
    assert _noise(sentence_clip=0.3) > base  # c = clip: others move as far as the user itself
    one = _noise(clipping="one-level")
    assert one > base
    assert _noise(clipping="one-level", protected_sentences_per_user=4) == one


def test_the_event_names_what_was_done() -> None:
    learner = ToyLearner(POINTS, USERS)
    for clipping, kind in (
        ("one-level", UserEntityGaussian), ("two-level", TwoLevelUserEntityGaussian)
    ):  # fmt: skip
        mechanism = UeDPSpread.create(
            {"rounds": 2, "users_per_round": 1, "clip": 0.6, "clipping": clipping,
             "sentences_per_user": 3, "protected_sentences_per_user": 2, "protected_spread": 1}
        )  # fmt: skip
        run = run_of(learner)
        _, events = mechanism.train(learner, learner.corpus, run)
        check_plan(mechanism.plan(run.stats), events)
        event = events[0].event
        assert isinstance(event, Repeated)
        assert isinstance(event.event, kind)
        assert (event.count, event.event.rate, event.event.users) == (2, 0.25, 4)
        assert events[0].protected == Protected(spread=1, sentences_per_user=2)
        if isinstance(event.event, TwoLevelUserEntityGaussian):
            assert event.event.sentence_bound == pytest.approx(1 / 3)


def test_one_level_without_noise_is_user_dp_without_noise() -> None:
    learner = ToyLearner(POINTS, USERS)
    module, _ = UserDP.create(QUIET).train(learner, learner.corpus, run_of(learner))
    torch.testing.assert_close(_trained(clipping="one-level"), flat(module))


def test_two_level_divides_the_sum_of_clipped_sentences_by_the_users_of_a_round() -> None:
    moved = _trained(sentences_per_user=4, clip=1.0)  # c = 1 / 4: the second bound never binds
    lengths = np.linalg.norm(POINTS, axis=1, keepdims=True)
    by_hand = (POINTS * np.minimum(1.0, 0.25 / lengths)).sum(axis=0) / 4
    np.testing.assert_allclose(moved.numpy(), by_hand, rtol=1e-4, atol=1e-6)


def test_no_noise_promises_nothing() -> None:
    guarantees = proven(UeDPSpread.create(QUIET).plan(sizes(users=4)), delta=1e-5)
    assert {guarantee.unit for guarantee in guarantees} == {"user-entity", "user"}
    assert all(math.isinf(guarantee.epsilon) for guarantee in guarantees)


# C1: weights are constants or functions of the user's own data.


def test_c1_two_level_takes_no_weights_and_one_level_the_user_s_own() -> None:
    with pytest.raises(InputError, match="user_cap is 4"):
        UeDPSpread.create({"user_cap": 4})
    learner = ToyLearner(10 * POINTS, USERS)
    mechanism = UeDPSpread.create({**QUIET, "clipping": "one-level", "user_cap": 4})
    with watched() as sums:
        mechanism.train(learner, learner.corpus, run_of(learner))
    lengths = {user: float(part.norm()) for user, part in sums.by_user[0].items()}
    assert lengths == pytest.approx({0: 1.0, 1: 0.5, 2: 0.5, 3: 0.25}, rel=1e-4)


@pytest.mark.parametrize(
    ("field", "value"),
    [("local_epochs", 2), ("local_batch_size", 1), ("local_optimizer", "adam"),
     ("rows_per_user", 2)],
)  # fmt: skip
def test_two_level_refuses_what_makes_sentences_depend_on_each_other(
    field: str, value: object
) -> None:
    with pytest.raises(InputError, match=rf"{field} is .*one-level"):
        UeDPSpread.create({field: value})
    UeDPSpread.create({field: value, "clipping": "one-level"})


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"clip": 0.3, "sentence_clip": 0.4}, r"sentence_clip.*clip=0\.3"),
        ({"sentences_per_user": None}, "sentence_clip.*sentences_per_user"),
        ({"clipping": "one-level", "sentence_clip": 0.1}, "sentence_clip.*two-level"),
        ({"clipping": "two-levels"}, "two-levels"),
        ({"users_per_round": 2000}, "users_per_round.*2000.*1000"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        UeDPSpread.create(params).plan(STATS)


# C2: |U|, rate, denominator and noise are public constants.


def test_c2_sizes_counted_from_private_data_are_refused_and_declared_ones_used() -> None:
    private = sizes(users=10, public=False)
    (reason,) = UeDPSpread.create({}).refusals(private)
    assert "uedp-spread.users=N" in reason
    events = UeDPSpread.create({"users_per_round": 5}).plan(private)
    for guarantee in proven(events, delta=1e-5, refusals=[reason]):
        assert (guarantee.status, guarantee.epsilon) == ("refused", math.inf)
    mechanism = UeDPSpread.create({"users": 40, "users_per_round": 10, "noise_multiplier": 1.0})
    assert mechanism.refusals(private) == ()
    event: Any = mechanism.plan(private)[0].event
    assert (event.event.rate, event.event.users) == (0.25, 40)


def test_c2_more_users_than_declared_make_everybody_more() -> None:
    learner = ToyLearner(POINTS, USERS)
    mechanism = UeDPSpread.create({**QUIET, "users": 2, "users_per_round": 1})
    _, (event,) = mechanism.train(learner, learner.corpus, run_of(learner))
    inner: Any = event.event
    assert (inner.event.users, inner.event.rate) == (4, 0.5)


def test_c2_noise_and_denominator_do_not_depend_on_the_data() -> None:
    noises = []
    for users in ([0] * 3, [0, 1, 2]):
        learner = ToyLearner(np.zeros((3, 1000)), users)
        run = run_of(learner)
        mechanism = UeDPSpread.create({**QUIET, "users": 50, "noise_multiplier": 2.0})
        noises.append(flat(mechanism.train(learner, learner.corpus, run)[0]))
    assert torch.equal(*noises)


# C3: what is seen before the noise is marked as such.


def test_c3_diagnostics_of_private_values_are_for_simulation_only() -> None:
    learner = ToyLearner(POINTS, USERS)
    run = run_of(learner)
    UeDPSpread.create({**QUIET, "sentences_per_user": 2}).train(learner, learner.corpus, run)
    assert run.diagnostics["sentences_dropped_by_cap"] == 2
    seen = set(run.diagnostics) - {"simulation_only", "noise_norm"}
    assert seen <= set(run.diagnostics["simulation_only"])
    assert {f"series.{name}" for name in run.series} <= set(run.diagnostics["simulation_only"])


# C4: a row belongs to one user (vocabularies are the task's; a private one makes epsilon infinite).


def test_c4_a_row_without_a_user_is_refused() -> None:
    learner = ToyLearner(POINTS, [*USERS[:-1], -1])
    with pytest.raises(InputError, match=r"row.*user"):
        UeDPSpread.create(QUIET).train(learner, learner.corpus, run_of(ToyLearner(POINTS, USERS)))


# C5: independent coins: test_sensitivity measures their rate, test_sampling_told takes them away.


def test_c5_fixed_size_rounds_do_not_exist() -> None:
    with pytest.raises(InputError, match="'sampling'"):
        UeDPSpread.create({"sampling": "fixed"})


# C6: caps come before.


@pytest.mark.parametrize("clipping", ["one-level", "two-level"])
def test_c6_a_user_s_sentences_are_chosen_once_for_all_rounds(clipping: str) -> None:
    learner = _noting(ToyLearner(POINTS, USERS))
    mechanism = UeDPSpread.create(
        {**QUIET, "rounds": 20, "sentences_per_user": 2, "clipping": clipping}
    )
    mechanism.train(learner, learner.corpus, run_of(learner))
    used = np.unique(learner.noted)
    assert np.bincount(np.array(USERS)[used]).tolist() == [2, 2, 2, 1]


def test_c6_a_cap_does_not_let_another_sentence_in() -> None:
    """Deleting from the capped data set only deletes; each user's choice is its own."""
    data = [Sentence(user, "a", (1.0, 0.0, 0.0)) for user in USERS]
    learner = learner_of(data)
    assert isinstance(learner, EntityLearner)
    mechanism = UeDPSpread.create({**QUIET, "sentences_per_user": 3})
    with watched() as sums:
        mechanism.train(learner, learner.corpus, run_of(learner))
    # c = 1 / 3: three sentences fill the bound, and no user sends more.
    lengths = {user: float(part.norm()) for user, part in sums.by_user[0].items()}
    assert lengths == pytest.approx({0: 1.0, 1: 2 / 3, 2: 2 / 3, 3: 1 / 3}, rel=1e-4)


class _Noting(ToyLearner):
    noted: list[int]


def _noting(learner: ToyLearner) -> _Noting:
    """The learner, noting every row that is trained on."""
    out = _Noting(learner.points.numpy(), learner.corpus.groups["user"].tolist())
    out.noted, batch = [], out.batch

    def noting(rows: Any, rng: np.random.Generator) -> Any:
        out.noted.extend(np.asarray(rows).tolist())
        return batch(rows, rng)

    out.batch = noting  # type: ignore[method-assign]
    return out
