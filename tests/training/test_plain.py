"""Choice of an epoch in ordinary training."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from filelock import FileLock
from learners import NetworkLearner, flat, run_of

from uedp_bench.contracts.checkpoints import PublicStages
from uedp_bench.contracts.learner import Losses, Schedule
from uedp_bench.contracts.run_context import Run
from uedp_bench.io.sealed_files import sealed_file
from uedp_bench.training import plain
from uedp_bench.training.plain import ValidLosses, train_public


def test_few_confident_mistakes_do_not_outweigh_right_classes() -> None:
    one = torch.ones(4)
    unsure = Losses(torch.tensor([0.7, 0.6, 0.7, 0.6]), one)  # about even odds on each row
    sure = Losses(torch.tensor([0.01, 0.01, 0.01, 6.0]), one)  # right on three rows of four
    first, second = ValidLosses.of_batches([unsure]), ValidLosses.of_batches([sure])
    assert first.nats < second.nats
    assert second.badness == pytest.approx(0.257, abs=0.002)
    assert second.badness < first.badness


def test_rows_of_many_targets_are_compared_by_mean_loss() -> None:
    parts = [Losses(torch.tensor([3.0]), torch.tensor([1])),
             Losses(torch.tensor([5.0]), torch.tensor([3]))]  # fmt: skip
    assert ValidLosses.of_batches(parts) == ValidLosses(nats=2.0)
    assert ValidLosses.of_batches(parts).badness == 2.0


PLAN = Schedule(epochs=2, batch_size=4, learning_rate=0.01)


def run_in(folder: Path, seed: int = 0, identity: str = "x") -> Run:
    return replace(run_of(NetworkLearner(8), seed), public_stages=PublicStages(folder, identity))


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("public-*.pt"))


def test_the_second_run_reads_what_the_first_trained(tmp_path: Path) -> None:
    first, second, alone = run_in(tmp_path), run_in(tmp_path), run_of(NetworkLearner(8))
    one = train_public(PLAN, NetworkLearner(8), first)
    reader = NetworkLearner(8)
    two = train_public(PLAN, reader, second)
    assert reader.seen == []
    assert not two.training
    assert torch.equal(flat(one), flat(two))
    assert torch.equal(flat(one), flat(train_public(PLAN, NetworkLearner(8), alone)))
    assert not torch.equal(flat(one), flat(reader.module))
    # The diary of both says the same, as if each had been alone, and what was shared.
    shared = {"pretraining_shared_seconds": first.counts["pretraining_seconds"]}
    assert {**first.counts, **shared} == second.counts
    assert first.counts["rows_pretrain"] == 16
    assert first.counts["pretraining_seconds"] > 0
    assert first.series == second.series
    assert len(first.series["pretrain_loss"]) == 2
    assert first.public_stages is not None
    assert second.public_stages is not None
    assert first.public_stages.saved_seconds == 0
    saved = second.public_stages.saved_seconds
    assert saved == pytest.approx(first.counts["pretraining_seconds"], abs=0.5)


def test_whatever_decides_the_weights_decides_the_file(tmp_path: Path) -> None:
    train_public(PLAN, NetworkLearner(8), run_in(tmp_path))
    train_public(PLAN, NetworkLearner(8), run_in(tmp_path, seed=1))
    train_public(PLAN, NetworkLearner(8), run_in(tmp_path, identity="y"))
    train_public(Schedule(3, 4, 0.01), NetworkLearner(8), run_in(tmp_path))
    train_public(PLAN, NetworkLearner(9), run_in(tmp_path))
    other = NetworkLearner(8)
    with torch.no_grad():
        next(other.module.parameters()).mul_(2)
    train_public(PLAN, other, run_in(tmp_path))
    assert len(kept(tmp_path)) == 6


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 nonsense"])
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: bytes) -> None:
    expected = flat(train_public(PLAN, NetworkLearner(8), run_in(tmp_path)))
    (file,) = kept(tmp_path)
    file.write_bytes(damage)
    run = run_in(tmp_path)
    assert torch.equal(flat(train_public(PLAN, NetworkLearner(8), run)), expected)
    assert run.counts["rows_pretrain"] == 16
    assert run.public_stages is not None
    assert run.public_stages.saved_seconds == 0
    assert len(file.read_bytes()) > 100


def test_a_file_with_a_flipped_bit_is_replaced(tmp_path: Path) -> None:
    expected = flat(train_public(PLAN, NetworkLearner(8), run_in(tmp_path)))
    (file,) = kept(tmp_path)
    content = bytearray(file.read_bytes())
    for place in range(0, len(content), len(content) // 20):
        content[place] ^= 64
        file.write_bytes(content)
        trained = flat(train_public(PLAN, NetworkLearner(8), run_in(tmp_path)))
        assert torch.equal(trained, expected)
        content = bytearray(file.read_bytes())


def test_a_file_of_another_network_is_not_taken(tmp_path: Path) -> None:
    train_public(PLAN, NetworkLearner(8), run_in(tmp_path))
    (file,) = kept(tmp_path)
    with sealed_file(file) as out:
        torch.save({"weights": {}, "seconds": 1.0, "counts": {}, "series": {}}, out)
    run = run_in(tmp_path)
    train_public(PLAN, NetworkLearner(8), run)
    assert run.public_stages is not None
    assert run.public_stages.saved_seconds == 0


def test_a_training_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(plain, "train_plain", fail)
        with pytest.raises(RuntimeError, match="out of memory"):
            train_public(PLAN, NetworkLearner(8), run_in(tmp_path))
    assert kept(tmp_path) == []
    train_public(PLAN, NetworkLearner(8), run_in(tmp_path))
    assert len(kept(tmp_path)) == 1


def test_checkpoints_of_a_run_that_was_killed_after_it_wrote_the_file_go(tmp_path: Path) -> None:
    train_public(PLAN, NetworkLearner(8), run_in(tmp_path))
    (file,) = kept(tmp_path)
    left = file.with_suffix("") / "checkpoint"
    left.mkdir(parents=True)
    (left / "000-pretrain.pt").write_bytes(b"weights")
    run = run_in(tmp_path)
    train_public(PLAN, NetworkLearner(8), run)
    assert run.counts["pretraining_shared_seconds"] > 0
    assert not left.parent.exists()


def test_two_runs_at_once_train_once_and_the_wait_is_no_part_of_a_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, waits, clock, train = threading.Event(), threading.Event(), [0.0], plain.train_plain

    class Lock(FileLock):  # type: ignore[misc]
        def __enter__(self) -> Lock:
            if begun.is_set():
                waits.set()
            super().__enter__()
            return self

    def slowly(*arguments: Any, **more: Any) -> Any:
        clock[0] += 1.0  # before the other comes
        begun.set()
        assert waits.wait(120)
        clock[0] += 1.5  # the other waits meanwhile
        return train(*arguments, **more)

    monkeypatch.setattr(plain, "time", SimpleNamespace(perf_counter=lambda: clock[0]))
    monkeypatch.setattr(plain, "FileLock", Lock)
    monkeypatch.setattr(plain, "train_plain", slowly)
    first, second, reader = run_in(tmp_path), run_in(tmp_path), NetworkLearner(8)
    with ThreadPoolExecutor(1) as pool:
        one = pool.submit(train_public, PLAN, NetworkLearner(8), first)
        assert begun.wait(120)
        two = train_public(PLAN, reader, second)
    assert torch.equal(flat(one.result()), flat(two))
    assert reader.seen == []
    assert first.public_stages is not None
    assert second.public_stages is not None
    # As if it had been alone: what passed here, less the wait, and all of the training.
    assert second.counts["pretraining_seconds"] == first.counts["pretraining_seconds"] == 2.5
    assert second.counts["pretraining_shared_seconds"] == 2.5
    assert second.public_stages.saved_seconds == 2.5 - 1.5
    assert first.public_stages.saved_seconds == 0
    assert "pretraining_shared_seconds" not in first.counts
