"""What parties send is written while they send it, counted always, and kept on demand alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import plugged, runs
from toy import toy_run

from uedp_bench.contracts.transcript import Message, MessageLog, Messages, Size
from uedp_bench.errors import InputError
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

PLUGIN = Path(__file__).parents[1] / "support" / "parties.py"


@pytest.fixture(scope="module", autouse=True)
def parties():
    with plugged(PLUGIN):
        yield


def result_of(out, *attacks, mechanism="travelling", keep=True, **params):
    (spec,) = runs({"name": mechanism, "params": params}, attacks=list(attacks))
    result = execute(spec, Execution(out, "cpu", keep_release=keep))
    assert result.error is None, result.error
    return result


def listener(rounds):
    return {"name": "listener", "params": {"rounds": rounds}}


def logged(log, payload, round=0, sender="client 1", receiver="server"):  # noqa: A002
    message = Message(sender, receiver, round, "x", tuple(payload.shape), int(payload.nbytes))
    log.add(message, payload)


# ------------------------------------------------------------------------------------- in a run


def test_an_attack_reads_what_a_party_saw_in_the_rounds_that_it_asked_for(tmp_path):
    result = result_of(tmp_path, listener(2))
    details = result.details["listener"]
    assert details["parties"] == ["client 0", "server", "client 1"]
    assert details["rounds"] == [0, 0, 1, 1, 2, 2]  # sizes of all rounds
    assert result.leakage["listener"]["payloads"].value == 4.0  # payloads of two, two clients each
    assert details["steps"] == pytest.approx([1.0, 1.0, 1.0], abs=1e-3)  # copies, as they were sent
    assert details["client"] == ["client 1"]  # nothing of what passed between others
    file = tmp_path / result.id / "transcript.npz"
    assert file.stat().st_mode & 0o777 == 0o600
    kept = Messages.load(file)
    assert sum(one.payload is not None for one in kept.sent) == 4
    assert not any(one.sender == "attacker" for one in kept.sent)
    assert "owner" in result.stored["transcript"]


def test_sizes_are_a_part_of_the_cost_with_and_without_an_attack(tmp_path):
    alone = result_of(tmp_path).cost.model_dump()
    cost = result_of(tmp_path, listener(3)).cost.model_dump()
    assert (alone["messages"], alone["message_rounds"]) == (12, 3)  # "done" where nobody listens
    assert (cost["messages"], cost["message_rounds"]) == (6, 3)
    assert alone["bytes_sent_by_client"] == alone["bytes_received_by_server"]
    assert alone["bytes_sent_by_client"] == cost["bytes_sent_by_client"] > 6 * 4
    assert alone["bytes_received_by_client"] == alone["bytes_sent_by_server"] == 6
    assert "bytes_sent_by_attacker" not in cost


def test_nothing_is_kept_that_no_attack_asks_for(tmp_path):
    result = result_of(tmp_path)
    assert not (tmp_path / result.id / "transcript.npz").exists()
    assert "transcript" not in result.stored
    only_sizes = result_of(tmp_path, listener(0))
    assert only_sizes.leakage["listener"]["payloads"].value == 0.0
    kept = Messages.load(tmp_path / only_sizes.id / "transcript.npz")
    assert len(kept.sent) == 12
    assert all(one.payload is None for one in kept.sent)
    thrown = result_of(tmp_path / "none", listener(2), keep=False)
    assert not (tmp_path / "none" / thrown.id / "transcript.npz").exists()


def test_where_nobody_talks_an_attack_on_messages_does_not_apply(tmp_path):
    result = result_of(tmp_path, listener(2), talks=False)
    (skipped,) = result.skipped_attacks
    assert skipped.reason.startswith("needs a release that is a Transcript; this one offers")
    assert "messages" not in result.cost.model_dump()
    assert not (tmp_path / result.id / "transcript.npz").exists()


def test_a_proof_about_the_release_opens_no_messages_to_others(tmp_path, monkeypatch):
    from uedp_bench.mechanisms.private_training.user_dp import UserDP

    train = UserDP.train

    def talking(self, learner, corpus, run):
        run.send("update", np.ones(3), sender="client 1", receiver="server", round=0)
        return train(self, learner, corpus, run)

    monkeypatch.setattr(UserDP, "train", talking)
    result = result_of(tmp_path, listener(1), mechanism="user-dp", rounds=1, users_per_round=10)
    assert "guarantees" in result.stored["release"]
    folder = tmp_path / result.id
    assert (folder / "release").stat().st_mode & 0o044
    assert (folder / "transcript.npz").stat().st_mode & 0o777 == 0o600
    assert "guarantee" in result.stored["transcript"]


# ---------------------------------------------------------------------------------------- the log


def test_a_log_counts_by_role_and_keeps_copies():
    log = MessageLog(keep=True, payload_rounds=1)
    array = np.arange(3, dtype=np.float32)
    logged(log, array)
    logged(log, torch.ones(2, 2, requires_grad=True), sender="client 22")
    logged(log, Size((5,), 40), round=1)
    logged(log, array, round=1)
    array[:] = 9
    assert log.cost() == {
        "messages": 4, "message_rounds": 2, "message_bytes": 80, "message_mb_a_round": 40e-6,
        "bytes_sent_by_client": 80, "bytes_received_by_server": 80, "parties_client": 2,
        "bytes_sent_by_each_client": 40.0,
    }  # fmt: skip
    kept = log.closed()
    assert kept is not None
    assert [None if m.payload is None else m.payload.tolist() for m in kept.sent] == [
        [0.0, 1.0, 2.0], [[1.0, 1.0], [1.0, 1.0]], None, None,
    ]  # fmt: skip
    logged(log, array)
    assert log.cost()["messages"] == 4
    assert not log.keeps_payload(0)


def test_messages_read_back_and_a_stranger_sees_none(tmp_path):
    log = MessageLog(keep=True, payload_rounds=1)
    logged(log, np.arange(6, dtype=np.int64).reshape(2, 3))
    logged(log, Size((), 8), sender="dealer", receiver="client 1")
    kept = log.closed()
    assert kept is not None
    assert not kept.dealt
    kept = replace(kept, dealt="dealt at random")
    kept.save(tmp_path / "t.npz")
    again = Messages.load(tmp_path / "t.npz")
    assert again.dealt == kept.dealt
    assert again.parties == ("client 1", "server", "dealer")
    assert again.sent[0].payload.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert again.sent[1] == kept.sent[1]
    assert [one.sender for one in again.seen_by("dealer")] == ["dealer"]
    with pytest.raises(InputError, match="'alice'"):
        again.seen_by("alice")


def test_a_run_that_nobody_listens_to_keeps_nothing():
    run = toy_run()
    run.within("travelling").send("x", np.zeros(4), sender="a", receiver="b", round=0)
    assert run.diary.messages.cost()["bytes_sent_by_a"] == 32
    assert run.diary.messages.closed() is None
