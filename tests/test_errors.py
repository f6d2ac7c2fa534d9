"""Names of strangers do not rule the terminal that they are printed on."""

from __future__ import annotations

import pytest

from uedp_bench.errors import plain


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a name, ε ≤ 5", "a name, ε ≤ 5"),
        ("\x1b[2J\x1b]0;title\x07", r"\x1b[2J\x1b]0;title\x07"),
        ("\x9b31m", r"\x9b31m"),
        ("one\rtwo\x08\nthree\t", r"one\rtwo\x08\nthree\t"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\ud83d", r"\ud83d"),
    ],
)
def test_control_characters_are_shown_and_not_obeyed(text, shown):
    assert plain(text) == shown
    assert plain(text).encode()  # half a character could not be written


def test_lines_may_stay_and_long_texts_are_cut():
    assert plain("a\n\tb\x1b", lines=True) == "a\n\tb\\x1b"
    assert plain("abcdef", 4) == "abc…"
    assert plain("abcd", 4) == "abcd"
