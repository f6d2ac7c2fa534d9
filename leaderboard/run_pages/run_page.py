"""Contents of a run's page: everything in its result, in the order of readers' questions.

Samples of what leaked: planted texts that a release gives back, and text that attacks read.

Attacks invent what they plant from public words, so those samples show nobody's text. Text that
they read is in a result only where it is generated, or where its owner lets it be shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from pydantic import BaseModel, TypeAdapter

from uedp_bench.contracts.results import Result, Sample
from uedp_bench.leaderboard.boards import is_generated
from uedp_bench.leaderboard.cell_text import number, stat_text
from uedp_bench.leaderboard.index_page import in_script, run_page
from uedp_bench.leaderboard.installed import is_older, result_metrics
from uedp_bench.leaderboard.rows import Row
from uedp_bench.leaderboard.run_pages import run_figures, summary
from uedp_bench.leaderboard.run_pages.attack_figures import attack_figures
from uedp_bench.leaderboard.run_pages.detail_tables import (
    Table,
    repeat,
    shaped,
    table,
    tables,
    text,
    words,
)
from uedp_bench.leaderboard.run_pages.figures import Figure
from uedp_bench.leaderboard.run_pages.in_words import Sentence, in_words
from uedp_bench.leaderboard.run_pages.least_protected import (
    least_protected,
    least_protected_users,
)
from uedp_bench.leaderboard.run_pages.summary import floor_cells, readings, tiles
from uedp_bench.leaderboard.validation.receipts import receipt
from uedp_bench.one_run.preparing import NOTE

MOST = 5
"""Samples of an attack; all canaries stand in its section."""


class _Planted(BaseModel):
    text: str
    rank: int
    exposure: float
    kind: str = "canary"
    occurrences: int | None = None
    beam_search: bool | None = None


_PLANTED = TypeAdapter(list[_Planted])


def samples(result: Result) -> dict[str, tuple[Table, ...]]:
    """Tables of samples of all attacks of a run.

    Returns:
        `planted`: texts that attacks planted and the release gives back; `read`: private texts
        beside the readings of attacks.
    """
    return {"planted": tuple(_planted(result.details)), "read": tuple(_read(result.samples))}


def _read(samples: Mapping[str, Sequence[Sample]]) -> Iterator[Table]:
    """A table for every attack that read something."""
    head = ("private text", "what the attacker saw", "what it read, and rightly")
    for attack, read in samples.items():
        if read:
            yield table(attack, head, [(one.private, one.seen, one.read) for one in read])


def _planted(details: Mapping[str, Any]) -> Iterator[Table]:
    """A table for every attack whose planted texts the release gives back, the rarest first."""
    for attack, attack_details in details.items():
        canaries = attack_details.get("canaries") if isinstance(attack_details, Mapping) else None
        planted = shaped(_PLANTED, canaries)
        # First among all references, or said by the model itself.
        back = [one for one in planted or () if one.rank == 1 or one.beam_search]
        back.sort(key=lambda one: (not one.beam_search, one.occurrences or 0, one.text))
        rows = [
            (
                one.text, one.kind, "–" if one.occurrences is None else one.occurrences,
                "says it when asked for what follows its beginning" if one.beam_search
                else "prefers it to all references",
                f"{number(one.exposure)} bits",
            )
            for one in back[:MOST]
        ]  # fmt: skip
        if rows:
            head = ("planted text", "kind", "times in training", "the model", "exposure")
            caption = f"{attack}: {len(back)} of {len(planted or ())} planted texts come back"
            yield table(caption, head, rows, numbers=(2, 4))


_ROWS = (
    ("declared", "declared: what the guarantee is about, and the noise is planned for"),
    ("training", "training, once other splits and held-out users have left (simulation only)"),
    ("planned_per_round", "a round, as planned"),
    ("expected_per_round", "a round, as expected of those that train (simulation only)"),
)


def taking_part(result: Result) -> Table | None:
    """Table of the run's notes on its units; None without readable notes."""
    noted: Any = result.diagnostics.get(NOTE)
    if not isinstance(noted, Mapping):
        return None
    rows = [
        (what, f"{noted[name]:,.6g}")
        for name, what in _ROWS
        if isinstance(noted.get(name), int | float)
    ]
    unit = noted.get("unit")
    named = unit if isinstance(unit, str) else "units"
    return table(f"{named} that take part", (named, "number"), rows, numbers=(1,)) if rows else None


class _Figures:
    """The figures of a page, numbered as they come."""

    def __init__(self) -> None:
        self.all: dict[str, Figure] = {}

    def add(self, figures: Sequence[Figure]) -> tuple[str, ...]:
        """Their ids."""
        ids = tuple(f"figure-{len(self.all) + at}" for at in range(1, len(figures) + 1))
        self.all |= dict(zip(ids, figures, strict=True))
        return ids


def run_context(result: Result, row: Row, beside: Sequence[Sentence] = ()) -> dict[str, Any]:
    """The template's values, and under `data` what its script draws.

    Args:
        result: result of the run.
        row: row of the leaderboard to which the run belongs.
        beside: sentences on the row's place in its table.
    """
    figures = _Figures()
    context = {
        "result": result,
        "label": result.label,
        "seeds": _seeds(result, row),
        "mechanisms": list(dict.fromkeys(part.name for part in result.spec.mechanism)),
        "links": _links(row),
        "repeat": repeat(result.spec),
        "receipt": receipt(result) if result.status == "finished" else "",
        "in_words": (*in_words(result), *beside),
        "samples": samples(result),
        "source_generated": is_generated(result.spec),
        "summary": tiles(result, row),
        "finished": len(row.seeds),
        "cards": [summary.card(one, row.epsilon_at) for one in result.guarantees],
        "curves": figures.add(run_figures.curves(result)),
        "bounds": summary.bounds(result.lower_bounds),
        "events": summary.events(result.events),
        "raw_events": json.dumps(
            [event.model_dump(mode="json") for event in result.events], indent=1, ensure_ascii=False
        ),
        "utility": readings(row.metrics, "utility", result.utility, row.utility),
        "learned": result.learned,
        "older": is_older(result.provenance.get("identity")),
        "floors": _floors(result),
        "taking_part": taking_part(result),
        "attacks": _attacks(result, row, figures),
        "training": figures.add(run_figures.training(result)),
        "diagnostics": _diagnostics(result),
        "diagnosed": figures.add(run_figures.diagnostics(result)),
        "selection": tables(result.selection, "selection of hyper-parameters"),
        "pretraining": _stages(result),
        "costs": figures.add(run_figures.cost(result)),
        "cost": _cost(result, row),
        "provenance": [
            _identity(result),
            *tables(result.stored, "what the folder of the run holds of private data"),
            *tables(result.provenance, "where it comes from"),
        ],
        "raw": in_script(result.model_dump_json(indent=1)),
    }
    context["figures"] = figures.all
    context["data"] = {
        "figures": [
            {"id": key, "title": one.title, "about": one.about, "figure": one.figure}
            for key, one in figures.all.items()
        ]
    }
    return context


def _stages(result: Result) -> list[Table]:
    """Training on public text; of a run with more stages than that, all of them."""
    if result.stages is None:
        return tables(result.pretraining, "pretraining on public text")
    rows = [
        (
            stage.role if stage.role != "downstream" else "downstream, outside the guarantee",
            stage.stage,
            "second source" if stage.rows_of == "downstream" else "source",
            stage.rows,
            ", ".join(f"{name} {text(value)}" for name, value in stage.schedule.items()),
        )
        for stage in result.stages
    ]
    return [table("training stages", ("role", "mechanism", "rows of", "rows", "schedule"), rows)]


def _floors(result: Result) -> Table:
    """Values that need no private text, or next to none, beside what the run reached."""
    name = result.headline.metric if result.headline else ""
    label = result_metrics(result).metric("utility", name).label
    return table(f"floors of {label}", ("floor", label), list(floor_cells(result)), numbers=(1,))


def _seeds(result: Result, row: Row) -> list[dict[str, Any]]:
    return [
        {
            "seed": run.seed,
            "page": run_page(run.id),
            "here": run.id == result.id,
            "failed": run.status != "finished",
        }
        for run in row.runs
    ]


def _identity(result: Result) -> Table:
    rows = [
        ("id", result.id),
        ("group: the same without the seed", result.group),
        ("schema version", result.schema_version),
    ]
    return table("this result", ("field", "value"), rows)


def _links(row: Row) -> dict[str, str]:
    """The leaderboard with this row picked, and with the rows that it may compare with."""
    spec = row.spec
    return {
        "compare": f"table.html#{urlencode({'view': 'compare', 'rows': row.group})}",
        "table": f"table.html#{urlencode({'task': spec.task.name, 'source': spec.source.name})}",
    }


# ----------------------------------------------------------------------------------------- attacks


def _attacks(result: Result, row: Row, figures: _Figures) -> list[dict[str, Any]]:
    """Attacks: metrics, figures, what else each kept, and what to know about it."""
    parts = []
    names = dict.fromkeys([*result.leakage, *result.details])
    for at, name in enumerate(names, 1):
        metrics = result.leakage.get(name, {})
        details = result.details.get(name, {})
        drawn = [
            *attack_figures(details, metrics),
            *least_protected(details, result.guarantees),
            *least_protected_users(details),
        ]
        notes = details.get("notes")
        readable = isinstance(notes, list) and all(isinstance(note, str) for note in notes)
        hidden = {key for figure in drawn for key in figure.draws}
        hidden |= {"notes"} if readable else set()
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower())[:40]
        parts.append({
            "name": name,
            "anchor": f"attack-{at}-{slug}",
            "readings": readings(
                row.metrics, "leakage", metrics, row.leakage.get(name, {}), name),
            "figures": figures.add(drawn),
            "tables": tables(_without(details, hidden), ""),
            "notes": notes if readable else (),
        })  # fmt: skip
    return parts


def _without(value: Any, hidden: set[str]) -> Any:
    """A nested value without what figures show."""
    if not isinstance(value, Mapping):
        return value
    return {key: _without(part, hidden) for key, part in value.items() if key not in hidden}


# -------------------------------------------------------------------------- diagnostics and cost


def _diagnostics(result: Result) -> list[Table]:
    only = run_figures.simulated(result)
    flat = {key: value for key, value in result.diagnostics.items()
            if key != "simulation_only" or not only}  # fmt: skip
    nested = {key: value for key, value in flat.items() if isinstance(value, dict)}
    rows = [(words(key), text(value), "no: simulation only" if key in only else "yes")
            for key, value in flat.items() if key not in nested]  # fmt: skip
    elsewhere = sorted(name for name in only if name not in flat)
    drawn = run_figures.drawable(result.diagnostics)
    left = {key: value for key, value in nested.items() if key not in drawn}
    candidates = [
        table("", ("diagnostic", "value", "could a deployment print it?"), rows, numbers=(1,)),
        table("", ("simulation only, too",), [(name,) for name in elsewhere]),
        *tables(left, ""),
    ]
    return [one for one in candidates if one.rows]


def _cost(result: Result, row: Row) -> Table:
    only = run_figures.simulated(result)
    rows = [
        (
            words(name),
            text(int(value) if isinstance(value, float) and value.is_integer() else value),
            f"{stat_text(row.cost[name])} (n = {row.cost[name].n})" if name in row.cost else "",
            "simulation only" if f"cost.{name}" in only else "",
        )
        for name, value in result.cost.model_dump().items()
    ]  # fmt: skip
    return table("cost", ("measure", "this run", "mean over seeds", "remark"), rows, numbers=(1, 2))
