"""`embedded`: an invented corpus of short personal messages, made from a seed in seconds.

A grammar with five topics writes the sentences; Faker names people, places, organisations and
days. Nothing in it belongs to anyone. Texts are tokens between single spaces; only names keep
their capitals.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache, partial
from typing import ClassVar, Final

import numpy as np
from pydantic import Field

from uedp_bench.corpus import SPLITS, Corpus, Spans
from uedp_bench.mechanism import CorpusStats
from uedp_bench.source import Source, SourceParams
from uedp_bench.tasks.sources._embedded_authors import Author, make_authors
from uedp_bench.tasks.sources._embedded_grammar import Rules, Scene, join, parse_rules, uniforms
from uedp_bench.tasks.sources._embedded_rules import AUTHORS, NAMED, NEGATIVE, POSITIVE, SENTENCES
from uedp_bench.tasks.sources._embedded_topics import TOPICS
from uedp_bench.tasks.sources._embedded_world import ENTITY_TYPES, build_world
from uedp_bench.tasks.sources._public import add_public

SENTIMENTS: Final = ("negative", "neutral", "positive")
NAMED_SHARE: Final = 0.5
"""Probability that a sentence is written with entities."""

LEAST_SENTENCES: Final = 2


class EmbeddedParams(SourceParams):
    """Parameters of `embedded`."""

    users: int = Field(default=4000, ge=50, le=15000, description="users of the train split")
    valid_users: int = Field(default=200, ge=1, le=1000, description="users of the valid split")
    test_users: int = Field(default=400, ge=1, le=1500, description="users of the test split")
    public_users: int = Field(
        default=1500, ge=0, le=15000,
        description="other authors, whose text is public: vocabulary, pre-training, references",
    )  # fmt: skip
    sentences: float = Field(
        default=6.0, ge=LEAST_SENTENCES, le=100,
        description="mean number of sentences a user writes (each at least 2)",
    )  # fmt: skip
    seed: int = Field(default=1, ge=0, description="of the corpus; independent of a run's seed")


class Embedded(Source[EmbeddedParams]):
    """Invented messages of invented people, with entities, topics, sentiments and attributes."""

    name: ClassVar[str] = "embedded"
    source: ClassVar[str] = "generated; entity types as in Lai et al., Table I"
    Params: ClassVar[type[EmbeddedParams]] = EmbeddedParams
    needs_path: ClassVar[bool] = False

    def load(self) -> Corpus:
        """The corpus: users of train, valid, test and public in this order, rows by user."""
        return _generate(self.params)

    def documented(self) -> CorpusStats:
        """Counts of the train split, which anybody can generate."""
        train = _generate(self.params).only("train")
        return CorpusStats(
            users=len(np.unique(train.users)),
            rows=len(train),
            sensitive_rows=int(train.sensitive.sum()),
            entities=len(np.unique(train.entities.entity)),
            public=True,
        )


@lru_cache(maxsize=2)
def _generate(params: EmbeddedParams) -> Corpus:
    world = build_world(params.seed)
    writer = _Writer()
    texts: list[str] = []
    mentions: list[tuple[int, int, int, int]] = []
    columns: dict[str, list[int]] = {name: [] for name in ("user", "split", "topic", "sentiment")}
    columns |= {name: [] for name in AUTHORS}
    first_user = 0
    sizes = {"train": params.users, "valid": params.valid_users, "test": params.test_users,
             "public": params.public_users}  # fmt: skip
    for split, count in sizes.items():
        rng = np.random.default_rng([params.seed, 2, SPLITS.index(split)])
        authors = make_authors(count, world, len(TOPICS), rng)
        # A gamma mixture of Poisson counts: most write little, a few write much.
        extra = rng.poisson((params.sentences - LEAST_SENTENCES) * rng.gamma(2.0, 0.5, count))
        draw = uniforms(rng)
        for user, author in enumerate(authors, first_user):
            for _ in range(LEAST_SENTENCES + int(extra[user - first_user])):
                topic = bisect_right(author.topics, next(draw) * author.topics[-1])
                topic = min(topic, len(TOPICS) - 1)
                sentiment = int(next(draw) * len(SENTIMENTS))
                scene = writer.scene(author, topic, sentiment, draw)
                text, found = join(scene.write("named" if next(draw) < NAMED_SHARE else "plain"))
                mentions += [(len(texts), *mention) for mention in found]
                texts.append(text)
                values = (user, SPLITS.index(split), topic, sentiment, *author.classes.values())
                for column, value in zip(columns.values(), values, strict=True):
                    column.append(value)
        first_user += count
    arrays = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
    corpus = Corpus(
        texts=tuple(texts),
        groups={"user": arrays.pop("user")},
        split=arrays.pop("split"),
        entities=Spans.build(texts, mentions),
        entity_types=ENTITY_TYPES,
        labels=arrays.pop("topic"),
        label_names=tuple(TOPICS),
        attributes=arrays,
        attribute_names={"sentiment": SENTIMENTS}
        | {name: tuple(classes) for name, classes in AUTHORS.items()},
    )
    return add_public(corpus, params)


class _Writer:
    """The parsed grammar, merged once for each topic, sentiment and kind of author."""

    def __init__(self) -> None:
        base = parse_rules(SENTENCES) | parse_rules(NAMED)
        moods = (parse_rules(NEGATIVE), {}, parse_rules(POSITIVE))
        self.topics = tuple(TOPICS)
        self.wording: list[list[Rules]] = [
            [base | parse_rules(text) | mood for mood in moods] for text in TOPICS.values()
        ]
        self.classes = {
            name: [parse_rules(text) for text in classes.values()]
            for name, classes in AUTHORS.items()
        }

    def scene(self, author: Author, topic: int, sentiment: int, draw: Iterator[float]) -> Scene:
        """A scene for one sentence of an author."""
        own = (self.classes[name][value] for name, value in author.classes.items())
        entity = partial(author.entity, topic=self.topics[topic])
        return Scene((self.wording[topic][sentiment], *own), entity, draw)
