"""The authors of the embedded corpus: who they are, whom they know, how to reach them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.tasks.sources.embedded.grammar import Piece, Scene
from uedp_bench.tasks.sources.embedded.rules import AUTHORS
from uedp_bench.tasks.sources.embedded.world import (
    DOMAINS,
    ENTITY_TYPES,
    REGIONS,
    World,
)

FRIENDS = 3
"""People that an author writes about; the first most often."""

TYPE = {name: i for i, name in enumerate(ENTITY_TYPES)}


class Person(NamedTuple):
    """A person; `male` decides the pronouns."""

    first: str
    last: str
    male: bool
    phone: str
    email: str


@dataclass(frozen=True, eq=False)
class Author:
    """One user.

    Attributes:
        me, friends: people.
        classes: private attribute -> index of its class in `AUTHORS`.
        topics: (topics,) cumulative probabilities of what the author writes about.
        city, employer: where the author lives and works.
    """

    me: Person
    friends: tuple[Person, ...]
    classes: dict[str, int]
    topics: tuple[float, ...]
    city: str
    employer: str
    world: World

    def entity(self, scene: Scene, slot: str, topic: str) -> Piece:
        """The piece for a slot in capitals: about the author where it can be, else the world's."""
        if slot in PEOPLE:
            return self._person(scene, slot)
        u = next(scene.draw)
        if slot == "GPE":
            surface = self.city if u < 0.35 else self.world.known_cities.pick(next(scene.draw))
        elif slot == "ORG":
            own = topic == "work" and u < 0.5
            surface = self.employer if own else self.world.orgs[topic].pick(next(scene.draw))
        else:
            surface = self.world.pools[slot].pick(u)
        return Piece(surface, TYPE[slot])

    def _person(self, scene: Scene, slot: str) -> Piece:
        own = slot in ("SELF", "PHONE", "EMAIL")
        person = self.me if own else self.friends[int(next(scene.draw) ** 1.6 * FRIENDS)]
        if slot.endswith("PHONE"):
            return Piece(person.phone, TYPE["PII"])
        if slot.endswith("EMAIL"):
            return Piece(person.email, TYPE["PII"])
        if not own:
            scene.male = person.male
        short = not own and next(scene.draw) < 0.15
        return Piece(person.first if short else f"{person.first} {person.last}", TYPE["PERSON"])


PEOPLE = frozenset(("PERSON", "SELF", "PHONE", "EMAIL", "FRIEND_PHONE", "FRIEND_EMAIL"))
"""Slots that are filled from the author's own people."""


def make_authors(
    phones: Sequence[str], world: World, topics: int, rng: np.random.Generator
) -> list[Author]:
    """Authors with attributes drawn uniformly and names drawn by frequency.

    Args:
        phones: a number for each author and each friend, `1 + FRIENDS` for each author to make.
        world: where they live.
        topics: how many topics there are.
        rng: draws who they are.
    """
    people = _people(phones, world, rng)
    count = len(people) // (1 + FRIENDS)
    classes = {name: rng.integers(len(values), size=count) for name, values in AUTHORS.items()}
    genders = list(AUTHORS["gender"])
    taste: FloatArray = np.cumsum(rng.dirichlet(np.full(topics, 0.7), count), axis=1)
    place = rng.random((count, 2))
    out = []
    for i in range(count):
        mine = {name: int(column[i]) for name, column in classes.items()}
        me, *friends = people[(1 + FRIENDS) * i : (1 + FRIENDS) * (i + 1)]
        if me.male != (genders[mine["gender"]] == "male"):
            mine["gender"] = genders.index("male" if me.male else "female")
        city = world.cities[REGIONS[mine["region"]]].pick(place[i, 0])
        employer = world.orgs["work"].pick(place[i, 1])
        author = Author(me, tuple(friends), mine, tuple(taste[i].tolist()), city, employer, world)
        out.append(author)
    return out


def _people(phones: Sequence[str], world: World, rng: np.random.Generator) -> list[Person]:
    count = len(phones)
    male: IntArray = rng.integers(2, size=count)
    names = rng.random((count, 2)).tolist()
    number = rng.integers(10, 100, size=count).tolist()
    domain = rng.integers(len(DOMAINS), size=count).tolist()
    out = []
    for i, kind in enumerate(male.tolist()):
        first, last = world.first[kind].pick(names[i][0]), world.last.pick(names[i][1])
        email = f"{first}.{last}{number[i]}@{DOMAINS[domain[i]]}".lower()
        out.append(Person(first, last, bool(kind), phones[i], email))
    return out
