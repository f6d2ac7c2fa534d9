"""Tables of details of attacks, and the spec as text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, get_args
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from uedp_bench.components.component import MayBePath
from uedp_bench.contracts.results import ComponentSpec, Estimate, RunSpec
from uedp_bench.errors import UedpBenchError
from uedp_bench.leaderboard.cell_text import NONE, number

ROWS, COLUMNS, TABLES, ITEMS = 200, 40, 60, 8
"""Limit of what a page shows; the raw result has all of it."""


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        caption: title of the table.
        head: labels of the columns.
        rows: cells.
        kinds: kinds of the columns: "number", "long" for sentences, or "".
        left_out: number of rows that are not shown.
    """

    caption: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kinds: tuple[str, ...]
    left_out: int = 0


_LONG, _CUT = 24, 300
"""Characters of a cell that is a sentence, and of one that is cut."""

T = TypeVar("T")
Metrics = Mapping[str, Estimate]
Details = Mapping[str, Any]
_Record = tuple[tuple[str, ...], Mapping[str, Any]]
"""A mapping, and the keys that lead to it."""


def tables(value: Mapping[str, Any], caption: str) -> list[Table]:
    """All of a nested value, from the outside in, and so many tables at most."""
    return list(islice(_tables([((), value)], caption), TABLES))


def table(
    caption: str, head: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[int] = ()
) -> Table:
    """A table of values, as text; `numbers` are columns of numbers that are text already."""
    shown = rows[:ROWS]
    cells = tuple(tuple(text(cell) for cell in row) for row in shown)
    kinds = []
    for at in range(len(head)):
        if at in numbers or _numeric([row[at] for row in shown]):
            kinds.append("number")
        else:
            kinds.append("long" if any(len(row[at]) > _LONG for row in cells) else "")
    return Table(caption, tuple(head), cells, tuple(kinds), len(rows) - len(shown))


def text(value: Any) -> str:
    """A value in a cell: numbers as tables write them, estimates with their interval."""
    if value is None or value == "":
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return {"inf": "∞", "-inf": "-∞"}.get(value, value)
    if isinstance(value, Mapping):
        if _estimate(value):
            interval = f" [{text(value['low'])}, {text(value['high'])}]"
            return text(value["value"]) + ("" if value["low"] is None else interval)
        return ", ".join(f"{key}: {text(part)}" for key, part in value.items())
    if isinstance(value, list | tuple):
        if not all(map(_scalar, value)):
            long = json.dumps(value, ensure_ascii=False)
            return long if len(long) <= _CUT else f"{long[:_CUT]} … ({len(long):,} characters)"
        if len(value) <= ITEMS + 2:
            return ", ".join(map(text, value)) or NONE
        return f"{', '.join(map(text, value[:ITEMS]))}, … ({len(value):,} values)"
    return str(value)


def exact(value: Any) -> str:
    """A value that somebody chose, with all its digits, as specs write it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def words(key: str) -> str:
    """A field's name as a label."""
    return key.replace("_", " ")


# ---------------------------------------------------------------------------------------- records


def _tables(records: Sequence[_Record], caption: str) -> Iterator[Table]:
    """A table of what fits into cells, then those of what does not, by key."""
    keys = list(dict.fromkeys(key for _, value in records for key in value))
    fits = {key: all(_cell(value.get(key)) for _, value in records) for key in keys}
    columns = [key for key in keys if fits[key]]
    if columns:
        yield _table_of_records(records, columns, caption)
    for key in keys:
        if not fits[key]:
            inside = [(path, value) for path, value in records if key in value]
            yield from _deeper(inside, key, f"{caption}: {words(key)}" if caption else words(key))


def _table_of_records(records: Sequence[_Record], columns: list[str], caption: str) -> Table:
    depth = len(records[0][0])
    if depth == 0:
        ((_, value),) = records
        return table(caption, ("field", "value"), [(words(key), value[key]) for key in columns])
    filled = [key for key in columns if any(value.get(key) is not None for _, value in records)]
    shown = (filled or columns)[:COLUMNS]
    head = (*[""] * depth, *map(words, shown))
    rows = [(*path, *(value.get(key) for key in shown)) for path, value in records]
    return table(caption, head, rows)


def _deeper(records: Sequence[_Record], key: str, caption: str) -> Iterator[Table]:
    """Tables of what stands under one key of every record."""
    inside = [(path, value[key]) for path, value in records]
    if all(isinstance(value, Mapping) for _, value in inside):
        while all(_family(value) for _, value in inside):
            inside = [((*path, str(name)), part) for path, value in inside
                      for name, part in value.items()]  # fmt: skip
        yield from _tables(inside, caption)
        return
    for path, record in records:
        value, titled = record[key], ": ".join((caption, *path))
        if isinstance(value, list) and all(isinstance(part, Mapping) for part in value):
            yield from _tables([((f"{at:,}",), part) for at, part in enumerate(value, 1)], titled)
        elif _matrix(value):
            yield _crossed(titled, value, record.get("classes"))
        else:
            yield table(titled, ("field", "value"), [(words(key), value)])


def _crossed(caption: str, value: list[list[Any]], classes: Any) -> Table:
    """A matrix; of a confusion, with the classes that stand beside it (truth in rows)."""
    square = isinstance(classes, list) and len(classes) == len(value) == len(value[0])
    names = [text(name) for name in classes] if square else []
    rows = names or [f"{at}" for at in range(1, len(value) + 1)]
    columns = names or [f"{at}" for at in range(1, len(value[0]) + 1)]
    head = ("truth" if square else "", *columns)
    return table(caption, head, [(name, *row) for name, row in zip(rows, value, strict=True)])


def _cell(value: Any) -> bool:
    return _scalar(value) or _small(value) or (
        isinstance(value, list | tuple) and all(map(_scalar, value))
    )  # fmt: skip


def _scalar(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _small(value: Any) -> bool:
    """True if a mapping is one value, or few."""
    return isinstance(value, Mapping) and (
        _estimate(value) or (0 < len(value) <= 3 and all(map(_scalar, value.values())))
    )


def _family(value: Mapping[str, Any]) -> bool:
    """True if a mapping is nothing but records."""
    return bool(value) and all(
        isinstance(part, Mapping) and part and not _small(part) for part in value.values()
    )


def _estimate(value: Mapping[str, Any]) -> bool:
    return value.keys() == {"value", "low", "high"}


def _matrix(value: Any) -> bool:
    if not isinstance(value, list) or not 0 < len(value) <= COLUMNS:
        return False
    return all(
        isinstance(row, list) and len(row) == len(value[0]) <= COLUMNS and all(map(_scalar, row))
        for row in value
    )


def _numeric(column: Sequence[Any]) -> bool:
    """True if cells are numbers, as far as there is anything in them."""
    filled = [value for value in column if value is not None and value != ""]
    return bool(filled) and all(map(_number, filled))


def _number(value: Any) -> bool:
    if isinstance(value, Mapping):
        return _estimate(value)
    if isinstance(value, str):
        return value in ("inf", "-inf")
    return isinstance(value, int | float) and not isinstance(value, bool)


def shaped(shape: TypeAdapter[T], value: Any) -> T | None:
    """The value in a shape; None where it has another."""
    try:
        return shape.validate_python(value)
    except ValidationError:
        return None


COMMAND = "uedp-bench run spec.yaml --out runs"


def repeat(spec: RunSpec) -> dict[str, Any]:
    """Everything that a reader needs to repeat a run.

    Returns:
        `yaml`: spec that `uedp-bench run` reads, with a `link` that browsers save; `command` that
        runs it; `needs`: files and packages needed first, in words; `set`: parameters of the
        mechanism that differ from their defaults, as text; `parameters`: table of all, with their
        meaning.
    """
    written = spec_yaml(spec)
    parts = list(_components(spec))
    fields_of = {(kind, part.name): _fields(kind, part.name) for kind, part in parts}
    strangers = [
        f"{kind} {part.name}" for kind, part in parts if fields_of[kind, part.name] is None
    ]
    needs = [f"{name} is no component of this installation: give the file that registers it, "
             "--plugin FILE" for name in dict.fromkeys(strangers)]  # fmt: skip
    needs += [
        f"{kind} {part.name} reads {exact(value)} (a file, a folder or a name on the hub): "
        f"it must be there, or change {name} in the spec"
        for kind, part in parts
        for name, value in part.params.items()
        if value and _is_path(name, value, fields_of[kind, part.name])
    ]
    differing = [f"{name} = {exact(value)}" for kind, part in parts if kind == "mechanism"
             for name, value in part.params.items()
             if not _at_default(name, value, fields_of[kind, part.name])]  # fmt: skip
    rows = [
        (kind, part.name, name, exact(value), _meaning(name, fields_of[kind, part.name]))
        for kind, part in parts
        for name, value in part.params.items()
    ]
    head = ("", "component", "parameter", "value", "meaning")
    return {
        "yaml": written,
        "link": f"data:text/yaml;charset=utf-8,{quote(written, errors='replace')}",
        "command": COMMAND,
        "needs": list(dict.fromkeys(needs)),
        "set": differing,
        "parameters": table("all parameters, defaults among them", head, rows),
    }


def spec_yaml(spec: RunSpec) -> str:
    """A spec as YAML that `uedp-bench run` reads; the run is the same, its id too."""
    import yaml

    # libyaml's is ten times as fast; wheels have it.
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    value = spec.model_dump(mode="json", exclude_none=False)
    for name, usual in (("selection", None), ("noise_source", "seed")):
        if value[name] == usual:
            del value[name]
    written: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=100)
    return written


def _components(spec: RunSpec) -> Iterator[tuple[str, ComponentSpec]]:
    yield from (("task", spec.task), ("source", spec.source), ("model", spec.model))
    yield from (("mechanism", part) for part in spec.mechanism)
    yield from (("attack", part) for part in spec.attacks)


def _fields(kind: str, name: str) -> dict[str, FieldInfo] | None:
    """Parameters of a component; None for a plug-in's that is not loaded."""
    from uedp_bench.components import registry
    from uedp_bench.spec.spec import NO_MODEL

    if kind == "model" and name == NO_MODEL:
        return {}
    kinds: dict[str, registry.Registry[Any]] = {
        "task": registry.tasks, "source": registry.sources, "model": registry.models,
        "mechanism": registry.mechanisms, "attack": registry.attacks,
    }  # fmt: skip
    try:
        fields: dict[str, FieldInfo] = kinds[kind].get(name).Params.model_fields
    except UedpBenchError:
        return None
    return fields


def _is_path(name: str, value: Any, fields: dict[str, FieldInfo] | None) -> bool:
    """True if a parameter names a file or folder, as far as one can tell without the component."""
    field = (fields or {}).get(name)
    if field is None:
        return name == "path"
    mark = next((part for part in field.metadata if isinstance(part, MayBePath)), None)
    if mark is not None:
        return value not in mark.words
    return Path in (field.annotation, *get_args(field.annotation))


def _at_default(name: str, value: Any, fields: dict[str, FieldInfo] | None) -> bool:
    field = (fields or {}).get(name)
    if field is None or field.is_required():
        return False
    default = field.get_default(call_default_factory=True)
    return bool(value == (list(default) if isinstance(default, tuple) else default))


def _meaning(name: str, fields: dict[str, FieldInfo] | None) -> str:
    field = (fields or {}).get(name)
    return "" if field is None else field.description or ""
