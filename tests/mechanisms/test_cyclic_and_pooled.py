"""The two scenarios of a model that is not averaged: it travels, or the text does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, learner_with_dropout, run_of
from tiny import runs

from uedp_bench.contracts.clients import CLIENT, Clients
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Diary, Run
from uedp_bench.contracts.transcript import Message, MessageLog
from uedp_bench.errors import InputError
from uedp_bench.mechanisms._visits import received
from uedp_bench.mechanisms.cyclic import Cyclic
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.mechanisms.pooled import Pooled
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute

STEPS = {"epochs": 3, "batch_size": 3, "learning_rate": 0.05}


def _learner(clients: int = 3, order: tuple[int, ...] | None = None) -> NetworkLearner:
    learner = NetworkLearner(12)
    dealt = np.array(order or range(clients))[np.arange(12) % clients]
    learner.corpus = replace(learner.corpus, groups={**learner.corpus.groups, CLIENT: dealt})
    return learner


def _run(learner: Any, **more: Any) -> Run:
    diary = Diary(messages=MessageLog(keep=True, payload_rounds=99))
    return replace(run_of(learner), diary=diary, **more)


def _train(learner: Any, run: Run, **params: Any) -> torch.Tensor:
    return flat(Cyclic.create({**STEPS, **params}).train(learner, learner.corpus, run)[0])


def _sent(run: Run) -> tuple[Message, ...]:
    closed = run.diary.messages.closed()
    assert closed is not None
    return closed.sent


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_one_client_is_pooled_training_to_the_last_bit(optimizer: str) -> None:
    learner = _learner(1)
    params = {**STEPS, "optimizer": optimizer}
    weights = [
        flat(kind.create(params).train(learner, learner.corpus, _run(learner))[0])
        for kind in (Cyclic, Pooled, Noiseless)
    ]
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[1], weights[2])


def test_dropout_and_order_are_those_of_pooled_training_too() -> None:
    learner: Learner = learner_with_dropout("bilstm")
    learner.corpus = Clients(count=1).deal(learner.corpus)
    weights = [
        flat(kind.create(STEPS).train(learner, learner.corpus, _run(learner))[0])
        for kind in (Cyclic, Pooled)
    ]
    assert torch.equal(*weights)


@pytest.mark.parametrize("kind", [Noiseless, Pooled, Cyclic])
def test_runs_by_other_names_share_the_order_of_rows(kind: Any) -> None:
    learner: Learner = learner_with_dropout("bilstm")
    learner.corpus = Clients(count=1).deal(learner.corpus)

    def trained(seed: int, scope: str) -> torch.Tensor:
        run = _run(learner, seed=seed, scope=scope)
        return flat(kind.create(STEPS).train(learner, learner.corpus, run)[0])

    one = trained(1, "one")
    assert torch.equal(one, trained(1, "other"))
    assert not torch.equal(one, trained(2, "one"))


@pytest.mark.parametrize("noise_source", ["seed", "os"])
def test_pooled_clients_score_as_noiseless_does(tmp_path: Path, noise_source: str) -> None:
    steps = {"epochs": 2, "batch_size": 50, "learning_rate": 0.01}
    results = [
        execute(spec, Execution(tmp_path, "cpu"))
        for name, clients in (("noiseless", None), ("pooled", {"count": 3}))
        for spec in runs({"name": name, "params": steps}, clients=clients,
                         noise_source=noise_source)
    ]  # fmt: skip
    assert results[0].utility == results[1].utility


def test_order_of_clients_matters() -> None:
    learner = _learner()
    orders = ("ascending", "descending")
    weights = [_train(learner, _run(learner), order=order, epochs=1) for order in orders]
    assert not torch.equal(*weights)
    renamed = _learner(order=(2, 1, 0))
    run = _run(renamed)
    _train(renamed, run, order="descending", epochs=1)
    assert [m.sender for m in _sent(run) if m.sender != "server"] == [
        "client 2", "client 1", "client 0",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("compression", "size", "error"), [("none", 4, 0), ("fp16", 2, 1e-3), ("int8", 1, 1 / 250)]
)
def test_compression_is_what_travels(compression: Any, size: int, error: float) -> None:
    weights = [torch.linspace(-1, 1, 1000).reshape(10, 100), torch.zeros(3), torch.tensor([1e-3])]
    read, total = received(weights, compression)
    assert size * 1004 <= total <= size * 1004 + 12
    for sent_tensor, read_tensor in zip(weights, read, strict=True):
        assert (sent_tensor - read_tensor).abs().max() <= error * sent_tensor.abs().max()
    learner = _learner()
    run = _run(learner)
    moved = _train(learner, run, compression=compression)
    plain = _train(learner, _run(learner))
    assert torch.equal(moved, plain) == (compression == "none")
    assert size * 37 <= _sent(run)[0].bytes <= size * 37 + 16  # four tensors
    torch.testing.assert_close(moved, plain, rtol=0.2, atol=0.05)


def test_the_operator_sees_the_work_of_each_client() -> None:
    learner = _learner()
    run = _run(learner)
    end = _train(learner, run)
    sent = _sent(run)
    assert len(sent) == 2 * 3 * 3
    for down, up in zip(sent[::2], sent[1::2], strict=True):
        assert (down.sender, down.receiver) == ("server", up.sender)
        assert down.round == up.round
        assert not np.array_equal(down.payload, up.payload)  # type: ignore[arg-type]
    for up, down in zip(sent[1::2], sent[2::2], strict=False):
        assert np.array_equal(up.payload, down.payload)  # type: ignore[arg-type]
    np.testing.assert_array_equal(sent[-1].payload, end.numpy())


def test_a_client_whose_data_are_no_numbers_is_passed_over() -> None:
    learner = _learner()
    learner.points[1::3] = float("nan")  # client 1
    run = _run(learner)
    weights = _train(learner, run)
    assert run.diagnostics["dropped_updates"] == 3
    left = _learner()
    left.corpus = replace(left.corpus, split=np.where(np.arange(12) % 3 == 1, 1, 0))
    assert torch.equal(weights, _train(left, _run(left)))
    learner.points[:] = float("nan")
    with pytest.raises(InputError, match=r"loss.*learning_rate"):
        _train(learner, _run(learner))


def test_pooled_text_is_what_the_operator_is_sent() -> None:
    learner = learner_with_dropout("bilstm")
    learner.corpus = Clients(count=3).deal(learner.corpus)
    run = _run(learner)
    Pooled.create(STEPS).train(learner, learner.corpus, run)
    sent = _sent(run)
    train = learner.corpus.where("train")
    texts = sorted(text for message in sent for text in message.payload.tolist())  # type: ignore[union-attr]
    assert texts == sorted(np.array(learner.corpus.texts)[train].tolist())
    assert sum(message.bytes for message in sent) == sum(len(text.encode()) for text in texts)
    assert {message.name for message in sent} == {"text"}


def test_a_result_says_what_the_operator_sees(tmp_path: Any) -> None:
    for name, seen in (("pooled", "all training text"), ("cyclic", "weights after each client")):
        (spec,) = runs({"name": name, "params": {"epochs": 1}}, clients={"count": 2})
        result = execute(spec, Execution(out=tmp_path))
        assert result.error is None
        assert seen in result.provenance["release"]
        assert [g.epsilon for g in result.guarantees if g.kind == "proven"] == [float("inf")]
        assert result.cost.model_dump()["message_bytes"] > 0


def test_without_clients_nothing_travels() -> None:
    learner = NetworkLearner(12)
    for kind in (Cyclic, Pooled):
        with pytest.raises(InputError, match=r"clients\.count"):
            kind.create({}).train(learner, learner.corpus, run_of(learner))
