"""Claims as TensorFlow Privacy printed them, and what today's conversion makes of them."""

from __future__ import annotations

import math

import pytest

from uedp_bench.accounting.accountants.dp_accounting import (
    TF_ORDERS,
    rdp_epsilon,
    tf_privacy_epsilon,
)
from uedp_bench.accounting.accountants.renyi import log_moment
from uedp_bench.accounting.events import Claim, FixedSizeSampled, Gaussian, PoissonSampled, Repeated
from uedp_bench.accounting.ledger import claimed

RECORDS, DELTA = 14_987, 1e-5


def sampled(rate: float, noise: float) -> PoissonSampled:
    return PoissonSampled(rate=rate, event=Gaussian(noise_multiplier=noise))


@pytest.mark.parametrize(
    ("noise", "one", "batch", "today"),
    [
        (0.5, 3.7276, 9.738, 8.50),
        (1.0, 0.6876, 1.367, 1.03),
        (5.0, 0.0486, 0.1471, 0.101),
        (10.0, 0.0242, 0.0728, 0.047),
        (50.0, 0.0226, 0.0247, 0.008),
    ],
)
def test_batches_of_one_and_of_32(noise: float, one: float, batch: float, today: float) -> None:
    """Ten epochs over 14,987 records: the printed epsilons, and those of what was trained."""
    epsilon = tf_privacy_epsilon(sampled(1 / RECORDS, noise), 10 * RECORDS, DELTA)
    assert epsilon == pytest.approx(one, abs=5e-5)
    event, steps = sampled(32 / RECORDS, noise), 4_690
    assert tf_privacy_epsilon(event, steps, DELTA) == pytest.approx(batch, abs=5e-4)
    assert rdp_epsilon([(event, steps)], "add-or-remove", DELTA) == pytest.approx(today, abs=6e-3)


@pytest.mark.parametrize(("clients", "epsilon"), [(2, 1.35), (5, 2.18), (10, 3.27), (20, 4.90)])
def test_epsilon_grows_with_the_number_of_clients(clients: int, epsilon: float) -> None:
    """A client draws batches of 32 from its own records: noise 1, 10 epochs, today's orders."""
    rows = RECORDS // clients
    rounds = [(sampled(32 / rows, 1.0), round(10 * rows / 32))]
    assert rdp_epsilon(rounds, "add-or-remove", DELTA) == pytest.approx(epsilon, abs=5e-3)


@pytest.mark.parametrize("order", [2.0, 8.0, 63.0, 128.0, 512.0])
def test_divergences_at_whole_orders_are_the_closed_sum(order: float) -> None:
    """The epsilon never exceeds that of one order, and is attained by one of them."""
    rate, noise, count = 0.01, 1.3, 700
    ours = tf_privacy_epsilon(sampled(rate, noise), count, DELTA)
    lam = int(order) - 1
    at_order = (count * log_moment(rate, noise, lam) - math.log(DELTA)) / lam
    assert ours <= at_order + 1e-9
    best = min(
        (count * log_moment(rate, noise, int(a) - 1) - math.log(DELTA)) / (a - 1)
        for a in TF_ORDERS
        if a == int(a)
    )
    assert ours == pytest.approx(best, rel=1e-6)


def test_the_floor_is_that_of_the_largest_order() -> None:
    assert len(TF_ORDERS) == 72
    assert tf_privacy_epsilon(Gaussian(noise_multiplier=1e6), 1, DELTA) == pytest.approx(
        math.log(1e5) / 511, rel=1e-3
    )
    assert tf_privacy_epsilon(Gaussian(noise_multiplier=0.0), 1, DELTA) == math.inf


def test_claims_name_it_and_it_knows_one_relation_and_one_sampling() -> None:
    once = sampled(1 / RECORDS, 1.0)
    claim = Claim(
        unit="record",
        event=Repeated(count=10 * RECORDS, event=once),
        accountant="tf-privacy-rdp",
        source="a paper",
    )
    guarantee = claimed([claim], DELTA)[0]
    assert guarantee.accountant == "tf-privacy-rdp"
    assert guarantee.epsilon == pytest.approx(0.6876, abs=5e-5)
    fixed = FixedSizeSampled(population=10, sample=1, event=Gaussian(noise_multiplier=1.0))
    for update in ({"adjacency": "replace-one"}, {"event": fixed, "adjacency": "replace-one"}):
        assert claimed([claim.model_copy(update=update)], DELTA)[0].status == "refused"
    silent = claim.model_copy(update={"event": Repeated(count=0, event=once)})
    assert claimed([silent], DELTA)[0].epsilon == 0.0


def test_orders_whose_series_does_not_converge_are_left_out_in_silence(caplog) -> None:
    assert rdp_epsilon([(sampled(0.36, 0.9), 3)], "add-or-remove", DELTA) > 0.0
    assert not caplog.records
