"""`uedp-bench run --dry-run`: what would happen, from the first steps of each training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from uedp_bench.accounting.events import DECLARED
from uedp_bench.cli.console import console, print_json

if TYPE_CHECKING:
    from uedp_bench.accounting.guarantee import Guarantee
    from uedp_bench.grid.forecast import Forecast, SettingForecast
    from uedp_bench.python_api.run_grid import Options

COLUMNS = ("mechanism", "runs", "trains on", "a round", "words", "claimed ε", "proven ε", "a run")


def dry_run(data: dict[str, Any], options: Options, as_json: bool) -> None:
    """Print a forecast of the runs of a spec: sizes, guarantees, skipped attacks, minutes.

    It exits with 1 where a rehearsal meets an error, as the run then does.

    Args:
        data: content of the spec.
        options: options of the runs.
        as_json: True to print JSON, and nothing else.

    Raises:
        InputError: for any mistake that shows before training.
    """
    from uedp_bench.grid.forecast import forecast
    from uedp_bench.grid.scheduler import default_workers, jobs_of
    from uedp_bench.one_run.protecting import check_retrainings
    from uedp_bench.python_api.run_grid import cluster_of
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import parse_spec
    from uedp_bench.training.device import choose_device

    runs = options.select(expand(parse_spec(data), options.max_runs))
    device = "auto" if cluster_of(options) else options.device
    device = choose_device(device, options.threads)
    workers = default_workers(options.device) if options.workers is None else options.workers
    jobs = jobs_of(runs, options.out)
    if options.max_retrain is not None:
        check_retrainings((job.spec for job in jobs if job.todo), options.max_retrain)
    predicted = forecast(jobs, device, workers)
    if as_json:
        print_json(predicted.to_dict())
    else:
        _print(predicted, options)
    if any(one.failures for one in predicted.settings):
        raise typer.Exit(1)


def _print(predicted: Forecast, options: Options) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for one in predicted.settings:
        table.add_row(*map(escape, _cells(one)))
    out.print(table)
    lines = [line for one in predicted.settings for line in _notes(one)]
    lines += _rows(predicted)
    runs = sum(len(one.seeds) for one in predicted.settings)
    done = sum(len(one.finished) for one in predicted.settings)
    lines.append(f"runs: {runs}, of which {done} are finished in {options.out}")
    lines.append(_expected(predicted))
    for line in dict.fromkeys(lines):
        out.print(line, soft_wrap=True, markup=False)


def _cells(one: SettingForecast) -> tuple[str, ...]:
    units = [f"{each.declared:,} {each.unit}" for each in one.units]
    a_round = [f"{n:,.4g}" for each in one.units if (n := each.expected_per_round) is not None]
    trains = ", ".join(units) or f"{one.rows.get('train', 0):,} rows"
    words = "" if one.vocabulary is None else f"{one.vocabulary:,}"
    seconds = sum(one.seconds.values())
    took = _time(seconds) if one.seconds else ("finished" if not one.todo else "?")
    if one.seconds and (one.lower_limit or one.rough):
        took = f"{'>' if one.lower_limit else '~'} {took}"
    return (one.spec.label, str(len(one.seeds)), trains, ", ".join(a_round), words,
            _epsilon(one, "claimed"), _not_claimed(one), took)  # fmt: skip


def _epsilon(one: SettingForecast, kind: str) -> str:
    guarantees = [each for each in one.guarantees if each.kind == kind]
    return (
        ", ".join(f"{_number(each)} {each.unit}{_declared(each)}" for each in guarantees) or "none"
    )


def _not_claimed(one: SettingForecast) -> str:
    """Proven guarantees in words, and stated ones named so."""
    stated = _epsilon(one, "stated")
    return _epsilon(one, "proven") if stated == "none" else f"stated: {stated}"


def _number(guarantee: Guarantee) -> str:
    if guarantee.epsilon == float("inf"):
        return "inf"
    pure = f" ({guarantee.pure:.4g} at delta 0)" if guarantee.pure is not None else ""
    return f"{guarantee.epsilon:.4g}{pure}"


def _declared(guarantee: Guarantee) -> str:
    return f" ({DECLARED})" if guarantee.accountant == DECLARED else ""


def _notes(one: SettingForecast) -> list[str]:
    label = one.spec.label
    lines = [f"skipped: {label}: {reason}" for reason in one.skipped]
    lines += [f"fails: {label}: {reason}" for reason in one.failures]
    lines += [
        f"not proven: {label}: {each.reason}"
        for each in one.guarantees
        if each.kind != "claimed" and each.reason
    ]
    lines += [f"{label}: {each.note}" for each in one.guarantees if each.kind == "stated"]
    lines += [
        f"note: {label}: {units.declared:,} {units.unit} are declared and {units.training:,} train"
        for units in one.units
        if units.training < units.declared
    ]
    if one.todo and one.memory_mb is not None:
        lines.append(f"cost of a run of {label}: {_cost(one)}")
    if one.lower_limit and one.seconds:
        lines.append(f"time of {label}, {one.measured}")
    return lines


def _cost(one: SettingForecast) -> str:
    """Cost of a run: steps, weights, CPU time, memory."""
    parts = [f"{steps:,} steps of {name}" for name, steps in one.steps]
    if one.weights is not None:
        parts.append(f"{one.weights:,} weights")
    least = "at least " if one.lower_limit else ""
    parts.append(f"{least}{_hours(sum(one.cpu_seconds.values()) / 3600)} of the CPU")
    return ", ".join([*parts, f"{one.memory_mb:,.0f} MB of memory"])


def _rows(predicted: Forecast) -> list[str]:
    """Rows and users by split, once for each corpus."""
    lines = []
    for one in predicted.settings:
        splits = ", ".join(
            f"{split} {rows:,} ({one.users.get(split, 0):,})" for split, rows in one.rows.items()
        )
        lines.append(f"rows (users) of {one.spec.source.name}: {splits}")
    return lines


def _expected(predicted: Forecast) -> str:
    if not any(one.todo for one in predicted.settings):
        return "nothing is left to do"
    unknown = [one.spec.label for one in predicted.settings if one.todo and not one.seconds]
    but = f"; not measured: {', '.join(dict.fromkeys(unknown))}" if unknown else ""
    others = sum(one.rough for one in predicted.settings)
    counted = "1 setting is" if others == 1 else f"{others} settings are"
    but += f"; {counted} counted as another setting of the same mechanisms" if others else ""
    about, least = ("at least", "at least ") if predicted.lower_limit else ("about", "")
    if predicted.rough and not predicted.lower_limit:
        about, least = "roughly", "roughly "
    time = _time(60 * predicted.minutes)
    workers = "1 worker" if predicted.workers == 1 else f"{predicted.workers} workers"
    return (
        f"expected: {about} {time} with {workers} (measured for {predicted.took:.0f} s: first "
        f"steps of every training, scoring and attacks; a loaded machine takes longer), "
        f"{least}{_hours(predicted.cpu_hours)} of the CPU, {predicted.memory_mb:,.0f} MB of "
        f"memory{but}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def _hours(hours: float) -> str:
    return f"{hours:.2g} hours" if hours < 10 else f"{hours:,.0f} hours"
