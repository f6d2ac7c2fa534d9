"""Settings: dotted names, YAML values, clear refusals."""

from __future__ import annotations

import pytest

from uedp_bench.errors import InputError
from uedp_bench.spec.settings import parse_setting


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("mechanism.rounds=50", ("mechanism", "rounds"), 50),
        ("mechanism.user-dp.clip=0.1", ("mechanism", "user-dp", "clip"), 0.1),
        ("delta=1e-5", ("delta",), 1e-5),
        ("a=[1e-5, 2]", ("a",), [1e-5, 2]),
        ("a=true", ("a",), True),
        ("a=null", ("a",), None),
        ("a=", ("a",), None),
        ("a=x=y", ("a",), "x=y"),
        ("a=elephant", ("a",), "elephant"),
        ("a=2e", ("a",), "2e"),
        ("a=f_E+", ("a",), "f_E+"),
    ],
)
def test_settings(text, path, value):
    got = parse_setting(text)
    assert got == (path, value)
    assert type(got[1]) is type(value)


@pytest.mark.parametrize("text", ["rounds", "=5", "a..b=5", "a=[1", ""])
def test_what_is_not_a_setting_is_refused(text):
    with pytest.raises(InputError, match="--set"):
        parse_setting(text)
