"""Algorithm 2 on functions whose answer is known."""

from __future__ import annotations

import pytest

from uedp_bench.errors import InputError
from uedp_bench.harness.tradeoff import SECOND_WEIGHTS, Budget, Point, select
from uedp_bench.results import Estimate


def measure_of(loss, error):
    def measure(epsilon, t):
        value = Estimate(value=error(epsilon, t))
        return Point(
            {"epsilon": epsilon, "t": t},
            Estimate(value=loss(epsilon, t)),
            {"posterior": value, "map": Estimate(value=-value.value)},
            Estimate(value=0.0),
        )

    return measure


def test_epsilon_doubles_until_the_loss_is_below_and_t_fills_the_budget():
    measure = measure_of(lambda e, t: 1 / e + 0.1 * t, lambda e, t: 1 / e + t)
    choice = select(measure, 1.0, Budget(0.2))
    # 1/4 is not below 0.2, 1/8 is; 1/8 + 0.1 t <= 0.2 holds up to t = 0.75.
    assert [p.params["epsilon"] for p in choice.points[:4]] == [1, 2, 4, 8]
    assert choice.chosen.params == {"epsilon": 8.0, "t": 0.75}
    assert [p.params["t"] for p in choice.points[4:]] == list(SECOND_WEIGHTS)
    assert SECOND_WEIGHTS[0] == 0.05
    assert SECOND_WEIGHTS[-1] == 1.0


def test_the_limit_is_strict_for_epsilon_and_not_for_t():
    measure = measure_of(lambda e, t: 0.25 if (e, t) != (2.0, 0.0) else 0.2, lambda e, t: t)
    choice = select(measure, 1.0, Budget(0.25))
    assert choice.chosen.params == {"epsilon": 2.0, "t": 1.0}


def test_error_need_not_rise_with_t_and_ties_go_to_the_smaller():
    measure = measure_of(lambda e, t: 0.0, lambda e, t: 0.5 if t in (0.3, 0.6) else 0.1)
    choice = select(measure, 3.0, Budget(0.1))
    assert choice.chosen.params == {"epsilon": 3.0, "t": 0.3}
    # The other adversary errs least there.
    assert select(measure, 3.0, Budget(0.1, adversary="map")).chosen.params["t"] == 0.0


def test_budget_out_of_reach_says_how_near_it_was():
    measure = measure_of(lambda e, t: 0.3 if e == 4 else 0.4, lambda e, t: 0.0)
    with pytest.raises(
        InputError, match=r"0.1 is not reached: .* 0.3, at epsilon 4 .* 3 doublings"
    ):
        select(measure, 1.0, Budget(0.1, doublings=3))
