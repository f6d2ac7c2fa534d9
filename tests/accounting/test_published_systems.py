"""Claims and proofs of the published systems, against their papers and the corrections of them."""

from __future__ import annotations

import math

import pytest

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.accounting.published_systems import ALIASES, SYSTEMS
from uedp_bench.components import registry
from uedp_bench.errors import InputError
from uedp_bench.one_run.planning.account import account
from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism


def both(name: str, delta: float = 1e-5, **settings: object) -> tuple[Guarantee, Guarantee]:
    """The claimed and the proven guarantee."""
    planned = PlannedMechanism.from_settings(name, settings)
    claimed, proven = (g for g in account(planned, delta) if g.unit == planned.unit)
    assert (claimed.kind, proven.kind) == ("claimed", "proven")
    assert claimed.unit == proven.unit
    return claimed, proven


def test_names_are_their_own_and_every_alias_has_a_mechanism() -> None:
    assert all(system.name == name for name, system in SYSTEMS.items())
    assert all(target in registry.mechanisms.names() for target, _ in ALIASES.values())
    assert all(system.source for system in SYSTEMS.values())


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.5, 1.0, 5.0])
def test_dpnr_spends_epsilon_on_every_coordinate(epsilon: float) -> None:
    claimed, proven = both("dpnr", epsilon=epsilon)
    assert claimed.epsilon == pytest.approx(epsilon)
    assert proven.pure == pytest.approx(768 * epsilon)
    assert claimed.epsilon < proven.epsilon < 0.9 * proven.pure
    assert (proven.unit, proven.adjacency, proven.delta) == ("word", "replace-one", 1e-5)
    assert "coordinate" in claimed.note


@pytest.mark.parametrize("dropout", [0.1, 0.3, 0.5, 0.8])
def test_dpnr_with_word_dropout(dropout: float) -> None:
    claimed, proven = both("dpnr", epsilon=1.0, word_dropout=dropout, dimension=100)
    assert claimed.epsilon == pytest.approx(math.log((1 - dropout) * math.e + dropout))
    assert proven.pure == pytest.approx(math.log((1 - dropout) * math.exp(100) + dropout))


def test_dpnr_noise_holds_on_the_worst_pair_of_vectors() -> None:
    """Vectors at opposite corners of [0, 1]^k: the loss reaches k epsilon, and never exceeds it."""
    import numpy as np

    dimension, epsilon = 384, 0.05
    _, proven = both("dpnr", epsilon=epsilon, dimension=dimension)
    rng = np.random.default_rng(1)
    scale = 1 / epsilon
    outputs = np.vstack([rng.laplace(0, scale, (500, dimension)), np.full((1, dimension), -5.0)])
    loss = ((np.abs(outputs - 1.0) - np.abs(outputs)) / scale).sum(axis=1)
    assert proven.pure is not None
    assert loss.max() == pytest.approx(proven.pure)
    assert (np.abs(loss) <= proven.pure + 1e-9).all()
    # At most delta of the ordinary outcomes lose more than epsilon: none of 500.
    assert loss[:-1].max() < proven.epsilon < proven.pure
    assert np.median(loss) > both("dpnr", epsilon=epsilon)[0].epsilon


def test_deepcandidate_holds_as_claimed() -> None:
    claimed, proven = both("deepcandidate", epsilon=10.0)
    assert claimed.epsilon == proven.epsilon == 10.0
    assert (proven.unit, proven.adjacency, proven.delta) == ("sentence", "replace-one", 0.0)


def test_metric_dp_is_per_unit_of_distance() -> None:
    claimed, proven = both("metric-dp", epsilon=3.0, distances=[0.5, 2.0], words=10)
    assert claimed.epsilon == proven.epsilon == 3.0
    assert claimed.notion == proven.notion == "metric-dp"
    readings = dict(
        PlannedMechanism.from_settings("metric-dp", {"epsilon": 3.0, "distances": [2.0]}).readings()
    )
    assert list(readings.values()) == [6.0]
    rows = PlannedMechanism.from_settings(
        "metric-dp", {"epsilon": 3.0, "distances": [2.0], "words": 10}
    ).readings()
    assert [value for _, value in rows] == [6.0, 60.0]


@pytest.mark.parametrize("sampling", ["poisson", "fixed"])
def test_federated_ner_samples_from_a_shard(sampling: str) -> None:
    settings = {"records": 14_987, "batch_size": 32, "epochs": 10, "sampling": sampling}
    claimed, proven = both("federated-ner", clients=5, **settings)
    assert proven.epsilon > 1.3 * claimed.epsilon
    alone, together = both("federated-ner", clients=1, **settings)
    assert alone.epsilon == claimed.epsilon  # one epsilon for every number of clients
    assert "batches of one record" in alone.note
    assert together.epsilon < proven.epsilon / 1.3


def test_federated_ner_never_underrates_uneven_shards() -> None:
    """Ten records at three clients: the smallest shard has three, the largest four."""
    event = SYSTEMS["federated-ner"].create(
        {"records": 10, "clients": 3, "batch_size": 3, "epochs": 2}
    ).plan()[0].event  # fmt: skip
    assert (event.event.rate, event.count) == (1.0, 4)
    with pytest.raises(InputError, match=r"3 clients.*2 records"):
        SYSTEMS["federated-ner"].create({"records": 2, "clients": 3})


def test_fixed_size_rounds_of_the_federated_secret_sharer() -> None:
    settings = {"users": 1000, "users_per_round": 50, "rounds": 100, "noise_multiplier": 2}
    claimed, proven = both("federated-secret-sharer", **settings)
    assert claimed.epsilon == pytest.approx(2.4925, abs=1e-4)
    assert proven.epsilon == pytest.approx(3.8490, abs=1e-3)
    assert proven.adjacency == "replace-one"
    planned = PlannedMechanism.from_settings("federated-secret-sharer", settings)
    assert (planned.name, planned.component().params.sampling) == (planned.name, "fixed")
    with pytest.raises(InputError, match=r"federated-secret-sharer\.rounds is 0"):
        PlannedMechanism.from_settings("federated-secret-sharer", {**settings, "rounds": 0})
