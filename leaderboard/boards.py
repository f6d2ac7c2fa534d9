"""Boards: sets of rows whose utility compares, and what tells the rows of a board apart."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.components.registry import Registry, mechanisms, sources
from uedp_bench.contracts.mechanism import Mechanism
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.source import Source
from uedp_bench.errors import UedpBenchError
from uedp_bench.leaderboard.rows import Row, by_vocabulary, guarantees


def boards(rows: Sequence[Row]) -> list[list[Row]]:
    """Rows whose utility compares: same task, source, model, corpus, vocabulary and headline."""
    by_key: dict[tuple[str, ...], list[Row]] = {}
    # Rows that failed before their fingerprints were known join a board of the same source.
    for row in sorted(rows, key=lambda row: not row.seeds):
        others = () if row.seeds else by_key.values()
        board = next((board for board in others if _alike(row, board[0])), None)
        if board is None:
            by_key[_key(row)] = board = by_key.get(_key(row), [])
        board.append(row)
    return list(by_key.values())


def _key(row: Row) -> tuple[str, ...]:
    spec = row.spec
    # Without a fingerprint, only equal parameters promise an equal corpus.
    corpus = row.corpus or spec.source.model_dump_json()
    task = spec.task.model_dump_json()
    words = (row.vocabulary or "") if by_vocabulary(row) else ""
    ranked_by = "" if row.headline is None else row.headline.model_dump_json()
    return task, spec.source.name, spec.model.name, corpus, words, ranked_by


def generated(board: Sequence[Row]) -> bool:
    """See `is_generated`: of all rows of a board."""
    return is_generated(board[0].spec)


def is_generated(spec: RunSpec) -> bool:
    """True if the source declares that its text is invented; an unknown one does not."""
    source = _source(spec)
    return source is not None and source.generated


def is_unprotected(row: Row) -> bool:
    """True if one mechanism alone made the row, and declares that it protects nothing."""
    names = [part.name for part in row.spec.mechanism]
    mechanism: type[Mechanism[Any]] | None = _installed(mechanisms, names[0]) if names else None
    return len(names) == 1 and mechanism is not None and mechanism.unprotected


def _source(spec: RunSpec) -> type[Source[Any]] | None:
    source: type[Source[Any]] | None = _installed(sources, spec.source.name)
    return source


def _installed(kind: Registry[Any], name: str) -> Any:
    """Class of a component; None if it is not installed."""
    try:
        return kind.get(name)
    except UedpBenchError:
        return None


def real_first(unsorted: Sequence[list[Row]]) -> list[list[Row]]:
    """Sort boards of real text before those of generated text."""
    return sorted(unsorted, key=generated)


def identity(board: Sequence[Row]) -> str:
    """A short digest of what the rows of a board share; it stays when other boards come and go."""
    return hashlib.sha256(repr(_key(board[0])).encode()).hexdigest()[:10]


def _alike(row: Row, other: Row) -> bool:
    mine, its = row.spec, other.spec
    return (mine.task, mine.source, mine.model.name) == (its.task, its.source, its.model.name)


def data_title(row: Row) -> str:
    """Title of a row's data that its source declares, or else the name of its data."""
    source = _source(row.spec)
    return (source.title if source is not None else "") or _data_name(row)


def _data_name(row: Row) -> str:
    """Name of a row's source; of a source that reads any file, the name of the file."""
    ref, source = row.spec.source, _source(row.spec)
    if source is None or source.title:
        return ref.name
    path = ref.params.get("path")
    if isinstance(path, str) and path:
        return re.split(r"[\\/]", path.rstrip("\\/"))[-1]
    return f"{ref.name} {row.corpus[:8]}" if row.corpus else ref.name


def title(board: Sequence[Row]) -> str:
    """Task, source and model of a board, with the fingerprints that keep it apart from others."""
    spec = board[0].spec
    corpora = " then ".join(each[:8] for each in (board[0].corpus or "").split("+"))
    corpus = f" (corpus {corpora})" if corpora else ""
    shown = board[0].vocabulary if by_vocabulary(board[0]) else None
    words = f" (vocabulary {shown[:8]})" if shown else ""
    target = spec.task.params.get("target", "label")
    task = spec.task.name if target == "label" else f"{spec.task.name} of {target}"
    return f"{task} on {_data_name(board[0])}{corpus}, {spec.model.name}{words}"


def labels(board: Sequence[Row]) -> list[str]:
    """Mechanism names, with the parameters in which rows of one name differ.

    The epsilon that a multiplier of noise proves stands in its place, unless two rows would have
    the same label.
    """
    distinctions = differences(board)
    # A row names the unit that its mechanism protects before those that follow from it.
    proofs = [
        min(guarantees(row, "proven"), key=row.guarantees.index, default=None) for row in board
    ]
    units: dict[str, set[str]] = {}
    for row, proof in zip(board, proofs, strict=True):
        units.setdefault(row.label, set()).update({proof.unit} if proof else ())
    by_epsilon = [
        _label(row, _with_epsilon(differing, proof, several=len(units[row.label]) > 1))
        for row, differing, proof in zip(board, distinctions, proofs, strict=True)
    ]
    alike = Counter(by_epsilon)
    return [
        label if alike[label] == 1 else _label(row, differing)
        for row, label, differing in zip(board, by_epsilon, distinctions, strict=True)
    ]


def _label(row: Row, differing: Mapping[str, Any]) -> str:
    shown = ", ".join(
        f"{key.rpartition('.')[2]}={_brief(value)}" for key, value in differing.items()
    )
    return f"{row.label} ({shown})" if shown else row.label


def _with_epsilon(
    differing: Mapping[str, Any], proof: Guarantee | None, *, several: bool
) -> dict[str, Any]:
    """Parameters in which a row differs; its proven epsilon for a multiplier of noise."""
    if proof is None:
        return dict(differing)
    name = f"proven {proof.unit} ε" if several else "proven ε"  # no two units compare
    return {
        name if noise else key: f"{proof.epsilon:.3g}" if noise else value
        for key, value in differing.items()
        for noise in [key.endswith(".noise_multiplier")]
    }


def differences(board: Sequence[Row]) -> list[dict[str, Any]]:
    """The dotted parameters in which each row differs from rows of the same label."""
    flat = [parameters(row) for row in board]
    alike: dict[str, list[dict[str, Any]]] = {}
    for row, mine in zip(board, flat, strict=True):
        alike.setdefault(row.label, []).append(mine)
    varying = {label: _varying(group) for label, group in alike.items()}
    # A row that lacks a parameter differs from the rows that have it.
    return [
        {key: mine[key] for key in mine if key in varying[row.label] and mine[key] is not None}
        for row, mine in zip(board, flat, strict=True)
    ]


def _varying(group: Sequence[dict[str, Any]]) -> set[str]:
    keys = dict.fromkeys(key for mine in group for key in mine)
    return {key for key in keys if len({repr(mine.get(key)) for mine in group}) > 1}


def parameters(row: Row) -> dict[str, Any]:
    """Dotted names and values of all that may differ between rows of a board."""
    spec = row.spec
    clients = {} if spec.clients is None else spec.clients.model_dump()
    parts = [("model", spec.model)]
    parts += [(f"mechanism{i}.{m.name}", m) for i, m in enumerate(spec.mechanism)]
    parts += [(f"attack{i}.{a.name}", a) for i, a in enumerate(spec.attacks)]
    return {
        "delta": spec.delta,
        "noise": spec.noise_source,
        "selection": "none" if spec.selection is None else spec.selection.repetitions,
        **{f"clients.{key}": value for key, value in clients.items()},
        **{f"{kind}.{key}": value for kind, ref in parts for key, value in ref.params.items()},
    }


def _brief(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
