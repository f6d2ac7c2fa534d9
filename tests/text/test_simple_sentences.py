from __future__ import annotations

import pytest

from uedp_bench.text.simple_sentences import simple_sentences


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("One two. Three!! Four", ["One two.", "Three!!", "Four"]),
        ('He said "no." Then (why?) left', ['He said "no."', "Then (why?)", "left"]),
        ("so... what… now ?", ["so...", "what…", "now ?"]),
        ("3.14 is pi.e", ["3.14 is pi.e"]),
        ("Mr. Smith", ["Mr.", "Smith"]),
        ("... :) ! ok. -- ? __", ["ok."]),
        ("", []),
        ("?!", []),
    ],
)
def test_they_end_where_the_rule_says(text: str, found: list[str]) -> None:
    assert list(simple_sentences(text)) == found
