"""Names that only members' text mentions, and names that only other text mentions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from pydantic import Field

from uedp_bench.api import Attack, InputError, Params, Planted
from uedp_bench.api.text import normal_surface
from uedp_bench.errors import nearest

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, IntArray

OTHERS = ("valid", "test", "held_out")
"""Splits whose text no training saw."""

_WORD = re.compile(r"\w+")

Words = tuple[str, ...]
N = TypeVar("N", bound="NameParams")


class NameParams(Params):
    """Parameters of attacks on names: which entities count."""

    types: tuple[str, ...] = Field(
        default=(), description="types of entities that count as names; all by default"
    )


def words_of(text: str) -> Words:
    """Words of the normal form of a text, without what stands between them."""
    return tuple(_WORD.findall(normal_surface(text)))


class NameIndex:
    """Names by their first word, to find them as whole words in texts.

    Args:
        names: words of each; a name without words is found nowhere.
    """

    def __init__(self, names: Iterable[Words]) -> None:
        self._by_first: dict[str, list[Words]] = defaultdict(list)
        for name in names:
            if name:
                self._by_first[name[0]].append(name)

    def mentioned(self, texts: Iterable[str]) -> set[Words]:
        """The names that stand in any of the texts."""
        hits: set[Words] = set()
        for text in texts:
            words = words_of(text)
            for at, word in enumerate(words):
                for name in self._by_first.get(word, ()):
                    if words[at : at + len(name)] == name:
                        hits.add(name)
        return hits


@dataclass(frozen=True, eq=False)
class Side:
    """Names of one side, and where its rows mention them.

    Attributes:
        names: words of each name.
        surfaces: surfaces of each name, as its first mention has it.
        types: (names,) type of each.
        mentions: (mentions,) of these names in rows of the side, indexes into `corpus.entities`.
        name_of: (mentions,) the name of each.
    """

    names: tuple[Words, ...]
    surfaces: tuple[str, ...]
    types: IntArray
    mentions: IntArray
    name_of: IntArray


@dataclass(frozen=True, eq=False)
class NameSides:
    """Names that tell members' text from other text.

    Attributes:
        inside: names that training rows mention, and no text of another split.
        outside: names that rows of `OTHERS` mention, and neither training nor public text.
        public: names that public rows mention.
    """

    inside: Side
    outside: Side
    public: frozenset[Words] = field(default_factory=frozenset)

    @staticmethod
    def from_corpus(corpus: Corpus, types: Sequence[str], attack: str) -> NameSides:
        """The names of a corpus.

        A name that one split annotates and another has unmarked in its text belongs to neither.
        Nor are names of rows that other attacks planted anybody's.

        Args:
            corpus: with all splits, as the source gives it.
            types: entity types that count; all types if empty.
            attack: named in errors.

        Raises:
            InputError: for a type that the corpus does not have, or a side without names.
        """
        for name in types:
            if name not in corpus.entity_types:
                near = nearest(name, corpus.entity_types)
                raise InputError(
                    f"{attack}.types: {name!r} is no type of this corpus"
                    f"{f'; did you mean {near!r}?' if near else ''} It has: "
                    f"{', '.join(corpus.entity_types) or 'none'}"
                )
        spans = corpus.entities
        wanted = [at for at, name in enumerate(corpus.entity_types) if not types or name in types]
        counted = np.isin(spans.type, wanted) & (corpus.origin[spans.row] >= 0)
        words = {
            mention: words_of(corpus.surface(mention))
            for mention in np.flatnonzero(counted).tolist()
        }
        splits = {
            "inside": corpus.where("train"),
            "outside": corpus.where(*OTHERS),
            "public": corpus.where("public"),
        }
        texts = {
            side: [corpus.texts[row] for row in np.flatnonzero(rows).tolist()]
            for side, rows in splits.items()
        }
        names = {
            side: {words[m] for m in np.flatnonzero(counted & rows[spans.row]).tolist()} - {()}
            for side, rows in splits.items()
        }
        elsewhere = {"inside": ("outside", "public"), "outside": ("inside", "public")}
        sides = {}
        for side, others in elsewhere.items():
            index = NameIndex(names[side])
            own = names[side] - index.mentioned(text for other in others for text in texts[other])
            if not own:
                raise InputError(
                    f"{attack} needs names of the {'train' if side == 'inside' else 'held-out'} "
                    f"text that no other split mentions, and the source has "
                    f"{len(names[side])} names there, none of them of that kind"
                )
            mentions = np.flatnonzero(splits[side][spans.row]).tolist()
            sides[side] = _side(corpus, [m for m in mentions if words.get(m) in own], words)
        return NameSides(sides["inside"], sides["outside"], frozenset(names["public"]))


class NameAttack(Attack[N]):
    """Base of attacks on names: they plant nothing, for the text has names of its own."""

    def reads(self) -> frozenset[str]:
        """Entities, whose surfaces are the names."""
        return frozenset({"entities"})

    def sides(self, corpus: Corpus) -> NameSides:
        """The names of a corpus; see `NameSides.from_corpus`."""
        return NameSides.from_corpus(corpus, self.params.types, self.name)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Refuses before training a corpus whose sides have too few names.

        Raises:
            InputError: for such a corpus.
        """
        self.sides(corpus)
        return corpus, Planted()

    def planted_in(self, corpus: Corpus) -> Planted:
        """See `Attack`: splits say whose names were trained on."""
        return Planted()


def _side(corpus: Corpus, mentions: Sequence[int], words: dict[int, Words]) -> Side:
    """The side of these mentions; names are in the order of their first."""
    first: dict[Words, int] = {}
    for mention in mentions:
        first.setdefault(words[mention], mention)
    number = {name: at for at, name in enumerate(first)}
    return Side(
        tuple(first),
        tuple(corpus.surface(mention) for mention in first.values()),
        corpus.entities.type[list(first.values())],
        np.array(mentions, dtype=np.int64),
        np.array([number[words[mention]] for mention in mentions], dtype=np.int64),
    )
