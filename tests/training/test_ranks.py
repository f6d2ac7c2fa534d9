"""Ranks of `torch.distributed` end where one process does, bound what it bounds, and end as one."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from elsewhere import InAnotherProcess, adaptive_plan, complain
from learners import NetworkLearner, flat, run_of
from model_learners import learner_of_model
from toy import ToyLearner, toy_run
from trainings import TRAININGS as SAME
from trainings import trained_by

from uedp_bench import rank_group, row_losses
from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.attacks.secret_sharer.canary import Canary, PlantedCanaries
from uedp_bench.errors import InputError
from uedp_bench.mechanism import CorpusStats
from uedp_bench.mechanisms.private_training.federated_dp_sgd import FederatedDPSGD
from uedp_bench.mechanisms.representations.dpnr import DPNR
from uedp_bench.randomness.streams import Stream
from uedp_bench.run_context import Diary, Run
from uedp_bench.training import executors
from uedp_bench.training.bounds import Limits
from uedp_bench.training.cohort import Cohort
from uedp_bench.training.executors import InProcess
from uedp_bench.training.federated import train_federated
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.ranks import AcrossRanks, deal
from uedp_bench.training.round_query import RoundQuery
from uedp_bench.training.unit_sums import RoundWork, Share, WorkerSetup
from uedp_bench.transcript import MessageLog

LOCAL = LocalTraining(epochs=2, batch_size=1, learning_rate=0.3)


TRAININGS = {
    **SAME,
    # Each client draws its rows and its noise for itself, on the rank that computes it.
    "federated-dp-sgd": trained_by(
        FederatedDPSGD.create({"rounds": 2, "local_steps": 2, "batch_size": 2})
    ),
}


def _trained(name: str) -> tuple[torch.Tensor, Any, Diary, Run]:
    learner = NetworkLearner(12)
    learner.points[7] = float("nan")
    clients = {"client": np.arange(12) % 4} if name == "federated-dp-sgd" else {}
    learner.corpus = replace(learner.corpus, groups={**learner.corpus.groups, **clients})
    diary = Diary(messages=MessageLog(keep=True, payload_rounds=1))
    run = run_of(learner)
    stats = replace(run.stats, clients=(0.25,) * 4 if clients else ())
    run = replace(run, stats=stats, injected=() if clients else (2, 5), diary=diary)
    module, events = TRAININGS[name](learner, run)
    return flat(module), events, diary, run


@pytest.fixture(scope="module")
def alone() -> dict[str, tuple[torch.Tensor, Any, Diary, Run]]:
    """Trainings of one process."""
    with rank_group.by_itself():  # tests that run in another order have a team already
        assert rank_group.count() == 1
        return {name: _trained(name) for name in TRAININGS}


@pytest.mark.parametrize("name", list(TRAININGS))
def test_weights_events_and_counts_are_those_of_one_process(
    alone: dict[str, tuple[torch.Tensor, Any, Diary, Run]], team: int, name: str
) -> None:
    (expected, their_events, theirs, before), (found, events, ours, run) = (
        alone[name],
        _trained(name),
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert events == their_events
    assert ours.counts == theirs.counts
    # A user whose data are no numbers is dropped there as here, and canaries are put in place.
    counted = ("dropped_updates", "dropped_rows", "injected_updates", "clipped_units")
    for key in counted:
        assert run.diagnostics.get(key) == before.diagnostics.get(key)
    dropped = run.diagnostics.get("dropped_rows" if name == "two-level" else "dropped_updates", 0)
    assert dropped > 0 or name == "federated-dp-sgd"  # whose clients may leave the row out
    mine, other = ours.messages.closed(), theirs.messages.closed()
    assert (mine is None) == (other is None) == (name in ("dp-sgd", "adaptive"))
    if mine is None or other is None:
        return
    for sent, as_sent in zip(mine.sent, other.sent, strict=True):  # by the same user, the same
        assert sent._replace(payload=None) == as_sent._replace(payload=None)
        if as_sent.payload is not None:
            np.testing.assert_allclose(sent.payload, as_sent.payload, rtol=1e-5, atol=1e-6)


def _round(points: Any) -> tuple[WorkerSetup, RoundWork, Cohort]:
    """Users of two rows each, who send what they will."""
    rows = np.arange(len(points))
    learner = ToyLearner(points, (rows // 2).tolist(), vectorised=False)
    setup = WorkerSetup(learner, LOCAL, "cpu", seed=1, injected=(), most=4)
    rng = np.random.default_rng(3)
    users = len(points) // 2
    cohort = Cohort.build(rows // 2, rows, np.ones(len(rows)), users).drawn(2, 1, rng, rng)
    return setup, RoundWork(torch.zeros(points.shape[1]), Limits(total=0.5)), cohort


def test_no_user_moves_the_sum_of_all_ranks_by_more_than_the_bound(team: int) -> None:
    points = np.random.default_rng(5).normal(size=(14, 3)) * np.geomspace(1e-2, 1e18, 14)[:, None]
    setup, work, cohort = _round(points)
    users = np.arange(7)
    with AcrossRanks(setup) as executor:

        def total(kept: np.ndarray) -> torch.Tensor:
            shares = [Share(cohort.take(kept[part]), np.ones(len(part)))
                      for part in np.array_split(np.arange(len(kept)), 3)]  # fmt: skip
            return executor.unit_sum(work, shares).total.double()

        whole = total(users)
        for user in users:
            moved = float((whole - total(users[users != user])).norm())
            assert moved <= 0.5 * (1 + 1e-6)
            assert moved > 0.49 or user == 0
        nobody = executor.unit_sum(work, [])
        assert torch.equal(nobody.total, torch.zeros(3)) and nobody.units == 0


def test_noise_is_drawn_once(team: int) -> None:
    def trained() -> torch.Tensor:
        learner = ToyLearner(np.zeros((12, 4_000)), [row // 2 for row in range(12)])
        plan = adaptive_plan(rounds=1)  # nobody has anything to send: what moves is noise
        return flat(train_federated(plan, learner, toy_run()).module)

    found = trained()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executors, "count", lambda: 1)
        assert torch.equal(found, trained())
    # The bound 0.5 and the count are hidden together: a little more than 0.5 over 5.
    plan = adaptive_plan()
    query = RoundQuery(plan.bound.limits(0, ()), plan.weight_bound, plan.noise.multiplier)
    assert float(found.double().std()) == pytest.approx(query.sensitivity / 5.0, rel=0.05)


def test_units_are_dealt_once_each_and_all_ranks_have_some() -> None:
    _, _, cohort = _round(np.ones((22, 2)))
    shares = [Share(cohort.take(part), part + 1.0) for part in (np.arange(1), np.arange(1, 11))]
    for size in (1, 2, 3, 4, 20):
        dealt = deal(shares, size)
        assert len(dealt) == size
        parts = sorted((part for rank in dealt for part in rank), key=lambda part: part[0])
        weights = np.concatenate([share.weights for _, share in parts])
        assert weights.tolist() == list(range(1, 12))
        assert sum(bool(rank) for rank in dealt) == min(size, 11)
        first = np.concatenate([share.cohort.rows[:, 0] for _, share in parts])
        assert first.tolist() == [2 * unit for unit in range(11)]


def test_an_error_on_a_rank_is_one_error_and_the_next_training_runs(team: int) -> None:
    with pytest.raises(InputError, match="row 7"):
        train_federated(adaptive_plan(), InAnotherProcess(complain), toy_run())
    with pytest.raises(InputError, match="in one process"):
        train_federated(adaptive_plan(), InAnotherProcess(lambda: None), toy_run())
    setup, work, cohort = _round(np.ones((8, 2)))
    shares = [Share(cohort, np.ones(4))]
    with AcrossRanks(setup) as executor:
        found = executor.unit_sum(work, shares)
    expected = InProcess(setup).unit_sum(work, shares)
    torch.testing.assert_close(found.total, expected.total)
    assert (found.units, found.rows, found.clipped) == (4, 8, expected.clipped)


def _release() -> Any:
    learner = learner_of_model("cifg-lstm")
    return learner.release(learner.module.eval()), learner.corpus


def test_rows_are_scored_by_all_ranks_to_the_bits_of_one(
    monkeypatch: pytest.MonkeyPatch, team: int
) -> None:
    release, corpus = _release()
    release.score_rows = 1
    monkeypatch.setattr(row_losses, "_ROWS_AT_ONCE", 1)
    calls: list[Any] = []
    told = rank_group.told
    monkeypatch.setattr(rank_group, "told", lambda m: (calls.append(m), told(m))[1])

    def both() -> tuple[Any, Any]:
        return release.row_losses(corpus), release.token_logprobs(corpus.texts)

    losses, scores = both()
    assert [sum(map(len, call.parts)) for call in calls] == [len(corpus)] * 2
    assert all(len(call.parts) == team and all(call.parts) for call in calls)
    with rank_group.by_itself():
        alone = both()
    assert len(calls) == 2
    assert np.array_equal(losses, alone[0])
    for found, expected in zip(scores, alone[1], strict=True):
        for values, others in zip(found, expected, strict=True):
            assert np.array_equal(values, others)


def _refuse(common: Any, part: int) -> int:
    if part == 3:
        raise InputError("part 3 is wrong")
    return part + 1


def test_what_a_part_raises_is_raised_and_the_next_is_answered(team: int) -> None:
    module = torch.nn.Linear(1, 1)
    common = _Common(module)
    with pytest.raises(InputError, match="part 3"):
        rank_group.shared_out(_refuse, common, range(8))
    parts = [0, 1, 2, 4, 5]
    assert rank_group.shared_out(_refuse, common, parts) == [1, 2, 3, 5, 6]
    common.other = lambda: None  # what cannot be sent is computed here
    assert rank_group.shared_out(_refuse, common, parts) == [1, 2, 3, 5, 6]


def _canaries(release: Any) -> PlantedCanaries:
    words = tuple(f"w{i}" for i in range(9))
    texts = [" ".join(words[(i + j * j) % 9] for j in range(4)) for i in range(20)]
    canaries = [
        Canary(kind="word", text=text, p_u=0.5, p_e=0.5, expected_sharers=1.0,
               expected_occurrences=1.0, sharers=1, occurrences=1)
        for text in texts
    ]  # fmt: skip
    return PlantedCanaries(words=words, canaries=tuple(canaries))


def _sharer(release: Any, corpus: Any) -> Any:
    attack = SecretSharer.create(
        {"canary_words": 4, "prefix_words": 2, "references": 30, "word_pool": 9}
    )
    run = Run(3, CorpusStats(1, 1, 0, 0, public=True))
    found = attack.run(release, _canaries(release), corpus, run)
    return [found.metrics, found.details]


def _noisy(release: Any, corpus: Any) -> Any:
    # Each row's noise is keyed by the row, so that whoever computes it draws the same.
    channel = DPNR.create({"epsilon": 1.0, "word_dropout": 0.3})
    served = release.through(channel, Stream.root(1, "", "seed"))
    return [served.class_logprobs(corpus), served.representations(corpus)]


def _hidden(release: Any, corpus: Any) -> Any:
    losses = release.filler_losses("w1 ", " w2", ["w3", "w4 w5", "w6"])
    return [*(each.logp for each in release.token_logprobs(corpus.texts)), losses]


ASKED: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "canaries and beams": ("cifg-lstm", _sharer),
    "classes": ("bilstm", lambda release, corpus: [release.class_logprobs(corpus)]),
    "noise of rows": ("bilstm", _noisy),
    "spans": ("words of bilstm, crf", lambda release, corpus: release.spans(corpus).mentions()),
    "hidden tokens": ("hidden words of bert", _hidden),
    "translations": (
        "transformer-small",
        lambda release, corpus: [
            release.translate(corpus.texts),
            release.pair_losses(corpus.texts, corpus.texts),
        ],
    ),
}


@pytest.mark.parametrize("name", list(ASKED))
def test_attacks_ask_all_ranks_and_hear_the_bits_of_one(
    monkeypatch: pytest.MonkeyPatch, team: int, name: str
) -> None:
    model, question = ASKED[name]
    learner = learner_of_model(model)
    release: Any = learner.release(learner.module.eval())
    for holder in (release, getattr(release, "reader", None)):
        if hasattr(holder, "score_rows"):
            object.__setattr__(holder, "score_rows", 2)
    calls: list[Any] = []
    told = rank_group.told
    monkeypatch.setattr(rank_group, "told", lambda m: (calls.append(m), told(m))[1])
    found = question(release, learner.corpus)
    assert calls
    assert all(len(call.parts) == team and all(call.parts[:2]) for call in calls)
    with rank_group.by_itself():
        before = len(calls)
        expected = question(release, learner.corpus)
        assert len(calls) == before
    assert pickle.dumps(found) == pickle.dumps(expected)
    # The network is sent with the first question alone.
    assert sum(len(call.sent.new) for call in calls) == 1


class _Common:
    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self.other: Any = None
