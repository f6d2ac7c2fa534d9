"""What the tables say, as plain text cells: one pair of sheets for every set of comparable rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.leaderboard.boards import boards, labels, title
from uedp_bench.leaderboard.metrics import metric
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.results import LowerBound

NONE = "–"


@dataclass(frozen=True)
class Sheet:
    """A table of text. The first column is the mechanism, the others are numbers.

    Attributes:
        title: what it shows, and of what.
        notes: lines that belong under it.
    """

    title: str
    columns: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


Column = tuple[str, Callable[[Row], str]]


def sheets(rows: Sequence[Row]) -> list[Sheet]:
    """Two sheets (utility and guarantee; leakage and cost) for every comparable set of rows."""
    out = []
    for board in boards(rows):
        names = labels(board)
        for name, columns, notes in (
            ("utility and guarantee", _left(board), _left_notes(board)),
            ("leakage and cost", _right(board), _right_notes(board)),
        ):
            cells = tuple(
                (label, *(cell(row) for _, cell in columns))
                for label, row in zip(names, board, strict=True)
            )
            heads = ("mechanism", *(head for head, _ in columns))
            out.append(Sheet(f"{title(board)}: {name}", heads, cells, notes))
    return out


# ----------------------------------------------------------------------------------------- columns


def _left(board: Sequence[Row]) -> list[Column]:
    columns: list[Column] = [("seeds", _seeds)]
    columns += [_column(name, lambda row: row.utility, name) for name in _utility_names(board)]
    columns += [
        ("claimed ε", lambda row: _guarantees(row, "claimed")),
        ("proven ε", lambda row: _guarantees(row, "proven")),
    ]
    if any(row.lower_bounds for row in board):
        columns.append(("ε at least", _lower_bounds))
    if any("signal_to_noise" in row.diagnostics for row in board):
        columns.append(_column("signal/noise", lambda row: row.diagnostics, "signal_to_noise"))
    return columns


def _utility_names(board: Sequence[Row]) -> list[str]:
    """The headline metric and one more; floors and variants are for the run's own page."""
    first = headline(board[0])[0]
    names = list(dict.fromkeys([first, *(name for row in board for name in row.utility)]))
    return [n for n in names if n and n not in _FLOORS and "perplexity_" not in n][:2]


_FLOORS = ("unigram_perplexity", "bigram_perplexity", "majority_error", "random_error")
"""What needs no mechanism: said below the table."""


_KNOWN: dict[str, tuple[tuple[str, str], ...]] = {
    "secret-sharer": (
        ("exposure_max_repeats", "exposure"),
        ("exposure_entity", "entity exposure"),
        ("exposure_limit", "limit"),
        ("extracted_random_sampling", "extracted % (RS)"),
        ("extracted_beam_search", "extracted % (BS)"),
    ),
    "membership": (
        ("auc", "member AUC"),
        ("auc_user", "user AUC"),
        ("auc_bag_of_words", "bag of words AUC"),
        ("tpr_at_1pct_fpr", "TPR % at 1 % FPR"),
    ),
    "attribute-inference": (
        ("empirical_privacy", "empirical privacy"),
        ("empirical_privacy_majority", "majority's privacy"),
    ),
    "embedding-inversion": (
        ("gain_bits", "inversion gain bits"),
        ("gain_average_precision", "inversion gain AP"),
        ("average_precision", "inversion AP"),
    ),
    "reidentify": (
        ("recall_at_1", "reidentified %"),
        ("recall_at_10", "reidentified % in 10"),
        ("recall_at_1_unprotected", "reidentified % unprotected"),
    ),
}
"""Columns of the built-in attacks; any other attack shows its first metric."""

_SPREAD = "exposure_entity_spread_"
_WITHOUT_INTERVAL = {"exposure_limit", "auc_bag_of_words", "train_seconds", "peak_memory_mb"}
"""Shown as means alone, to keep the table narrow; JSON and CSV have their intervals."""


def _right(board: Sequence[Row]) -> list[Column]:
    columns = []
    for attack in dict.fromkeys(name for row in board for name in row.leakage):
        have = list(dict.fromkeys(m for row in board for m in row.leakage.get(attack, ())))
        chosen = _KNOWN.get(attack) or tuple((name, f"{attack} {name}") for name in have[:1])
        chosen += tuple((name, f"spread {k}") for k, name in _by_spread(have))
        columns += [
            _column(head, _of_attack(attack), name) for name, head in chosen if name in have
        ]
    columns.append(_column("train s", lambda row: row.cost, "train_seconds"))
    columns.append(_column("peak MB", lambda row: row.cost, "peak_memory_mb"))
    return columns


def _by_spread(metrics: Sequence[str]) -> list[tuple[int, str]]:
    """The exposures of entity canaries of chosen spread, the narrowest first."""
    found = [(name.removeprefix(_SPREAD), name) for name in metrics if name.startswith(_SPREAD)]
    return sorted((int(spread), name) for spread, name in found)


def _of_attack(attack: str) -> Callable[[Row], Mapping[str, Stat]]:
    return lambda row: row.leakage.get(attack, {})


def _column(head: str, stats: Callable[[Row], Mapping[str, Stat]], name: str) -> Column:
    percent = any(metric(kind, name).percent for kind in ("utility", "leakage"))
    title = f"{head} %" if percent and "%" not in head else head
    plain = name in _WITHOUT_INTERVAL
    return title, lambda row: stat_text(stats(row).get(name), 100.0 if percent else 1.0, plain)


# ------------------------------------------------------------------------------------------- cells


def number(value: float) -> str:
    """Three figures, or four where they are whole; extreme ones with an exponent; infinity is ∞."""
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:.2e}" if _extreme(value) else f"{value:,.{_decimals(value)}f}"


def _extreme(value: float) -> bool:
    """Whether a number is too large, or too small, to be read with all its zeros."""
    return _LARGE <= abs(value) < math.inf or 0.0 < abs(value) < _SMALL


_LARGE, _SMALL = 1e15, 5e-7


def _decimals(value: float) -> int:
    size = abs(value)
    if size >= 100 or size == 0:
        return 0
    return 1 if size >= 10 else 2 if size >= 0.1 else min(6, 1 - math.floor(math.log10(size)))


def stat_text(stat: Stat | None, scale: float = 1.0, plain: bool = False) -> str:
    """Mean ± half of the interval over seeds; the mean alone where there is none, or `plain`."""
    if stat is None:
        return NONE
    value = stat.value * scale
    if plain or stat.low is None or stat.high is None or math.isinf(value):
        return number(value)
    half = (stat.high - stat.low) / 2 * scale
    if _extreme(value) or half >= _LARGE:
        return f"{number(value)} ±{number(half)}"
    return f"{number(value)} ±{half:,.{_decimals(value)}f}"


def _seeds(row: Row) -> str:
    failed = f" ({len(row.failed)} failed)" if row.failed else ""
    return f"{len(row.seeds)}{failed}"


def _guarantees(row: Row, kind: str) -> str:
    texts = [guarantee_text(g) for g in row.guarantees if g.kind == kind]
    return "\n".join(dict.fromkeys(texts)) or NONE


def guarantee_text(g: Guarantee) -> str:
    """Epsilon, its unit and the point of its curve; or that it was refused."""
    if g.status == "refused":
        return f"refused ({g.unit})"
    point = ""
    if g.protected is not None and g.curve:
        spread = g.protected.spread
        at = next((p for p in g.curve if (p.spread, p.epsilon) == (spread, g.epsilon)), None)
        point = f" ({_others(spread, g.protected.sentences if at is None else at.sentences)})"
    refuted = ", refuted" if g.status == "refuted" else ""
    return f"{number(g.epsilon)} {g.unit}{point}{refuted}"


def _others(spread: int, sentences: int | None) -> str:
    """A point of the curve: who else may mention the entity."""
    if spread == 0:
        return "no others"
    if sentences is None:
        return f"{spread} other{'s' * (spread > 1)}"
    if sentences == spread:
        return "1 other's sentence" if spread == 1 else f"{spread} others' sentences"
    return f"{spread} other{'s' * (spread > 1)}, {sentences} sentences"


def _lower_bounds(row: Row) -> str:
    texts = [bound_text(bound) for bound in row.bounds]
    return "\n".join(dict.fromkeys(texts)) or NONE


def bound_text(bound: LowerBound) -> str:
    """Epsilon, its unit and point, and the confidence with which it is at least that."""
    point = "" if bound.spread is None else f"{_others(bound.spread, bound.sentences)}; "
    assumed = "; assumed" if bound.assumptions else ""
    confidence = f"{100.0 * bound.confidence:.6g} %"
    return f"{number(bound.epsilon)} {bound.unit} ({point}{confidence}{assumed})"


# ------------------------------------------------------------------------------------------- notes


def _floor(name: str, values: Sequence[float]) -> str:
    """A floor, from the least to the largest where rows of a table were trained on others."""
    percent = "perplexity" not in name
    ends = dict.fromkeys(number(100.0 * v if percent else v) for v in (min(values), max(values)))
    return f"{name.replace('_', ' ')} {' to '.join(ends)}{' %' if percent else ''}"


def _left_notes(board: Sequence[Row]) -> tuple[str, ...]:
    deltas = sorted({row.spec.delta for row in board})
    notes = [f"δ = {', '.join(f'{delta:g}' for delta in deltas)}; ± is half of the 95 % interval "
             "over seeds (Student's t)"]  # fmt: skip
    if any(len(row.seeds) == 1 for row in board):
        notes.append("rows with 1 seed (n = 1) have no interval")
    floors: dict[str, list[float]] = {}
    for name, stat in (item for row in reversed(board) for item in row.utility.items()):
        if name in _FLOORS:
            floors.setdefault(name, []).append(stat.value)
    if floors:
        shown = ", ".join(_floor(name, values) for name, values in floors.items())
        notes.append(f"floors, without privacy: {shown}")
    failures = (f"failed: {row.label}, seed {run.seed}: {run.error}"
                for row in board for run in row.failed)  # fmt: skip
    if any(row.lower_bounds for row in board):
        notes.append("ε at least: lower bounds by attacks, with their confidence; the highest of "
                     "several seeds or attacks pays for the choice")  # fmt: skip
    if any(bound.assumptions for row in board for bound in row.bounds):
        notes.append("assumed: more than the attack's own coins; the results say what")
    reasons = (f"{g.status}: {row.label}: "
               f"{'' if g.status == 'refused' else guarantee_text(g) + ': '}{g.reason}"
               for row in board for g in row.guarantees if g.status != "given")  # fmt: skip
    chosen = (f"selection: {row.label}: {_selection(row.selection)}"
              for row in board if row.selection)  # fmt: skip
    return tuple(dict.fromkeys([*notes, *reasons, *chosen, *failures]))


def _selection(record: Mapping[str, Any]) -> str:
    """How hyper-parameters were chosen, and what it cost."""
    text = f"best of {record['settings']} settings, compared on {record['scores']} text"
    entries = record["guarantees"]
    parts = [f"charged: {record['method']}"] if record["method"] else []
    parts += dict.fromkeys(
        f"not charged ({entry['unit']}): {entry['reason']}"
        for entry in entries
        if not entry["charged"]
    )
    return "; ".join([text, *(parts or ["nothing is proven that could be charged"])])


def _right_notes(board: Sequence[Row]) -> tuple[str, ...]:
    devices = ", ".join(dict.fromkeys(row.device for row in board if row.device))
    skipped = (f"{row.label}: {attack.name} does not apply: {attack.reason}"
               for row in board for attack in row.skipped_attacks)  # fmt: skip
    facts = [f"device: {devices}"] if devices else []
    if any("exposure_max_repeats" in row.leakage.get("secret-sharer", ()) for row in board):
        facts.insert(0, "exposure: bits, of the most repeated canaries and of those that are "
                     "labelled entities; 1.44 where nothing leaks, `limit` where all does; "
                     "RS: random sampling, BS: beam search")  # fmt: skip
    if any(m.startswith(_SPREAD) for row in board for m in row.leakage.get("secret-sharer", ())):
        facts.append("spread k: exposure of the entity canaries that k + 1 users mention")
    return tuple(dict.fromkeys([*facts, *skipped]))
