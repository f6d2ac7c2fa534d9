"""Words in their normal form, with their places in the text as it is written."""

from __future__ import annotations

import html
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.text import comparison
from uedp_bench.text.comparison import Compared, compare, normal_words, without_accents


def forms(text: str) -> list[str]:
    return [word.form for word in normal_words(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("José_Núñez", ["josé", "_", "núñez"]),
        (unicodedata.normalize("NFD", "José"), ["josé"]),
        ("Jo\u00ads\u200bé", ["josé"]),
        ("Ann O&#39;Neil &amp; Jos&eacute;", ["ann", "o", "'", "neil", "&", "josé"]),
        ("R&D; &nosuch; &#x4A;", ["r", "&", "d", ";", "&", "nosuch", ";", "j"]),
        ("\uff21\uff4e\uff4e 42", ["ann", "42"]),
        ("Straße ﬁn", ["strasse", "fin"]),
        ("王小明去了", ["王", "小", "明", "去", "了"]),
        ("\u200b \ufeff", []),
        ("½", ["1⁄2"]),  # one sign on paper: its three words have one place
    ],
)
def test_forms_of_words(text: str, words: list[str]) -> None:
    assert forms(text) == words


def test_places_are_those_of_the_written_text() -> None:
    text = "a Jos&eacute;\u200b" + unicodedata.normalize("NFD", " Núñez!")
    assert [text[word.start : word.end] for word in normal_words(text)] == [
        "a", "Jos&eacute;", unicodedata.normalize("NFD", "Núñez"), "!",
    ]  # fmt: skip
    assert [word.spaced for word in normal_words(text)] == [False, True, True, False]


LETTERS = st.text("aZéßİﬁ½&;#39amp_ \u0301\u200b\u00ad\n.王", max_size=25)


@given(LETTERS)
def test_places_rise_and_never_overlap(text: str) -> None:
    words = normal_words(text)
    edges = [edge for word in words for edge in (word.start, word.end)]
    assert edges == sorted(edges)
    assert all(word.form and word.start < word.end for word in words)


@given(st.text("aZéßİ½_ \u0301\n.王", max_size=25))
def test_form_does_not_depend_on_how_a_text_is_written(text: str) -> None:
    words = forms(unicodedata.normalize("NFC", text))
    assert forms(unicodedata.normalize("NFD", text)) == words
    assert forms(html.escape(unicodedata.normalize("NFC", text))) == words


def test_accents_go_where_they_are_no_letters_of_their_own() -> None:
    assert without_accents("béranger") == "beranger"
    assert without_accents("हिन्दी") == "हिन्दी"
    assert without_accents("\u0301") == "\u0301"


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
        patch.setattr(comparison, "MOST_PAIRS", 0)
        check(compare(old, new), old, new)
        assert hidden(f"x {old} y", f"x {old} y") == []


def check(difference: Compared, old: str, new: str) -> None:
    """Text outside of all changes is the same but for its case, and lengths add up."""
    at = new_at = 0
    for start, end, length, _ in difference.changes:
        assert at <= start <= end
        gap = start - at
        assert old[at:start].casefold() == new[new_at : new_at + gap].casefold()
        at, new_at = end, new_at + gap + length
    assert old[at:].casefold() == new[new_at:].casefold()
    assert 0 <= difference.kept <= difference.words
