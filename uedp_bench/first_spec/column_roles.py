"""Roles of the columns of a table: guessed from names and values, overridden by the user."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from uedp_bench.data.table_columns import is_blank
from uedp_bench.data.tables import is_printed_list
from uedp_bench.errors import InputError, UnknownNameError, shown
from uedp_bench.tasks.sources.reading.annotations import span_fields
from uedp_bench.tasks.sources.reading.splits import ALIASES

Role = Literal["text", "user", "label", "split", "entities", "tokens", "tags"]

NAMES: dict[Role, tuple[str, ...]] = {
    "text": ("text", "body", "message", "content", "review", "comment", "tweet", "post", "sentence",
             "utterance", "transcript", "description", "abstract", "answer", "note", "mail",
             "document", "msg", "subject"),
    "user": ("user", "author", "from", "sender", "speaker", "who", "nick", "handle", "customer",
             "account", "person", "owner", "patient", "client", "writer", "employee", "member",
             "username", "userid", "authorid", "login", "nickname", "poster", "reviewer",
             "commenter", "uploader", "contributor", "participant", "respondent", "uid",
             "screenname", "displayname", "fullname", "email", "name"),
    "label": ("label", "class", "category", "topic", "sentiment", "stars", "rating", "intent",
              "target", "score", "genre", "spam", "emotion", "stance", "polarity"),
    "split": ("split", "part", "partition", "set", "fold", "subset"),
    "entities": ("entities", "spans", "annotations", "mentions", "ner"),
}  # fmt: skip
"""Names that people give to such columns, in lower case."""

PROPERTIES = frozenset({
    "timezone", "zone", "location", "country", "city", "state", "place", "lang", "language",
    "locale", "followers", "friends", "age", "gender", "sex", "race", "birth", "birthday", "date",
    "time", "created", "updated", "joined", "ip", "agent", "device", "platform", "bio",
    "description", "url", "link", "image", "avatar", "type", "verified", "status", "role", "count",
    "number", "total", "karma", "score", "rank", "color", "utc", "offset",
})  # fmt: skip
"""Words in the name of a column that holds a property of a user, and not who it is."""

BLANK_WORDS = frozenset({"", "nan", "null", "none", "n/a", "na", "nil", "<na>", "-", "unknown"})
"""Texts that other programs write where there is no value, in lower case."""

MOST_CLASSES, LEAST_OF_CLASS = 20, 8
"""Classes of a label column, and rows of each."""

LONG_NAME = 6
"""Words of a value that names a person, at most."""

LIKE_A_ROLE = 0.5
"""Least likeness of a name of a column to a role that is worth a word."""

MOST_NAMED = 20
"""Columns that a message names."""

LOOKED_AT = 20_000
"""Rows from which roles are guessed."""


@dataclass(frozen=True)
class ColumnFacts:
    """One column of a table.

    Attributes:
        name: name of the column.
        filled: share of rows that have a value.
        words: mean words of its texts; 0 where it holds none.
        letters: share of its texts with a letter.
        distinct: different values.
        commonest: most frequent values with their counts, the most frequent first.
        kind: kind of its values: text, spans ({start, end, type}), lists of texts, or other.
    """

    name: str
    filled: float
    words: float
    letters: float
    distinct: int
    commonest: tuple[tuple[str, int], ...]
    kind: Literal["text", "spans", "lists", "other"]


@dataclass(frozen=True)
class Roles:
    """Columns by role.

    Attributes:
        columns: column by role.
        others: other columns that might have the role, best first, by role.
        refused: column that is called like a role and was not taken, and the reason, by role.
    """

    columns: Mapping[Role, str]
    others: Mapping[Role, tuple[str, ...]] = field(default_factory=dict)
    refused: Mapping[Role, tuple[str, str]] = field(default_factory=dict)


def _is_single(value: Any) -> bool:
    """True for a value that a text can be made of: a text, number, truth, date or decimal."""
    return not isinstance(value, bytes | bytearray | Mapping | Sequence) or isinstance(value, str)


def _is_missing(value: Any) -> bool:
    """True for a value that no user can be told by: as `is_blank`, and NaN."""
    return is_blank(value) or (isinstance(value, float) and value != value)


def facts_of(name: str, values: Sequence[Any]) -> ColumnFacts:
    """Look at a column."""
    seen = [value for value in values[:LOOKED_AT] if value is not None and value != ""]
    texts = [str(value) for value in seen if _is_single(value)]
    counts = Counter(texts)
    sized = max(len(texts), 1)
    return ColumnFacts(
        name,
        len(seen) / max(len(values[:LOOKED_AT]), 1),
        sum(len(text.split()) for text in texts) / sized,
        sum(bool(re.search(r"[^\W\d_]", text)) for text in texts) / sized,
        len(counts),
        tuple(counts.most_common(MOST_CLASSES + 1)),
        _kind(seen),
    )


def _kind(seen: Sequence[Any]) -> Literal["text", "spans", "lists", "other"]:
    kinds = Counter(_kind_of(value) for value in seen[:200])
    for kind in ("spans", "lists"):  # a list that is empty may be either
        if kinds[kind] and kinds[kind] + kinds["empty"] == sum(kinds.values()):
            return "spans" if kind == "spans" else "lists"
    most = kinds.most_common(1)
    return "text" if most and most[0][0] == "text" else "other"


def _kind_of(value: Any) -> str:
    if isinstance(value, str) and value[:1] == "[":
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return "text"
    if _is_single(value):
        return "text"
    if not isinstance(value, list | tuple):
        return "other"
    items = list(value)
    if not items:
        return "empty"
    if all(map(_is_span, items)):
        return "spans"
    return "lists" if all(isinstance(item, str) for item in items) else "other"


def _is_span(item: Any) -> bool:
    try:
        start, end, kind = span_fields(item)
    except (LookupError, TypeError):
        return False
    return type(start) is type(end) is int and isinstance(kind, str)


def roles_of(
    columns: Mapping[str, Sequence[Any]], named: Mapping[Role, str]
) -> tuple[Roles, dict[str, ColumnFacts]]:
    """Assign roles to columns, and collect facts of each.

    Args:
        columns: columns of the file.
        named: columns that the user named; "none" for no such column.

    Raises:
        InputError: for a name that is no column, or where no column holds text.
    """
    if not any(map(len, columns.values())):
        raise InputError("init: the file has no row below its header")
    facts = {name: facts_of(name, values) for name, values in columns.items()}
    columns_by_role: dict[Role, str] = {}
    others: dict[Role, tuple[str, ...]] = {}
    refused: dict[Role, tuple[str, str]] = {}
    for role, name in named.items():
        if name == "none":
            continue
        if name not in facts:
            raise UnknownNameError(f"column (--{role})", name, facts)
        columns_by_role[role] = name
    lists = [one.name for one in facts.values() if one.kind == "lists"]
    if "text" not in named and len(lists) >= 2:
        columns_by_role["tokens"], columns_by_role["tags"] = _tokens_and_tags(lists, columns)
    for role in NAMES:
        if role in named or (role == "text" and "tokens" in columns_by_role):
            continue
        free = [one for one in facts.values() if one.name not in columns_by_role.values()]
        ranked = _ranked(role, free)
        if role == "user":
            # No row is dropped for a user who was guessed.
            gaps = {name: _without(columns, name, columns_by_role) for name in ranked}
            full = [name for name in ranked if not gaps[name]]
            if ranked and not full:
                count = gaps[ranked[0]]
                rows = "1 row with text has" if count == 1 else f"{count:,} rows with text have"
                refused[role] = (ranked[0], f"{rows} no value there")
            ranked = [*full, *(name for name in ranked if gaps[name])] if full else []
        if ranked:
            columns_by_role[role] = ranked[0]
            others[role] = tuple(ranked[1:4])
        elif role not in refused and (why := _why_not(role, free)) is not None:
            refused[role] = why
    if "text" not in columns_by_role and "tokens" not in columns_by_role:
        raise InputError(
            f"init: no column holds text; columns: {_listed(facts)}: name it by --text"
        )
    return Roles(columns_by_role, others, refused), facts


def _listed(facts: Mapping[str, ColumnFacts]) -> str:
    """Columns for a message, and why the likeliest of them is no text."""
    names = [*facts]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    every = [*facts.values()]
    refused = _printed_lists(every) or _no_text(every)
    hint = "" if refused is None else f" ({refused[0]!r} is not taken: {refused[1]})"
    return (", ".join(names[:MOST_NAMED]) or "none") + more + hint


def _printed_lists(free: Sequence[ColumnFacts]) -> tuple[str, str] | None:
    """The first column of lists as Python prints them, and what to do."""
    for one in free:
        values = [value for value, _ in one.commonest[:5]]
        if one.kind == "text" and values and all(map(is_printed_list, values)):
            return one.name, "it has lists as Python prints them; write JSON, by json.dumps"
    return None


def _no_text(facts: Sequence[ColumnFacts]) -> tuple[str, str] | None:
    """The column that is called like a text and is none, and why."""
    score, one = max(
        ((_named("text", one.name), one) for one in facts), key=lambda pair: pair[0],
        default=(0.0, None),
    )  # fmt: skip
    if one is None or score < LIKE_A_ROLE:
        return None
    if one.kind != "text":
        return one.name, "it holds no texts" if one.filled else "it has no value"
    if one.distinct == 1:
        return one.name, "it has one value"
    return one.name, "its values are numbers, or of a word or two"


def _without(columns: Mapping[str, Sequence[Any]], name: str, roles: Mapping[Role, str]) -> int:
    """Rows with a text that have no value in a column."""
    text = roles.get("tokens", roles.get("text", name))
    return sum(
        _is_missing(value) and not _is_missing(other)
        for value, other in zip(columns[name], columns[text], strict=True)
    )


def _why_not(role: Role, free: Sequence[ColumnFacts]) -> tuple[str, str] | None:
    """The column that is called like a role and cannot have it, and why."""
    if role == "entities":
        return _printed_lists(free)
    if role not in ("user", "label"):
        return None
    named = [(_named(role, one.name), one) for one in free if one.kind == "text" and one.commonest]
    score, one = max(named, key=lambda pair: pair[0], default=(0.0, None))
    if one is None or score < LIKE_A_ROLE:
        return None
    if one.distinct == 1:
        return one.name, "it has one value"
    if role == "user":
        if one.commonest[0][1] == 1:
            return one.name, "no value stands there twice, so every row is a user of its own"
        return one.name, "it holds texts, or is blank in most rows"
    if one.distinct > MOST_CLASSES:
        return one.name, f"it has {one.distinct:,} values; {MOST_CLASSES} classes are taken"
    value, count = one.commonest[-1]
    return one.name, f"{shown(value)} stands in {count} of the rows; {LEAST_OF_CLASS} are needed"


def _tokens_and_tags(lists: list[str], columns: Mapping[str, Sequence[Any]]) -> tuple[str, str]:
    """The columns of tokens and of tags: tokens have the most different values."""

    def variety(name: str) -> int:
        return len({str(item) for value in columns[name][:500] for item in _items(value)})

    ranked = sorted(lists, key=variety, reverse=True)
    named = [name for name in ranked[1:] if re.search("ner|tag|label|gold", name.lower())]
    return ranked[0], (named or ranked[1:])[-1]


def _items(value: Any) -> list[Any]:
    if isinstance(value, str):
        return list(json.loads(value))
    return [] if value is None else list(value)


def _ranked(role: Role, free: Sequence[ColumnFacts]) -> list[str]:
    """Columns that may have the role, the likeliest first."""
    fits = [(score, one.name) for one in free if (score := _score(role, one)) > 0]
    return [name for _, name in sorted(fits, key=lambda fit: -fit[0])]


def _score(role: Role, one: ColumnFacts) -> float:
    named = _named(role, one.name)
    if role == "entities":
        return float(one.kind == "spans")
    if one.kind != "text":
        return 0.0
    if role == "text":
        good = one.letters > 0.5 and one.distinct > 1 and one.words > 2
        return one.words * (1 + 3 * named) if good else 0.0
    values = [value for value, _ in one.commonest]
    if role == "split":
        return float(
            one.distinct <= len(ALIASES) and {v.strip().lower() for v in values} <= {*ALIASES}
        )
    if role == "user":
        repeats = one.distinct > 1 and one.commonest[0][1] > 1
        return named if repeats and one.words <= LONG_NAME and one.filled > 0.5 else 0.0
    few = 2 <= one.distinct <= MOST_CLASSES and min(n for _, n in one.commonest) >= LEAST_OF_CLASS
    return named * one.filled if few and one.words <= LONG_NAME else 0.0


def _named(role: Role, name: str) -> float:
    """1 for a name that people give to it, less for one that holds such a name, else 0."""
    word = re.sub(r"[^a-z]", "", name.rpartition(".")[2].lower())
    whole = re.sub(r"[^a-z.]", "", name.lower())
    names = NAMES[role]
    if word in names:
        return 1.0 - 0.01 * names.index(word)
    parts = set(re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower()))
    within = {*names} - {"name", "email"}  # of a product, a file
    like = 0.7 if parts & within else 0.4 * any(n in whole for n in within if len(n) > 3)
    return like * (0.3 if role == "user" and parts & PROPERTIES else 1.0)


def classes_without_a_name(facts: Mapping[str, ColumnFacts], taken: Sequence[str]) -> list[str]:
    """Columns of few classes that are called like no label: a user may want one of them."""
    return [
        one.name
        for one in facts.values()
        if one.name not in taken
        and one.kind == "text"
        and one.words <= LONG_NAME
        and 2 <= one.distinct <= MOST_CLASSES
        and min(count for _, count in one.commonest) >= LEAST_OF_CLASS
    ]
