"""YAML of anybody: plain values only, and no more of them than a spec has use for.

YAML says much in few characters: an alias repeats what it names, and aliases of aliases multiply.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml
from yaml.reader import ReaderError

from uedp_bench.errors import InputError, plain

MOST_BYTES = 256 * 2**10
"""Largest size of a YAML file; the largest packaged spec has 4 KiB."""

MOST_NODES = 10_000
"""Most values, lists and mappings of a text; each alias counts as its content."""

MOST_DEPTH = 50
"""Most levels of lists and mappings."""

MOST_WHOLE = 2**63 - 1
"""The largest whole number; its negative is the smallest."""

MOST_SHOWN = 80
"""Characters of a text that a message repeats."""


def load_yaml(text: str) -> Any:
    """Load a YAML text: None, truth values, numbers, texts, lists, mappings with text keys.

    Raises:
        InputError: in one clause with the line, if it is not YAML, holds anything else (a date, a
            number that no program could use), names a key twice, or is too large or too deep.
    """
    if len(text) > MOST_BYTES:
        raise InputError(f"has more than {MOST_BYTES // 2**10} KiB")
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        return None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or "is not YAML"
        raise InputError(f"{_place(mark)}{plain(problem, 3 * MOST_SHOWN)}") from None
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(f"line {line}: the character {ascii(text[error.position])[1:-1]} is not "
                         "allowed; write it as an escape in double quotes") from None  # fmt: skip


def _place(mark: yaml.Mark | None) -> str:
    return "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "


def _refuse(node: yaml.Node, what: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=node.start_mark)


class _Loader(yaml.SafeLoader):
    """Loader that refuses too large a text while it is read, before anything is built from it."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[int, int] = {}
        self._nodes: list[yaml.Node] = []  # holds what the ids of `_sizes` stand for

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node, within the limits."""
        alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if node is None:
            return None
        if alias and id(node) not in self._sizes:
            raise _refuse(node, "an alias stands inside of what it repeats")
        if not alias:
            self._nodes.append(node)
            self._sizes[id(node)] = self._size(node)
        return node

    def compose_sequence_node(self, anchor: Any) -> yaml.SequenceNode:
        """A list, unless it is nested too deeply."""
        self._check_depth()
        return super().compose_sequence_node(anchor)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """A mapping, unless it is nested too deeply."""
        self._check_depth()
        return super().compose_mapping_node(anchor)

    def _check_depth(self) -> None:
        if self._depth > MOST_DEPTH:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(
                problem=f"is nested deeper than {MOST_DEPTH} levels", problem_mark=event.start_mark
            )

    def _size(self, node: yaml.Node) -> int:
        """Nodes in a node, itself among them; those of its parts are known."""
        parts: list[yaml.Node] = []
        if isinstance(node, yaml.SequenceNode):
            parts = node.value
        elif isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        size = 1 + sum(self._sizes[id(part)] for part in parts)
        if max(size, len(self._nodes)) > MOST_NODES:
            raise _refuse(
                node, f"has more than {MOST_NODES:,} values (an alias counts as what it repeats)"
            )
        return size

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        """A mapping, each key of which is a text that is there once."""
        if not isinstance(node, yaml.MappingNode):
            raise _refuse(node, "is marked as a mapping and is none")
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise _refuse(key, f"the key {_written(key)} is no text; write it in quotes")
            if key.value in seen:
                raise _refuse(key, f"the key {plain(key.value, MOST_SHOWN)!r} is there twice")
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)


def _written(node: yaml.Node) -> str:
    """A node as messages repeat it."""
    if isinstance(node, yaml.ScalarNode):
        return plain(repr(node.value), MOST_SHOWN)
    return "{...}" if isinstance(node, yaml.MappingNode) else "[...]"


def _construct_text(loader: _Loader, node: yaml.ScalarNode) -> str:
    value = str(loader.construct_scalar(node))
    if not value.isascii():
        try:
            # JSON writes a character beyond the first 65,536 as two halves, each an escape.
            value = value.encode("utf-16", "surrogatepass").decode("utf-16")
        except UnicodeDecodeError:
            raise _refuse(node, f"{_written(node)} has half of a character") from None
    if "\0" in value:
        raise _refuse(node, f"{_written(node)} has a null character")
    return value


def _construct_number(loader: _Loader, node: yaml.ScalarNode) -> int | float:
    kind = node.tag.rpartition(":")[2]
    written = _written(node)
    try:
        if kind == "float":
            return float(loader.construct_yaml_float(node))
        value = int(loader.construct_yaml_int(node))
    except (ValueError, IndexError, OverflowError, yaml.YAMLError):
        raise _refuse(node, f"{written} is not a number that can be read") from None
    if abs(value) > MOST_WHOLE:
        raise _refuse(node, f"{written} is beyond the largest whole number, {MOST_WHOLE}")
    return value


def _construct_truth(loader: _Loader, node: yaml.ScalarNode) -> bool:
    try:
        return bool(loader.construct_yaml_bool(node))
    except (KeyError, yaml.YAMLError):
        raise _refuse(node, f"{_written(node)} is neither true nor false") from None


def _refuse_tag(loader: _Loader, node: yaml.Node) -> Any:
    raise _refuse(
        node,
        f"{plain(node.tag.removeprefix('tag:yaml.org,2002:'), MOST_SHOWN)} is no kind of value "
        "here; write numbers, true, false, null, texts (dates in quotes), lists and mappings",
    )


_PLAIN = {"null", "seq", "map"}
for _tag in tuple(_Loader.yaml_constructors):
    if _tag is not None and _tag.rpartition(":")[2] not in _PLAIN:
        _Loader.add_constructor(_tag, _refuse_tag)
_Loader.add_constructor(None, _refuse_tag)
for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _construct_number)
_Loader.add_constructor("tag:yaml.org,2002:str", _construct_text)
_Loader.add_constructor("tag:yaml.org,2002:bool", _construct_truth)
