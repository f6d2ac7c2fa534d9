"""Facts of records that the texts of their subjects say, and texts that say others instead."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from uedp_bench.corpus import BoolArray, Corpus, IntArray, normal_surface
from uedp_bench.corpus.alignment import COPIED, REPLACED, Alignment


class Place(NamedTuple):
    """The place of a value: characters of a row."""

    row: int
    start: int
    end: int


class Fact(NamedTuple):
    """A value of a subject's record that its own text says.

    Attributes:
        user: the subject.
        key: of the record ("Spouse(s)").
        value: as the record has it.
        places: where marked spans of the subject's rows are the value.
    """

    user: int
    key: str
    value: str
    places: tuple[Place, ...]


def facts_in_text(corpus: Corpus, rows: BoolArray) -> list[Fact]:
    """Facts whose value is marked somewhere in the subject's rows, in the order of users and keys.

    Args:
        corpus: with records.
        rows: (rows,) which rows count.
    """
    marked: dict[int, set[Place]] = defaultdict(set)
    for spans in (corpus.entities, *(layer.spans for layer in corpus.layers.values())):
        for row, start, end, _ in spans.mentions():
            if rows[row] and corpus.users[row] >= 0:
                marked[int(corpus.users[row])].add(Place(row, start, end))
    found = []
    for user in sorted(marked):
        by_surface: dict[str, list[Place]] = defaultdict(list)
        for place in sorted(marked[user]):
            surface = corpus.texts[place.row][place.start : place.end]
            by_surface[normal_surface(surface)].append(place)
        for key, value in _values(corpus, user):
            if places := by_surface.get(normal_surface(value)):
                found.append(Fact(user, key, value, tuple(places)))
    return found


def facts_of(corpus: Corpus, users: Sequence[int]) -> list[Fact]:
    """All facts of some users, whether their text says them or not."""
    return [Fact(user, key, value, ()) for user in users for key, value in _values(corpus, user)]


def frequencies(texts: Sequence[str], values: Sequence[str]) -> Counter[str]:
    """Counts each value in some texts, between spaces."""
    text = "\n".join(f" {normal_surface(one)} " for one in texts)
    return Counter({value: text.count(f" {normal_surface(value)} ") for value in set(values)})


class Decoys:
    """Values that could stand in the place of a fact's.

    Those of other subjects, under the same key, of as many words, that occur as often in the
    training text.

    Args:
        facts: of all subjects that decoys may come from.
        frequency: of values in the training text.
    """

    def __init__(self, facts: Sequence[Fact], frequency: Mapping[str, int]) -> None:
        self._frequency = frequency
        self._alike: dict[tuple[str, int, int], dict[str, str]] = defaultdict(dict)
        self._own: dict[int, set[str]] = defaultdict(set)
        for fact in facts:
            form = normal_surface(fact.value)
            self._alike[self._kind(fact)].setdefault(form, fact.value)
            self._own[fact.user].add(form)

    def of(self, fact: Fact, count: int, rng: np.random.Generator) -> list[str] | None:
        """(count,) different decoys; None if there are not so many."""
        own = self._own[fact.user]
        alike = self._alike[self._kind(fact)]
        others = [value for form, value in alike.items() if form not in own]
        if len(others) < count:
            return None
        return [others[i] for i in rng.permutation(len(others))[:count].tolist()]

    def _kind(self, fact: Fact) -> tuple[str, int, int]:
        return fact.key, len(fact.value.split()), self._frequency.get(fact.value, 0)


def filled(corpus: Corpus, places: Sequence[Place], fillers: Sequence[str]) -> Corpus:
    """A row for each place with its filler there; annotations follow.

    Args:
        corpus: has the rows.
        places: one for each row to make.
        fillers: what stands there.
    """
    rows = corpus.take(np.array([place.row for place in places], dtype=np.int64))
    pieces: list[tuple[int, int, int, int, int, int]] = []
    texts = []
    for row, (place, filler, text) in enumerate(zip(places, fillers, rows.texts, strict=True)):
        _, start, end = place
        moved = start + len(filler)
        texts.append(text[:start] + filler + text[end:])
        pieces += [
            (row, 0, start, 0, start, COPIED),
            (row, start, end, start, moved, REPLACED),
            (row, end, len(text), moved, len(texts[-1]), COPIED),
        ]
    columns = np.array(pieces, dtype=np.int64).reshape(-1, 6)
    columns = columns[columns[:, 1] < columns[:, 2]]
    changed = np.ones(len(texts), dtype=bool)
    return rows.with_texts(texts, alignment=Alignment(changed, *columns.T))


def shared_words(corpus: Corpus, fact: Fact, values: Sequence[str]) -> IntArray:
    """(values,) words of each that stand elsewhere in the rows of a fact, its own place left out.

    It sees no model: a child has the surname of the parent whose page it is on.
    """
    around = Counter[str]()
    for row, start, end in fact.places:
        text = corpus.texts[row]
        around.update(normal_surface(text[:start] + text[end:]).split())
    return np.array([
        sum(around[word] for word in normal_surface(value).split()) for value in values
    ])  # fmt: skip


def _values(corpus: Corpus, user: int) -> list[tuple[str, str]]:
    records = corpus.records or ()
    facts = records[user] if user < len(records) else {}
    return [(key, value) for key, values in facts.items() for value in _different(values)]


def _different(values: Sequence[str]) -> Iterable[str]:
    """The first spelling of each value."""
    spellings: dict[str, str] = {}
    for value in values:
        spellings.setdefault(normal_surface(value), value)
    return spellings.values()
