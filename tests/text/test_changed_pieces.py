"""What was changed in a text, by the words that are left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.text import changed_pieces
from uedp_bench.text.changed_pieces import Compared, compare


def hidden(old: str, new: str) -> list[str]:
    return [old[one.start : one.end] for one in compare(old, new).changes if one.hides]


@pytest.mark.parametrize(
    ("old", "new", "gone"),
    [
        ("Mr John Smith of Ohio.", "Mr [PERSON] of [LOC].", ["John Smith", "Ohio"]),
        ("Mr John Smith of Ohio.", "Mr of.", ["John Smith", "Ohio"]),
        ("John met Mary", "john MET  mary", []),
        ("the Straße is long", "the STRASSE is long", []),
        ("he left Ohio", "yesterday he left Ohio", []),
        ("call 555-0199 now", "call 555-0123 now", ["0199"]),
        ("José Núñez\u200b left", "Jose\u0301 NU\u0303N\u0303EZ left", []),
        ("Jean-Luc Roy &amp; Co", "Jean-Luc_Roy & Co", []),
        ("Jean-Luc Roy", "Jean-Luc \u200b", ["Roy"]),
        ("“O’Brien” – Łukasz Øre", '"O\'Brien" - Lukasz Ore', []),
        ("王小明去了", "某人去了", ["王小明"]),
        ("abc", "", ["abc"]),
        ("", "abc", []),
        ("one two", "drei vier", ["one two"]),
    ],
)
def test_words_that_are_not_there_any_more(old: str, new: str, gone: list[str]) -> None:
    assert hidden(old, new) == gone


@given(st.text("ab ß\nA.", max_size=30), st.text("ab ß\nA.", max_size=30))
def test_the_changes_make_the_new_text(old: str, new: str) -> None:
    check(compare(old, new), old, new)


@given(st.text("ab .", max_size=30), st.text("ab .", max_size=30))
def test_texts_that_are_too_long_to_compare_share_their_ends(old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changed_pieces, "MOST_PAIRS", 0)
        check(compare(old, new), old, new)
        assert hidden(f"x {old} y", f"x {old} y") == []


def check(found: Compared, old: str, new: str) -> None:
    """What no change touches is the same but for its case, and lengths add up."""
    at = new_at = 0
    for start, end, length, _ in found.changes:
        assert at <= start <= end
        gap = start - at
        assert old[at:start].casefold() == new[new_at : new_at + gap].casefold()
        at, new_at = end, new_at + gap + length
    assert old[at:].casefold() == new[new_at:].casefold()
    assert 0 <= found.kept <= found.words
