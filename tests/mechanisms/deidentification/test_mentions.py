"""Edits that follow each other are put together as one."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.mechanisms.deidentification.mentions import composed, tidy, tidying

Edits = list[tuple[int, int, int]]
texts = st.text("ab \t", max_size=16)


def drawn(data: st.DataObject, size: int) -> Edits:
    cuts = sorted(data.draw(st.sets(st.integers(0, size), max_size=6)))
    pairs = zip(cuts[::2], cuts[1::2], strict=False)
    return [(start, end, data.draw(st.integers(0, 3))) for start, end in pairs]


def applied(text: list[str], edits: Edits, mark: str) -> list[str]:
    """Each new character names what it stands for, so that nothing is mistaken for another."""
    out, at = list[str](), 0
    for start, end, new in edits:
        out += text[at:start] + [mark] * new
        at = end
    return out + text[at:]


@given(st.data(), st.integers(0, 14))
def test_two_steps_are_one(data, size):
    old = [f"c{i}" for i in range(size)]
    first = drawn(data, size)
    between = applied(old, first, "?")
    second = drawn(data, len(between))
    new = applied(between, second, "?")
    both = composed(first, second)
    assert all(a[1] <= b[0] for a, b in pairwise(both))
    assert same_outside(both, old, new)
    kept = {c for c in new if c != "?"}
    outside = {c for i, c in enumerate(old) if not any(a <= i < b for a, b, _ in both)}
    assert outside <= kept  # what no edit touches is still there


def same_outside(edits: Edits, old: list[str], new: list[str]) -> bool:
    """Equal outside the edits; an edit made of two may hold characters that one of them kept."""
    at = new_at = 0
    for start, end, length in edits:
        gap = start - at
        if old[at:start] != new[new_at : new_at + gap]:
            return False
        new_at += gap + length
        at = end
    return old[at:] == new[new_at:]


@given(texts)
def test_tidying_says_what_tidy_does(text):
    tidied, _ = tidy(text, [])
    out, at = "", 0
    for start, end, new in tidying(text):
        assert text[start:end].isspace()
        out += text[at:start] + " " * new
        at = end
    assert out + text[at:] == tidied
