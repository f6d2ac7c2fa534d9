"""`embedded`: an invented corpus of short personal messages, made from a seed in seconds.

A grammar with five topics writes the sentences; Faker names people, places, organisations and
days. Nothing in it belongs to anyone. Texts are tokens between single spaces; only names keep
their capitals.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final, NamedTuple, Self

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import SPLITS, Corpus, FloatArray, IntArray, SourceParams, Spans
from uedp_bench.tasks.sources.embedded.grammar import (
    Piece,
    Rules,
    Scene,
    join,
    parse_rules,
    uniforms,
)
from uedp_bench.tasks.sources.embedded.rules import AUTHORS, NAMED, NEGATIVE, POSITIVE, SENTENCES
from uedp_bench.tasks.sources.embedded.topics import TOPICS
from uedp_bench.tasks.sources.embedded.world import (
    DOMAINS,
    ENTITY_TYPES,
    PHONES,
    REGIONS,
    World,
    build_world,
    phone_numbers,
)
from uedp_bench.tasks.sources.generated import GeneratedSource

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
        city, employer: home and work of the author.
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
        world: world of the authors.
        topics: number of topics.
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


SENTIMENTS: Final = ("negative", "neutral", "positive")
NAMED_SHARE: Final = 0.5
"""Probability that a sentence is written with entities."""

LEAST_SENTENCES: Final = 2


MOST_USERS: Final = PHONES // (1 + FRIENDS)
"""Every author and friend has a phone number of their own, and fictitious numbers are few."""


class EmbeddedParams(SourceParams):
    """Parameters of `embedded`."""

    users: int = Field(default=4000, ge=50, description="users of the train split")
    valid_users: int = Field(default=200, ge=0, description="users of the valid split")
    test_users: int = Field(default=400, ge=1, description="users of the test split")
    public_users: int = Field(
        default=1500, ge=0,
        description="other authors, whose text is public: vocabulary, pre-training, references",
    )  # fmt: skip
    sentences: float = Field(
        default=6.0, ge=LEAST_SENTENCES, le=100,
        description="mean number of sentences a user writes (each at least 2)",
    )  # fmt: skip
    seed: int = Field(
        default=1, ge=0, description="seed of the corpus; independent of a run's seed"
    )

    @property
    def sizes(self) -> dict[str, int]:
        """Users of each split."""
        return {"train": self.users, "valid": self.valid_users, "test": self.test_users,
                "public": self.public_users}  # fmt: skip

    @model_validator(mode="after")
    def _enough_phones(self) -> Self:
        total = sum(self.sizes.values())
        if total > MOST_USERS:
            raise ValueError(
                f"users, valid_users, test_users and public_users are {total} together; "
                f"at most {MOST_USERS}, so that every person has a fictitious phone number"
            )
        return self


class Embedded(GeneratedSource[EmbeddedParams]):
    """Invented messages of invented people, with entities, topics, sentiments and attributes."""

    name: ClassVar[str] = "embedded"
    title: ClassVar[str] = "invented messages"
    source: ClassVar[str] = "generated; entity types as in Lai et al., Table I"
    Params: ClassVar[type[EmbeddedParams]] = EmbeddedParams

    def generate(self) -> Corpus:
        """See `GeneratedSource`."""
        params = self.params
        world, phones = build_world(params.seed), phone_numbers(params.seed)
        rows = _Rows()
        first = 0
        for split, count in params.sizes.items():
            rng = np.random.default_rng([params.seed, 2, SPLITS.index(split)])
            people = phones[(1 + FRIENDS) * first : (1 + FRIENDS) * (first + count)]
            authors = make_authors(people, world, len(TOPICS), rng)
            # A gamma mixture of Poisson counts: most write little, a few write much.
            extra = rng.poisson((params.sentences - LEAST_SENTENCES) * rng.gamma(2.0, 0.5, count))
            draw = uniforms(rng)
            for user, author in enumerate(authors):
                for _ in range(LEAST_SENTENCES + int(extra[user])):
                    rows.write(author, draw, (first + user, SPLITS.index(split)))
            first += count
        return rows.corpus()


class _Rows:
    """Writes sentences and keeps the columns of the corpus.

    The grammar is parsed once and merged for each topic and sentiment.
    """

    def __init__(self) -> None:
        base = parse_rules(SENTENCES) | parse_rules(NAMED)
        moods: tuple[Rules, ...] = (parse_rules(NEGATIVE), {}, parse_rules(POSITIVE))
        self.topics = tuple(TOPICS)
        self.wording: list[list[Rules]] = [
            [{**base, **parse_rules(text), **mood} for mood in moods] for text in TOPICS.values()
        ]
        self.classes = {
            name: [parse_rules(text) for text in classes.values()]
            for name, classes in AUTHORS.items()
        }
        self.texts: list[str] = []
        self.mentions: list[tuple[int, int, int, int]] = []
        self.values: list[tuple[int, ...]] = []

    def write(self, author: Author, draw: Iterator[float], where: tuple[int, int]) -> None:
        """Adds one sentence of an author; `where` is its user and split."""
        u = next(draw) * author.topics[-1]
        topic = min(bisect_right(author.topics, u), len(self.topics) - 1)
        sentiment = int(next(draw) * len(SENTIMENTS))
        entity = partial(author.entity, topic=self.topics[topic])
        own = (self.classes[name][value] for name, value in author.classes.items())
        scene = Scene((self.wording[topic][sentiment], *own), entity, draw)
        text, mentions = join(scene.write("named" if next(draw) < NAMED_SHARE else "plain"))
        self.mentions += [(len(self.texts), *mention) for mention in mentions]
        self.texts.append(text)
        self.values.append((*where, topic, sentiment, *author.classes.values()))

    def corpus(self) -> Corpus:
        """The corpus of all sentences written so far."""
        user, split, topic, sentiment, *own = np.array(self.values, dtype=np.int64).T.copy()
        names = {name: tuple(classes) for name, classes in AUTHORS.items()}
        return Corpus(
            texts=tuple(self.texts),
            groups={"user": user},
            split=split,
            entities=Spans.build(self.texts, self.mentions),
            entity_types=ENTITY_TYPES,
            labels=topic,
            label_names=self.topics,
            attributes={"sentiment": sentiment, **dict(zip(AUTHORS, own, strict=True))},
            attribute_names={"sentiment": SENTIMENTS, **names},
        )
