"""Origin of a path: the source that reads it, its parameters, and guesses."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from uedp_bench.components import registry
from uedp_bench.data.table_columns import is_blank, texts_of
from uedp_bench.errors import InputError, shown
from uedp_bench.first_spec.column_roles import (
    BLANK_WORDS,
    ColumnFacts,
    Role,
    Roles,
    classes_without_a_name,
    roles_of,
)
from uedp_bench.first_spec.file_facts import FORMATS, FileFacts, look_at
from uedp_bench.io.files import shown_path
from uedp_bench.tasks.sources.reading.files import DOCUMENT
from uedp_bench.tasks.sources.reading.splits import ALIASES
from uedp_bench.tasks.sources.text import TextFileParams, read_columns

LONGEST_NAME = 6
"""Words in the name of a column, at most."""

LOOKED_AT = 20_000
"""Rows in which a header is looked for."""

_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)?")


def _check_header(columns: Mapping[str, Sequence[Any]], file: str) -> None:
    """Refuse a table whose first row is data, or which has its header again in the midst.

    Raises:
        InputError: with the cell that shows it.
    """
    names = tuple(columns)
    rows = zip(*(columns[name][:LOOKED_AT] for name in names), strict=True)
    again = next((number for number, row in enumerate(rows, start=1) if row == names), None)
    if again is not None:
        raise InputError(
            f"init: {file} has its first row again as row {again}: the header stands there twice, "
            "or there is none; take the second out, or write a header"
        )
    for name, values in columns.items():
        reason = _sign_of_data(name, values[:LOOKED_AT])
        if reason is not None:
            raise InputError(
                f"init: {file} has no header: its first row has {shown(name)}, {reason}; write a "
                "line with names of the columns above it, such as text,user,label, or name the "
                "text by --text if that is a header"
            )


def _sign_of_data(name: str, values: Sequence[Any]) -> str | None:
    texts = [value for value in values if isinstance(value, str)]
    if len(name.split()) > LONGEST_NAME:
        return "a text"
    if not texts:
        return None
    if _NUMBER.fullmatch(name.strip()):
        numbers = sum(bool(_NUMBER.fullmatch(text.strip())) for text in texts)
        return "a number above numbers" if numbers > 0.5 * len(texts) else None
    equal = texts.count(name)
    several = len({*texts}) < 0.5 * len(texts)
    if several and equal > 1:
        return f"and {equal} rows below have the same there"
    return None


FOLDERS = {
    "eng.train": "conll2003", "ag_data.txt": "dpnlp-ag", "negative-words.txt": "opinion-lexicon",
    "wikiner_dataset_txt.tar.gz": "wikipii", "dataset_dict.json": "hub", "state.json": "hub",
}  # fmt: skip
"""Sources that know a folder, by a file in it."""

MOST_OTHERS = 3

_GUESSED_ENCODINGS = {
    "cp1252": "the file is not UTF-8",
    "latin-1": "the file is neither UTF-8 nor cp1252, so letters may be wrong",
}
"""Reasons for encodings that no mark and no check of bytes tells."""


@dataclass(frozen=True)
class Origin:
    """Origin of rows: a source and its parameters.

    Attributes:
        source: name of the source.
        params: parameters of the source.
        facts: lines about the file.
        guesses: lines about guesses, each with the option that overrides it.
        user_guess: the line of them about the column of users; empty without one.
        labelled: True if the file has a column whose name says that it holds classes.
    """

    source: str
    params: Mapping[str, Any]
    facts: tuple[str, ...] = ()
    guesses: tuple[str, ...] = ()
    user_guess: str = ""
    labelled: bool = False

    def with_params(self, *guesses: str, **params: Any) -> Origin:
        """Copy with other parameters; None takes one away."""
        merged = {**self.params, **params}
        return replace(
            self,
            params={name: value for name, value in merged.items() if value is not None},
            guesses=(*self.guesses, *guesses),
        )


@dataclass
class _Reading:
    """Parameters and guesses while a file is read."""

    params: dict[str, Any]
    guesses: list[str] = field(default_factory=list)
    user_guess: str = ""


def origin_of(
    path: Path, named: Mapping[Role, str], layout: Mapping[str, str] = MappingProxyType({})
) -> Origin:
    """Find the source of a path and its parameters.

    Args:
        path: file, or folder that a source knows.
        named: columns that the user named, by role.
        layout: delimiter and quoting that the user named.

    Raises:
        InputError: if nothing can be read there, or no column holds text.
    """
    if not path.is_dir():
        return _of_file(path, look_at(path, layout), named)
    files = [
        file
        for file in sorted(path.iterdir())
        if ALIASES.get(file.name.partition(".")[0].lower()) == "train"
        and {*file.suffixes} & {*FORMATS}
    ]
    if files:
        return _of_file(path, look_at(files[0], layout), named)
    if next(path.glob("*.ann"), None) is not None:
        return _of_file(path, FileFacts(path, "brat", by_ending=False), named)
    source_name = next((source for name, source in FOLDERS.items() if (path / name).exists()), None)
    if source_name is None and next(path.glob("echr_*.json"), None) is not None:
        source_name = "tab"
    if source_name is None:
        raise InputError(
            f"init: the folder {shown_path(path)} has no file train.* of a kind that is read "
            f"({', '.join(sorted(FORMATS))}), and no source knows it; name one file of it"
        )
    return Origin(
        source_name, {"path": str(path)}, (f"a folder that the source {source_name} reads",)
    )


def _of_file(path: Path, facts: FileFacts, named: Mapping[Role, str]) -> Origin:
    file = facts.path
    params = {**facts.parameters, "path": str(path)}
    columns = dict(read_columns(file, TextFileParams.model_validate(params), "text"))
    lines = (f"{file.name}: {facts.words}",)
    if facts.file_format == "conll":
        return _of_tokens(params, facts, lines)
    if facts.delimiter is not None and "text" not in named:
        _check_header(columns, file.name)
    roles, facts_of_columns = roles_of(columns, named)
    reading = _Reading(params)
    if facts.encoding in _GUESSED_ENCODINGS:
        reading.guesses.append(
            f"encoding: {facts.encoding}, for {_GUESSED_ENCODINGS[facts.encoding]} "
            "(source.encoding: shift_jis, or any name of Python's, reads another)"
        )
    if facts.quoting is not None:
        guesses = {
            "none": "quotes are text: each line is a row by itself (source.quoting: standard reads "
            "them as quoting)",
            "standard": "a text in quotes may have several lines (source.quoting: none reads each "
            "line as a row)",
        }
        reading.guesses.append(guesses[facts.quoting])
    _take_text(reading, roles, facts_of_columns, columns)
    _take_users(reading, roles, facts_of_columns, named)
    labelled = _take_labels(reading, roles, facts_of_columns, columns, named)
    if "split" in roles.columns and path == file:
        params["split_column"] = roles.columns["split"]
        reading.guesses.append(f"{_column('split', roles)} says which rows train (--split none)")
    if "entities" in roles.columns and "tokens" not in roles.columns:
        params["entities_column"] = roles.columns["entities"]
        reading.guesses.append(f"{_column('entities', roles)} marks entities (--spans none)")
    elif "entities" in roles.refused:
        name, reason = roles.refused["entities"]
        reading.guesses.append(f"the column {name!r} does not mark entities: {reason}")
    listed = (*lines, f"columns: {', '.join(columns)}")
    return Origin("text", params, listed, tuple(reading.guesses), reading.user_guess, labelled)


def _of_tokens(params: dict[str, Any], facts: FileFacts, lines: tuple[str, ...]) -> Origin:
    """Origin of a file in CoNLL layout, whose last column is learnt."""
    params["entities_column"] = "gold"
    guess = "tagging: the last column holds the tags, the first the words"
    users = "every sentence counts as a user of its own: nothing marks documents"
    if facts.documents:
        params["user_column"] = DOCUMENT
        users = "a document, as -DOCSTART- marks it, counts as a user (--user none)"
    return Origin("text", params, lines, (guess, users), users)


def _column(role: Role, roles: Roles) -> str:
    return f"the column {roles.columns[role]!r}"


def _take_text(
    reading: _Reading,
    roles: Roles,
    facts: Mapping[str, ColumnFacts],
    columns: Mapping[str, Sequence[Any]],
) -> None:
    if "tokens" in roles.columns:
        reading.params["tokens_column"] = roles.columns["tokens"]
        reading.params["entities_column"] = roles.columns["tags"]
        guess = (
            f"{_column('tokens', roles)} holds the words and {roles.columns['tags']!r} their tags"
        )
        reading.guesses.append(f"{guess} (--text COLUMN reads another column as text)")
        return
    name = roles.columns["text"]
    reading.params["text_column"] = name
    others = _others("text", roles)
    guess = f"text: the column {name!r}, {facts[name].words:.0f} words a row"
    reading.guesses.append(f"{guess} (--text COLUMN{others})")
    read_columns = [
        roles.columns[role] for role in ("text", "user", "split") if role in roles.columns
    ]
    blank = sum(
        any(map(is_blank, row))
        for row in zip(*(columns[name] for name in read_columns), strict=True)
    )
    if blank:
        reading.params["skip_blank"] = True
        what = "1 row" if blank == 1 else f"{blank:,} rows"
        reading.guesses.append(
            f"{what} whose {' or '.join(map(repr, read_columns))} is blank or has a null "
            "character: left out (source.skip_blank: false refuses them)"
        )


def _take_users(
    reading: _Reading, roles: Roles, facts: Mapping[str, ColumnFacts], named: Mapping[Role, str]
) -> None:
    if "user" in roles.columns:
        name = roles.columns["user"]
        reading.params["user_column"] = name
        others = _others("user", roles)
        reading.user_guess = (
            f"user: the column {name!r}; who wrote a row is the person to protect "
            f"(--user COLUMN{others}, or none: every row a user of its own)"
        )
        reading.guesses.append(reading.user_guess)
        blanks = sum(n for value, n in facts[name].commonest if value.lower() in BLANK_WORDS)
        if blanks:
            values = [value for value, _ in facts[name].commonest if value.lower() in BLANK_WORDS]
            reading.guesses.append(
                f"{blanks:,} rows are of the user {' or '.join(map(shown, values))}: is that a "
                "person, or no value?"
            )
        return
    taken = {*roles.columns.values()}
    repeat = [
        one.name
        for one in facts.values()
        if one.name not in taken and one.kind == "text" and one.commonest
        and one.commonest[0][1] > 1 and one.distinct > 1
    ]  # fmt: skip
    hint = f"; columns whose values repeat: {', '.join(repeat[:MOST_OTHERS])}" if repeat else ""
    why = "no column is called like a user"
    if named.get("user") == "none":
        why = "as you said"
    elif "user" in roles.refused:
        name, reason = roles.refused["user"]
        why = (
            f"for the column {name!r} was not taken: {reason} (--user {shlex.quote(name)} insists)"
        )
    reading.guesses.append(f"every row counts as a user of its own, {why} (--user COLUMN{hint})")


def _take_labels(
    reading: _Reading,
    roles: Roles,
    facts: Mapping[str, ColumnFacts],
    columns: Mapping[str, Sequence[Any]],
    named: Mapping[Role, str],
) -> bool:
    """True if a column of classes is called so, or the user named it."""
    if "label" in roles.columns:
        name = roles.columns["label"]
        where = f"init: column {shown(name)}"
        classes = sorted({value for value in texts_of(columns[name], where) if value})
        reading.params |= {"label_column": name, "label_names": classes}
        reading.guesses.append(
            f"label: the column {name!r} with {len(classes)} classes (--label COLUMN"
            f"{_others('label', roles)}, or none)"
        )
        return True
    if "label" in roles.refused and named.get("label") != "none":
        name, reason = roles.refused["label"]
        reading.guesses.append(
            f"the column {name!r} is called like a label and was not taken: {reason} (--label "
            f"{shlex.quote(name)} insists)"
        )
        return False
    few = classes_without_a_name(facts, [*roles.columns.values()])
    if few and named.get("label") != "none":
        reading.guesses.append(
            f"no column is called like a label; of few classes: {', '.join(few[:MOST_OTHERS])} "
            "(--label COLUMN learns to tell them apart)"
        )
    return False


def _others(role: Role, roles: Roles) -> str:
    others = roles.others.get(role, ())[:MOST_OTHERS]
    return f"; also possible: {', '.join(others)}" if others else ""


def load(origin: Origin) -> Any:
    """The corpus of an origin."""
    return registry.sources.create(origin.source, dict(origin.params)).load()
