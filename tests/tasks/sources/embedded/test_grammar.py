from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.tasks.sources.embedded.grammar import (
    AGREE,
    GENDERED,
    NO_TYPE,
    Piece,
    Scene,
    Slot,
    inflect,
    join,
    parse_rules,
    uniforms,
)
from uedp_bench.tasks.sources.embedded.rules import AUTHORS, NAMED, NEGATIVE, POSITIVE, SENTENCES
from uedp_bench.tasks.sources.embedded.topics import TOPICS


def sentences(text: str, count: int = 200) -> list[str]:
    draw = uniforms(np.random.default_rng(0))
    rules = parse_rules(text)

    def entity(scene: Scene, slot: str) -> Piece:
        scene.male = next(draw) < 0.5
        return Piece("Bob Lee" if scene.male else "Ann Lee", 3)

    return [join(Scene((rules,), entity, draw).write("s"))[0] for _ in range(count)]


def test_number_agrees_over_distance():
    texts = set(sentences("s: the {#pet} that i saw {was} old , so {it} slept\npet: dog | fox"))
    assert texts == {
        f"the {subject} that i saw {verb} old , so {pronoun} slept"
        for pair in (("dog", "dogs"), ("fox", "foxes"))
        for subject, verb, pronoun in ((pair[0], "was", "it"), (pair[1], "were", "they"))
    }


def test_pronouns_agree_with_the_person():
    texts = set(sentences("s: {PERSON} said {he} lost {his} key"))
    assert texts == {"Bob Lee said he lost his key", "Ann Lee said she lost her key"}


def test_weights_and_nothing():
    texts = sentences("s: {maybe} end\nmaybe: *9 - | so ,", 2000)
    assert 0.07 < np.mean([text == "so , end" for text in texts]) < 0.13


def test_first_words_of_a_list_are_the_frequent_ones():
    texts = sentences("s: {w}\nw: a1 | b2 | c3 | d4", 2000)
    counts = [texts.count(word) for word in ("a1", "b2", "c3", "d4")]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > 1.5 * counts[3]


@pytest.mark.parametrize(
    ("phrase", "form", "expected"),
    [
        ("run home", "ing", "running home"),
        ("run home", "ed", "ran home"),
        ("carry it", "ed", "carried it"),
        ("tie the knot", "ing", "tying the knot"),
        ("see him", "ing", "seeing him"),
        ("chop wood", "ed", "chopped wood"),
        ("play", "ed", "played"),
        ("miss it", "z", "misses it"),
        ("bread knife", "s", "bread knives"),
        ("bus pass", "s", "bus passes"),
        ("trophy", "s", "trophies"),
        ("day", "s", "days"),
    ],
)
def test_inflection(phrase, form, expected):
    assert inflect(phrase, form) == expected


def test_articles_and_spans():
    pieces = [
        Piece("a old man met a", NO_TYPE),
        Piece("Italian", 2),
        Piece("for a hour at a university", NO_TYPE),
    ]
    text, mentions = join(pieces)
    assert text == "an old man met an Italian for an hour at a university"
    assert [text[start:end] for start, end, _ in mentions] == ["Italian"]
    assert mentions[0][2] == 2


@pytest.mark.parametrize("topic", TOPICS)
def test_every_reference_has_a_rule_and_every_rule_a_reference(topic):
    rules = parse_rules(SENTENCES) | parse_rules(NAMED) | parse_rules(TOPICS[topic])
    moods = [parse_rules(NEGATIVE), parse_rules(POSITIVE)]
    names = set(rules)
    for classes in AUTHORS.values():
        kinds = [parse_rules(text) for text in classes.values()]
        assert all(set(kind) == set(kinds[0]) for kind in kinds)
        names |= set(kinds[0])
    slots = {
        part.name
        for group in (rules, *moods)
        for rule in group.values()
        for option in rule.options
        for part in option
        if isinstance(part, Slot)
    }
    words = {slot for slot in slots if not slot.isupper()} - set(AGREE) - set(GENDERED)
    start = {"plain", "named", "kin_male", "kin_female"}
    assert words - {"kin"} <= names
    assert names <= words | start
    assert all(set(mood) <= names for mood in moods)
