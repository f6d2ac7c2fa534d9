"""Statistics of a corpus, as `uedp-bench data describe` prints them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.corpus import SPLITS, Corpus, IntArray, Layer
from uedp_bench.errors import InputError
from uedp_bench.text.comparison import Pair, holds_text

if TYPE_CHECKING:
    from rich.table import Table

QUANTILES: tuple[int, ...] = (0, 25, 50, 75, 90, 95, 99, 100)
"""Percentages at which distributions are shown; 0 is the minimum, 100 the maximum."""


@dataclass(frozen=True)
class EntityReach:
    """Reach of entities: numbers of users that mention them.

    Attributes:
        one_user, two_users, four_users: share of the entities that at most one, two, four users
            mention.
        widest: users that mention the entity mentioned by most.
        users: quantiles of the number of users that mention an entity, by percentage.
        spread: quantiles of the number of *other* users (users - 1).
    """

    one_user: float
    two_users: float
    four_users: float
    widest: int
    users: Mapping[str, float]
    spread: Mapping[str, float]


@dataclass(frozen=True)
class LayerDescription:
    """An annotation of a split.

    Attributes:
        rows: number of completely annotated rows.
        share: their share in all rows of the split.
        spans: marked pieces of text by type.
    """

    rows: int
    share: float
    spans: Mapping[str, int]


@dataclass(frozen=True)
class SplitDescription:
    """One split.

    Attributes:
        rows, users, words, mentions, entities: counts; words are separated by white space.
        rows_per_user: quantiles by percentage; empty where no row has a user.
        sensitive_rows: rows that mention an entity, by type, and of "any" type.
        entities_by_type: distinct entities by type.
        labels: rows by label.
        reach: None where nothing is mentioned.
        layers: annotations by name.
        targets: rows with a target text; None where the corpus has none.
        distinct_pairs: different pairs of a text and its target among them.
        targets_with_text: of the rows, those whose target holds the whole text and more.
        records: users of whom facts are known; None where the corpus has no records.
    """

    rows: int
    users: int
    words: int
    mentions: int
    entities: int
    rows_per_user: Mapping[str, float]
    sensitive_rows: Mapping[str, int]
    entities_by_type: Mapping[str, int]
    labels: Mapping[str, int]
    reach: EntityReach | None
    layers: Mapping[str, LayerDescription]
    targets: int | None
    distinct_pairs: int | None
    targets_with_text: int | None
    records: int | None


@dataclass(frozen=True)
class DataDescription:
    """A whole corpus: `splits` has an entry for every split that has rows.

    `layers` has the types of each annotation, `records` the users of whom each key is known.
    """

    source: str
    fingerprint: str
    rows: int
    users: int
    entities: int
    groups: tuple[str, ...]
    entity_types: tuple[str, ...]
    label_names: tuple[str, ...]
    attributes: Mapping[str, tuple[str, ...]]
    layers: Mapping[str, tuple[str, ...]]
    records: Mapping[str, int]
    splits: Mapping[str, SplitDescription]

    def to_dict(self) -> dict[str, Any]:
        """Convert to plain dictionaries, lists, numbers and strings, ready for JSON."""
        plain = asdict(self)
        for name in ("groups", "entity_types", "label_names"):
            plain[name] = list(plain[name])
        for name in ("attributes", "layers"):
            plain[name] = {key: list(names) for key, names in plain[name].items()}
        return plain


def describe(corpus: Corpus, name: str) -> DataDescription:
    """Statistics of a corpus as a whole and by split.

    Args:
        corpus: any corpus.
        name: name in the statistics (the source's).

    Raises:
        InputError: if the corpus has no rows.
    """
    if not len(corpus):
        raise InputError(f"{name}: the corpus is empty; there is nothing to describe")
    present = [split for at, split in enumerate(SPLITS) if np.any(corpus.split == at)]
    return DataDescription(
        source=name,
        fingerprint=corpus.fingerprint,
        rows=len(corpus),
        users=_distinct(corpus.users),
        entities=_distinct(corpus.entities.entity),
        groups=tuple(corpus.groups),
        entity_types=corpus.entity_types,
        label_names=corpus.label_names,
        attributes=dict(corpus.attribute_names),
        layers={name: layer.types for name, layer in corpus.layers.items()},
        records=dict(Counter(key for facts in corpus.records or () for key in facts)),
        splits={split: describe_split(corpus.only(split)) for split in present},
    )


def describe_split(part: Corpus) -> SplitDescription:
    """Statistics of all rows of `part`, whichever split they are in."""
    rows_per_user = part.rows_of_user.counts
    spans, types = part.entities, part.entity_types
    # Each (type, row) and (type, entity) once: a row with two places is one row with a place.
    by_row = np.unique(np.stack([spans.type, spans.row]), axis=1)[0]
    by_entity = np.unique(np.stack([spans.type, spans.entity]), axis=1)[0]
    pairs = _pairs(part)
    return SplitDescription(
        rows=len(part),
        users=_distinct(part.users),
        words=sum(len(text.split()) for text in part.texts),
        mentions=len(spans),
        entities=_distinct(spans.entity),
        rows_per_user=_quantiles(rows_per_user[rows_per_user > 0]),
        sensitive_rows={**_tally(by_row, types), "any": int(part.sensitive.sum())},
        entities_by_type=_tally(by_entity, types),
        labels={} if part.labels is None else _tally(part.labels, part.label_names),
        reach=_reach(part.users_of_entity),
        layers={name: _layer(layer) for name, layer in part.layers.items()},
        targets=None if pairs is None else len(pairs),
        distinct_pairs=None if pairs is None else len({*pairs}),
        targets_with_text=None if pairs is None else sum(map(holds_text, pairs)),
        records=None if part.records is None else sum(bool(facts) for facts in part.records),
    )


def _pairs(part: Corpus) -> list[Pair] | None:
    """Texts and their targets, of the rows that have one; None where the corpus has none."""
    if part.targets is None:
        return None
    return [pair for pair in zip(part.texts, part.targets, strict=True) if pair[1]]


def _layer(layer: Layer) -> LayerDescription:
    spans = {} if layer.spans.lost else _tally(layer.spans.type, layer.types)
    return LayerDescription(int(layer.rows.sum()), float(layer.rows.mean()), spans)


def _reach(users: IntArray) -> EntityReach | None:
    users = users[users > 0]
    if not len(users):
        return None
    return EntityReach(
        one_user=float(np.mean(users <= 1)),
        two_users=float(np.mean(users <= 2)),
        four_users=float(np.mean(users <= 4)),
        widest=int(users.max()),
        users=_quantiles(users),
        spread=_quantiles(users - 1),
    )


def _distinct(ids: IntArray) -> int:
    return len(np.unique(ids[ids >= 0]))


def _tally(ids: IntArray, names: tuple[str, ...]) -> dict[str, int]:
    return dict(zip(names, np.bincount(ids[ids >= 0], minlength=len(names)).tolist(), strict=True))


def _quantiles(values: IntArray) -> dict[str, float]:
    if not len(values):
        return {}
    # inverted_cdf: a value that occurs, never one between two.
    quantiles = np.percentile(values, QUANTILES, method="inverted_cdf").tolist()
    return {str(at): float(value) for at, value in zip(QUANTILES, quantiles, strict=True)}


def tables(description: DataDescription) -> list[Table]:
    """The description as rich tables: counts, sensitive rows by type, layers, distributions."""
    layers = (_spans_of(description, name) for name in description.layers)
    return [_counts(description), _sensitive(description), *layers, _distributions(description)]


def _counts(description: DataDescription) -> Table:
    from rich.markup import escape

    table = _table(f"{description.source} (fingerprint {description.fingerprint})", description)
    for field in ("rows", "users", "words", "mentions", "entities"):
        values = (f"{getattr(split, field):,}" for split in description.splits.values())
        table.add_row(field, *values)
    for label in description.label_names:
        counts = (f"{split.labels.get(label, 0):,}" for split in description.splits.values())
        table.add_row(escape(f"label {label}"), *counts)
    named = {
        "targets": "rows with a target",
        "distinct_pairs": "different pairs",
        "targets_with_text": "targets that hold their text",
        "records": "users with records",
    }
    for field, name in named.items():
        numbers = [getattr(split, field) for split in description.splits.values()]
        if None not in numbers:
            table.add_row(name, *(f"{count:,}" for count in numbers))
    return table


def _sensitive(description: DataDescription) -> Table:
    from rich.markup import escape

    table = _table("sensitive rows", description)
    for kind in (*description.entity_types, "any"):
        counts = (split.sensitive_rows[kind] for split in description.splits.values())
        table.add_row(escape(kind), *(f"{count:,}" for count in counts))
    return table


def _spans_of(description: DataDescription, name: str) -> Table:
    from rich.markup import escape

    table = _table(f"layer {name}: spans by type", description)
    layers = [split.layers[name] for split in description.splits.values()]
    for kind in description.layers[name]:
        table.add_row(escape(kind), *(f"{layer.spans.get(kind, 0):,}" for layer in layers))
    table.add_row("completely annotated rows", *(f"{layer.rows:,}" for layer in layers))
    table.add_row("their share", *(f"{layer.share:.1%}" for layer in layers))
    return table


def _distributions(description: DataDescription) -> Table:
    table = _table("rows of a user, spread of an entity", description)
    splits = list(description.splits.values())
    for at in map(str, QUANTILES):
        cells = (f"{s.rows_per_user[at]:g}" if s.rows_per_user else "-" for s in splits)
        table.add_row(f"rows per user, {at} %", *cells)
    if not any(split.reach for split in splits):
        return table
    for at in map(str, QUANTILES):
        cells = (f"{s.reach.spread[at]:g}" if s.reach else "-" for s in splits)
        table.add_row(f"spread (other users), {at} %", *cells)
    for field, most in (
        ("one_user", "1 user"),
        ("two_users", "2 users"),
        ("four_users", "4 users"),
    ):
        cells = (f"{getattr(s.reach, field):.1%}" if s.reach else "-" for s in splits)
        table.add_row(f"entities of at most {most}", *cells)
    cells = (f"{s.reach.widest:,}" if s.reach else "-" for s in splits)
    table.add_row("users of the widest entity", *cells)
    return table


def _table(title: str, description: DataDescription) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(title), title_justify="left")
    table.add_column("")
    for split in description.splits:
        table.add_column(split, justify="right")
    return table
