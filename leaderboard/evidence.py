"""Evidence for an auditor: results as one document, and the points of standards that it answers."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any

from uedp_bench.contracts.results import Result
from uedp_bench.io.yaml_files import load_yaml
from uedp_bench.leaderboard.board_cells import Sheet, sheets, shown
from uedp_bench.leaderboard.boards import boards, is_unprotected, labels, title
from uedp_bench.leaderboard.cell_text import seeds_text
from uedp_bench.leaderboard.comparisons import contradicts_proof, warnings
from uedp_bench.leaderboard.gate import PACKED, with_mechanisms
from uedp_bench.leaderboard.glossary import UNITS
from uedp_bench.leaderboard.installed import OLDER
from uedp_bench.leaderboard.rows import Row, aggregate, guarantees, headline
from uedp_bench.leaderboard.run_pages.detail_tables import ROWS, text
from uedp_bench.leaderboard.run_pages.in_words import no_leak_value, promise
from uedp_bench.leaderboard.run_pages.least_protected import (
    HEAD,
    USER_HEAD,
    exposure_groups,
    group_cells,
    user_group_cells,
)
from uedp_bench.leaderboard.run_pages.summary import card
from uedp_bench.leaderboard.sources import line_of
from uedp_bench.leaderboard.submission import environments


@dataclass(frozen=True)
class Section:
    """Part of a report.

    Attributes:
        title: title, by which points of standards refer to it.
        sentences: remarks before the tables.
        sheets: tables.
    """

    title: str
    sentences: tuple[str, ...] = ()
    sheets: tuple[Sheet, ...] = ()


@dataclass(frozen=True)
class _Entry:
    """A row of a report, its name, the rows of its board, and its results by seed."""

    row: Row
    label: str
    board: tuple[Row, ...]
    results: tuple[Result, ...]


def evidence(
    results: Sequence[Result], mechanisms: Sequence[str] = (), *, packed: bool = False
) -> tuple[Section, ...]:
    """Sections of a report, without a time or a path: the same results make the same ones.

    Args:
        results: results of any rows, the unprotected ones among them.
        mechanisms: mechanisms of the rows to report; all where empty.
        packed: True for results of a bundle, which holds no failed runs.

    Raises:
        UnknownNameError: if no row has a mechanism.
    """
    by_id = {result.id: result for result in results}
    rows = aggregate(results)
    tables, groups = boards(rows), {row.group for row in with_mechanisms(rows, mechanisms)}
    entries = [
        _Entry(
            row,
            label if len(tables) == 1 else f"{label} ({title(board)})",
            tuple(board),
            tuple(by_id[run.id] for run in row.runs),
        )
        for board in tables
        for row, label in zip(board, labels(board), strict=True)
    ]
    reported = [one for one in entries if one.row.group in groups]
    makers = (_units, _guarantees, _measurements, _least_protected, _data)
    sections = [_verdict(reported, packed), *(make(reported) for make in makers)]
    return (*sections, _hashes(entries), _standards(reported))


def _verdict(entries: Sequence[_Entry], packed: bool) -> Section:
    warned = warnings(_rows_beside(entries))
    cells = [
        (one.label, seeds_text(one.row),
         " ".join(filter(None, [*_sentences(one), warned.get(one.row.group)])))
        for one in entries
    ]  # fmt: skip
    return _section(
        "Verdict",
        [("row", "seeds", "verdict"), *cells],
        sentences=("All numbers are those of the results: uedp-bench leaderboard validate computes "
                   "guarantees and lower bounds again, from events and scores.",
                   *([f"Of failed runs in bundles, {PACKED}."] if packed else [])),
    )  # fmt: skip


def _rows_beside(entries: Sequence[_Entry]) -> list[Row]:
    """All rows of the boards of the entries, once each."""
    return list({row.group: row for one in entries for row in one.board}.values())


def _sentences(entry: _Entry) -> Iterator[str]:
    row = entry.row
    failures = [f"seed {run.seed}: {run.error}" for run in row.failed]
    failures += [f"{each.name}: {each.reason}" for each in row.failed_attacks]
    facts = {name for name, holds in FACTS.items() if holds(row)}
    if not row.seeds:
        yield "No verdict: no run finished."
    else:
        proof = f"; no attack {'refutes' if 'tested' in facts else 'tested'} the proof"
        if contradicts_proof(row):
            proof = "; an attack contradicts the proof"
        proof = proof if "proven" in facts else ""
        refuted = any(one.status == "refuted" for one in row.guarantees)
        yield "An attack refutes what is claimed." if refuted else ""
        yield f"{promise(row.guarantees)}{proof}."
        leaks = _leaks(entry)
        above = [f"{name} ({', '.join(labels)})" for name, labels in leaks.items() if labels]
        yield f"Above chance at 95 %: {'; '.join(above)}." if above else ""
        if not above and [] in leaks.values():
            yield "No attack that is compared with chance surely finds more."
        unknown = [name for name, labels in leaks.items() if labels is None]
        yield f"Not compared with chance: {', '.join(unknown)}." if unknown else ""
        yield "" if leaks else "No attack ran."
    if row.learned is False:
        yield "It learned nothing: its utility is no better than that of a floor."
    if failures:
        yield f"Failed: {'; '.join(failures)}."
    if row.older_code:
        yield f"Made by {OLDER}."


def _leaks(entry: _Entry) -> dict[str, list[str] | None]:
    """Labels of metrics above their values of no leak by attack; None where none is compared.

    The board's verdict decides where it has one. A metric is above by its interval over seeds, or
    by those of all runs.
    """
    row = entry.row
    leaks: dict[str, list[str] | None] = {}
    for attack, stats in row.leakage.items():
        if attack in row.leaks:
            leaks[attack] = ["tells users apart"] if row.leaks[attack] else []
            continue
        compared: dict[str, bool] = {}
        for metric in shown([row], attack):
            nothing = no_leak_value(metric, stats)
            lows = [stats[metric.name].low]
            lows += [result.leakage[attack][metric.name].low for result in entry.results
                     if metric.name in result.leakage.get(attack, {})]  # fmt: skip
            if (
                metric.better == "lower"
                and nothing is not None
                and any(low is not None for low in lows)
            ):
                above = [low is not None and low > nothing for low in lows]
                compared[metric.label] = above[0] or all(above[1:])
        leaks[attack] = [name for name, high in compared.items() if high] if compared else None
    return leaks


def _units(entries: Sequence[_Entry]) -> Section:
    cells = [
        (one.label, g.unit, UNITS.get(g.unit, g.unit), g.adjacency,
         *(text(one.row.public_sizes.get(name)) for name in ("unit", "declared", "training")))
        for one in entries
        for g in {(g.unit, g.adjacency): g for g in one.row.guarantees}.values()
    ]  # fmt: skip
    head = ("row", "unit", "one change protects", "neighbours differ by", "counted", "declared",
            "that train")  # fmt: skip
    return _section("Units", [head, *cells])


def _guarantees(entries: Sequence[_Entry]) -> Section:
    cells, bases = [], dict[str, list[str]]()
    for one in entries:
        for g in one.row.guarantees:
            seen = card(g, one.row.epsilon_at)
            facts = dict(seen.facts)
            entities = f"for entities {facts['for entities']}" if g.curve else ""
            notes = "; ".join(filter(None, [seen.status, seen.reason, seen.note, entities]))
            cells.append((one.label, seen.kind, seen.epsilon, seen.unit, g.adjacency, facts["δ"],
                          facts["notion"], g.accountant, notes))  # fmt: skip
            for assumption in g.assumptions:
                bases.setdefault(assumption, []).append(f"{one.label}: {seen.kind}")
    head = ("row", "kind", "ε", "unit", "neighbours differ by", "δ", "notion", "accountant",
            "status")  # fmt: skip
    return _section(
        "Guarantees",
        [head, *cells],
        [("assumption", "what rests on it"),
         *((each, "; ".join(dict.fromkeys(names))) for each, names in bases.items())],
        sentences=("Claimed: as a paper computes it. Proven: computed from recorded events, by an "
                   "accountant whose assumptions stand below.",),
    )  # fmt: skip


def _measurements(entries: Sequence[_Entry]) -> Section:
    """Tables of the boards, the unprotected rows among them, as the leaderboard shows them."""
    return Section(
        "Utility and attacks",
        ("Each interval is of 95 % by itself: of forty attacks that find nothing, one looks as if "
         "it did.",),
        tuple(sheets(_rows_beside(entries))),
    )  # fmt: skip


def _least_protected(entries: Sequence[_Entry]) -> Section:
    """Exposure by group of canaries, and membership by group of users, of all seeds of a row."""
    canaries, users = list[tuple[object, ...]](), list[tuple[object, ...]]()
    for one in entries:
        for attack in one.row.leakage:
            details = [result.details.get(attack, {}) for result in one.results]
            groups = exposure_groups(details, one.row.guarantees)
            canaries += [(one.label, attack, *cells) for cells in group_cells(groups)]
            users += [(one.label, attack, *cells) for cells in user_group_cells(details)[:ROWS]]
    return _section(
        "Least protected",
        [("row", "attack", *HEAD), *canaries],
        [("row", "attack", *USER_HEAD), *users],
        sentences=("Chance alone marks any group of an attack on a row in 5 % of all cases at "
                   "most. Single users are not compared: results hold no score of one.",),
    )  # fmt: skip


def _data(entries: Sequence[_Entry]) -> Section:
    data, parts = [], dict[tuple[str, ...], list[str]]()
    for one in entries:
        finished = [each for each in one.results if each.status == "finished"]
        spec, provenance = one.row.spec, (finished or one.results)[0].provenance
        sizes = provenance.get("corpus")
        facts = sizes if isinstance(sizes, Mapping) else {}
        data.append((
            one.label, one.row.corpus, *map(facts.get, ("planted_fingerprint", "train_rows",
            "users")), one.row.vocabulary, {"os": "secret"}.get(spec.noise_source, "from a seed"),
        ))  # fmt: skip
        versions = _component_versions(provenance.get("identity"))
        for part in (spec.source, spec.task, spec.model, *spec.mechanism, *spec.attacks):
            parameters = json.dumps(part.params, sort_keys=True, ensure_ascii=False)
            key = part.name, text(versions.get(part.name)), parameters
            parts.setdefault(key, []).append(one.label)
    results = [result for one in entries for result in one.results]
    return _section(
        "Data and versions",
        [("row", "corpus", "with canaries", "training rows", "users", "vocabulary", "noise"),
         *data],
        [("computed with", "runs"), *environments(results).most_common()],
        [("component", "version", "parameters", "rows"),
         *((*key, "; ".join(dict.fromkeys(names))) for key, names in parts.items())],
        sentences=("Fingerprints are hashes of the data. They and the numbers of rows and users "
                   "are exact, and protected by no guarantee.",),
    )  # fmt: skip


def _component_versions(identity: Any) -> dict[str, Any]:
    """Versions of components by name, as an identity records them."""
    parts = list(identity.values()) if isinstance(identity, Mapping) else []
    parts += [each for part in parts if isinstance(part, list) for each in part]
    return {
        part[0]: part[1]
        for part in parts
        if isinstance(part, list) and len(part) > 1 and isinstance(part[0], str)
    }


def _hashes(entries: Sequence[_Entry]) -> Section:
    """Hashes of all results as they are packed, also of rows that others are held against."""
    lines = {
        result.id: (one.label, result.spec.seed, result.status,
                    f"{line_of(result.model_copy(update={'tracking': {}}))}\n")
        for one in entries
        for result in one.results
    }  # fmt: skip
    cells = [(label, seed, name, status, _digest(line))
             for name, (label, seed, status, line) in lines.items()]  # fmt: skip
    packed = [lines[name][-1] for name in sorted(lines) if lines[name][2] == "finished"]
    return _section(
        "Hashes of results",
        [("row", "seed", "result", "status", "SHA-256"), *cells],
        sentences=(
            "Of one result: its line in a bundle (leaderboard pack): gunzip -c BUNDLE | sed -n 1p "
            "| sha256sum.",
            f"Of all that finished, as the lines of one bundle: {_digest(''.join(packed))}",
        ),
    )


def _digest(lines: str) -> str:
    return sha256(lines.encode("ascii")).hexdigest()


# ------------------------------------------------------------------------------------ standards


def standards() -> dict[str, list[dict[str, Any]]]:
    """Points by standard; `standards.yaml` explains their fields."""
    file = files("uedp_bench.leaderboard") / "standards.yaml"
    points: dict[str, list[dict[str, Any]]] = load_yaml(file.read_text(encoding="utf-8"))
    return points


FACTS: Mapping[str, Callable[[Row], bool]] = {
    "guarantee": lambda row: any(math.isfinite(g.epsilon) for g in row.guarantees),
    "proven": lambda row: any(
        g.kind == "proven" and g.status == "given" and g.notion in ("dp", "metric-dp")
        and math.isfinite(g.epsilon)
        for g in row.guarantees
    ),
    "dp": lambda row: bool(guarantees(row, "proven")),
    "refuted": lambda row: (
        any(g.status == "refuted" for g in row.guarantees) or contradicts_proof(row)
    ),
    "bound": lambda row: any(
        bound.unit == g.unit or (bound.unit, g.unit) == ("user", "user-entity")
        for bound in row.lower_bounds
        for g in row.guarantees
        if math.isfinite(g.epsilon)
    ),
    "membership": lambda row: bool(row.leaks),
    "tested": lambda row: (
        FACTS["bound"](row)
        or bool(row.leaks and [*guarantees(row, "proven", "user"),
                               *guarantees(row, "proven", "record")])
    ),
    "leak": lambda row: any(row.leaks.values()),
    "utility": lambda row: headline(row)[0] in row.utility,
    "secret noise": lambda row: row.spec.noise_source == "os",
}  # fmt: skip
"""Facts of a row that points of standards need."""


def _standards(entries: Sequence[_Entry]) -> Section:
    protected = [one for one in entries if not is_unprotected(one.row)] or entries
    tables = [
        [(name, "asks", "this report", "section", "left to others"),
         *((each["point"], each["asks"], *_answer(each, protected), each.get("open"))
           for each in points)]
        for name, points in standards().items()
    ]  # fmt: skip
    return _section(
        "Points of standards",
        *tables,
        sentences=("The words are ours. Rows without protection are left out.",),
    )


def _answer(point: Mapping[str, Any], entries: Sequence[_Entry]) -> tuple[str, str]:
    """Answer to a point, and the section that has it."""
    needs, section = point.get("needs", ()), point.get("see", "")
    if not needs:
        return "not answered", ""
    against = [one.label for one in entries
               if any(FACTS[name](one.row) for name in point.get("against", ()))]  # fmt: skip
    if against:
        return f"evidence against it: {'; '.join(against)}", section
    lacking = [one.label for one in entries if not all(FACTS[name](one.row) for name in needs)]
    if len(lacking) == len(entries):
        return "no evidence in these results", ""
    if lacking:
        return f"evidence, but not for: {'; '.join(lacking)}", section
    return ("evidence in part" if "open" in point else "evidence"), section


def _section(name: str, *tables: Sequence[Sequence[Any]], sentences: Sequence[str] = ()) -> Section:
    """Section of tables, whose first lines are heads; empty ones are left out."""
    filled = tuple(
        Sheet("", tuple(head), tuple(tuple(map(text, cells)) for cells in rows))
        for head, *rows in tables
        if rows
    )
    remarks = sentences if filled else (*sentences, "These results have none.")
    return Section(name, tuple(remarks), filled)
