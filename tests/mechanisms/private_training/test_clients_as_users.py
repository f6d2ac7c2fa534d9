"""Clients in the place of users: `user-dp` and `fedavg` whose units are silos."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, run_of

from uedp_bench.accounting.ledger import check_plan, proven
from uedp_bench.contracts.clients import CLIENT
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.run_context import Diary, Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.contracts.transcript import MessageLog
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.fedavg import FedAvg
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.mechanisms.private_training.users import dealt_anew

ROUNDS = {"unit": "client", "rounds": 2, "users_per_round": 4}


def _learner(order: tuple[int, ...] = (0, 1, 2, 3)) -> NetworkLearner:
    learner = NetworkLearner(12)
    dealt = np.array(order)[np.arange(12) % 4]
    learner.corpus = replace(learner.corpus, groups={**learner.corpus.groups, CLIENT: dealt})
    return learner


def _run(learner: NetworkLearner, **more: Any) -> Run:
    run = run_of(learner)
    diary = Diary(messages=MessageLog(keep=True, payload_rounds=2))
    return replace(run, stats=replace(run.stats, clients=(0.25,) * 4), diary=diary, **more)


def _train(mechanism: TrainingMechanism[Any], learner: NetworkLearner, run: Run) -> torch.Tensor:
    module, events = mechanism.train(learner, learner.corpus, run)
    check_plan(mechanism.plan(run.stats), events)
    assert {event.unit for event in events} == {"client"}
    return flat(module)


@pytest.mark.parametrize("kind", [UserDP, FedAvg])
def test_a_client_with_one_user_is_that_user(kind: type[TrainingMechanism[Any]]) -> None:
    learner = NetworkLearner(12)
    groups = {"user": np.arange(12) % 4, CLIENT: np.arange(12) % 4}
    learner.corpus = replace(learner.corpus, groups=groups)
    of = {unit: kind.create({**ROUNDS, "unit": unit}) for unit in ("user", "client")}
    weights = [flat(one.train(learner, learner.corpus, _run(learner))[0]) for one in of.values()]
    assert torch.equal(*weights)


def test_order_of_clients_does_not_matter_without_noise() -> None:
    mechanism = FedAvg.create(ROUNDS)
    weights = []
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        learner = _learner(order)
        weights.append(_train(mechanism, learner, _run(learner)))
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["user-dp", "fedavg"])
def test_messages_are_those_of_clients(name: str) -> None:
    kind = UserDP if name == "user-dp" else FedAvg
    mechanism = kind.create({**ROUNDS, "local_epochs": 2, "local_batch_size": 1})
    learner = _learner()
    learner.points[7] = float("nan")
    run = _run(learner, injected=(2, 5))
    _train(mechanism, learner, run)
    assert run.diagnostics["dropped_updates"] == 2  # client 3, in both rounds
    assert "injected_updates" not in run.diagnostics  # nobody sends for one user
    sent = run.diary.messages.closed()
    assert sent is not None
    assert {m.sender for m in sent.sent} == {"server", *(f"client {k}" for k in range(4))}
    assert not any(message.noisy for message in sent.sent)


def test_twenty_silos_cannot_hide_one() -> None:
    """Everybody is in every round: nothing is amplified, and noise is over a sum of 20."""
    silos = {"unit": "client", "users": 20, "users_per_round": 20, "rounds": 10}
    sizes = CorpusStats(0, 0, 0, 0, public=True)
    (guarantee,) = proven(UserDP.create({**silos, "noise_multiplier": 1.0}).plan(sizes), delta=1e-5)
    assert (guarantee.unit, guarantee.adjacency) == ("client", "add-or-remove")
    assert guarantee.epsilon == pytest.approx(17.86, rel=1e-3)
    many = {**silos, "users": 20_000}
    (among,) = proven(UserDP.create({**many, "noise_multiplier": 1.0}).plan(sizes), delta=1e-5)
    assert among.epsilon < 1.0


@pytest.mark.parametrize("kind", [UserDP, FedAvg])
def test_a_round_of_more_clients_than_there_are_names_the_field(
    kind: type[TrainingMechanism[Any]],
) -> None:
    mechanism = kind.create({**ROUNDS, "users_per_round": 5})
    fields = rf"{kind.name}\.users_per_round is 5.*{kind.name}\.unit is 'client'"
    learner = _learner()
    with pytest.raises(InputError, match=fields + r".* 4.*clients\.count"):
        mechanism.plan(_run(learner).stats)
    # More of them are declared than hold rows.
    sampled = kind.create({**ROUNDS, "users_per_round": 5, "sampling": "fixed"})
    run = _run(learner)
    five = replace(run, stats=replace(run.stats, clients=(0.2,) * 5))
    with pytest.raises(InputError, match=fields + r": fewer.*clients\.count"):
        sampled.train(learner, learner.corpus, five)


def test_clients_must_be_there() -> None:
    with pytest.raises(InputError, match="unit=client"):
        UserDP.create({"unit": "client"}).plan(CorpusStats(9, 9, 0, 0, public=True))
    with pytest.raises(InputError, match=r"clients\.by=random"):
        FedAvg.create({"unit": "client", "iid": True})
    learner = NetworkLearner(12)
    with pytest.raises(InputError, match=r"clients\.count"):
        FedAvg.create(ROUNDS).train(learner, learner.corpus, run_of(learner))


def test_rows_dealt_anew_make_clients_and_no_promise_to_a_user() -> None:
    """What `user-dp` promises with `iid` is of whoever holds rows, as published (Table 5)."""
    learner = NetworkLearner(60)
    learner.corpus.groups["user"][:] = np.arange(60) % 12
    run = run_of(learner)
    params = {"rounds": 2, "users_per_round": 4, "sampling": "fixed", "users": 12}
    by_dealing = {}
    for iid in (False, True):
        mechanism = UserDP.create({**params, "iid": iid})
        module, events = mechanism.train(learner, learner.corpus, run)
        check_plan(mechanism.plan(run.stats), events)
        (claim,) = mechanism.claims(run.stats)
        units = {claim.unit, mechanism.protects, *(event.unit for event in events)}
        by_dealing[iid] = flat(module), units, [p.epsilon for p in proven(events, delta=1e-5)]
    assert by_dealing[False][1] == {"user"}
    assert by_dealing[True][1] == {"client"}
    assert by_dealing[True][2] == by_dealing[False][2]
    assert not torch.equal(by_dealing[True][0], by_dealing[False][0])
    with pytest.raises(InputError, match=r"user-dp iid.*clients\.by=random"):
        UserDP.create({**ROUNDS, "iid": True})


def test_averaging_with_and_without_noise_deals_the_same_rows_to_the_same_users() -> None:
    learner = NetworkLearner(60)
    learner.corpus.groups["user"][:] = np.arange(60) % 12
    shared = {"rounds": 1, "users_per_round": 12, "sampling": "fixed", "iid": True}
    dealt = [
        dealt_anew(learner, run_of(learner), name).corpus.users for name in ("fedavg", "user-dp")
    ]
    assert np.array_equal(*dealt)
    plain = FedAvg.create({**shared, "weighting": "users", "clip": 0.3})
    noisy = UserDP.create({**shared, "noise_multiplier": 0.0, "clip": 0.3})
    weights = [flat(m.train(learner, learner.corpus, run_of(learner))[0]) for m in (plain, noisy)]
    torch.testing.assert_close(*weights, rtol=1e-5, atol=1e-6)
