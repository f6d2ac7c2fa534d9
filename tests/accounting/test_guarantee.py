"""The numbers of results: infinity is a value with a text of its own, NaN is none."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError

from uedp_bench.accounting.guarantee import CurvePoint


@pytest.mark.parametrize(
    ("number", "value", "text"),
    [
        (1, 1.0, "1.0"),
        (0.25, 0.25, "0.25"),
        ("inf", math.inf, '"inf"'),
        (math.inf, math.inf, '"inf"'),
    ],
)
def test_a_number_is_read_and_written(number, value, text):
    point = CurvePoint(spread=0, epsilon=number)
    assert point.epsilon == value
    assert f'"epsilon":{text}' in point.model_dump_json()
    assert CurvePoint.model_validate_json(point.model_dump_json()) == point


@pytest.mark.parametrize("number", [math.nan, "nan", "NaN", -math.inf, "-inf", -1])
def test_nan_and_values_below_zero_are_refused_by_name(number):
    with pytest.raises(ValidationError) as caught:
        CurvePoint(spread=0, epsilon=number)
    (error,) = caught.value.errors()
    assert error["loc"] == ("epsilon",)


@pytest.mark.parametrize("number", [None, "x", [1]])
def test_what_is_no_number_is_not_called_nan(number):
    with pytest.raises(ValidationError, match="epsilon"):
        CurvePoint(spread=0, epsilon=number)
