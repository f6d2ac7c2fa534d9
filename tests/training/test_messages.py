"""What a server and its clients send each other is written down as it is computed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from learners import EntityLearner, NetworkLearner, run_of

from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.run_context import Diary
from uedp_bench.contracts.transcript import MessageLog, Messages
from uedp_bench.mechanisms.private_training.dp_sgd import DPSGD
from uedp_bench.mechanisms.private_training.uedp import UeDP
from uedp_bench.mechanisms.private_training.uedp_group import UeDPGroup
from uedp_bench.mechanisms.private_training.uedp_spread import UeDPSpread
from uedp_bench.mechanisms.private_training.user_dp import UserDP

CLIP, SIZE = 0.3, 37


def _messages(mechanism: TrainingMechanism, payloads: int) -> Messages:  # type: ignore[type-arg]
    learner = NetworkLearner(8)
    learner.corpus = replace(learner.corpus, groups={"user": np.arange(8) // 2})
    log = MessageLog(keep=True, payload_rounds=payloads)
    run = replace(run_of(learner), diary=Diary(messages=log))
    mechanism.train(learner, learner.corpus, run)
    assert run.diary.messages.cost()["messages"] == len(log._kept)
    messages = log.closed()
    assert messages is not None
    return messages


@pytest.mark.parametrize("clipping", ["one-level", "two-level"])
def test_clients_get_the_weights_and_send_what_enters_the_sum(clipping: str) -> None:
    mechanism = UeDPSpread.create(
        {"users_per_round": 4, "rounds": 2, "noise_multiplier": 0.0, "clip": CLIP,
         "clipping": clipping}
    )  # fmt: skip
    sent = _messages(mechanism, payloads=2).sent
    assert {message.shape for message in sent} == {(SIZE,)}
    assert {message.bytes for message in sent} == {4 * SIZE}
    for step in (0, 1):
        messages = [message for message in sent if message.round == step]
        down = [m for m in messages if m.name == "weights"]
        up = [m for m in messages if m.name == "update"]
        clients = {f"client {user}" for user in range(4)}
        assert {(m.sender, m.receiver) for m in down} == {("server", c) for c in clients}
        assert {(m.sender, m.receiver) for m in up} == {(c, "server") for c in clients}
        assert messages.index(down[-1]) < messages.index(up[0])
        updates = np.stack([m.payload for m in up if m.payload is not None])
        assert np.linalg.norm(updates, axis=1).max() <= CLIP
        if step == 0:  # without noise the server moves by the sum over the denominator
            later = next(m.payload for m in sent if m.round == 1)
            assert later is not None
            assert down[0].payload is not None
            moved = later - down[0].payload
            np.testing.assert_allclose(moved, updates.sum(axis=0) / 4, rtol=1e-4, atol=1e-6)


def test_payloads_end_with_the_rounds_that_were_asked_for_and_sizes_do_not() -> None:
    mechanism = UserDP.create({"users_per_round": 4, "rounds": 3})
    sent = _messages(mechanism, payloads=1).sent
    assert {message.round for message in sent} == {0, 1, 2}
    assert all((message.payload is not None) == (message.round == 0) for message in sent)


def test_records_and_sentences_are_no_parties() -> None:
    centrals = {
        DPSGD: {"batch_size": 4, "steps": 2},
        UeDPGroup: {"rounds": 2, "users": 8, "noise_multiplier": 1.0},
    }
    for kind, params in centrals.items():
        learner = NetworkLearner(8)
        run = run_of(learner)
        kind.create(params).train(learner, learner.corpus, run)
        assert run.diary.messages.cost() == {}
    users = EntityLearner(np.ones((4, 2)), [0, 0, 1, 1], ["a", "", "b", "a"])
    run = run_of(users)
    params = {"users_per_round": 2, "rounds": 2, "entity_rate": 1.0}
    UeDP.create(params).train(users, users.corpus, run)
    assert run.diary.messages.cost()["message_rounds"] == 2
