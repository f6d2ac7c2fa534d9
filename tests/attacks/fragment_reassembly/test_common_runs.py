"""The automaton against a search for every run of words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from uedp_bench.attacks.fragment_reassembly.attack import CommonRuns

TEXT = st.text("abc", max_size=12)


@given(st.lists(TEXT, max_size=5), TEXT)
def test_longest_common_runs_are_those_of_a_search(sequences: list[str], text: str) -> None:
    expected = [
        max(size for size in range(end + 2)
            if any(text[end + 1 - size : end + 1] in sequence for sequence in ["", *sequences]))
        for end in range(len(text))
    ]  # fmt: skip
    assert CommonRuns(sequences).ending(text) == expected
