"""Axes of plots: zero and infinity have places, intervals some room, and no number breaks them."""

from __future__ import annotations

import math
import re

import pytest

from uedp_bench.leaderboard.plots import looks, scale

INFINITE = math.inf


def ticks(axis):
    frame = axis["frame"]
    texts = [re.sub("<.*?>", "", text) for text in frame["ticktext"]]
    return dict(zip(texts, frame["tickvals"], strict=True))


def test_zero_and_infinity_have_places_of_their_own():
    wide = scale([0.0, 0.01, 5.0, 100.0, INFINITE], log=True, zero=True)
    assert wide["frame"]["type"] == "log"
    zero, infinity = wide["edges"]["0"], wide["edges"]["Infinity"]
    assert 0 < zero < 0.01
    assert 100 < wide["wall"] < infinity
    texts = ticks(wide)
    assert (texts["0"], texts["∞"]) == (zero, infinity)
    assert [texts[name] for name in ("0.01", "0.1", "1", "10", "100")] == [0.01, 0.1, 1, 10, 100]
    assert wide["frame"]["range"][0] < math.log10(zero)
    assert wide["frame"]["range"][1] > math.log10(infinity)


def test_axes_are_linear_where_values_are_near():
    narrow = scale([2.0, 8.0, INFINITE], log=True, zero=True)
    assert narrow["frame"]["type"] == "linear"
    assert narrow["frame"]["range"][0] <= 0  # so that 8 is seen to be four times 2
    assert set(ticks(narrow).values()) >= {0, 2, 4, 6, 8}
    assert "tickvals" not in scale([1.0, 9.0], log=True)["frame"]  # Plotly's own
    assert scale([-1.0, 100.0], log=True)["frame"]["type"] == "linear"
    assert scale([1.0, 100.0], log=False)["frame"]["type"] == "linear"


def test_intervals_have_some_room_and_no_more():
    assert "cut" not in scale([10.0, 20.0], log=False, ends=[9.0, 22.0])
    far = scale([10.0, 20.0], log=False, ends=[-500.0, 600.0])
    assert far["cut"]
    low, high = far["frame"]["range"]
    assert -5 < low < 10
    assert 20 < high < 35


@pytest.mark.parametrize("values", [
    [], [0.0], [INFINITE], [-INFINITE, INFINITE], [5e-324, 1e308], [-1e308, 1e308],
    [1e15, math.nextafter(1e15, 2e15)],
])  # fmt: skip
@pytest.mark.parametrize("log", [True, False])
def test_no_values_break_an_axis(values, log):
    axis = scale(values, log=log, zero=log, ends=[value for value in values if value < INFINITE])
    low, high = axis["frame"]["range"]
    assert math.isfinite(low)
    assert low < high < INFINITE
    assert all(map(math.isfinite, axis["frame"].get("tickvals", [])))


def test_mechanisms_that_share_a_set_look_different():
    styles = looks([("a", 0), ("b", 0), ("c", 1), ("a", 1), ("b", 2)])
    assert styles["a"] not in (styles["b"], styles["c"])
    assert styles["b"] == styles["c"]
