"""Words in their normal form, with their places in the text as it is written."""

from __future__ import annotations

import html
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.text.normal_words import normal_words, without_accents


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
