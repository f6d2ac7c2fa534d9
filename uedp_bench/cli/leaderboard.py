"""`uedp-bench leaderboard`: the table of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from uedp_bench.cli.console import (
    PIPE_WIDTH,
    AsJson,
    PluginFiles,
    console,
    echo,
    print_json,
    refuse_options,
)
from uedp_bench.cli.site import (
    Experiments,
    Folders,
    OneSource,
    OneTask,
    TrackingUri,
    build_command,
    loaded_from,
    loader_of,
    serve_command,
    tell,
)
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Result, RunSpec
    from uedp_bench.leaderboard.validation.report import Report


Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Results, bundles, or folders: every result.json and bundle below them.",
    ),
]


def validate_command(
    files: Files,
    coins: Annotated[
        Path | None,
        typer.Option("--coins", metavar="FILE", help="Revealed coins of plant, to plant again."),
    ] = None,
    spec: Annotated[
        str | None,
        typer.Option("--spec", metavar="SPEC", help="Your own spec of the data, for --coins."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the spec; with model.pretrained, scores are computed again.",
        ),
    ] = None,
    plugin: PluginFiles = None,
    as_json: AsJson = False,
) -> None:
    """Check form, ranges, consistency, identity and guarantees of results; print all errors.

    Exit code 1 if a file has an error. A note says what could not be checked, and why.

    \b
    uedp-bench leaderboard validate runs/mine
    uedp-bench leaderboard validate result.json --json
    uedp-bench leaderboard validate result.json --plugin my_mechanism.py
    uedp-bench leaderboard validate result.json --coins coins.json --spec attack.yaml
    uedp-bench leaderboard validate result.json --coins coins.json --spec attack.yaml \\
      --set model.pretrained=FOLDER
    """  # noqa: D301
    validated(files, plugin or (), coins, spec, settings or (), as_json=as_json)


def validated(
    files: Sequence[Path],
    plugins: Sequence[Path],
    coins: Path | None = None,
    spec: str | None = None,
    settings: Sequence[str] = (),
    *,
    as_json: bool = False,
) -> list[Report]:
    """Check results and say what is wrong; end with exit code 1 where one has an error.

    Args:
        files: results, bundles and folders.
        plugins: files of components to load first.
        coins: revealed coins of `uedp-bench plant`.
        spec: spec whose source has the data that the coins fell on; if it names a model, scores
            are computed again.
        settings: parameters of the spec, NAME=VALUE.
        as_json: True to print JSON.
    """
    from uedp_bench.components.registry import load_plugins
    from uedp_bench.leaderboard.validate import (
        PLANTING_SECONDS,
        SECONDS,
        Guard,
        check,
        find,
        without_twins,
    )
    from uedp_bench.leaderboard.validation.report import Report
    from uedp_bench.one_run.planted_elsewhere import read_coins

    if spec is not None and coins is None:
        raise InputError("--spec names the data of planting: give --coins too")
    if settings and spec is None:
        raise InputError(f"--set {settings[0]} is of a spec: give --spec too")
    load_plugins(plugins)  # a bad plug-in is reported here, not in the other process
    reports = []
    if coins is not None:
        read_coins(coins)
    own = None if spec is None or coins is None else _computed_again(spec, settings, coins, plugins)
    seconds = SECONDS if own is None else PLANTING_SECONDS
    with Guard(partial(check, coins=coins, own=own), plugins, seconds) as guarded:
        for file in find(files):
            report = file if isinstance(file, Report) else guarded(file)
            reports.append(report)
            if not as_json:
                typer.echo(_text(report))
    alone, reports = reports, without_twins(reports)
    if not as_json:
        for before, report in zip(alone, reports, strict=True):
            if before != report:
                typer.echo(_text(report))
    if as_json:
        print_json([_plain(report) for report in reports])
    else:
        for line in [*([_summary(reports)] if len(reports) > 1 else []), *_remarks(reports)]:
            typer.echo(line)
    if not all(report.valid for report in reports):
        raise typer.Exit(1)
    return reports


def _computed_again(
    spec: str, settings: Sequence[str], coins: Path, plugins: Sequence[Path]
) -> RunSpec | Result:
    """Result of the spec's run on the model that it names; its planting where it names none.

    Raises:
        InputError: if the spec stands for several runs, or the model or the data do not fit.
    """
    from uedp_bench.one_run.components import MODEL
    from uedp_bench.one_run.planted_elsewhere import NO_MODEL_YET, one_run
    from uedp_bench.python_api.running import run
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import Ref, apply_setting, parse_setting, parse_spec, read_spec

    wanted = parse_spec(read_spec(spec))
    for text in settings:
        wanted = apply_setting(wanted, *parse_setting(text))
    model = wanted.model
    if model is None or model.name != MODEL or model.params.get("pretrained") == NO_MODEL_YET:
        return one_run(wanted)
    released = Ref(name="trained-elsewhere", params={"coins": str(coins.resolve())})
    parts = next(
        (each for each in wanted.mechanisms if any(ref.name == released.name for ref in each)),
        [released],
    )
    mechanisms = [[released if ref.name == released.name else ref for ref in parts]]
    wanted = wanted.model_copy(update={"mechanisms": mechanisms})
    if (count := len(expand(wanted))) > 1:
        raise InputError(f"--spec {spec} stands for {count} runs: give one value a parameter")
    with TemporaryDirectory() as folder:
        (result,) = run(wanted.model_dump(), out=folder, workers=0, keep_release=False,
                        plugins=plugins)  # fmt: skip
    for failure in (result.error, *result.failed_attacks):
        if failure is not None:
            raise InputError(f"--spec {spec}: the model was not scored: {failure.message}")
    return result


def _text(report: Report) -> str:
    counts = [_count(len(report.errors), "error"), _count(len(report.notes), "note")]
    verdict = ", ".join(filter(None, counts)) or "valid"
    if not report.errors and verdict != "valid":
        verdict = f"valid, {verdict}"
    lines = [f"{report.path}: {verdict}"]
    for problem in report.problems:
        where = f"{problem.where}: " if problem.where else ""
        lines.append(f"  {problem.severity:<6}{where}{problem.what}")
    return "\n".join(lines)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}" if number else ""


def _summary(reports: Sequence[Report]) -> str:
    bad = sum(not report.valid for report in reports)
    return f"{len(reports)} results, {f'{bad} of them with errors' if bad else 'all of them valid'}"


def _remarks(reports: Sequence[Report]) -> list[str]:
    """Sentences that a submitter should know of all files, each once."""
    counts = Counter(text for report in reports for text in report.publication_notes)
    if not counts:
        return []
    many = len(reports) > 1
    return ["before you publish:", *(
        f"  {text}{f' ({count} of {len(reports)} results)' if many else ''}"
        for text, count in counts.items()
    )]  # fmt: skip


def _plain(report: Report) -> dict[str, object]:
    return {"path": report.path, "id": report.id, "valid": report.valid,
            "problems": [problem.model_dump() for problem in report.problems],
            "told": list(report.publication_notes)}  # fmt: skip


Runs = Annotated[
    list[Path],
    typer.Argument(metavar="RUNS", help="Folders of runs, or bundles, searched to any depth."),
]
Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The bundle, NAME.jsonl.gz.")]


def pack_command(
    runs: Runs,
    out: Out,
    text: Annotated[
        Path | None,
        typer.Option("--text", metavar="FILE.md", help="Write the text of a pull request there."),
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Validate results and write them into a bundle: a line a result, the same bytes every time.

    Nothing is written if a result has an error (exit code 1). Failed runs are left out, and so is
    the place of a run in MLflow; everything else of it stays as it is.

    \b
    uedp-bench leaderboard pack runs/mine --out leaderboard/results/mine.jsonl.gz --text mine.md
    """  # noqa: D301
    from uedp_bench.leaderboard.loading import load_results
    from uedp_bench.leaderboard.sources import SUFFIX, write_bundle

    if not out.name.removesuffix(SUFFIX) or not out.name.endswith(SUFFIX):
        raise InputError(f"--out {out}: the name of a bundle ends with {SUFFIX}")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: no such folder: {out.parent}")
    if text is not None and not text.parent.is_dir():
        raise InputError(f"--text {text}: no such folder: {text.parent}")
    results = load_results(runs)
    finished = [result for result in results if result.status == "finished"]
    if not finished:
        raise InputError(f"RUNS: no finished run in {', '.join(map(str, runs))}")
    reports = validated(runs, plugin or ())
    for result in results:
        if result.status != "finished":
            echo(f"left out: {result.id}, which failed", err=True)
    write_bundle([one.model_copy(update={"tracking": {}}) for one in finished], out)
    echo(f"written: {out}, with the results of {len(finished)} run{'s' * (len(finished) > 1)}")
    if text is not None:
        from uedp_bench.leaderboard.submission import submission

        _deliver(submission(finished, reports, str(out)), text)


# Options only, no arguments: these would hide the commands of the group.
app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def leaderboard_command(
    context: typer.Context,
    results: Folders = None,
    experiment: Experiments = None,
    tracking_uri: TrackingUri = None,
    task: OneTask = None,
    source: OneSource = None,
    as_json: Annotated[bool, typer.Option("--json", help="Everything, as JSON.")] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Markdown tables.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="One line a row.")] = False,
    as_latex: Annotated[
        bool, typer.Option("--latex", help="LaTeX tables (package booktabs).")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write there, not to the screen.")
    ] = None,
) -> None:
    """Utility, guarantee, leakage and cost of every mechanism; mean and interval over seeds.

    \b
    uedp-bench leaderboard --results runs --task next-word --source conll2003
    uedp-bench leaderboard --results runs --markdown --out docs/table.md
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        refuse_options(context)
        return
    if as_json + as_markdown + as_csv + as_latex > 1:
        raise InputError("--json, --markdown, --csv and --latex: choose one")
    from uedp_bench.leaderboard import table
    from uedp_bench.leaderboard.rows import aggregate, select
    from uedp_bench.leaderboard.site import without_culprits

    loaded = loaded_from(loader_of(results, experiment, tracking_uri))
    screen = console()
    plainly = partial(table.to_text, width=PIPE_WIDTH)
    coloured = partial(table.to_text, width=screen.width, styles=screen.is_terminal)
    write = (
        table.to_json if as_json
        else table.to_csv if as_csv
        else table.to_latex if as_latex
        else table.to_markdown if as_markdown
        else coloured if out is None
        else plainly
    )  # fmt: skip

    def show(results: Sequence[Result]) -> str:
        return write(select(aggregate(results, loaded.places), task, source))

    text, left_out = without_culprits(loaded, show)
    tell(loaded, left_out)
    _deliver(text, out)


def plot_command(
    kind: Annotated[Literal["utility-vs-epsilon", "leakage"], typer.Argument(help="What to draw.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="FILE.pdf, .svg or .png.")],
    results: Folders = None,
    experiment: Experiments = None,
    tracking_uri: TrackingUri = None,
    task: OneTask = None,
    source: OneSource = None,
    metric: Annotated[
        str,
        typer.Option("--metric", metavar="NAME", help="Metric, ATTACK.METRIC of leakage."),
    ] = "",
    unit: Annotated[
        str, typer.Option("--unit", metavar="UNIT", help="Unit whose proven epsilon is the axis.")
    ] = "",
) -> None:
    """A figure of one board for a paper, with 95 % intervals over seeds.

    \b
    uedp-bench leaderboard plot utility-vs-epsilon --results runs --out epsilon.pdf
    uedp-bench leaderboard plot leakage --results runs --metric membership.auc_user --out auc.svg
    """  # noqa: D301
    from uedp_bench.leaderboard.paper_figures import draw
    from uedp_bench.leaderboard.rows import aggregate, select

    loaded = loaded_from(loader_of(results, experiment, tracking_uri))
    tell(loaded)
    rows = select(aggregate(loaded.results, loaded.places), task, source)
    draw(rows, kind, out, metric=metric, unit=unit)
    echo(f"written: {out}", err=True)


def _deliver(text: str, out: Path | None) -> None:
    if out is None:
        # Names are harmless already; a terminal obeys the table's own styles alone.
        typer.echo(text.rstrip("\n"))
        return
    try:
        out.write_text(text if text.endswith("\n") else f"{text}\n", encoding="utf-8")
    except (FileNotFoundError, IsADirectoryError, PermissionError) as error:
        raise InputError(f"{out}: {error.strerror}") from None
    echo(f"written: {out}", err=True)


app.command("build")(build_command)
app.command("pack")(pack_command)
app.command("plot")(plot_command)
app.command("serve")(serve_command)
app.command("validate")(validate_command)
