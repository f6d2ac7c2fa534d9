"""`uedp-bench run --dry-run`: what would happen, from the first steps of each training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from uedp_bench.accounting.events import DECLARED
from uedp_bench.cli.console import console, print_json
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.accounting.guarantee import Guarantee
    from uedp_bench.grid.forecast import Forecast, SettingForecast
    from uedp_bench.python_api.run_grid import Options

COLUMNS = ("mechanism", "runs", "trains on", "a round", "words", "claimed ε", "proven ε", "a run")


def dry_run(data: dict[str, Any], options: Options, as_json: bool) -> None:
    """Prints what the runs of a spec would do: sizes, guarantees, skipped attacks, minutes.

    It exits with 1 where a rehearsal meets an error, as the run then does.

    Args:
        data: of the spec.
        options: how it would run.
        as_json: print JSON, and nothing else.

    Raises:
        InputError: for whatever can be known to be wrong before training.
    """
    from uedp_bench.grid.forecast import forecast
    from uedp_bench.grid.scheduler import default_workers, jobs_of
    from uedp_bench.one_run.retraining import check_retrainings
    from uedp_bench.python_api.run_grid import cluster_of
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import parse_spec
    from uedp_bench.training.device import choose_device

    runs = options.of(expand(parse_spec(data), options.max_runs))
    device = "auto" if cluster_of(options) else options.device
    device = choose_device(device, options.threads)
    workers = default_workers(options.device) if options.workers is None else options.workers
    jobs = jobs_of(runs, options.out)
    if options.max_retrain is not None:
        check_retrainings((job.spec for job in jobs if job.todo), options.max_retrain)
    found = forecast(jobs, device, workers)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found, options)
    if any(one.failures for one in found.settings):
        raise typer.Exit(1)


def _print(found: Forecast, options: Options) -> None:
    from rich.markup import escape
    from rich.table import Table

    out = console()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in COLUMNS:
        table.add_column(column, justify="left" if column == COLUMNS[0] else "right")
    for one in found.settings:
        table.add_row(*map(escape, _cells(one)))
    out.print(table)
    lines = [line for one in found.settings for line in _notes(one)]
    lines += _rows(found)
    runs = sum(len(one.seeds) for one in found.settings)
    done = sum(len(one.finished) for one in found.settings)
    lines.append(f"runs: {runs}, of which {done} are finished in {options.out}")
    lines.append(_expected(found))
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
    found = [each for each in one.guarantees if each.kind == kind]
    return ", ".join(f"{_number(each)} {each.unit}{_declared(each)}" for each in found) or "none"


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
    """What decides the cost of a run, and the cost: steps, weights, CPU time, memory."""
    said = [f"{steps:,} steps of {name}" for name, steps in one.steps]
    if one.weights is not None:
        said.append(f"{one.weights:,} weights")
    least = "at least " if one.lower_limit else ""
    said.append(f"{least}{_hours(sum(one.cpu_seconds.values()) / 3600)} of the CPU")
    return ", ".join([*said, f"{one.memory_mb:,.0f} MB of memory"])


def _rows(found: Forecast) -> list[str]:
    """Rows and users by split, once for each corpus."""
    said = []
    for one in found.settings:
        splits = ", ".join(
            f"{split} {rows:,} ({one.users.get(split, 0):,})" for split, rows in one.rows.items()
        )
        said.append(f"rows (users) of {one.spec.source.name}: {splits}")
    return said


def _expected(found: Forecast) -> str:
    if not any(one.todo for one in found.settings):
        return "nothing is left to do"
    unknown = [one.spec.label for one in found.settings if one.todo and not one.seconds]
    but = f"; not measured: {', '.join(dict.fromkeys(unknown))}" if unknown else ""
    others = sum(one.rough for one in found.settings)
    counted = "1 setting is" if others == 1 else f"{others} settings are"
    but += f"; {counted} counted as another setting of the same mechanisms" if others else ""
    about, least = ("at least", "at least ") if found.lower_limit else ("about", "")
    if found.rough and not found.lower_limit:
        about, least = "roughly", "roughly "
    return (
        f"expected: {about} {_time(60 * found.minutes)} with {found.workers} "
        f"{'worker' if found.workers == 1 else 'workers'} (measured for {found.took:.0f} s: first "
        f"steps of every training, scoring and attacks; a loaded machine takes longer), "
        f"{least}{_hours(found.cpu_hours)} of the CPU, {found.memory_mb:,.0f} MB of memory{but}"
    )


def _time(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.1f} min"


def _hours(hours: float) -> str:
    return f"{hours:.2g} hours" if hours < 10 else f"{hours:,.0f} hours"


def check_dry(*, quiet: bool) -> None:
    """Refuses flags that a dry run makes no sense of.

    Raises:
        InputError: naming them.
    """
    if quiet:
        raise InputError("--dry-run and --quiet contradict each other: give one")
