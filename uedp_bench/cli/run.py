"""`uedp-bench run` and `uedp-bench quickstart`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.accounting.guarantee import NoiseSource
from uedp_bench.cli.console import console, echo
from uedp_bench.errors import (
    ALIKE,
    InputError,
    Problems,
    UnknownNameError,
    flags,
    nearest,
    setting,
    shown,
)
from uedp_bench.python_api.run_grid import Options, run_grid
from uedp_bench.tracking.tracker import Tracker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uedp_bench.contracts.results import Result
    from uedp_bench.spec.spec import Spec

Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder of results; one sub-folder a run.")
]
Json = Annotated[
    bool, typer.Option("--json", help="Print the table's rows as JSON, and nothing else.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but failures, and --json.")
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Rehearse the first steps: print sizes, guarantees, skipped attacks, time, memory.",
    ),
]
Device = Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:N.")]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Processes; default: one per core, one on a GPU. 0 runs in this one, for debuggers.",
    ),
]
RunTimeout = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", min=1, help="End a run that takes longer; it has failed."),
]
RetryFailed = Annotated[
    bool,
    typer.Option(
        "--retry-failed",
        help="Run again what has failed three times, and runs in which an attack failed, too.",
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, help="Threads of a process; another number may change last digits."
    ),
]
CheckpointSeconds = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help="Seconds between checkpoints, from which the same command goes on after a kill; 0: "
        "none by time.",
    ),
]
CheckpointSteps = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Rounds or batches between checkpoints; 0: none by number."
    ),
]
MaxRetrain = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=0,
        help="Refuse runs whose attacks train more than N models (shadow models, references, "
        "retrainings of an audit).",
    ),
]
MaxRuns = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Refuse a spec that stands for more than N runs. [default: 10000]",
    ),
]
ShareOption = Annotated[
    str | None,
    typer.Option(
        "--share",
        metavar="I/N",
        help="Run part I of N of the spec's runs, as a task of a job array does; each part needs "
        "an --out of its own.",
    ),
]
Noise = Annotated[
    NoiseSource | None,
    typer.Option(
        "--noise-source",
        metavar="SOURCE",
        help="Where the numbers that protect come from: seed, or os (the operating system's, "
        "which nobody can draw again). [default: seed]",
    ),
]
Tracking = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri", metavar="URI", help="MLflow's; default: SQLite in the out folder."
    ),
]
NoTracking = Annotated[bool, typer.Option("--no-tracking", help="Do not log to MLflow.")]
LogRelease = Annotated[
    bool,
    typer.Option(
        "--log-release",
        help="Also log releases and canaries of runs without a proven guarantee to MLflow.",
    ),
]
Releases = Annotated[
    bool | None,
    typer.Option(
        "--releases/--no-release",
        help="Keep what was released, and what was planted; --no-release: keep no model that "
        "attacks asked for either. [default: kept on this machine, not brought from a cluster]",
        show_default=False,
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        metavar="CLUSTER",
        help="Do the runs on a cluster of Ray: ray starts one on this machine, HOST:PORT or "
        "ray://HOST:PORT names one, auto is that of RAY_ADDRESS. [default: this machine, no Ray]",
    ),
]
CpusPerRun = Annotated[
    float | None,
    typer.Option(metavar="N", help="CPUs of a node that a run takes (--on). [default: threads]"),
]
GpusPerRun = Annotated[
    float | None,
    typer.Option(
        metavar="N", help="GPUs that a run takes (--on): .25 puts four on one. [default: 0]"
    ),
]
LogModel = Annotated[
    bool, typer.Option("--log-model", help="Log releases above 100 MB to MLflow too.")
]
Plugins = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin", metavar="FILE", help="Python file that registers components (repeat)."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="A parameter of a component; a list is a grid (repeat)."
    ),
]


def run_command(
    spec: Annotated[
        str | None, typer.Argument(metavar="SPEC", help="YAML file, or a packaged spec.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="NAME", help="Task to learn. [default: next-word]")
    ] = None,
    source: Annotated[
        str | None, typer.Option(metavar="NAME", help="Source of the text. [default: embedded]")
    ] = None,
    path: Annotated[
        Path | None, typer.Option(metavar="PATH", help="File or folder that the source reads.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="Model to train. [default: the task's own]")
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Mechanism, or several joined by + (repeat)."),
    ] = None,
    attack: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Attack (repeat).")
    ] = None,
    settings: Settings = None,
    seeds: Annotated[str | None, typer.Option(metavar="1,2,...", help="[default: 1]")] = None,
    delta: Annotated[
        float | None, typer.Option(metavar="D", help="Delta of every guarantee. [default: 1e-5]")
    ] = None,
    device: Device = "auto",
    workers: Workers = None,
    threads: Threads = 1,
    run_timeout: RunTimeout = None,
    checkpoint_seconds: CheckpointSeconds = 60.0,
    checkpoint_steps: CheckpointSteps = 0,
    retry_failed: RetryFailed = False,
    max_retrain: MaxRetrain = None,
    max_runs: MaxRuns = None,
    share: ShareOption = None,
    noise_source: Noise = None,
    out: Out = Path("runs"),
    as_json: Json = False,
    plugin: Plugins = None,
    tracking_uri: Tracking = None,
    no_tracking: NoTracking = False,
    log_model: LogModel = False,
    log_release: LogRelease = False,
    releases: Releases = None,
    on: On = None,
    cpus_per_run: CpusPerRun = None,
    gpus_per_run: GpusPerRun = None,
    quiet: Quiet = False,
    dry: DryRun = False,
) -> None:
    """Benchmark mechanisms: train, score, attack, account; print the table.

    Runs that are finished (same spec, corpus and versions) are skipped, so the same command goes
    on after Ctrl-C or a crash. Flags override the spec. 'uedp-bench list' shows the names to
    choose from, 'uedp-bench describe NAME' the parameters to --set.

    \b
    a packaged spec:
      uedp-bench run conll2003 --path data/conll2003
    mechanisms side by side on your own file:
      uedp-bench run --source text --path mail.csv --set source.text_column=body
        --mechanism noiseless --mechanism deidentify+user-dp --attack membership --seeds 1,2,3
    a grid:
      uedp-bench run --mechanism user-dp --set mechanism.noise_multiplier=[0.5,1,2]
    one of several mechanisms or attacks:
      uedp-bench run quickstart --set mechanism.user-dp.rounds=20
        --set attack.membership.held_out_users=300
    the spec of a result, or your own; first what it would do, and how long:
      uedp-bench run spec.yaml --out runs/mine --dry-run
      uedp-bench run spec.yaml --out runs/mine
    """  # noqa: D301
    from uedp_bench.components import registry
    from uedp_bench.python_api.run_grid import Share
    from uedp_bench.spec.grid import check
    from uedp_bench.spec.spec import apply_setting, parse_setting, parse_spec, read_spec, sound_part

    registry.load_plugins(plugin or [])
    data: dict[str, Any] = read_spec(spec) if spec else {}
    flags = {"task": task, "source": source, "model": model, "attacks": attack, "delta": delta,
             "noise_source": noise_source}  # fmt: skip
    data |= {name: value for name, value in flags.items() if value is not None}
    if mechanism:
        data.pop("mechanism", None)
        data["mechanisms"] = list(mechanism)
    if seeds is not None:
        data.pop("seed", None)
        data["seeds"] = _seeds(seeds)
    typed_in = _delta_out(data, settings or [])
    problems = Problems()
    with problems.collect():
        wanted = parse_spec(data)
    if problems.errors:
        wanted = sound_part(data)
    if path is not None:
        wanted = apply_setting(wanted, ("source", "path"), str(path))
    for typed in typed_in:
        with problems.collect():
            wanted = _applied(wanted, *parse_setting(typed))
    if problems.errors:
        with problems.collect():
            check(wanted)
    problems.check()
    tracking = _tracking(tracking_uri, no_tracking)
    part = None if share is None else Share.parse(share)
    options = Options(
        out, device, workers, threads, tracking, tuple(plugin or ()), log_model, max_retrain,
        max_runs, run_timeout, retry_failed, log_release, releases,
        (checkpoint_seconds, checkpoint_steps), quiet, part, on, cpus_per_run, gpus_per_run,
    )  # fmt: skip
    if dry:
        if quiet:
            raise InputError("--dry-run and --quiet contradict each other: give one")
        from uedp_bench.cli.dry_run import dry_run

        dry_run(wanted.model_dump(), options, as_json)
        return
    benchmark(wanted.model_dump(), options, as_json)


def _delta_out(data: dict[str, Any], settings: list[str]) -> list[str]:
    """The settings but those of a delta that a later one replaces, as it does that of the data.

    A spec with a bad delta is refused before any setting is applied to it, and so could be mended
    by none.
    """
    deltas = [at for at, typed in enumerate(settings) if typed.partition("=")[0] == "delta"]
    if deltas:
        data.pop("delta", None)
    return [typed for at, typed in enumerate(settings) if at not in deltas[:-1]]


def _applied(spec: Spec, path: tuple[str, ...], value: Any) -> Spec:
    """The spec with a setting; one of a component that is not there gets the nearest that is.

    Raises:
        InputError: see `apply_setting`.
    """
    from uedp_bench.spec.spec import apply_setting

    try:
        return apply_setting(spec, path, value)
    except UnknownNameError as error:
        meant = nearest(error.name, error.names, ALIKE)
        if meant is None or len(path) < 3 or path[1] != error.name:
            raise
        right = ".".join((path[0], meant, *path[2:]))
        raise InputError(f"{error} (write {flags([setting(right, value)])} instead)") from None


def quickstart_command(
    out: Out = Path("runs/quickstart"),
    as_json: Json = False,
    device: Device = "auto",
    workers: Workers = None,
    threads: Threads = 1,
    noise_source: Noise = None,
    tracking_uri: Tracking = None,
    no_tracking: NoTracking = False,
    quiet: Quiet = False,
) -> None:
    """Benchmark six mechanisms on the embedded corpus: a few minutes on two cores."""
    from uedp_bench.spec.spec import read_spec

    tracking = _tracking(tracking_uri, no_tracking)
    options = Options(out, device, workers, threads, tracking, quiet=quiet)
    chosen = {} if noise_source is None else {"noise_source": noise_source}
    benchmark(read_spec("quickstart") | chosen, options, as_json)


def benchmark(data: dict[str, Any], options: Options, as_json: bool) -> None:
    """Run a spec and print its table.

    It exits with 1 where a run, an attack or the tracking failed, and where an attack refuted what
    is claimed.
    """
    tracker = Tracker(
        options.out, options.tracking, log_model=options.log_model, log_release=options.log_release
    )
    results = run_grid(data, options, tracker)
    if options.share is not None and not results:
        share = options.share
        message = (
            f"--share {share.number}/{share.parts}: the spec has fewer runs, none of them here"
        )
        echo(f"note: {message}", err=True)
        if not as_json:
            return
    if as_json or not options.quiet:
        _print(results, options, as_json)
    for line in () if options.quiet else _shortfalls(results):
        echo(f"note: {line}", err=True)
    failed = print_failures(results)
    if tracker.error is not None:
        message = f"{tracker.error}; all results are in {options.out}"
        echo(f"error: {message}, and the same command logs what is missing", err=True)
    if failed or tracker.error is not None:
        raise typer.Exit(1)


def print_failures(results: Sequence[Result]) -> bool:
    """Print runs and attacks that failed and claims that were refuted; True if there are any."""
    failures = [result for result in results if result.error is not None]
    without = [result for result in results if result.failed_attacks]
    for line in (*_complaints(failures), *_failed_attacks(without)):
        echo(f"failed: {line}", err=True)
    refutations = _refutations(results)
    for line in refutations:
        echo(f"refuted: {line}", err=True)
    return bool(failures or without or refutations)


def _shortfalls(results: Sequence[Result]) -> list[str]:
    """One line for each mechanism and source of which fewer units trained than were declared."""
    from uedp_bench.one_run.preparing import shortfall

    return list(dict.fromkeys(line for each in results if (line := shortfall(each))))


def _complaints(failures: Sequence[Result]) -> list[str]:
    """One line for each different error, with the runs that it ended."""
    from uedp_bench.grid.scheduler import MOST_FAILURES

    runs: dict[str, list[str]] = {}
    for result in failures:
        if result.error is not None:
            message = " ".join(result.error.message.split())
            if (times := result.error.failures) >= MOST_FAILURES:
                message += f" (failed {times} times; now only --retry-failed runs it again)"
            runs.setdefault(message, []).append(f"{result.label}, seed {result.spec.seed}")
    return [f"{'; '.join(who)}: {message}" for message, who in runs.items()]


def _failed_attacks(results: Sequence[Result]) -> list[str]:
    """One line for each different error of an attack, with the runs that lack it."""
    runs: dict[str, list[str]] = {}
    for result in results:
        for attack in result.failed_attacks:
            message = f"the attack {attack.name}: {attack.reason}"
            runs.setdefault(message, []).append(f"{result.label}, seed {result.spec.seed}")
    return [
        f"{message} (all else of {'; '.join(who)} is in the table; --retry-failed runs it again)"
        for message, who in runs.items()
    ]


def _refutations(results: Sequence[Result]) -> list[str]:
    """A sentence for each guarantee that an attack refuted, with its runs."""
    runs: dict[tuple[str, ...], list[int]] = {}
    for result in results:
        for guarantee in result.guarantees:
            if guarantee.status == "refuted":
                key = (result.label, f"{guarantee.epsilon:.4g}", guarantee.unit, guarantee.reason)
                runs.setdefault(key, []).append(result.spec.seed)
    return [
        f"{label} does not keep the epsilon of {epsilon} for {unit} that is claimed for it (seed "
        f"{', '.join(map(str, seeds))}): {reason}"
        for (label, epsilon, unit, reason), seeds in runs.items()
    ]


def _tracking(uri: str | None, off: bool) -> str | None:
    if off and uri is not None:
        raise InputError("--no-tracking and --tracking-uri contradict each other: give one")
    return None if off else (uri or "")


def _seeds(text: str) -> list[int]:
    from uedp_bench.io.yaml_files import MOST_WHOLE

    try:
        seeds = [int(part) for part in text.split(",")]
        if max(seeds) > MOST_WHOLE:
            raise ValueError
        return seeds
    except ValueError:
        raise InputError(f"--seeds {shown(text)}: give whole numbers, as 1,2,3") from None


def _print(results: list[Result], options: Options, as_json: bool) -> None:
    from uedp_bench.leaderboard.rows import aggregate
    from uedp_bench.leaderboard.table import render, to_json
    from uedp_bench.tracking.content import VIEW

    paths = {result.id: options.out / result.id / "result.json" for result in results}
    rows = aggregate(results, paths)
    if as_json:
        typer.echo(json.dumps(json.loads(to_json(rows)), indent=1))
        return
    screen = console()
    screen.print(render(rows))
    out = shlex.quote(str(options.out))
    lines = [
        f"results   {options.out}/<id>/result.json",
        f"table     uedp-bench leaderboard --results {out}",
        f"pages     uedp-bench leaderboard serve --results {out}",
    ]
    if options.tracking is not None:
        uri = options.tracking or f"sqlite:///{options.out}/mlflow.db"
        lines.append(f"MLflow    mlflow ui --backend-store-uri {shlex.quote(uri)}")
        if not options.tracking:
            runs = "http://127.0.0.1:5000/#/experiments/1/runs"
            lines.append(f"          {runs}?viewStateShareKey={VIEW}")
    for line in lines:
        screen.print(line, soft_wrap=True, markup=False)
