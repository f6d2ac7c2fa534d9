"""Phrase extraction against every pair of spans, and against the authors' own files."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.mechanisms.fragments.extraction import PhrasePair, phrase_pairs
from uedp_bench.text.word_alignment import Aligner, Link


def every_consistent(
    links: set[Link], words: int, target_words: int, longest: int, longest_target: int
) -> Iterator[PhrasePair]:
    """The definition (Koehn 2009, section 5.2.2), tried on all pairs of spans."""
    for s, e in product(range(words), range(1, words + 1)):
        for t, u in product(range(target_words), range(1, target_words + 1)):
            if not (0 < e - s <= longest and 0 < u - t <= longest_target):
                continue
            inside = [(s <= i < e, t <= j < u) for i, j in links]
            if all(one == other for one, other in inside) and any(one for one, _ in inside):
                yield PhrasePair(s, e, t, u)


@st.composite
def aligned(draw: st.DrawFn) -> tuple[set[Link], int, int, int, int]:
    n, m = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    cells = st.tuples(st.integers(0, n - 1), st.integers(0, m - 1))
    return (draw(st.sets(cells, max_size=8)), n, m, draw(st.integers(1, 6)),
            draw(st.integers(1, 6)))  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(aligned())
def test_extraction_finds_what_the_definition_allows(
    case: tuple[set[Link], int, int, int, int],
) -> None:
    pairs = list(phrase_pairs(*case))
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == set(every_consistent(*case))


def test_words_without_links_join_on_either_side() -> None:
    # a b c / x y z, where only b and y are linked.
    corners = {(p.start, p.end, p.target_start, p.target_end)
               for p in phrase_pairs({(1, 1)}, 3, 3, 2, 2)}  # fmt: skip
    assert corners == {(s, e, t, u) for s, e in ((1, 2), (0, 2), (1, 3))
                       for t, u in ((1, 2), (0, 2), (1, 3))}  # fmt: skip


def test_as_many_phrases_as_the_authors_published(shared_data: Path) -> None:
    """Their file of EMEA has half of the phrases of at most 4 words on either side."""
    folder = shared_data / "nmt_confidential"
    domain, longest, lines = "EMEA", 4, 93_981

    def read(name: str) -> list[list[str]]:
        with gzip.open(folder / f"{name}.gz", "rt", encoding="utf-8") as file:
            return [line.split() for line in file]

    for side in ("de", "en"):
        theirs = read(f"phrase_pairs/{domain}/train_phrase_4_0.5.{side}")
        assert len(theirs) == lines
        assert max(map(len, theirs)) == longest
    sides = (read(f"full_sent_datasets/{domain}/train.{side}") for side in ("de", "en"))
    pairs = [(de, en) for de, en in zip(*sides, strict=True) if de and en]
    counts = Counter((tuple(de), tuple(en)) for de, en in pairs)
    links = Aligner.train(pairs).links(list(counts), "union")
    ours = sum(
        count * len(list(phrase_pairs(links_of_pair, len(de), len(en), longest, longest)))
        for links_of_pair, ((de, en), count) in zip(links, counts.items(), strict=True)
    )
    assert ours / 2 == pytest.approx(lines, rel=0.05)
