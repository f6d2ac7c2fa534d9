"""A loop that is killed goes on as if nothing had happened, or starts anew and says why."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from toy import toy_run

from uedp_bench.contracts.checkpoints import Checkpoints, Pace
from uedp_bench.contracts.run_context import Diary, Run
from uedp_bench.contracts.saved_state import (
    AttributeState,
    StateError,
    digest_of,
    load_state,
    state_of,
)
from uedp_bench.contracts.transcript import MessageLog
from uedp_bench.io.sealed_files import sealed_file, unsealed
from uedp_bench.randomness import Stream

EACH = Pace(seconds=0, steps=1)
MADE_BY = {"code": "1", "torch": "2"}


class Killed(BaseException):
    """What a kill is to the code that it hits."""


def run_in(folder: Path, pace: Pace = EACH, source: Any = "seed", **made_by: str) -> Run:
    checkpoints = Checkpoints(folder, lambda: MADE_BY | made_by, pace)
    diary = Diary(messages=MessageLog(keep=True, payload_rounds=2))
    return Run(3, toy_run().stats, checkpoints=checkpoints, noise_source=source, diary=diary)


@dataclass
class Average:
    """A stranger's policy with every kind of state."""

    total: torch.Tensor
    past: deque[torch.Tensor] = field(default_factory=lambda: deque(maxlen=2))
    seen: dict[str, Any] = field(default_factory=dict)
    coin: np.random.Generator = field(default_factory=lambda: np.random.default_rng(4))
    inner: Average | None = None

    def state_dict(self) -> dict[str, Any]:
        inner = None if self.inner is None else self.inner.state_dict()
        return {"total": self.total, "past": [*self.past], "seen": self.seen,
                "coin": self.coin.bit_generator.state, "inner": inner}  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.total, self.seen = state["total"], state["seen"]
        self.past.clear()
        self.past.extend(state["past"])
        self.coin.bit_generator.state = state["coin"]
        if self.inner is not None:
            self.inner.load_state_dict(state["inner"])

    def add(self, value: torch.Tensor) -> None:
        self.total = self.total + value
        self.past.append(value)
        self.seen[str(len(self.seen))] = (float(self.coin.random()), np.float64(2.0), [1, 2])
        if self.inner is not None:
            self.inner.add(2 * value)


def train(run: Run, steps: int = 6, die_at: int | None = None) -> tuple[Any, ...]:
    """A loop of somebody: all that it draws, learns and says."""
    module = torch.nn.Linear(3, 2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.fill_(0.1)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1)
    rng, streams, theta = run.rng("loop"), run.fresh("loop"), torch.zeros(3)
    policy = Average(torch.zeros(3), inner=Average(torch.ones(3)))
    for step in run.checkpointed(
        "loop", steps, module=module, optimizer=optimizer, rng=rng, theta=theta, policy=policy
    ):
        if step == die_at:
            raise Killed
        noise = streams.rng("round", step).normal(size=3) + rng.normal(size=3) + run.rng().random()
        rows = torch.as_tensor(noise, dtype=torch.float32)
        optimizer.zero_grad()
        module(rows).square().sum().backward()
        optimizer.step()
        theta += rows
        policy.add(rows)
        run.log("loss", step, float(rows.sum()))
        run.count({"rows": 2})
        run.note(last=step, simulation_only=["last"])
        run.send("x", theta, sender="server", receiver=f"client {step}", round=step)
    state = [parameter.detach() for parameter in module.parameters()]
    end = (*state, theta, state_of(policy, "policy"), rng.random(), run.rng().random())
    return (*end, state_of(run.diary, "diary"))


def same(first: Any, second: Any) -> bool:
    return digest_of(first) == digest_of(second)


@pytest.mark.parametrize("source", ["seed", "os"])
def test_killed_again_and_again_a_loop_ends_as_if_it_had_not_been(
    tmp_path: Path, source: Any
) -> None:
    whole = run_in(tmp_path / "whole", source=source)
    expected = train(whole)
    for kills, at in enumerate([1, 2, 2, 3, 5]):
        run = run_in(tmp_path / "killed", source=source)
        if not kills:  # the system's key is another one in each run that starts anew
            run = replace(run, checkpoints=with_root(tmp_path / "killed", whole))
        with pytest.raises(Killed):
            train(run, die_at=at)
        assert run.checkpoints.resumed == kills
    run = run_in(tmp_path / "killed", source=source)
    assert same(train(run), expected)
    assert run.checkpoints.resumed == 5
    finished = run_in(tmp_path / "killed", source=source)  # killed in what came after the loop
    assert same(train(finished), expected)
    assert finished.checkpoints.resumed == 6


def with_root(folder: Path, other: Run) -> Checkpoints:
    """Checkpoints of a run that draws the same secret numbers as another."""
    checkpoints = Checkpoints(folder, lambda: MADE_BY, EACH)
    checkpoints.root(other.checkpoints.root(Stream(b"", "os")))
    return checkpoints


def test_the_key_of_the_system_is_only_kept_with_a_checkpoint_and_goes_with_it(
    tmp_path: Path,
) -> None:
    run = run_in(tmp_path / "run", source="os")
    key = run.checkpoints.root(Stream(b"", "os")).key.hex()
    assert not (tmp_path / "run").exists()
    train(run)
    assert key in (tmp_path / "run" / "run.json").read_text()
    again = run_in(tmp_path / "run", source="os")
    assert again.checkpoints.root(Stream(b"", "os")).key.hex() == key
    again.checkpoints.forget()
    assert not (tmp_path / "run").exists()
    seeded = run_in(tmp_path / "seeded")
    train(seeded)
    assert '"root": null' in (tmp_path / "seeded" / "run.json").read_text()


def test_only_the_owner_reads_a_checkpoint(tmp_path: Path) -> None:
    train(run_in(tmp_path / "run"))
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700
    files = list((tmp_path / "run").iterdir())
    assert {file.name for file in files} == {"run.json", "000-loop.pt"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


def test_a_training_of_seconds_writes_nothing(tmp_path: Path) -> None:
    train(run_in(tmp_path / "run", Pace()))
    train(run_in(tmp_path / "none", Pace(seconds=0)))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("pace", "expected"), [(Pace(seconds=0, steps=2), [2, 4, 5]), (Pace(seconds=60), [1, 3, 5]),
                           (Pace(seconds=60, steps=4), [1, 3, 4, 5])],
)  # fmt: skip
def test_checkpoints_are_written_by_time_and_by_steps_and_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pace: Pace, expected: list[int]
) -> None:
    clock, written = [0.0], []
    monkeypatch.setattr("uedp_bench.contracts.checkpoints.time.monotonic", lambda: clock[0])
    monkeypatch.setattr(
        "uedp_bench.contracts.checkpoints._Training.write",
        lambda self, state: written.append(state["step"]),
    )
    for step in run_in(tmp_path / "run", pace).checkpointed("loop", 5):
        clock[0] += 100.0 if step in (0, 2, 4) else 1.0
    assert written == expected


def test_writing_takes_a_twentieth_of_the_time_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, written = [0.0], []

    def write(self: object, state: dict[str, Any]) -> None:
        written.append(state["step"])
        clock[0] += 10.0

    monkeypatch.setattr("uedp_bench.contracts.checkpoints.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("uedp_bench.contracts.checkpoints._Training.write", write)
    for _ in run_in(tmp_path / "run", Pace(seconds=30)).checkpointed("loop", 20):
        clock[0] += 31.0
    assert written == [1, 8, 15, 20]


@pytest.mark.parametrize("change", [{"torch": "3"}, {"device": "cuda"}])
def test_what_was_made_by_something_else_is_thrown_away_and_said(
    tmp_path: Path, change: dict[str, str]
) -> None:
    train(run_in(tmp_path / "run"))
    run = run_in(tmp_path / "run", **change)
    assert not (tmp_path / "run").exists()
    (message,) = run.checkpoints.messages
    assert f"{next(iter(change))} changed" in message
    assert same(train(run), train(run_in(tmp_path / "other")))
    assert run.checkpoints.resumed == 0


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 nonsense", b"[" * 100_000])
@pytest.mark.parametrize("name", ["run.json", "000-loop.pt"])
def test_a_damaged_checkpoint_is_none(tmp_path: Path, name: str, damage: bytes) -> None:
    expected = train(run_in(tmp_path / "run"))
    (tmp_path / "run" / name).write_bytes(damage)
    run = run_in(tmp_path / "run")
    assert same(train(run), expected)
    assert run.checkpoints.resumed == 0
    assert "damaged" in run.checkpoints.messages[0]


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_a_flipped_bit_starts_anew(tmp_path: Path, place: float) -> None:
    expected = train(run_in(tmp_path / "run"))
    file = tmp_path / "run" / "000-loop.pt"
    content = bytearray(file.read_bytes())
    content[int(place * (len(content) - 1))] ^= 1
    file.write_bytes(content)
    run = run_in(tmp_path / "run")
    assert same(train(run), expected)
    assert run.checkpoints.resumed == 0
    assert "damaged" in run.checkpoints.messages[0]


def test_a_checkpoint_of_an_older_form_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = MessageLog.state_dict

    def before_parties_were_counted(log: MessageLog) -> dict[str, Any]:
        return {name: value for name, value in written(log).items() if name != "parties"}

    with monkeypatch.context() as older:
        older.setattr(MessageLog, "state_dict", before_parties_were_counted)
        train(run_in(tmp_path / "run"))
    run = run_in(tmp_path / "run")
    assert same(train(run), train(run_in(tmp_path / "other")))
    assert run.checkpoints.resumed == 0
    assert "KeyError: 'parties'" in run.checkpoints.messages[0]


def test_a_checkpoint_of_another_format_is_thrown_away_and_said(tmp_path: Path) -> None:
    train(run_in(tmp_path / "run"))
    header = tmp_path / "run" / "run.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | {"format": 1}))
    (message,) = run_in(tmp_path / "run").checkpoints.messages
    assert message.endswith("the format changed since it was written")


def test_a_file_that_would_run_something_is_not_read(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "touched",)

    train(run_in(tmp_path / "run"))
    with sealed_file(tmp_path / "run" / "000-loop.pt") as out:
        torch.save({"step": 1, "evil": Evil()}, out)
    run = run_in(tmp_path / "run")
    train(run)
    assert not (tmp_path / "touched").exists()
    assert "damaged" in run.checkpoints.messages[0]


def test_a_checkpoint_of_another_training_is_not_taken(tmp_path: Path) -> None:
    train(run_in(tmp_path / "run"), steps=5)
    run = run_in(tmp_path / "run")
    assert same(train(run, steps=6), train(run_in(tmp_path / "other"), steps=6))
    assert run.checkpoints.resumed == 0
    assert "not the one" in run.checkpoints.messages[0]
    once_more = run_in(tmp_path / "run")
    once_more.rng("somebody draws before")
    train(once_more)
    assert once_more.checkpoints.resumed == 0


def test_a_link_is_neither_read_nor_removed(tmp_path: Path) -> None:
    train(run_in(tmp_path / "run"))
    (tmp_path / "link").symlink_to(tmp_path / "run")
    run = run_in(tmp_path / "link")
    assert run.checkpoints.resumed == 0
    run.checkpoints.forget()
    assert (tmp_path / "run" / "run.json").is_file()


def test_loops_within_loops_go_on_too(tmp_path: Path) -> None:
    class Drawn(AttributeState):
        changing = ("numbers",)
        numbers: tuple[float, ...] = ()

    def both(run: Run, die_at: int | None = None) -> tuple[float, ...]:
        drawn = Drawn()
        for outer in run.checkpointed("outer", 3, drawn=drawn):
            streams = run.fresh("inner")
            for step in run.checkpointed("inner", 3, drawn=drawn):
                if die_at == 3 * outer + step:
                    raise Killed
                drawn.numbers += (float(streams.rng(step).random()),)
        return drawn.numbers

    expected = both(run_in(tmp_path / "whole"))
    assert len(set(expected)) == 9
    for at in (1, 4, 5, 6, 8):
        with pytest.raises(Killed):
            both(run_in(tmp_path / "run"), at)
    run = run_in(tmp_path / "run")
    assert both(run) == expected
    assert run.checkpoints.resumed == 5
    assert run.checkpoints.messages == []


@pytest.mark.parametrize("part", [[], object(), np.zeros(2), {"rate": 1.0}])
def test_part_without_state_dict_trains_without_checkpoints(tmp_path: Path, part: Any) -> None:
    run = run_in(tmp_path / "run")
    assert list(run.checkpointed("loop", 3, policy=part)) == [0, 1, 2]
    assert "policy (" in run.checkpoints.messages[0]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [{1, 2}, np.zeros(2), iter([]), {(1, 2): 3}, np.float32(1.0)])
def test_state_of_other_values_writes_no_checkpoint(tmp_path: Path, value: Any) -> None:
    run = run_in(tmp_path / "run")
    policy = Average(torch.zeros(2), seen={"one": [value]})
    assert list(run.checkpointed("loop", 3, policy=policy)) == [0, 1, 2]
    assert "policy['seen']['one'][0]" in run.checkpoints.messages[0]
    assert not (tmp_path / "run").exists()


def test_state_that_becomes_unwritable_trains_on(tmp_path: Path) -> None:
    run, policy = run_in(tmp_path / "run"), Average(torch.zeros(2))
    for step in run.checkpointed("loop", 3, policy=policy):
        policy.seen["last"] = object() if step else step
    assert "policy['seen']" in run.checkpoints.messages[0]


def test_messages_torch_cannot_hold_train_on(tmp_path: Path) -> None:
    run = run_in(tmp_path / "run")
    for step in run.checkpointed("loop", 3):
        run.send("x", np.array(["text"]), sender="a", receiver="b", round=step)
    assert "diary" in run.checkpoints.messages[0]
    assert run.diary.messages.cost()["messages"] == 3


@pytest.mark.parametrize("kind", [OSError, KeyError, ZeroDivisionError])
def test_part_that_refuses_its_state_starts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    expected = train(run_in(tmp_path / "run"))
    load = Average.load_state_dict

    def refuse(policy: Average, state: Mapping[str, Any]) -> None:
        load(policy, state)
        if state["seen"]:
            raise kind("after half of it was put back")

    monkeypatch.setattr(Average, "load_state_dict", refuse)
    run = run_in(tmp_path / "run")
    assert same(train(run), expected)
    assert run.checkpoints.resumed == 0
    assert kind.__name__ in run.checkpoints.messages[0]


@pytest.mark.parametrize("step", [0, -1, 7, 2**40])
def test_forged_number_of_steps_is_not_taken(tmp_path: Path, step: int) -> None:
    expected = train(run_in(tmp_path / "run"))
    file = tmp_path / "run" / "000-loop.pt"
    saved = torch.load(unsealed(file), weights_only=True)
    with sealed_file(file) as out:
        torch.save(saved | {"step": step}, out)
    run = run_in(tmp_path / "run")
    assert same(train(run), expected)
    assert run.checkpoints.resumed == 0


def test_state_goes_back_into_the_same_objects() -> None:
    policy, theta = Average(torch.ones(2)), torch.ones(2)
    states = [state_of(part, "part") for part in (Average(torch.zeros(2)), torch.zeros(2))]
    load_state(policy, states[0])
    load_state(theta, states[1])
    assert policy.total.tolist() == theta.tolist() == [0.0, 0.0]
    assert policy.past.maxlen == 2
    with pytest.raises(StateError, match=r"state_dict.*load_state_dict"):
        state_of(object(), "part")
