"""Local noise and black-box guarantees, against closed forms in 60 digits."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.accounting.accountants.basic_composition import (
    basic_epsilon,
    basic_reason,
    dropout_epsilon,
    group_delta,
)
from uedp_bench.accounting.events import ApproximateDP, LaplaceVector, MetricPrivacy, PureDP
from uedp_bench.accounting.guarantee import Refusal

ANY = "add-or-remove"


def exact_dropout(epsilon: float, dropout: float) -> float:
    with localcontext() as context:
        context.prec = 60
        mu = Decimal(dropout)
        return float(((1 - mu) * Decimal(epsilon).exp() + mu).ln())


def exact_group(epsilon: float, delta: float, group: int) -> Decimal:
    with localcontext() as context:
        context.prec = 60
        e = Decimal(epsilon)
        ratio = Decimal(group) if e == 0 else ((e * group).exp() - 1) / (e.exp() - 1)
        return Decimal(delta) * ratio


@pytest.mark.parametrize("dropout", [1e-9, 0.1, 0.5, 0.8, 1 - 1e-9])
@pytest.mark.parametrize("epsilon", [1e-9, 0.05, 0.999, 1.0, 38.4, 768.0, 768 * 50.0])
def test_dropout_closed_form(epsilon: float, dropout: float) -> None:
    event = LaplaceVector(scale=1.0, sensitivity=epsilon, dropout=dropout)
    assert basic_epsilon([(event, 1)], ANY, 1e-5) == (
        pytest.approx(exact_dropout(epsilon, dropout), rel=1e-12),
        "basic",
        0.0,
    )


def test_dropout_at_its_ends() -> None:
    assert dropout_epsilon(1e6, 0.0) == 1e6
    assert dropout_epsilon(1e6, 1.0) == 0.0
    assert dropout_epsilon(math.inf, 0.5) == math.inf


@settings(deadline=None, max_examples=60)
@given(
    st.integers(1, 12),
    st.floats(0.0, 1.0),
    st.floats(0.05, 4.0),
    st.data(),
)
def test_dropout_bounds_every_channel(
    size: int, dropout: float, epsilon: float, data: st.DataObject
) -> None:
    """Three laws within e^epsilon of one another: mixing in the first gains what is claimed."""
    ratios = data.draw(
        st.lists(
            st.tuples(*[st.floats(-epsilon / 2, epsilon / 2)] * 3), min_size=size, max_size=size
        )
    )
    bound = dropout_epsilon(epsilon, dropout)
    for a, b, c in ratios:
        top = dropout * math.exp(a) + (1 - dropout) * math.exp(b)
        bottom = dropout * math.exp(a) + (1 - dropout) * math.exp(c)
        assert math.log(top / bottom) <= bound + 1e-12


@settings(deadline=None, max_examples=200)
@given(
    st.one_of(st.just(0.0), st.floats(1e-12, 30.0)), st.floats(1e-300, 1.0), st.integers(1, 2000)
)
def test_group_privacy_closed_form(epsilon: float, delta: float, group: int) -> None:
    exact = exact_group(epsilon, delta, group)
    ours = group_delta(epsilon, delta, group)
    if exact >= 1:
        assert ours == pytest.approx(1.0, rel=1e-9)
    else:
        assert ours == pytest.approx(float(exact), rel=1e-9)


def test_group_privacy_is_the_sum_over_steps() -> None:
    direct = sum(1e-9 * math.exp(0.1 * i) for i in range(32))
    event = ApproximateDP(epsilon=0.1, delta=1e-9, group=32)
    epsilon, accountant, used = basic_epsilon([(event, 1)], ANY, 1e-5)
    assert (epsilon, accountant) == (pytest.approx(3.2), "basic")
    assert used == pytest.approx(direct)
    assert used > 32 * 1e-9


def test_sums() -> None:
    rounds = [
        (PureDP(epsilon=0.5), 3),
        (ApproximateDP(epsilon=1.0, delta=1e-7), 2),
        (LaplaceVector(scale=2.0, sensitivity=1.0), 4),
        (PureDP(epsilon=9.0), 0),
    ]
    assert basic_epsilon(rounds, ANY, 1e-5) == (pytest.approx(5.5), "basic", pytest.approx(2e-7))
    assert basic_epsilon([], ANY, 1e-5) == (0.0, "basic", 0.0)


def test_delta_beyond_what_is_allowed_is_no_guarantee() -> None:
    rounds = [(ApproximateDP(epsilon=1.0, delta=1e-6), 20)]
    assert basic_epsilon(rounds, ANY, 1e-5)[0] == math.inf
    assert "2e-05" in basic_reason(rounds, ANY, 1e-5)
    assert basic_epsilon(rounds, ANY, 2e-5) == (20.0, "basic", pytest.approx(2e-5))
    assert basic_reason(rounds, ANY, 2e-5) == ""
    vacuous = [(ApproximateDP(epsilon=1.0, delta=1e-6, group=256), 1)]
    assert basic_epsilon(vacuous, ANY, 0.99) == (math.inf, "basic", 1.0)


def test_metric_privacy_composes_with_its_own_metric_only() -> None:
    metric = MetricPrivacy(epsilon=3.0, metric="euclidean")
    assert basic_epsilon([(metric, 2)], ANY, 1e-5) == (6.0, "metric", 0.0)
    with pytest.raises(Refusal, match="pure-dp"):
        basic_epsilon([(metric, 1), (PureDP(epsilon=1.0), 1)], ANY, 1e-5)
    with pytest.raises(Refusal, match="'cosine', 'euclidean'"):
        basic_epsilon([(metric, 1), (MetricPrivacy(epsilon=1.0, metric="cosine"), 1)], ANY, 1e-5)


def test_infinite_noise_and_none() -> None:
    assert (
        basic_epsilon([(LaplaceVector(scale=1e-300, sensitivity=1e10), 1)], ANY, 1e-5)[0]
        == math.inf
    )
    assert (
        basic_reason([(PureDP(epsilon=math.inf), 1)], ANY, 1e-5) == "an event has infinite epsilon"
    )
    assert basic_epsilon([(LaplaceVector(scale=1.0, sensitivity=0.0), 9)], ANY, 1e-5)[0] == 0.0
