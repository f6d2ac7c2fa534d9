"""Names belong to a side where no text of the other mentions them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from uedp_bench.attacks.names.sides import NameIndex, NameSides, words_of
from uedp_bench.corpus import SPLITS, Corpus, Spans
from uedp_bench.errors import InputError

ROWS = (
    ("Ann Lee met Bob.", "train", ("Ann Lee", "Bob")),
    ("ANN  LEE again, and Zoe", "train", ("ANN  LEE", "Zoe")),
    ("bob is here unmarked; Carla too", "test", ("Carla",)),
    ("Zoe is public, and Carl", "public", ("Zoe", "Carl")),
    ("Dora-May left", "held_out", ("Dora-May",)),
)


def corpus(rows=ROWS) -> Corpus:
    texts = tuple(text for text, _, _ in rows)
    mentions = [
        (at, text.index(name), text.index(name) + len(name), 0)
        for at, (text, _, names) in enumerate(rows)
        for name in names
    ]
    return Corpus(
        texts=texts,
        groups={"user": np.arange(len(rows))},
        split=np.array([SPLITS.index(split) for _, split, _ in rows]),
        entities=Spans.build(texts, mentions),
        entity_types=("PER",),
    )


def test_a_name_that_another_split_mentions_is_of_no_side():
    sides = NameSides.from_corpus(corpus(), (), "x")
    assert sides.inside.names == (("ann", "lee"),)  # Bob is unmarked elsewhere, Zoe is public
    assert set(sides.outside.names) == {("carla",), ("dora", "may")}
    assert sides.public == {("zoe",), ("carl",)}
    assert [sides.inside.surfaces[at] for at in sides.inside.name_of] == ["Ann Lee", "Ann Lee"]
    planted = replace(corpus(), origin=np.array([-1, 1, 2, 3, -1]))
    sides = NameSides.from_corpus(planted, (), "x")
    assert (sides.inside.surfaces, sides.outside.names) == (("ANN  LEE",), (("carla",),))


def test_names_are_found_as_whole_words_in_any_case():
    index = NameIndex([("ann", "lee"), ("carl",), ()])
    assert index.mentioned(["Ann-Lee, and CARLA"]) == {("ann", "lee")}
    assert index.mentioned(["ann or lee", "Carl."]) == {("carl",)}
    assert words_of("Müller's ...") == ("müller", "s")


def test_an_unknown_type_and_a_side_without_names_are_refused():
    with pytest.raises(InputError, match=r"x\.types: 'PR'.*'PER'"):
        NameSides.from_corpus(corpus(), ("PR",), "x")
    for kept in ((0, 1), (2, 4)):
        with pytest.raises(InputError, match="names"):
            NameSides.from_corpus(corpus([ROWS[at] for at in kept]), (), "x")
