"""Facts by user, from a jsonl file: what a register knows of each person."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uedp_bench.corpus import Facts, normal_id
from uedp_bench.data.cell_values import NOT_TEXT
from uedp_bench.errors import InputError, nearest, shown
from uedp_bench.io.files import open_text, shown_path
from uedp_bench.io.messages import plain

_FIELDS = ("user", "facts")


def read_records(path: Path, users: Sequence[str], owner: str) -> tuple[Facts, ...]:
    """Facts of each user; those of whom the file says nothing have none.

    Each line is `{"user": "ann", "facts": {"spouse": ["Bo"], "born": "1961-08-04"}}`: a key has a
    text or a list of texts.

    Args:
        path: the file.
        users: names of the users, by id.
        owner: the source, for messages.

    Raises:
        InputError: naming file and line, for a line of another form, or a user who is there twice
            or has no row.
    """
    ids = {normal_id(name): user for user, name in enumerate(users)}
    facts_by_user: dict[int, Facts] = {}
    lines: dict[int, int] = {}
    with open_text(path, f"{owner}.records") as text:
        for number, line in enumerate(text, start=1):
            if not line.strip():
                continue
            where = f"{owner}.records: {shown_path(path)}, line {number}"
            record = _record(line, where)
            user = ids.get(normal_id(record["user"]))
            if user is None:
                near = nearest(normal_id(record["user"]), ids)
                hint = f"; did you mean {near!r}?" if near else ""
                raise InputError(f"{where}: no row is of the user {shown(record['user'])}{hint}")
            if user in facts_by_user:
                raise InputError(
                    f"{where}: facts of {shown(record['user'])} stand in line {lines[user]} already"
                )
            lines[user], facts_by_user[user] = number, _facts(record["facts"], where)
    return tuple(facts_by_user.get(user, {}) for user in range(len(users)))


def _record(line: str, where: str) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no JSON: {plain(str(error), 200)}") from None
    if not isinstance(record, dict):
        raise InputError(f"{where} is not an object {{user, facts}}")
    for field in _FIELDS:
        if field not in record:
            near = nearest(field, [str(key) for key in record])
            hint = f"; did you mean it by {near!r}?" if near else ""
            raise InputError(f"{where} has no field {field!r}{hint}")
    return record


def _facts(facts: Any, where: str) -> Facts:
    if not isinstance(facts, dict):
        raise InputError(f"{where}: facts is {shown(facts)}, not an object of texts by key")
    out = {}
    for key, values in facts.items():
        every = values if isinstance(values, list) else [values]
        for value in every:
            if not isinstance(value, str) or not value.strip() or NOT_TEXT.search(value):
                raise InputError(
                    f"{where}: facts.{plain(key, 60)} is {shown(value)}; a text or a list of texts "
                    "is needed"
                )
        out[key] = tuple(every)
    return out
