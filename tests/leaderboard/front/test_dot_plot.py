"""Places on an axis are in order and within it; ticks are round."""

from __future__ import annotations

import pytest

from uedp_bench.leaderboard.front.dot_plot import LONG_LABEL, Dot, DotPlot, Mark, spread


def plot(*values, marks=()):
    return DotPlot("axis", tuple(Dot("", value, str(value)) for value in values),
                   tuple(Mark("", value, "") for value in marks))  # fmt: skip


def test_values_are_in_order_and_more_than_a_decade_is_logarithmic():
    near, far = plot(20.0, 30.0, 40.0), plot(1.0, 10.0, 100.0)
    assert (near.logarithmic, far.logarithmic) == (False, True)
    for one in (near, far):
        places = [placed.at for placed in one.placed]
        assert places == sorted(places)
        assert places[1] == pytest.approx((places[0] + places[2]) / 2)
        assert places[0] > 0
        assert places[-1] < 100
    assert [text for text, _ in far.ticks] == ["1", "3", "10", "30", "100"]
    assert [text for text, _ in near.ticks] == ["20", "30", "40"]
    assert not plot(0.0, 100.0).logarithmic


def test_intervals_end_with_the_axis_and_marks_stand_on_it():
    dot = Dot("", 20.0, "", low=-1e9, high=25.0)
    one = DotPlot("", (dot, Dot("", 30.0, "")), (Mark("", 40.0, ""),))
    wide, alone = one.placed
    assert wide.left == 0.0
    assert wide.left + wide.width > wide.at
    assert (alone.left, alone.width) == (alone.at, 0.0)
    assert one.lines[0][1] > alone.at
    assert [placed.at for placed in plot(5.0).placed] == [50.0]


def test_a_long_label_is_cut_between_parameters():
    long = "user-dp (" + ", ".join(f"parameter{at}={at}" for at in range(9)) + ")"
    assert Dot(long, 1.0, "").short == "user-dp (parameter0=0, parameter1=1, …)"
    assert Dot("user-dp (rounds=3)", 1.0, "").short == "user-dp (rounds=3)"
    assert len(Dot("x" * 99, 1.0, "").short) == LONG_LABEL


def test_the_subject_stays_where_there_are_too_many():
    dots = [Dot(str(at), at, "", tone="subject" if at == 7 else "plain") for at in range(9)]
    assert [dot.label for dot in spread(dots, 3)] == ["0", "1", "7"]
