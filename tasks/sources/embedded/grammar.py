"""A small generative grammar: rules with slots, inflection, and agreement over distance.

Rules are lines ``name: alternative | alternative``. An alternative is words and slots:

- ``{name}`` expands a rule; ``{name+ed}``, ``{name+ing}``, ``{name+z}`` inflect its first word as a
  verb (past, participle, third person), ``{name+s}`` its last word as a plural noun;
- ``{#name}`` expands a noun in the singular or the plural, at random; ``{was}``, ``{is}``,
  ``{has}``, ``{it}``, ``{them}``, ``{its}``, ``{this}`` later in the sentence agree with it;
- ``{he}``, ``{his}``, ``{him}``, ``{himself}`` agree with the last person mentioned;
- a slot in capitals is an entity, which the caller supplies;
- a leading ``*3`` makes an alternative three times as likely, and ``-`` is nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

NO_TYPE = -1
"""Type of a piece of text that is not an entity."""

WORD_SKEW = 1.6
"""Exponent that makes the first words of a plain list of words the frequent ones."""

VOWELS = frozenset("aeiou")
SOUNDS_CONSONANT = ("uni", "uri", "use", "usu", "one", "eu")
SOUNDS_VOWEL = ("hour", "honest", "heir")

AGREE = {
    "was": ("was", "were"), "is": ("is", "are"), "has": ("has", "have"), "it": ("it", "they"),
    "them": ("it", "them"), "its": ("its", "their"), "this": ("this", "these"),
    "does": ("does", "do"),
}  # fmt: skip
"""Words that agree with the number of the last ``{#noun}``: singular, plural."""

GENDERED = {
    "he": ("she", "he"), "his": ("her", "his"), "him": ("her", "him"),
    "himself": ("herself", "himself"),
}  # fmt: skip
"""Words that agree with the last person: female, male."""

_IRREGULAR = """
    be/was beat/beat become/became begin/began bet/bet bite/bit break/broke bring/brought
    build/built burn/burned buy/bought catch/caught choose/chose come/came cut/cut deal/dealt
    do/did draw/drew drink/drank drive/drove eat/ate fall/fell feed/fed feel/felt fight/fought
    find/found fly/flew forget/forgot freeze/froze get/got give/gave go/went grow/grew hang/hung
    have/had hear/heard hide/hid hit/hit hold/held hurt/hurt keep/kept know/knew lead/led
    leave/left lend/lent let/let lose/lost make/made mean/meant meet/met mistake/mistook
    oversleep/overslept pay/paid proofread/proofread put/put quit/quit read/read reset/reset
    rewrite/rewrote ride/rode ring/rang run/ran say/said see/saw sell/sold send/sent set/set
    shake/shook shoot/shot show/showed shut/shut sing/sang sit/sat sleep/slept speak/spoke
    spend/spent split/split stand/stood steal/stole stick/stuck swim/swam take/took teach/taught
    tell/told think/thought throw/threw understand/understood wake/woke wear/wore win/won
    withdraw/withdrew write/wrote
"""
PAST = dict(pair.split("/") for pair in _IRREGULAR.split())
_DOUBLED = """
    beg begin bet cancel chat chop cut dip drop forget get grab hit hug jog let mop plan put quit
    reset rub run scrub set ship shred shut sit skip slip snorkel split spot stir stop sum swap swim
    tip top travel trim win wrap
"""
DOUBLED = frozenset(_DOUBLED.split())
PLURALS = {
    "knife": "knives", "loaf": "loaves", "half": "halves", "child": "children", "tooth": "teeth",
    "foot": "feet", "person": "people", "shelf": "shelves", "leaf": "leaves", "wife": "wives",
    "man": "men", "woman": "women", "potato": "potatoes", "tomato": "tomatoes", "calf": "calves",
}  # fmt: skip


class Slot(NamedTuple):
    """A reference in a rule: what to expand and how to inflect it (``#`` for either number)."""

    name: str
    form: str


class Piece(NamedTuple):
    """Words of a sentence that belong together; `type` is `NO_TYPE` outside entities."""

    text: str
    type: int


Production = tuple[str | Slot, ...]


class Rule(NamedTuple):
    """Alternatives; a `skew` above 1 prefers the first ones, as frequent words are preferred."""

    options: tuple[Production, ...]
    skew: float


Rules = Mapping[str, Rule]
Entity = Callable[["Scene", str], Piece]


def parse_rules(text: str) -> dict[str, Rule]:
    """Rules of a block of text, as described above; an indented line continues the rule."""
    rules: dict[str, Rule] = {}
    for line in re.sub(r"\n\s+(?=\S)", " ", text.strip()).splitlines():
        if not line:
            continue
        name, body = line.split(":", 1)
        options: list[Production] = []
        for alternative in body.split("|"):
            tokens = alternative.split()
            times = int(tokens.pop(0)[1:]) if tokens[0].startswith("*") else 1
            options += [_production(tokens)] * times
        if name in rules:
            raise ValueError(f"two rules are named {name!r}")
        plain = all(len(option) == 1 and isinstance(option[0], str) for option in options)
        words = plain and len(set(options)) == len(options)
        rules[name] = Rule(tuple(options), WORD_SKEW if words else 1.0)
    return rules


def _production(words: Sequence[str]) -> Production:
    """Runs of plain words become one string, so that expansion appends few pieces."""
    parts: list[str | Slot] = []
    for word in words:
        if word.startswith("{"):
            name, _, form = word.strip("{}").partition("+")
            parts.append(Slot(name.removeprefix("#"), "#" if name.startswith("#") else form))
        elif word != "-" and parts and isinstance(parts[-1], str):
            parts[-1] += f" {word}"
        elif word != "-":
            parts.append(word)
    return tuple(parts)


@cache
def inflect(phrase: str, form: str) -> str:
    """A phrase with its first word (``ed``, ``ing``, ``z``) or last word (``s``) inflected."""
    if form == "s":
        start, _, noun = phrase.rpartition(" ")
        return f"{start} {_plural(noun)}".strip()
    verb, _, rest = phrase.partition(" ")
    done = {"ed": _past, "ing": _participle, "z": _plural}[form](verb)
    return f"{done} {rest}".strip()


def _plural(word: str) -> str:
    if word in PLURALS:
        return PLURALS[word]
    if word.endswith(("s", "x", "z", "ch", "sh")) or word in ("go", "do"):
        return f"{word}es"
    if word.endswith("y") and word[-2] not in VOWELS:
        return f"{word[:-1]}ies"
    return "has" if word == "have" else f"{word}s"


def _past(word: str) -> str:
    if word in PAST:
        return PAST[word]
    if word.endswith("e"):
        return f"{word}d"
    if word.endswith("y") and word[-2] not in VOWELS:
        return f"{word[:-1]}ied"
    return f"{word}{word[-1] if word in DOUBLED else ''}ed"


def _participle(word: str) -> str:
    if word.endswith("ie"):
        return f"{word[:-2]}ying"
    if word.endswith("e") and not word.endswith(("ee", "be", "oe")):
        return f"{word[:-1]}ing"
    return f"{word}{word[-1] if word in DOUBLED else ''}ing"


def uniforms(rng: np.random.Generator, block: int = 1 << 16) -> Iterator[float]:
    """Uniform numbers in [0, 1), one by one but drawn by the block."""
    while True:
        # 24 bits: u * n then never rounds up to n.
        yield from rng.random(block, dtype=np.float32).tolist()


@dataclass
class Scene:
    """One sentence in the making: the rules in force, and what later words agree with.

    Attributes:
        layers: rules, the most specific first (author, sentiment, topic, all).
        entity: makes the piece for a slot in capitals.
        draw: source of uniform numbers.
    """

    layers: Sequence[Rules]
    entity: Entity
    draw: Iterator[float]
    plural: bool = False
    male: bool = False

    def write(self, name: str) -> list[Piece]:
        """Pieces of one expansion of a rule."""
        pieces: list[Piece] = []
        for part in self._choose(name):
            if isinstance(part, str):
                pieces.append(Piece(part, NO_TYPE))
            else:
                pieces += self._fill(part)
        return pieces

    def _choose(self, name: str) -> Production:
        for rules in self.layers:
            rule = rules.get(name)
            if rule is not None:
                options = rule.options
                return options[int(next(self.draw) ** rule.skew * len(options))]
        raise KeyError(f"no rule is named {name!r}")

    def _fill(self, slot: Slot) -> list[Piece]:
        name, form = slot
        if name in AGREE:
            return [Piece(AGREE[name][self.plural], NO_TYPE)]
        if name in GENDERED:
            return [Piece(GENDERED[name][self.male], NO_TYPE)]
        if name.isupper():
            return [self.entity(self, name)]
        if name == "kin":
            self.male = next(self.draw) < 0.5
            return self.write("kin_male" if self.male else "kin_female")
        pieces = self.write(name)
        if form == "#":
            plural = next(self.draw) < 0.4
            form = "s" if plural else ""
            self.plural = plural
        if form and pieces:
            at = -1 if form == "s" else 0
            pieces[at] = Piece(inflect(pieces[at].text, form), pieces[at].type)
        return pieces


def join(pieces: Sequence[Piece]) -> tuple[str, list[tuple[int, int, int]]]:
    """Text of a sentence and its mentions (start, end, type); "a" becomes "an" before vowels."""
    text, mentions = "", []
    for at, piece in enumerate(pieces):
        words = piece.text
        if piece.type == NO_TYPE:
            words = _articles(words, at + 1 < len(pieces) and _vowel(pieces[at + 1].text))
        start = len(text) + bool(text)
        text += f" {words}" if text else words
        if piece.type != NO_TYPE:
            mentions.append((start, len(text), piece.type))
    return text, mentions


@cache
def _articles(words: str, before_vowel: bool) -> str:
    """Plain words with their indefinite articles right, given the sound that follows them."""
    parts = words.split(" ")
    pairs = zip(parts, [*map(_vowel, parts[1:]), before_vowel], strict=True)
    return " ".join("an" if part == "a" and vowel else part for part, vowel in pairs)


@cache
def _vowel(word: str) -> bool:
    low = word.lower()
    if low.startswith(SOUNDS_CONSONANT):
        return False
    return low[:1] in VOWELS or low.startswith(SOUNDS_VOWEL)
