"""DP-SGD inside of clients: whose rows reach what, how much noise there is, and what is proven."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat
from toy import ToyLearner

from uedp_bench.accounting.accountants.dp_accounting import rdp_epsilon
from uedp_bench.accounting.events import PoissonSampled, Repeated
from uedp_bench.accounting.ledger import check_plan, claimed, proven
from uedp_bench.accounting.protocol_events import Parallel
from uedp_bench.contracts.clients import CLIENT
from uedp_bench.contracts.run_context import Diary, Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.contracts.transcript import Message, MessageLog
from uedp_bench.corpus import IntArray
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.federated_dp_sgd import FederatedDPSGD

STEPS = {"rounds": 2, "local_steps": 3, "batch_size": 4, "learning_rate": 0.2}


def _stats(clients: int, records: int, public: bool = True) -> CorpusStats:
    return CorpusStats(records, records, 0, 0, public, clients=(1.0 / clients,) * clients)


def _dealt(learner: ToyLearner, client: IntArray) -> ToyLearner:
    groups = {**learner.corpus.groups, CLIENT: np.asarray(client)}
    learner.corpus = replace(learner.corpus, groups=groups)
    return learner


def _learner(clients: int = 3, rows: int = 36) -> ToyLearner:
    return _dealt(NetworkLearner(rows), np.arange(rows) % clients)


def _run(clients: int = 3, records: int = 36, **more: Any) -> Run:
    diary = Diary(messages=MessageLog(keep=True, payload_rounds=9))
    return Run(more.pop("seed", 0), _stats(clients, records), diary=diary, **more)


def _sent(run: Run, name: str = "update") -> Iterator[Message]:
    closed = run.diary.messages.closed()
    assert closed is not None
    return (message for message in closed.sent if message.name == name)


def _train(learner: ToyLearner, run: Run, **params: Any) -> torch.Tensor:
    mechanism = FederatedDPSGD.create({**STEPS, **params})
    module, events = mechanism.train(learner, learner.corpus, run)
    check_plan(mechanism.plan(run.stats), events)
    return flat(module)


def test_a_round_of_one_client_is_dp_sgd_on_its_rows() -> None:
    """Without noise, and with a rate of one: nothing is drawn then."""
    params = {"noise_multiplier": 0.0, "batch_size": 12, "clip": 0.3}
    learner = _dealt(NetworkLearner(12), np.zeros(12, dtype=np.int64))
    run = _run(1, 12)
    weights = _train(learner, run, **params, rounds=1, local_steps=4)
    assert run.diagnostics["clipped_fraction"] == 1.0
    assert run.counts["rows_trained"] == 48
    central = DPSGD.create({**params, "steps": 4, "optimizer": "sgd", "learning_rate": 0.2})
    module, _ = central.train(learner, learner.corpus, _run(1, 12))
    torch.testing.assert_close(weights, flat(module), rtol=1e-4, atol=1e-6)


def test_rows_of_a_client_reach_no_update_of_another() -> None:
    updates = []
    for moved in (0.0, 1e6, float("nan")):
        learner = _learner()
        learner.points[1::3] += moved  # client 1
        run = _run()
        _train(learner, run, rounds=1)
        assert (run.diagnostics["dropped_updates"] > 0) == (moved != moved)
        updates.append({m.sender: m.payload for m in _sent(run)})
    for other in updates[1:]:
        for client in ("client 0", "client 2"):
            assert np.array_equal(updates[0][client], other[client])
        assert not np.array_equal(updates[0]["client 1"], other["client 1"])
        assert np.isfinite(other["client 1"]).all()


@pytest.mark.parametrize(("clients", "multiplier"), [(1, 1.0), (4, 1.0), (4, 3.0)])
def test_noise_of_the_servers_mean_is_that_of_all_clients(clients: int, multiplier: float) -> None:
    """Variance s^2 C^2 / (n B^2) a step, and s^2 C^2 / B^2 in what each client sends."""
    size, batch, clip = 4000, 5, 0.7
    learner = _dealt(ToyLearner(np.zeros((8, size)), [0] * 8), np.arange(8) % clients)
    run = _run(clients, 8 * clients)
    weights = _train(
        learner, run, rounds=1, local_steps=1, batch_size=batch, clip=clip, learning_rate=1.0,
        noise_multiplier=multiplier,
    )  # fmt: skip
    once = (multiplier * clip / batch) ** 2
    assert float(weights.var()) == pytest.approx(once / clients, rel=0.1)
    sent = [message.payload for message in _sent(run)]
    for update in sent:
        assert update is not None
        assert float(update.var()) == pytest.approx(once, rel=0.1)
    if clients > 1:
        assert abs(float(np.corrcoef(sent[0], sent[1])[0, 1])) < 0.1
    assert all(message.noisy for message in _sent(run))


def test_a_row_moves_the_sum_of_its_client_by_the_clip_bound_at_most() -> None:
    """Adversarial data: a huge row, and one that is no number, in a client of its own or beside."""
    clip, batch = 0.5, 4
    points = np.zeros((9, 6))
    updates = {}
    for name, row in (("without", None), ("long", 1e30), ("nan", float("nan")), ("short", 1e-3)):
        learner = ToyLearner(points, [0] * 9)
        if row is not None:
            learner.points[8] = row
        learner = _dealt(learner, np.array([0] * 4 + [1] * 5))
        run = _run(2, 2 * batch)
        rates = {"batch_size": batch, "noise_multiplier": 0.0, "clip": clip, "learning_rate": 1.0}
        _train(learner, run, rounds=1, local_steps=1, **rates)
        updates[name] = {m.sender: torch.as_tensor(m.payload) for m in _sent(run)}
    for name in ("long", "nan", "short"):
        moved = batch * (updates[name]["client 1"] - updates["without"]["client 1"])
        assert float(moved.norm()) <= clip
        assert torch.equal(updates[name]["client 0"], updates["without"]["client 0"])
    assert float((batch * updates["long"]["client 1"]).norm()) == pytest.approx(clip, rel=1e-4)


def test_a_client_without_rows_sends_noise_like_any_other() -> None:
    learner = _dealt(NetworkLearner(6), np.array([0, 0, 0, 2, 2, 2]))
    run = _run(3, 36)
    _train(learner, run)
    sent = [m for m in _sent(run) if m.sender == "client 1"]
    assert len(sent) == STEPS["rounds"]
    assert all(float(np.linalg.norm(m.payload)) > 0.0 for m in sent)  # type: ignore[arg-type]


def test_rounds_of_disjoint_data_share_no_row() -> None:
    learner, rows = _learner(rows=60), []
    params = {"rounds": 4, "data_per_round": 0.25, "local_steps": 30, "batch_size": 4}
    run = _run(3, 60)
    mechanism = FederatedDPSGD.create({**STEPS, **params})
    at = mechanism._round_of_row(learner.corpus, run)

    def progress(phase: str, done: int, total: int) -> None:
        assert isinstance(learner, NetworkLearner)
        if phase == "train":
            rows.append(set(learner.seen))
            learner.seen.clear()

    module, events = mechanism.train(learner, learner.corpus, replace(run, progress=progress))
    assert torch.isfinite(flat(module)).all()
    check_plan(mechanism.plan(run.stats), events)
    # The first rows of a training are also looked at to settle how gradients are told apart.
    assert len(rows) == 4
    for first in range(4):
        assert rows[first] <= set(np.flatnonzero(at == first).tolist())
        for second in range(first):
            assert not rows[first] & rows[second]
    assert len(set().union(*rows)) > 50
    (event,) = events
    assert isinstance(event.event, Parallel)
    assert len(event.event.parts) == 12
    assert "one round" in " ".join(event.assumptions)


def test_the_round_of_a_row_does_not_follow_from_who_else_is_there() -> None:
    learner = _learner(rows=60)
    origin = np.where(np.arange(60) % 6 == 5, -1, np.arange(60))  # some were planted
    learner.corpus = corpus = replace(learner.corpus, origin=origin)
    mechanism = FederatedDPSGD.create({"rounds": 4, "data_per_round": 0.25})
    whole = mechanism._round_of_row(corpus, _run())
    left = np.flatnonzero((np.arange(60) != 11) & (np.arange(60) != 20))
    assert (mechanism._round_of_row(corpus.take(left), _run()) == whole[left]).all()
    assert set(whole.tolist()) == {0, 1, 2, 3}


def test_a_round_of_a_part_of_the_rows_costs_its_own_rate_once() -> None:
    stats = _stats(5, 14_987)
    shared = {"local_epochs": 10, "rounds": 10, "batch_size": 32}
    (once,) = FederatedDPSGD.create({**shared, "data_per_round": 0.1}).plan(stats)
    assert isinstance(once.event, Parallel)
    part = once.event.parts[0][0]
    assert isinstance(part, Repeated)
    assert isinstance(part.event, PoissonSampled)
    assert part.event.rate == pytest.approx(32 * 50 / 14_987)
    assert part.count == 94  # ten passes over 300 rows in batches of 32
    # Ten passes over a tenth of the rows cost more than a hundred passes over all: there is less
    # to be drawn from.
    (one,) = FederatedDPSGD.create({**shared, "rounds": 1}).plan(stats)
    (ten,) = FederatedDPSGD.create(shared).plan(stats)
    epsilons = [proven([event], delta=1e-5)[0].epsilon for event in (one, once, ten)]
    assert epsilons[0] < epsilons[2] < epsilons[1]
    assert epsilons == pytest.approx([1.902, 7.315, 6.43], rel=0.01)


@pytest.mark.parametrize(
    ("clients", "renyi", "best"),
    [(2, 1.35, 1.1005), (5, 2.18, 1.9019), (10, 3.27, 2.8862), (20, 4.90, 4.3555)],
)
def test_epsilon_depends_on_how_many_clients_share_the_data(
    clients: int, renyi: float, best: float
) -> None:
    params = {"records": 14_987, "clients": clients, "rounds": 1, "local_epochs": 10}
    mechanism = FederatedDPSGD.create(params)
    sizes = CorpusStats(0, 0, 0, 0, public=True)
    (event,) = mechanism.plan(sizes)
    (guarantee,) = proven([event], delta=1e-5)
    assert guarantee.epsilon == pytest.approx(best, rel=1e-3)
    assert isinstance(event.event, Parallel)
    ((part,),) = set(event.event.parts)
    assert isinstance(part, Repeated)
    epsilon = rdp_epsilon([(part.event, part.count)], "add-or-remove", 1e-5)
    assert epsilon == pytest.approx(renyi, rel=0.005)
    (claim,) = claimed(mechanism.claims(sizes), 1e-5)
    assert claim.epsilon == pytest.approx(0.6876, rel=1e-3)  # whatever the number of clients


def test_the_worst_client_counts() -> None:
    mechanism = FederatedDPSGD.create({"batch_size": 10, "rounds": 5})
    even = proven(mechanism.plan(_stats(4, 4000)), delta=1e-5)[0].epsilon
    skewed = replace(_stats(4, 4000), clients=(0.7, 0.2, 0.05, 0.05))
    worst = proven(mechanism.plan(skewed), delta=1e-5)[0].epsilon
    alone = replace(_stats(1, 200))
    assert worst > even
    assert worst == pytest.approx(proven(mechanism.plan(alone), delta=1e-5)[0].epsilon)


def test_dropped_and_injected_rows_of_clients_are_counted() -> None:
    learner = _learner()
    learner.points[7] = float("nan")
    run = _run(injected=(2, 5))
    _train(learner, run, clip_policy="per-layer")
    assert run.diagnostics["dropped_updates"] > 0
    assert run.diagnostics["injected_updates"] > 0


def test_what_passes_between_server_and_clients_is_written_down() -> None:
    run = _run()
    _train(_learner(), run)
    down = [(m.receiver, m.round) for m in _sent(run, "weights")]
    up = [(m.sender, m.round) for m in _sent(run)]
    assert sorted(down) == sorted(up)
    assert len(up) == 3 * 2
    assert run.diary.messages.cost()["bytes_sent_by_client"] == 6 * 4 * 37


class _Keeping(torch.nn.Linear):
    """Keeps a running mean of what it reads, as batch normalisation does."""

    def __init__(self) -> None:
        super().__init__(4, 2)
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        self.mean += points.detach().reshape(-1, 4).mean(dim=0)
        return super().forward(points)


def test_a_network_that_keeps_statistics_of_its_inputs_is_refused() -> None:
    learner = _dealt(NetworkLearner(12, vectorised=False), np.zeros(12, dtype=np.int64))
    learner.module = _Keeping()
    with pytest.raises(PrivacyError, match="'mean'"):
        _train(learner, _run(1, 12), batch_size=12)


def test_what_cannot_be_is_refused_with_its_name() -> None:
    learner = _learner()
    with pytest.raises(InputError, match=r"data_per_round.*0\.2.*0\.1"):
        FederatedDPSGD.create({"data_per_round": 0.2, "rounds": 10})
    with pytest.raises(InputError, match=r"client 0.*12"):
        _train(learner, _run(), batch_size=13)
    with pytest.raises(InputError, match=r"clients: \{count: 10\}"):
        FederatedDPSGD.create({}).plan(CorpusStats(1, 99, 0, 0, public=True))
    with pytest.raises(InputError, match=r"federated-dp-sgd\.clients.*4.*3 clients"):
        FederatedDPSGD.create({"clients": 4}).plan(_stats(3, 999))
    with pytest.raises(InputError, match=r"local_steps.*3.*local_epochs.*2"):
        FederatedDPSGD.create({"local_steps": 3, "local_epochs": 2})
    private = FederatedDPSGD.create({}).refusals(_stats(3, 999, public=False))
    assert "a public one" in private[0]
