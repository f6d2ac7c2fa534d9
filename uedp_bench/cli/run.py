"""`uedp-bench run` and `uedp-bench quickstart`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.errors import InputError, UedpBenchError

if TYPE_CHECKING:
    from uedp_bench.results import Result
    from uedp_bench.scheduler import Job

Out = Annotated[Path, typer.Option("--out", help="Folder of results; one sub-folder a run.")]
Json = Annotated[bool, typer.Option("--json", help="Print the table's rows as JSON.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes; default: one per core, one on a GPU.")
]
Tracking = Annotated[
    str | None,
    typer.Option("--tracking-uri", help="MLflow tracking URI; default: SQLite in the out folder."),
]
NoTracking = Annotated[bool, typer.Option("--no-tracking", help="Do not log to MLflow.")]
LogModel = Annotated[bool, typer.Option(help="Log releases above 100 MB to MLflow too.")]
Plugins = Annotated[
    list[Path] | None,
    typer.Option("--plugin", help="Python file that registers a mechanism, attack, ... (repeat)."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Parameter, as source.users=500, mechanism.rounds=50, mechanism.user-dp.rounds=50 or "
        "attack.membership.held_out_users=200; a list makes a grid: model.units=[32,64] (repeat).",
    ),
]


def run_command(
    spec: Annotated[
        str | None, typer.Argument(help="YAML file, or a packaged spec such as 'conll2003'.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Task, when no spec is given.")] = None,
    source: Annotated[str | None, typer.Option(help="Source of the corpus.")] = None,
    path: Annotated[Path | None, typer.Option(help="File or folder that the source reads.")] = None,
    model: Annotated[str | None, typer.Option(help="Model that the task learns.")] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="Mechanism, or several joined by '+' (repeat to compare)."),
    ] = None,
    attack: Annotated[list[str] | None, typer.Option(help="Attack (repeat).")] = None,
    settings: Settings = None,
    seeds: Annotated[str | None, typer.Option(help="Comma-separated seeds.")] = None,
    delta: Annotated[float | None, typer.Option(help="Delta of every guarantee.")] = None,
    device: Device = "auto",
    workers: Workers = None,
    out: Out = Path("runs"),
    as_json: Json = False,
    plugin: Plugins = None,
    tracking_uri: Tracking = None,
    no_tracking: NoTracking = False,
    log_model: LogModel = False,
) -> None:
    """Benchmark mechanisms: train, score, attack, account; print the table.

    Runs that are finished already (same spec, corpus and versions) are skipped, so the same
    command goes on after Ctrl-C or a crash.

    Examples:

      uedp-bench run conll2003 --path data/conll2003

      uedp-bench run --source text --path mail.csv --set source.text_column=body
      --mechanism noiseless --mechanism deidentify+user-dp --attack membership --seeds 1,2,3
    """
    from uedp_bench import registry
    from uedp_bench.spec import apply_setting, normalise, read_spec

    registry.load_plugins(plugin or [])
    data: dict[str, Any] = read_spec(spec) if spec else {}
    flags = {"task": task, "source": source, "model": model}
    data |= {name: value for name, value in flags.items() if value is not None}
    if mechanism:
        data["mechanisms"] = list(mechanism)
    if attack:
        data["attacks"] = list(attack)
    if seeds is not None:
        data["seeds"] = _seeds(seeds)
    if delta is not None:
        data["delta"] = delta
    data = normalise(data)
    if path is not None:
        apply_setting(data, ("source", "path"), str(path))
    for setting in settings or []:
        from uedp_bench.settings import parse_setting

        apply_setting(data, *parse_setting(setting))
    tracking = None if no_tracking else (tracking_uri or "")
    benchmark(
        data, Options(out, device, workers, tracking, tuple(plugin or ()), log_model), as_json
    )


def quickstart_command(
    out: Out = Path("runs/quickstart"),
    as_json: Json = False,
    device: Device = "auto",
    workers: Workers = None,
    tracking_uri: Tracking = None,
    no_tracking: NoTracking = False,
) -> None:
    """Benchmark five mechanisms on the embedded corpus: a few minutes on two cores."""
    from uedp_bench.spec import read_spec

    tracking = None if no_tracking else (tracking_uri or "")
    benchmark(read_spec("quickstart"), Options(out, device, workers, tracking), as_json)


class Options:
    """How to run a benchmark from the command line.

    Attributes:
        tracking: MLflow URI; "" for SQLite in `out`, None for no tracking.
    """

    def __init__(
        self,
        out: Path,
        device: str = "auto",
        workers: int | None = None,
        tracking: str | None = None,
        plugins: tuple[Path, ...] = (),
        log_model: bool = False,
    ) -> None:
        self.out, self.device, self.workers = out, device, workers
        self.tracking, self.plugins, self.log_model = tracking, plugins, log_model


def benchmark(data: dict[str, Any], options: Options, as_json: bool) -> None:
    """Runs a spec and prints its table; exits with 2 after bad input, 1 after failed runs."""
    from uedp_bench.cli.progress import ProgressBars
    from uedp_bench.runner import Settings as RunSettings
    from uedp_bench.scheduler import default_workers, only_failed_input, plan_jobs, run_jobs
    from uedp_bench.spec import expand, parse_spec

    options.out.mkdir(parents=True, exist_ok=True)
    if options.device not in ("auto", "cpu"):
        from uedp_bench.training.device import choose_device

        choose_device(options.device)
    jobs = plan_jobs(expand(parse_spec(data)), options.out)
    done = [job for job in jobs if job.done is not None]
    results: list[Result] = [job.done for job in done if job.done is not None]
    failures: list[tuple[Job, Result]] = []
    workers = options.workers or default_workers(options.device)
    with ProgressBars(jobs) as bars:
        settings = RunSettings(options.out, options.device)
        for job, result in run_jobs(
            jobs, settings, workers=workers, plugins=options.plugins, listen=bars.update
        ):
            bars.finish(job, result)
            results.append(result)
            if result.status == "failed":
                failures.append((job, result))
    results, untracked = _track(results, options)
    _print(results, options, as_json)
    if untracked is not None:
        typer.echo(f"error: {untracked}; all results are in {options.out}", err=True)
        raise typer.Exit(2)
    for job, result in failures:
        if result.error is not None:
            typer.echo(f"failed: {job.label}: {result.error.message}", err=True)
    if failures:
        raise typer.Exit(2 if only_failed_input([r for _, r in failures]) else 1)


def _seeds(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--seeds {text!r}: give whole numbers, as 1,2,3") from None


def _track(results: list[Result], options: Options) -> tuple[list[Result], UedpBenchError | None]:
    """Logs results to MLflow; the error of a server that cannot be reached comes second."""
    if options.tracking is None:
        return results, None
    from uedp_bench.results import write_result
    from uedp_bench.tracking import log_result

    uri, out = options.tracking or None, list(results)
    for i, result in enumerate(results):
        if result.tracking:
            continue
        folder = options.out / result.id
        try:
            found = log_result(
                result, folder, uri=uri, experiment="uedp-bench", log_model=options.log_model
            )
        except UedpBenchError as error:
            return out, error
        out[i] = result.model_copy(update={"tracking": found})
        write_result(out[i], folder / "result.json")
    return out, None


def _print(results: list[Result], options: Options, as_json: bool) -> None:
    from uedp_bench.leaderboard.table import aggregate, render, to_json

    rows = aggregate(results)
    if as_json:
        typer.echo(json.dumps(json.loads(to_json(rows)), indent=1))
        return
    from uedp_bench.cli.console import console

    screen = console()
    screen.print(render(rows))
    screen.print(f"results   {options.out}/<id>/result.json")
    screen.print(f"page      uedp-bench leaderboard --results {options.out}")
    if options.tracking is not None:
        uri = options.tracking or f"sqlite:///{options.out}/mlflow.db"
        screen.print(f"MLflow    mlflow ui --backend-store-uri {uri}")
