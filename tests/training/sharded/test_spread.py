"""A network that was trained in parts is asked in parts: answers are those of the whole one."""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from learners import NetworkLearner, flat, run_of
from model_learners import STATS, learner_of_model
from torch import nn
from trainings import trained_by

from uedp_bench import rank_group, row_losses
from uedp_bench.learner import take_over
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.mechanisms.public_only import PublicOnly
from uedp_bench.mechanisms.trained_elsewhere import TrainedElsewhere
from uedp_bench.models.module_set import ModuleSet, save_modules
from uedp_bench.rank_group import shared_out
from uedp_bench.run_context import Run, Speed
from uedp_bench.sent_networks import SPREAD, spread_of
from uedp_bench.training.placed import placed
from uedp_bench.training.sharded.network import ShardedModule

# No part is as long as another where there are three.
SIZES = [pytest.param(2, marks=pytest.mark.long), 3]
pytestmark = pytest.mark.parametrize("team", SIZES, indirect=True)
ONE_STEP = {"rounds": 1, "users_per_round": 12, "clip": 1.0}


class _Awkward(nn.Module):
    """Tied, frozen, fewer numbers than ranks, none that every number of ranks divides."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(5)
            self.first, self.again = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
            self.again.weight = self.first.weight
            self.last = nn.Linear(4, 2)
        self.last.weight.requires_grad_(False)
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.again(torch.tanh(self.first(points))))
        return self.last(hidden) * self.scale


def _awkward() -> NetworkLearner:
    learner = NetworkLearner(12)
    learner.module = _Awkward()
    return learner


def _trained(**more: Any) -> nn.Module:
    """A network in parts."""
    learner = _awkward()
    run = replace(run_of(learner), speed=Speed(shard_weights=True))
    module: nn.Module = trained_by(UserDP.create({**ONE_STEP, **more}))(learner, run)[0]
    return module


@pytest.mark.parametrize("more", [{}, {"local_epochs": 2}], ids=["one step", "two steps"])
def test_tied_frozen_and_tiny_weights_are_trained_and_asked(team: int, more: Any) -> None:
    with rank_group.by_itself():
        learner = _awkward()
        train = trained_by(UserDP.create({**ONE_STEP, **more}))
        expected, _ = train(learner, run_of(learner))
    parts = _trained(**more)
    torch.testing.assert_close(flat(parts), flat(expected), rtol=1e-5, atol=1e-6)
    names = [(name, weight.requires_grad) for name, weight in expected.named_parameters()]
    assert [(name, weight.requires_grad) for name, weight in parts.named_parameters()] == names
    points = learner.points[:6]
    torch.testing.assert_close(parts(points), expected(points), rtol=1e-5, atol=1e-6)


def _output(module: nn.Module, points: torch.Tensor) -> torch.Tensor:
    return module(points)  # type: ignore[no-any-return]


def _by_content(module: Any, row: int) -> torch.Tensor:
    """Reads the weights in an order that depends on the row."""
    names = sorted(dict(module.named_parameters()), reverse=bool(row % 2))
    places = dict(module.named_parameters())
    return torch.cat([places[name].reshape(-1) * 1 for name in names])


def _wrong(module: nn.Module, row: int) -> torch.Tensor:
    if row == 1:
        raise ValueError("row 1 is wrong")
    return module(torch.ones(1, 4))  # type: ignore[no-any-return]


def test_questions_are_shared_out_and_errors_leave_the_ranks_in_step(team: int) -> None:
    parts = _trained()
    whole = copy.deepcopy(parts)
    each = torch.split(torch.arange(28.0).reshape(7, 4) / 28, 1)
    for _ in range(2):
        found = shared_out(_output, parts, each)
        assert len(found) == 7
        torch.testing.assert_close(torch.cat(found), whole(torch.cat(each)))
        with pytest.raises(ValueError, match="row 1 is wrong"):
            shared_out(_wrong, parts, range(4))
    # In an order of its own, a rank would get other weights: rank 0 computes.
    for row, one in enumerate(shared_out(_by_content, parts, range(3))):
        assert torch.equal(one, _by_content(whole, row))
    # So it does where two networks are compared, and for several that are released as one.
    both = ModuleSet([parts, _trained()])
    with torch.no_grad():
        expected = copy.deepcopy(both)(torch.cat(each))
        torch.testing.assert_close(torch.cat(shared_out(_output, both, each)), expected)


class _Unreadable:
    """Other ranks cannot read it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _read, ()


def _read() -> _Unreadable:
    if rank_group.number():
        raise ValueError("no such class here")
    return _Unreadable()


def _of_first(networks: Sequence[nn.Module], points: torch.Tensor) -> torch.Tensor:
    return networks[0](points)  # type: ignore[no-any-return]


def test_a_question_that_a_rank_cannot_read_leaves_nobody_waiting(team: int) -> None:
    parts, each = _trained(), [torch.ones(1, 4)] * 4
    for _ in range(2):
        with pytest.raises(ValueError, match="no such class here"):
            shared_out(_of_first, (parts, _Unreadable()), each)
    assert len(shared_out(_of_first, (parts,), each)) == 4


def test_a_network_that_was_not_sent_is_sent_with_the_next_question(team: int) -> None:
    parts, whole, each = _trained(), _Awkward(), [torch.ones(1, 4)] * 4
    shared_out(_of_first, (parts, _trained(), whole), each)  # two in parts: rank 0 computes
    found = shared_out(_of_first, (whole, parts), each)
    with torch.no_grad():
        torch.testing.assert_close(found, [whole(one) for one in each])


def _drawn(module: Any, part: tuple[int, np.random.Generator]) -> int:
    row, rng = part
    found = int(rng.integers(10**6))
    _by_content(module, row)
    return found


def test_parts_that_are_computed_once_more_draw_what_they_drew(team: int) -> None:
    def each() -> list[tuple[int, np.random.Generator]]:
        return [(row, np.random.default_rng(row)) for row in range(5)]

    expected = [int(rng.integers(10**6)) for _, rng in each()]
    assert shared_out(_drawn, _trained(), each()) == expected  # ranks are out of step


def _no_room(*_: Any) -> None:
    raise MemoryError("no room")


def _no_room_once(_: object, __: int) -> None:
    """The next part of a weight that another rank is asked for does not fit there."""
    usual = ShardedModule.filled

    def once(*_: Any) -> None:
        ShardedModule.filled = usual  # type: ignore[method-assign]
        _no_room()

    if rank_group.number():
        ShardedModule.filled = once  # type: ignore[method-assign,assignment]


def test_a_weight_for_which_there_is_no_room_leaves_nobody_waiting(
    team: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = _trained()
    with monkeypatch.context() as patch:
        patch.setattr(ShardedModule, "filled", _no_room)
        with pytest.raises(MemoryError, match="no room"):
            copy.deepcopy(parts)
    shared_out(_no_room_once, None, range(team))
    with pytest.raises(RuntimeError, match=r"another rank could not give its part"):
        copy.deepcopy(parts)
    whole, each = copy.deepcopy(parts), [torch.ones(1, 4)] * 4
    with torch.no_grad():
        torch.testing.assert_close(shared_out(_output, parts, each), [whole(one) for one in each])


def test_copies_are_whole_and_nothing_is_changed_in_place(team: int, tmp_path: Path) -> None:
    parts = _trained()
    copied, read = copy.deepcopy(parts), pickle.loads(pickle.dumps(parts))  # noqa: S301 - of this test
    for other in (copied, read):
        assert spread_of(other) is None
        assert type(other.last.bias) is nn.Parameter
        assert other.again.weight is other.first.weight
        assert not other.last.weight.requires_grad
        assert torch.equal(flat(other), flat(parts))
    saved: list[nn.Module] = []
    save_modules(ModuleSet([parts, parts]), tmp_path, lambda module, _: saved.append(module))
    save_modules(parts, tmp_path, lambda module, _: saved.append(module))
    assert [spread_of(module) for module in saved] == [None] * 3
    for change in (
        lambda: parts.last.bias.zero_(),
        lambda: parts.load_state_dict(copied.state_dict()),
        lambda: torch.nn.init.zeros_(parts.last.bias),
    ):
        with torch.no_grad(), pytest.raises(RuntimeError, match=r"copy\.deepcopy makes a whole"):
            change()


def test_a_network_that_nobody_trains_is_asked_in_parts_too(team: int) -> None:
    learner = _awkward()
    run = replace(run_of(learner), speed=Speed(shard_weights=True))
    for mechanism in (PublicOnly.create({}), TrainedElsewhere.create({})):
        parts, _ = mechanism.train(learner, learner.corpus, run)
        assert spread_of(parts) is not None
        assert torch.equal(flat(parts), flat(learner.module))
    again = _awkward()
    with torch.no_grad():
        again.module.scale.zero_()
    take_over(again.module, parts)  # the stage after starts from it
    assert torch.equal(flat(again.module), flat(parts))
    with rank_group.by_itself():
        assert spread_of(placed(learner, run)) is None


def _held(module: nn.Module, _: int) -> tuple[int, int]:
    found: Any = spread_of(module)
    return found.bytes_held()  # type: ignore[no-any-return]


def _kept(_: object, __: int) -> int:
    return len(SPREAD)


def test_ranks_let_go_of_networks_that_rank_0_has_no_more(team: int) -> None:
    gc.collect()
    for _ in range(2):
        parts = _trained()
        assert spread_of(parts) is not None
        del parts
    # Who is forgotten is told with the next network that is kept.
    assert max(shared_out(_kept, None, range(team))) <= 1


@pytest.mark.parametrize("model", ["cifg-lstm", "awd-lstm"])  # without dropout, and with it
def test_a_release_is_scored_in_parts_and_no_rank_holds_it(
    team: int, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_losses, "_ROWS_AT_ONCE", 3)  # several batches: ranks have some each
    learner = learner_of_model(model)
    train = trained_by(UserDP.create({**ONE_STEP, "users_per_round": 4}))
    parts, _ = train(learner, Run(2, STATS, speed=Speed(shard_weights=True)))
    whole, rows = copy.deepcopy(parts), learner.corpus
    assert not torch.equal(flat(whole), flat(learner.module))
    for found in (release := learner.release(parts)), learner.release(whole):
        found.score_rows = 3  # the same
    with rank_group.by_itself():
        losses, scores = found.row_losses(rows), found.token_logprobs(rows.texts)
        prefixes = [found.encode("w1 w2"), found.encode("w3 w4")]
        following = found.next_logprobs(prefixes)
    np.testing.assert_allclose(release.row_losses(rows), losses, rtol=1e-6)
    for one, there in zip(release.token_logprobs(rows.texts), scores, strict=True):
        np.testing.assert_allclose(one.logp, there.logp, rtol=1e-5)
    # Asked one by one, rank 0 computes, and the others give their parts.
    np.testing.assert_allclose(release.next_logprobs(prefixes), following, rtol=1e-5)
    # No rank held more than its part and the weights of the largest layer, and of one more that
    # the thread which received it had no time to let go of, on a busy machine.
    sizes = [4 * weight.numel() for weight in whole.parameters()]
    layers: dict[str, int] = {}
    for place, weight in whole.named_parameters():
        owner = place.rpartition(".")[0]
        layers[owner] = layers.get(owner, 0) + 4 * (weight.numel() + team)
    for mine, most in shared_out(_held, parts, range(team)):
        assert mine <= sum(sizes) / team + 4 * len(sizes)
        assert 0 < most <= sum(sorted(layers.values())[-2:])
        assert most < sum(sizes) or len(layers) == 2


def test_a_classifier_in_parts_answers_without_dropout_on_every_rank(team: int) -> None:
    learner = learner_of_model("bilstm")
    train = trained_by(UserDP.create({**ONE_STEP, "users_per_round": 4}))
    parts, _ = train(learner, Run(2, STATS, speed=Speed(shard_weights=True)))
    whole, rows = copy.deepcopy(parts), learner.corpus
    for found in (release := learner.release(parts)), learner.release(whole):
        found.score_rows = 2
    with rank_group.by_itself():
        expected = found.class_logprobs(rows)
    np.testing.assert_allclose(release.class_logprobs(rows), expected, rtol=1e-5)
