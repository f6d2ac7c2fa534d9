"""Attempts to break what the accountant assumes: how far the sum of a round really moves.

Neighbours differ in one user and in every sentence that mentions one entity. What stays keeps its
coins; the sums are those that the training code hands to the noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from learners import NetworkLearner, run_of
from sums import Sentence, Sums, learner_of, neighbour, norm, one_round, watched
from toy import ToyLearner

from uedp_bench.accounting.accountants.user_entity import moved
from uedp_bench.accounting.events import Protected, TwoLevelUserEntityGaussian
from uedp_bench.contracts.clients import users_of
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.run_context import Run
from uedp_bench.mechanisms.private_training.uedp import UeDP
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.mechanisms.private_training.users import capped_units
from uedp_bench.randomness import Stream

CLIP, SENTENCE_CLIP, USERS = 0.7, 0.2, 5
ROUNDING = 3e-6
"""Of float32: a bound may be passed by this fraction and no more."""

# Lengths that clip, that do not, that overflow a float32 once squared, and that are no numbers.
SIZES = [0.0, 1e-3, 0.15, 1.0, 1e6, 1e25, 3e38, math.inf, math.nan]
DIRECTIONS = [(1, 0, 0), (-1, 0, 0), (0, 1, 0), (0.6, 0.8, 0), (-0.6, -0.8, 0), (0, 0.6, -0.8)]


def _point(size: float, direction: Sequence[float]) -> tuple[float, ...]:
    return tuple(size * x if x else 0.0 for x in direction)


SENTENCES = st.builds(
    Sentence,
    st.integers(0, USERS - 1),
    st.sampled_from(["", "a", "ab", "b", "abc"]),
    st.builds(_point, st.sampled_from(SIZES), st.sampled_from(DIRECTIONS)),
)
DATA = st.lists(SENTENCES, min_size=2, max_size=12)
COINS = st.lists(st.booleans(), min_size=USERS, max_size=USERS)
# Everybody mentions the entity, pulls one way with it and the other way without it.
WORST = [
    Sentence(user, mentions, _point(size, (1, 0, 0)))
    for user in range(USERS)
    for mentions, size in (("a", 1e6), ("", -1e3))
]
ALL = [True] * USERS
PUSH = {"users_per_round": USERS, "users": USERS, "rounds": 1, "clip": CLIP, "noise_multiplier": 0}


def _user_coins(sentences: Sequence[Sentence], coins: Sequence[bool]) -> np.ndarray:
    return np.array(coins)[np.unique([s.user for s in sentences])]


def _sums(mechanism: TrainingMechanism[Any], data: Sequence[Sentence], coins: Sequence[bool],
          run: Run | None = None) -> Sums:  # fmt: skip
    return one_round(mechanism, data, _user_coins(data, coins), run)


def _others(data: Sequence[Sentence], user: int, entity: str) -> dict[int, int]:
    """Users beside `user` that mention the entity, and in how many sentences."""
    counts: dict[int, int] = {}
    for s in data:
        if s.user != user and entity in s.mentions:
            counts[s.user] = counts.get(s.user, 0) + 1
    return counts


def _check_users(
    before: Sums, after: Sums, user: int, moves: dict[int, float], bound: float
) -> None:
    """The protected user adds at most `bound`, each other at most `moves`, all others nothing."""
    old, new = before.by_user[0], after.by_user[0]
    zero = torch.zeros_like(before.totals[0])
    for who in set(old) | set(new):
        change = norm(old.get(who, zero) - new.get(who, zero))
        if who == user:
            assert who not in new
            assert change <= bound * (1 + ROUNDING)
        elif who in moves:
            assert change <= moves[who] * (1 + ROUNDING)
        else:
            assert torch.equal(old[who], new[who])
    total = norm(before.totals[0] - after.totals[0])
    allowed = bound + sum(moves.values())
    assert total <= allowed * (1 + ROUNDING) + 1e-6 * bound * (len(old) + len(new))


ONE_LEVEL: dict[str, Callable[[], TrainingMechanism[Any]]] = {
    "uedp-spread": lambda: UeDPSpread.create({**PUSH, "clipping": "one-level"}),
    "capped weights": lambda: UeDPSpread.create(
        {**PUSH, "clipping": "one-level", "user_cap": 3, "sentences_per_user": None}
    ),
    "several local steps": lambda: UeDPSpread.create(
        {**PUSH, "clipping": "one-level", "local_epochs": 2, "local_learning_rate": 0.4}
    ),
    "local adam": lambda: UeDPSpread.create(
        {**PUSH, "clipping": "one-level", "local_epochs": 2, "local_optimizer": "adam"}
    ),
    "uedp": lambda: UeDP.create(
        {**PUSH, "entities": 3, "sentences": 10, "sensitive_sentences": 5, "entity_rate": 1.0}
    ),
}


# Rows of one user cancel, and are far longer than what another adds.
CANCEL = [
    Sentence(3, "", (1e-3, 0.0, 0.0)),
    Sentence(4, "", (1e6, 0.0, 0.0)),
    Sentence(4, "", (-1e6, 0.0, 0.0)),
]


@pytest.mark.parametrize("kind", list(ONE_LEVEL))
@given(data=DATA, coins=COINS, user=st.integers(0, USERS - 1), entity=st.sampled_from("abc"))
@example(data=WORST, coins=ALL, user=0, entity="a")
@example(data=CANCEL, coins=ALL, user=3, entity="a")
@settings(max_examples=40, deadline=None)
def test_one_level_the_user_adds_one_bound_and_who_mentions_the_entity_moves_by_two(
    kind: str, data: list[Sentence], coins: list[bool], user: int, entity: str
) -> None:
    rest = neighbour(data, user, entity)
    if not rest:
        return
    before, after = (_sums(ONE_LEVEL[kind](), d, coins) for d in (data, rest))
    moves = dict.fromkeys(_others(data, user, entity), 2 * CLIP)
    for who in set(moves) - {s.user for s in rest}:
        moves[who] = CLIP  # all of its sentences are gone: it only disappears
    _check_users(before, after, user, moves, CLIP)


@given(data=DATA, coins=COINS, user=st.integers(0, USERS - 1), cap=st.integers(1, 3))
@settings(max_examples=40, deadline=None)
def test_user_dp_only_the_user_s_own_contribution_disappears(
    data: list[Sentence], coins: list[bool], user: int, cap: int
) -> None:
    rest = [s for s in data if s.user != user]
    if not rest:
        return
    mechanism = UserDP.create({**PUSH, "user_cap": cap})
    _check_users(*(_sums(mechanism, d, coins) for d in (data, rest)), user, {}, CLIP)


@pytest.mark.parametrize("sentence_clip", [SENTENCE_CLIP, 0.6 * CLIP, CLIP])
@given(data=DATA, coins=COINS, user=st.integers(0, USERS - 1), entity=st.sampled_from("abc"))
@example(data=WORST, coins=ALL, user=0, entity="a")
@settings(max_examples=50, deadline=None)
def test_two_level_who_mentions_the_entity_moves_by_its_sentences_only(
    sentence_clip: float, data: list[Sentence], coins: list[bool], user: int, entity: str
) -> None:
    mechanism = UeDPSpread.create(
        {**PUSH, "sentences_per_user": None, "sentence_clip": sentence_clip}
    )
    rest = neighbour(data, user, entity)
    if not rest:
        return
    before, after = (_sums(mechanism, d, coins) for d in (data, rest))
    event = TwoLevelUserEntityGaussian(
        rate=1.0, noise_multiplier=1.0, users=USERS, sentence_bound=sentence_clip / CLIP
    )
    moves = {
        who: CLIP * moved(event, Protected(spread=1, sentences_per_user=m))
        for who, m in _others(data, user, entity).items()
    }
    _check_users(before, after, user, moves, CLIP)


@given(
    data=DATA,
    coins=st.lists(st.booleans(), min_size=12, max_size=12),
    user=st.integers(0, USERS - 1),
    entity=st.sampled_from("abc"),
    cap=st.integers(1, 3),
)
@example(data=WORST, coins=[True] * 12, user=0, entity="a", cap=2)
@settings(max_examples=60, deadline=None)  # fmt: skip
def test_group_at_most_n_plus_e_sentences_disappear_and_nothing_else_changes(
    data: list[Sentence], coins: list[bool], user: int, entity: str, cap: int
) -> None:
    mechanism = UeDPGroup.create({
        "rounds": 1, "users": USERS, "clip": SENTENCE_CLIP, "noise_multiplier": 0.0,
        "sentences_per_user": cap, "server_optimizer": "sgd",
    })  # fmt: skip
    learner = learner_of(data)
    kept = np.sort(capped_units(users_of(learner.corpus), cap, learner.corpus).rows).tolist()
    staying = [i for i in kept if data[i].user != user and entity not in data[i].mentions]
    if not staying:
        return
    # The data set of the guarantee is the capped one; the mechanism is given all of it.
    before = one_round(mechanism, data, np.array([coins[i] for i in kept]))
    after = one_round(mechanism, [data[i] for i in staying], np.array([coins[i] for i in staying]))
    old = before.by_row[0]
    new = {staying[i]: part for i, part in after.by_row[0].items()}
    assert set(new) <= set(old)
    for row, part in new.items():
        assert torch.equal(part, old[row])
    gone = set(old) - set(new)
    capped = [data[i] for i in kept]
    own = sum(s.user == user for s in capped)
    assert own <= cap
    assert len(gone) <= cap + sum(_others(capped, user, entity).values())
    assert all(norm(old[row]) <= SENTENCE_CLIP * (1 + ROUNDING) for row in gone)
    total = norm(before.totals[0] - after.totals[0])
    assert total <= len(gone) * SENTENCE_CLIP * (1 + ROUNDING) + 1e-6 * len(old)


def test_the_bounds_are_attained_so_that_looser_clipping_would_be_seen() -> None:
    others = USERS - 1
    rest = neighbour(WORST, 0, "a")

    def change(mechanism: TrainingMechanism[Any]) -> float:
        before, after = (_sums(mechanism, d, ALL) for d in (WORST, rest))
        return norm(before.totals[0] - after.totals[0])

    one = change(UeDPSpread.create({**PUSH, "clipping": "one-level"}))
    assert one == pytest.approx((1 + 2 * others) * CLIP, rel=1e-4)
    two = change(UeDPSpread.create({**PUSH, "sentence_clip": SENTENCE_CLIP}))
    # Each pulls +c and -c; alone, -c stays: moved by c. The protected user adds +c - c = 0.
    assert two == pytest.approx(others * SENTENCE_CLIP, rel=1e-4)


def test_two_level_attains_one_bound_and_m_sentences_of_each_other() -> None:
    # The protected user fills its ball; others mention the entity twice, well inside theirs.
    data = [Sentence(0, "", _point(1e6, (1, 0, 0))) for _ in range(4)]
    data += [Sentence(u, "a", _point(1e6, (1, 0, 0))) for u in (1, 2, 3) for _ in range(2)]
    data += [Sentence(u, "", _point(1e6, (0, 1, 0))) for u in (1, 2, 3)]
    mechanism = UeDPSpread.create({**PUSH, "users_per_round": 4, "sentence_clip": SENTENCE_CLIP})
    before, after = (_sums(mechanism, d, ALL) for d in (data, neighbour(data, 0, "a")))
    change = norm(before.totals[0] - after.totals[0])
    assert change == pytest.approx(CLIP + 3 * 2 * SENTENCE_CLIP, rel=1e-4)


class _Scripted:
    """Gives out prepared coins, in the order in which they are asked for."""

    def __init__(self, *coins: np.ndarray) -> None:
        self._coins = list(coins)

    def random(self, size: int) -> np.ndarray:
        coins = self._coins.pop(0)
        assert len(coins) == size
        return coins


def _uedp(data: Sequence[Sentence], coins: Sequence[bool], entities: dict[str, float],
          plain: Sequence[float], **params: Any) -> Sums:  # fmt: skip
    """One round of UeDP in which entities and sentences have the coins given."""
    mechanism = UeDP.create({
        **PUSH, "entities": 3, "sentences": 10, "sensitive_sentences": 5, "entity_rate": 0.5,
        "sentence_rate": 0.5, **params,
    })  # fmt: skip
    seen = list(dict.fromkeys("".join(s.mentions for s in data)))
    script = _Scripted(np.array([entities[letter] for letter in seen]), np.array(plain))
    run = run_of(learner_of(data))
    real = Stream.rng

    def rng(stream: Stream, *names: str | int) -> Any:
        return script if names == ("rows",) else real(stream, *names)

    with patch.object(Stream, "rng", rng):
        return _sums(mechanism, data, coins, run)


UNIT = st.floats(0, 1, exclude_max=True)


@given(
    data=DATA,
    coins=COINS,
    user=st.integers(0, USERS - 1),
    entity=st.sampled_from("abc"),
    entities=st.fixed_dictionaries(dict.fromkeys("abc", UNIT)),
    plain=st.lists(UNIT, min_size=12, max_size=12),
    estimator=st.sampled_from(["f_E", "f_E+"]),
)
@settings(max_examples=60, deadline=None)  # fmt: skip
def test_uedp_sampling_entities_does_not_change_who_moves(
    data: list[Sentence], coins: list[bool], user: int, entity: str,
    entities: dict[str, float], plain: list[float], estimator: str,
) -> None:  # fmt: skip
    staying = [i for i, s in enumerate(data) if s.user != user and entity not in s.mentions]
    if not staying:
        return
    rest = [data[i] for i in staying]
    before = _uedp(data, coins, entities, plain[: len(data)], estimator=estimator)
    after = _uedp(rest, coins, entities, [plain[i] for i in staying], estimator=estimator)
    old, new = before.by_user[0], after.by_user[0]
    moves = dict.fromkeys(_others(data, user, entity), 2 * CLIP)
    assert set(new) <= set(old)
    _check_users(before, after, user, moves, CLIP)


def test_uedp_weights_that_count_over_all_users_do_move_others_and_are_refused() -> None:
    # b is mentioned by the protected user and by user 2, who never mentions the entity a.
    data = [Sentence(0, "b", (1.0, 0, 0)), Sentence(1, "a", (1.0, 0, 0)),
            Sentence(2, "b", (0.1, 0, 0))]  # fmt: skip
    coins = {"a": 0.0, "b": 0.0}
    rest = neighbour(data, 0, "a")
    for cap, moves in ((1, False), (2, True)):
        before = _uedp(data, ALL, coins, [0.0] * 3, entity_cap=cap, users=3, users_per_round=3)
        after = _uedp(rest, ALL, coins, [0.0], entity_cap=cap, users=3, users_per_round=3)
        assert torch.equal(before.by_user[0][2], after.by_user[0][2]) != moves
        refusals = UeDP.create({"entity_cap": cap}).refusals(run_of(learner_of(data)).stats)
        assert any("w_e" in reason for reason in refusals) == moves


RATE, TURNS = 0.3, 400
SAMPLED: dict[str, dict[str, Any]] = {
    "user-dp": {"users": 10, "users_per_round": 3, "rounds": TURNS},
    "uedp": {"users": 10, "users_per_round": 3, "rounds": TURNS, "entity_rate": 1.0,
             "estimator": "f_E+"},
    "uedp-group": {"users": 10, "sampling_rate": RATE, "rounds": TURNS, "sentences_per_user": 2,
                   "noise_multiplier": 1.0},
    "uedp-spread": {"users": 10, "users_per_round": 3, "rounds": TURNS, "noise_multiplier": 1.0},
}  # fmt: skip
KINDS = {kind.name: kind for kind in (UserDP, UeDP, UeDPGroup, UeDPSpread)}


@pytest.mark.parametrize("name", list(SAMPLED))
def test_coins_have_the_stated_rate_and_are_independent_of_each_other(name: str) -> None:
    data = [Sentence(u, "a", (0.0, 0.0, 0.0)) for u in range(10) for _ in range(2)]
    learner = learner_of(data)
    mechanism = KINDS[name].create(SAMPLED[name])
    with watched(alone=False) as sums:
        mechanism.train(learner, learner.corpus, run_of(learner))
    turns = sums.by_row if name == "uedp-group" else sums.by_user
    units = 20 if name == "uedp-group" else 10
    taken = np.array([[unit in turn for unit in range(units)] for turn in turns], dtype=float)
    assert taken.shape == (TURNS, units)
    deviation = math.sqrt(RATE * (1 - RATE) / TURNS)
    assert np.abs(taken.mean(axis=0) - RATE).max() < 4.5 * deviation
    # Number taking part: binomial, neither fixed nor by whole users.
    variance = units * RATE * (1 - RATE)
    assert 0.75 < taken.sum(axis=1).var() / variance < 1.25
    correlation = np.corrcoef(taken.T)[np.triu_indices(units, 1)]
    assert np.abs(correlation).max() < 4.8 / math.sqrt(TURNS)
    again = [np.corrcoef(taken[1:, i], taken[:-1, i])[0, 1] for i in range(units)]
    assert np.abs(again).max() < 4.5 / math.sqrt(TURNS)


@pytest.mark.parametrize("name", list(SAMPLED))
def test_the_noise_that_is_added_is_the_noise_that_the_event_states(name: str) -> None:
    size, scale = 40_000, 3.0
    learner = ToyLearner(np.zeros((4, size)), [0, 1, 2, 3])
    params = {**SAMPLED[name], "rounds": 1, "users": 4, "clip": 0.5, "noise_multiplier": scale}
    if name == "uedp-group":
        params.update(server_optimizer="sgd", server_learning_rate=1.0)
        denominator = RATE * 2 * 4
    elif name == "uedp":
        params.update(entities=1, sentences=2, sensitive_sentences=1)
        denominator = 3 / 4 * 4 * (1.0 + 1.0)
    else:
        denominator = 3.0
    module, (event,) = KINDS[name].create(params).train(learner, learner.corpus, run_of(learner))
    inner: Any = event.event
    stated = (inner.event.event if name == "user-dp" else inner.event).noise_multiplier
    added = torch.nn.utils.parameters_to_vector(module.parameters()).detach() * denominator
    # Five deviations of a sample deviation: 5 / sqrt(2 * 40,000) is 1.8 %.
    assert float(added.std()) == pytest.approx(stated * 0.5, rel=0.018)
    assert abs(float(added.mean())) < 5 * stated * 0.5 / math.sqrt(size)


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize("name", ["uedp-group", "uedp-spread"])
def test_what_a_sentence_sends_does_not_depend_on_the_batch(name: str, vectorised: bool) -> None:
    learner = NetworkLearner(12, vectorised=vectorised)
    params = {**SAMPLED[name], "rounds": 1, "users": 12, "noise_multiplier": 0.0}
    mechanism = KINDS[name].create(params)
    parts: list[dict[int, torch.Tensor]] = []
    for coins in (np.ones(12, dtype=bool), np.arange(12) == 5):
        with watched(coins) as sums:
            mechanism.train(learner, learner.corpus, run_of(learner))
        parts.append(sums.by_user[0])
    together, alone = (part[5] for part in parts)
    assert len(parts[0]) == 12
    assert len(parts[1]) == 1
    assert norm(alone) > 0
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-7)
