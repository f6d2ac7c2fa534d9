"""What the tables say, as plain text cells: one pair of sheets for every set of comparable rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from uedp_bench.leaderboard.boards import boards, labels, title
from uedp_bench.leaderboard.cell_text import (
    NONE,
    bounds_text,
    guarantee_text,
    guarantees_text,
    number,
    seeds_text,
    stat_text,
)
from uedp_bench.leaderboard.headline import NOTHING
from uedp_bench.leaderboard.metrics import metric
from uedp_bench.leaderboard.older_code import NOTE as OLDER_NOTE
from uedp_bench.leaderboard.older_code import OLDER
from uedp_bench.leaderboard.rows import Row, Stat, headline
from uedp_bench.leaderboard.upper_end import (
    BASELINE_METRICS,
    BETTER,
    WHY,
    better_than_unprotected,
    choice_note,
    references,
)


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
        older = [row.older_code for row in board]
        mixed = any(older) and not all(older)
        names = [
            f"{label} ({OLDER})" if mixed and row.older_code else label
            for label, row in zip(labels(board), board, strict=True)
        ]
        for name, columns, notes in (
            ("utility and guarantee", _left(board), _left_notes(board)),
            ("leakage and cost", _right(board), _right_notes(board)),
        ):
            cells = tuple(
                (label, *(cell(row) for _, cell in columns))
                for label, row in zip(names, board, strict=True)
            )
            if columns and columns[0][0] == "seeds":
                cells += tuple(_reference_cells(board, columns))
            heads = ("mechanism", *(head for head, _ in columns))
            out.append(Sheet(f"{title(board)}: {name}", heads, cells, notes))
    return out


# ----------------------------------------------------------------------------------------- columns


def _left(board: Sequence[Row]) -> list[Column]:
    columns: list[Column] = [("seeds", seeds_text)]
    first, better = headline(board[0])[0], better_than_unprotected(board)
    columns += [_of_utility(name, first, better) for name in _utility_names(board)]
    columns += [
        ("claimed ε", lambda row: guarantees_text(row, "claimed")),
        ("proven ε", lambda row: guarantees_text(row, "proven")),
    ]
    if any(one.kind == "stated" for row in board for one in row.guarantees):
        columns.append(("stated ε", lambda row: guarantees_text(row, "stated")))
    if any(row.lower_bounds for row in board):
        columns.append(("ε at least", bounds_text))
    if any("signal_to_noise" in row.diagnostics for row in board):
        columns.append(
            _column("signal/noise", lambda row: row.diagnostics, "signal_to_noise", "diagnostics")
        )
    return columns


def _utility_names(board: Sequence[Row]) -> list[str]:
    """The headline metric and one more, with the unknown rate that flatters both.

    Floors stand in rows of their own, and variants on the run's own page.
    """
    first = headline(board[0])[0]
    names = list(dict.fromkeys(name for row in board for name in row.utility))
    told = [n for n in names if n != first and n not in _FLOORS and n not in _VARIANTS]
    told.sort(key=lambda name: not metric("utility", name).main)
    beside = [name for name in _BESIDE if name in names]
    told = [n for n in told if n not in beside]
    return [*([first] if first in names else []), *told][:2] + beside


_FLOORS = (
    "unigram_perplexity", "majority_error", "random_error", "constant_accuracy",
    "all_outside_weighted_token_f1", *BASELINE_METRICS,
)  # fmt: skip
"""Values that need no mechanism; they stand below the table, but for those of the headline."""

_VARIANTS = ("accuracy_with_unknown", "perplexity_known", "perplexity_token")
_BESIDE = ("oov_rate",)
"""Rates that flatter other metrics; they stand beside these wherever they were measured."""


def _reference_cells(board: Sequence[Row], columns: Sequence[Column]) -> Iterator[tuple[str, ...]]:
    """A row of the table for every baseline and floor of the headline metric."""
    name = headline(board[0])[0]
    known = metric("utility", name or "")
    head = next((head for head, _ in columns if name and head == _head(known.label, name)), None)
    for one in references(board):
        ends = (number(end * (100.0 if known.percent else 1.0)) for end in (one.low, one.high))
        text = " to ".join(dict.fromkeys(ends))
        yield (one.label, *(text if title == head else NONE for title, _ in columns))


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
        ("tpr_user_at_1pct_fpr", "user TPR % at 1 % FPR"),
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
    "gradient-inversion": (
        ("words_recall", "words read %"),
        ("names_precision", "names right %"),
        ("names_recall", "names read %"),
        ("labels_precision", "labels right %"),
        ("rows_recovered", "rows read %"),
    ),
    "annotation-leak": (
        ("exposure", "exposure of records"),
        ("exposure_chance", "chance"),
        ("exposure_without_model", "without model"),
        ("exposure_held_out", "of others"),
    ),
    "fragment-reassembly": (
        ("sentences_recovered", "sentences reassembled %"),
        ("sentences_recovered_floor", "of other documents %"),
        ("longest_run_90", "words in a row, 90th percentile"),
    ),
    "reidentify": (
        ("recall_at_1", "reidentified %"),
        ("recall_at_10", "reidentified % in 10"),
        ("recall_at_1_unprotected", "reidentified % unprotected"),
    ),
}
"""Columns of the built-in attacks; any other attack shows its first metric."""

_SPREAD = "exposure_entity_spread_"
_SENT = "message_mb_a_round"
_WITHOUT_INTERVAL = {
    "exposure_limit", "auc_bag_of_words", "train_seconds", "peak_memory_mb", _SENT
}  # fmt: skip
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
    columns.append(_column("train s", lambda row: row.cost, "train_seconds", "cost"))
    columns.append(_column("peak MB", lambda row: row.cost, "peak_memory_mb", "cost"))
    if any(_SENT in row.cost for row in board):
        columns.append(_column("MB a round", lambda row: row.cost, _SENT, "cost"))
    return columns


def _by_spread(metrics: Sequence[str]) -> list[tuple[int, str]]:
    """The exposures of entity canaries of chosen spread, the narrowest first."""
    found = [(name.removeprefix(_SPREAD), name) for name in metrics if name.startswith(_SPREAD)]
    return sorted((int(spread), name) for spread, name in found)


def _of_attack(attack: str) -> Callable[[Row], Mapping[str, Stat]]:
    return lambda row: row.leakage.get(attack, {})


def _of_utility(name: str, first: str | None, better: frozenset[str]) -> Column:
    """A column of utility; the one that ranks marks rows that contradict the table.

    Args:
        name: of the metric.
        first: the one that ranks.
        better: groups of private rows that are better than the unprotected one.
    """
    title, cell = _column(metric("utility", name).label, lambda row: row.utility, name, "utility")
    if name != first:
        return title, cell

    def marked(row: Row) -> str:
        marks = [NOTHING] * (row.learned is False) + [BETTER] * (row.group in better)
        return "\n".join([cell(row), *marks])

    return title, marked


def _head(label: str, name: str, kind: str = "utility") -> str:
    percent = metric(kind, name).percent
    return f"{label} %" if percent and "%" not in label else label


def _column(
    head: str,
    stats: Callable[[Row], Mapping[str, Stat]],
    name: str,
    kind: str = "leakage",
) -> Column:
    known = metric(kind, name)
    plain = name in _WITHOUT_INTERVAL
    return _head(head, name, kind), lambda row: stat_text(
        stats(row).get(name), 100.0 if known.percent else 1.0, plain, (known.low, known.high)
    )


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
    if any(row.older_code for row in board):
        notes.append(OLDER_NOTE)
    if any(row.learned is False for row in board):
        notes.append(f"{NOTHING}: no better than the best floor, the interval considered; such "
                     "rows come last")  # fmt: skip
    if better_than_unprotected(board):
        notes.append(f"{BETTER}: {WHY}, and nothing here says what privacy costs")
    if any(one.kind == "baseline" for one in references(board)):
        notes.append("baseline: a cheap model of the same training text, without privacy")
    notes += filter(None, [choice_note(board)])
    if any(row.learned is None and row.seeds for row in board):
        unknown = len([row for row in board if row.learned is None and row.seeds])
        notes.append(f"{unknown} of {len(board)} rows do not say if anything was learnt")
    beside: dict[str, list[float]] = {}
    for name, stat in (item for row in reversed(board) for item in row.utility.items()):
        if name in _FLOORS and name not in BASELINE_METRICS:
            beside.setdefault(name, []).append(stat.value)
    if beside:
        shown = ", ".join(_floor(name, values) for name, values in beside.items())
        notes.append(f"without privacy: {shown}")
    if any("oov_rate" in row.utility for row in board):
        notes.append("unknown words: share of targets outside the vocabulary, which flatters "
                     "perplexity; accuracy is of known words")  # fmt: skip
    failures = (f"failed: {row.label}, seed {run.seed}: {run.error}"
                for row in board for run in row.failed)  # fmt: skip
    if any(row.lower_bounds for row in board):
        notes.append("ε at least: lower bounds by attacks, with their confidence; the highest of "
                     "several seeds or attacks pays for the choice")  # fmt: skip
    strange = (f"{row.label}: {g.note}" for row in board for g in row.guarantees
               if g.kind == "stated" and g.note)  # fmt: skip
    if any(bound.assumptions for row in board for bound in row.bounds):
        notes.append("assumed: more than the attack's own coins; the results say what")
    reasons = (f"{g.status}: {row.label}: "
               f"{'' if g.status == 'refused' else guarantee_text(g) + ': '}{g.reason}"
               for row in board for g in row.guarantees if g.status != "given")  # fmt: skip
    chosen = (f"selection: {row.label}: {_selection(row.selection)}"
              for row in board if row.selection)  # fmt: skip
    return tuple(dict.fromkeys([*notes, *strange, *reasons, *chosen, *failures]))


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
                     "labelled entities; 1.44 where nothing leaks, the limit where all does; "
                     "RS: random sampling, BS: beam search")  # fmt: skip
    if any(m.startswith(_SPREAD) for row in board for m in row.leakage.get("secret-sharer", ())):
        facts.append("spread k: exposure of the entity canaries that k + 1 users mention")
    failures = (f"{row.label}: {attack.name} failed: {attack.reason}"
                for row in board for attack in row.failed_attacks)  # fmt: skip
    return tuple(dict.fromkeys([*facts, *skipped, *failures]))
