"""Local training: side by side equals alone, and both equal arithmetic by hand."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from toy import ToyLearner, cohort_of

from uedp_bench.contracts.learner import Batch, Losses
from uedp_bench.corpus import Corpus
from uedp_bench.models.lstm import LSTMSmall, LSTMSmallParams
from uedp_bench.models.networks.lstm import Dropout, LayerShape, NetworkShape, RecurrentNetwork
from uedp_bench.models.word_vocabularies import WordVocabulary
from uedp_bench.tasks.language.language_model import LanguageReader
from uedp_bench.tasks.tokens.reader import SupervisedLearner
from uedp_bench.training.local import (
    SIDE_BY_SIDE_WEIGHTS,
    LocalTrainer,
    LocalTraining,
    schedule,
    side_by_side,
    units_at_once,
)
from uedp_bench.training.sampling import Cohort


def _drawn(users: list[list[int]], local: LocalTraining, rng: np.random.Generator) -> Cohort:
    return cohort_of(users).drawn(local.epochs, local.batch_size, rng, rng)


def _updates(
    local: LocalTraining, users: list[list[int]], vectorised: bool, seed: int = 0
) -> torch.Tensor:
    points = np.random.default_rng(7).normal(size=(9, 5))
    learner = ToyLearner(points, [0] * 9, vectorised=vectorised)
    trainer = LocalTrainer(learner, local, "cpu")
    theta = torch.full((5,), 0.25)
    rng = np.random.default_rng(seed)
    return trainer.updates(theta, _drawn(users, local, rng))


USERS = [[0, 1, 2], [3], [4, 5, 6, 7, 8]]


def test_one_sgd_step_is_the_negative_mean_gradient() -> None:
    points = np.random.default_rng(7).normal(size=(9, 5))
    updates = _updates(LocalTraining(learning_rate=0.5), USERS, vectorised=True)
    for row, rows in zip(updates, USERS, strict=True):
        by_hand = -0.5 * (0.25 - points[rows].mean(axis=0))
        assert row.tolist() == pytest.approx(by_hand.tolist(), rel=1e-4, abs=1e-6)


def test_sum_reduction_adds_rows() -> None:
    points = np.random.default_rng(7).normal(size=(9, 5))
    local = LocalTraining(learning_rate=0.1, reduction="sum")
    updates = _updates(local, USERS, vectorised=True)
    by_hand = -0.1 * (0.25 - points[[4, 5, 6, 7, 8]]).sum(axis=0)
    assert updates[2].tolist() == pytest.approx(by_hand.tolist(), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("epochs", [1, 3])
def test_full_batches_are_the_same_side_by_side_and_alone(optimizer: str, epochs: int) -> None:
    local = LocalTraining(epochs=epochs, learning_rate=0.1, optimizer=optimizer)  # type: ignore[arg-type]
    together = _updates(local, USERS, vectorised=True)
    alone = _updates(local, USERS, vectorised=False)
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_a_user_is_not_moved_by_the_padding_that_others_need(optimizer: str) -> None:
    # Batches of 2: the user with one row has one step, the one with five has three.
    local = LocalTraining(batch_size=2, learning_rate=0.1, optimizer=optimizer)  # type: ignore[arg-type]
    together = _updates(local, USERS, vectorised=True)
    single = _updates(local, [[3]], vectorised=True)
    torch.testing.assert_close(together[1], single[0], rtol=1e-5, atol=1e-6)


def test_several_local_steps_go_further_than_one() -> None:
    one = _updates(LocalTraining(learning_rate=0.1), USERS, vectorised=True)
    many = _updates(LocalTraining(learning_rate=0.1, epochs=5), USERS, vectorised=True)
    assert (many.norm(dim=1) > 3 * one.norm(dim=1)).all()


@pytest.mark.parametrize("vectorised", [True, False])
def test_momentum_is_that_of_torch(vectorised: bool) -> None:
    local = LocalTraining(learning_rate=0.1, epochs=4, momentum=0.9)
    updates = _updates(local, USERS, vectorised=vectorised)
    points = torch.from_numpy(np.random.default_rng(7).normal(size=(9, 5))).float()
    for row, rows in zip(updates, USERS, strict=True):
        weight = torch.full((5,), 0.25, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        for _ in range(4):
            optimizer.zero_grad()
            (0.5 * (weight - points[rows]).square().sum(dim=1).mean()).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        torch.testing.assert_close(row, weight.detach() - 0.25, rtol=1e-5, atol=1e-6)


def test_momentum_waits_for_the_rows_of_the_next_epoch() -> None:
    # Batches of 2: a step of the second user has no rows of the first, whose epoch is over.
    local = LocalTraining(batch_size=2, learning_rate=0.1, epochs=2, momentum=0.9)
    together = _updates(local, USERS, vectorised=True)
    torch.testing.assert_close(together, _updates(local, USERS, vectorised=False))


@pytest.mark.parametrize("bad", [{"momentum": 1.0}, {"momentum": 0.5, "optimizer": "adam"}])
def test_momentum_that_no_optimiser_has_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="momentum"):
        LocalTraining(**bad)


def test_every_row_is_used_once_an_epoch() -> None:
    seen: list[int] = []
    learner = ToyLearner(np.zeros((9, 2)), [0] * 9)
    original = learner.batch

    def spy(rows: np.ndarray, seeds: np.ndarray) -> dict[str, torch.Tensor]:
        seen.extend(np.asarray(rows).tolist())
        return dict(original(rows, seeds))

    learner.batch = spy  # type: ignore[method-assign]
    local, rng = LocalTraining(batch_size=2), np.random.default_rng(0)
    cohort = _drawn([[4, 5, 6, 7, 8]], local, rng)
    LocalTrainer(learner, local, "cpu").updates(torch.zeros(2), cohort)
    assert sorted(row for row in seen if row)[:5] == [4, 5, 6, 7, 8]


def test_a_user_is_not_moved_by_another_user_s_infinite_loss() -> None:
    """Padding is with the unit's own rows: no weight silences a loss that is not finite."""
    points = np.ones((4, 2))
    points[0] = np.nan  # row 0 belongs to the first user
    learner = ToyLearner(points, [0, 1, 1, 1])
    local, rng = LocalTraining(learning_rate=0.5), np.random.default_rng(0)
    trainer = LocalTrainer(learner, local, "cpu")
    updates = trainer.updates(torch.zeros(2), _drawn([[0], [1, 2, 3]], local, rng))
    assert torch.isnan(updates[0]).all()
    assert updates[1].tolist() == [0.5, 0.5]
    short = trainer.updates(torch.zeros(2), _drawn([[1], [0, 2, 3]], local, rng))
    assert short[0].tolist() == [0.5, 0.5]


def _language_learner(vectorised: bool) -> SupervisedLearner:
    """A tied CIFG with dropout; rows of one to nine tokens, repeated ones among them."""
    texts = ("a b c d a a b c d", "a", "b b", "c d a b", "d", "a c", "b d c", "a b a b", "c")
    words = WordVocabulary(("a", "b", "c", "d"), origin="test", private=False)
    layer = LayerShape(6, 5, projection=6, coupled=True)
    shape = NetworkShape(
        words.size, 6, (layer,), output_bias=True, embedding_range=0.5,
        dropout=Dropout(embedding=0.2, recurrent=0.2, output=0.2),
    )  # fmt: skip
    users = np.arange(len(texts), dtype=np.int64)
    corpus = Corpus(texts=texts, groups={"user": users}, split=np.zeros(len(texts), np.int64))
    model, network = LSTMSmall(LSTMSmallParams()), RecurrentNetwork(shape, 1)
    learner = LanguageReader(model, words).learner(network, corpus)
    learner.vectorised = vectorised
    return learner


def _by_hand(learner: SupervisedLearner, local: LocalTraining, cohort: Cohort) -> torch.Tensor:
    """A copy of the network for each user, and torch's own optimiser and cross-entropy."""
    updates = []
    for unit in range(len(cohort.rows)):
        module = copy.deepcopy(learner.module).train()
        optimizer = torch.optim.SGD(
            module.parameters(), lr=local.learning_rate, momentum=local.momentum
        )
        for rows, weights, seeds in schedule(cohort.take(np.array([unit])), local):
            batch = learner.batch(rows[0], seeds[0])
            kept = torch.from_numpy(weights[0]) > 0
            if kept.any():
                logits = module(batch["tokens"], batch["seeds"])[kept].flatten(0, 1)
                nats = nn.functional.cross_entropy(logits, batch["targets"][kept].flatten())
                optimizer.zero_grad()
                nats.backward()
                optimizer.step()
        pairs = zip(module.parameters(), learner.module.parameters(), strict=True)
        updates.append(torch.cat([(new - old).detach().reshape(-1) for new, old in pairs]))
    return torch.stack(updates)


@pytest.mark.parametrize("vectorised", [True, False])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("batch_size", [None, 2])
def test_a_language_model_trains_as_by_hand(
    vectorised: bool, momentum: float, batch_size: int | None
) -> None:
    local = LocalTraining(epochs=2, learning_rate=0.5, momentum=momentum, batch_size=batch_size)
    learner = _language_learner(vectorised)
    cohort = _drawn(USERS, local, np.random.default_rng(3))
    trainer = LocalTrainer(learner, local, "cpu")
    updates = trainer.updates(trainer.flat.vector.clone(), cohort)
    expected = _by_hand(learner, local, cohort)
    torch.testing.assert_close(updates, expected, rtol=1e-4, atol=1e-5)
    assert (expected.norm(dim=1) > 0.01).all()
    assert len(trainer.losses) == 3


@pytest.mark.parametrize("vectorised", [True, False])
def test_what_is_not_finite_at_one_user_stays_there(vectorised: bool) -> None:
    learner = _language_learner(vectorised)
    local = LocalTraining(epochs=2, learning_rate=0.5)
    cohort = _drawn(USERS, local, np.random.default_rng(3))
    trainer = LocalTrainer(learner, local, "cpu")
    theta = trainer.flat.vector.clone()
    expected = trainer.updates(theta, cohort)
    wrong = learner.losses

    def spoilt(module: nn.Module, batch: Batch) -> Losses:
        losses = wrong(module, batch)
        longest = losses.targets == 10  # row 0, of the first user
        return losses._replace(nats=losses.nats * torch.where(longest, torch.nan, 1.0))

    learner.losses = spoilt  # type: ignore[method-assign]
    trainer = LocalTrainer(learner, local, "cpu")
    updates = trainer.updates(theta, cohort)
    assert torch.isnan(updates[0]).any()
    torch.testing.assert_close(updates[1:], expected[1:])


def test_small_networks_train_side_by_side_and_large_ones_do_not() -> None:
    learner = _language_learner(True)
    assert side_by_side(learner, SIDE_BY_SIDE_WEIGHTS, "cpu")
    assert not side_by_side(learner, SIDE_BY_SIDE_WEIGHTS + 1, "cpu")
    assert side_by_side(learner, SIDE_BY_SIDE_WEIGHTS + 1, "cuda")
    assert not side_by_side(_language_learner(False), 1, "cuda")


def test_units_side_by_side_keep_their_weights_in_the_cache() -> None:
    learner = _language_learner(True)
    assert [units_at_once(learner, d, "cpu", 32) for d in (100, 2**16, 2**17)] == [32, 8, 4]
    assert units_at_once(learner, 2**17, "cuda", 32) == 32
    assert units_at_once(learner, 100, "cpu", 3) == 3
    assert units_at_once(learner, SIDE_BY_SIDE_WEIGHTS + 1, "cpu", 32) == 1
    assert units_at_once(_language_learner(False), 100, "cuda", 32) == 1


class _Quartic(nn.Module):
    """A row (place, slope) has the loss (slope (w - place))^4 / 4: steps grow past all numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        away = points[..., 1:] * (self.weight - points[..., :1])
        return 0.25 * (away**4).sum(-1)


@pytest.mark.parametrize(
    "local",
    [
        LocalTraining(batch_size=2, learning_rate=0.1),
        LocalTraining(batch_size=2, learning_rate=0.1, momentum=0.5),
        LocalTraining(batch_size=2, learning_rate=0.1, gradient_clip=1e37),
        LocalTraining(batch_size=2, learning_rate=1e13, optimizer="adam"),
    ],
    ids=["sgd", "momentum", "clipped", "adam"],
)
@pytest.mark.parametrize("places", [[100.0] * 4, [100.0] * 3, [1e12, 0.0, 0.0]])
def test_longer_units_decide_nothing_of_what_a_unit_sends(
    local: LocalTraining, places: list[float]
) -> None:
    """Gradients at the weights that a unit ends with are infinite, and no step needs them."""
    size, units = len(places), 10
    points = np.array([(place, float(place > 0)) for place in [*places * units, *[0.0] * 6]])
    learner = ToyLearner(points, [0] * len(points))
    learner.module = _Quartic()
    trainer = LocalTrainer(learner, local, "cpu")
    users = [list(range(size * unit, size * (unit + 1))) for unit in range(units)]
    longer = list(range(size * units, size * units + 6))
    whole = cohort_of([*users, longer])
    whole = whole.drawn(local.epochs, local.batch_size, *[np.random.default_rng(3)] * 2)
    theta = torch.zeros(3)
    alone = trainer.updates(theta, whole.take(np.arange(units)))
    together = trainer.updates(theta, whole)[:units]
    if local.optimizer == "sgd" or 0.0 in places:
        assert torch.isfinite(alone).all(dim=1).any()
    assert torch.equal(alone.nan_to_num(), together.nan_to_num())
