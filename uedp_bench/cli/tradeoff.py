"""`uedp-bench tradeoff`: inference error against utility loss of word mechanisms."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from uedp_bench.cli.console import AsJson, PluginFiles, console, print_json
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.harness.tradeoff import Choice, Point, Study
    from uedp_bench.results import ComponentSpec, Estimate, RunSpec

EXAMPLE = "epsilon=[5,10,20]"
ADVERSARIES = ("posterior", "map")
UNLABELLED = ("wrong", "skip")


def tradeoff_command(
    mechanism: Annotated[
        str, typer.Argument(metavar="MECHANISM", help="vickrey, metric-dp, or a plug-in's.")
    ],
    source: Annotated[str, typer.Option(metavar="NAME", help="Where labelled words are from.")],
    path: Annotated[
        Path | None, typer.Option(metavar="PATH", help="File or folder that the source reads.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the mechanism, or source.NAME; a list is an axis (repeat).",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(metavar="C", min=0.0, help="Choose epsilon and t with a loss below C."),
    ] = None,
    doublings: Annotated[
        int, typer.Option(metavar="N", min=0, help="Doublings of epsilon for --budget, at most.")
    ] = 12,
    adversary: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Whose error is maximised and plotted: posterior (the paper's) or map.",
        ),
    ] = "posterior",
    unlabelled: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="A substitute without a label counts as wrong, or not at all: skip."
        ),
    ] = "wrong",
    samples: Annotated[
        int, typer.Option(metavar="N", min=2, help="Substitutes drawn for each word; even.")
    ] = 100,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Seed of all random numbers.")] = 1,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="auto, cpu, cuda or cuda:N.")] = (
        "auto"
    ),
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE.html", help="Write the curves as a page.")
    ] = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Print the adversary's inference error and the utility loss for every epsilon and t.

    Loss: the share of words whose substitute has another label. Error: how often an adversary
    who knows the mechanism and the word frequencies misses the word that was put in; higher is
    more private. Brackets are 95 % intervals over words. With --budget, epsilon doubles from the
    one that is set, at t = 0, until the loss is below C; then the t with the largest error is
    chosen (Xu et al. 2021, Algorithm 2). Nothing is trained.

    \b
    curves, as in the paper's Figure 2:
      uedp-bench tradeoff vickrey --source opinion-lexicon --path data/opinion_lexicon
        --set embedding=glove.txt --set epsilon=[5,10,20,40] --set t=[0,0.5,1] --plot curves.html
    replace words by words of the lexicon alone, as there:
        --set vocabulary=[positive-words.txt,negative-words.txt]
    the parameters for a loss of at most 6 %:
      uedp-bench tradeoff vickrey --source opinion-lexicon --path data/opinion_lexicon
        --set embedding=glove.txt --set epsilon=1 --set candidates=all --budget 0.06
    """  # noqa: D301
    from uedp_bench.harness.tradeoff import Budget, study_of
    from uedp_bench.harness.tradeoff import plot as write_plot
    from uedp_bench.registry import load_plugins
    from uedp_bench.training.device import choose_device

    load_plugins(plugin or [])
    _one_of("--adversary", adversary, ADVERSARIES)
    _one_of("--unlabelled", unlabelled, UNLABELLED)
    if samples % 2:
        raise InputError(f"--samples {samples}: give an even number; one half tests the adversary")
    runs = _runs(mechanism, source, path, settings or [], budget is not None)
    study = study_of(
        runs[0], samples=samples, unlabelled=unlabelled, seed=seed, device=choose_device(device, 0)
    )
    who = cast("Literal['posterior', 'map']", adversary)
    found: Choice | None = None
    if budget is None:
        points: Sequence[Point] = _grid(study, [run.mechanism[0] for run in runs])
    else:
        found = _chosen(study, runs, Budget(budget, doublings, who))
        points = found.points
    if plot is not None:
        write_plot(points, who, plot)
    if as_json:
        print_json(_as_json(points, found))
    else:
        _print(points, found)


def _one_of(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"{option} {value!r} is not one of {', '.join(known)}")


def _runs(
    mechanism: str, source: str, path: Path | None, settings: Sequence[str], choosing: bool
) -> list[RunSpec]:
    """One run for every setting of the mechanism; defaults are filled in."""
    from uedp_bench.harness.grid import expand
    from uedp_bench.harness.settings import parse_setting
    from uedp_bench.harness.spec import apply_setting, parse_spec

    if "+" in mechanism:
        raise InputError(f"tradeoff {mechanism}: give one mechanism at a time")
    spec = parse_spec({"task": "word-substitution", "source": source, "mechanisms": [mechanism]})
    if path is not None:
        spec = apply_setting(spec, ("source", "path"), str(path))
    for setting in settings:
        name, value = parse_setting(setting, EXAMPLE)
        if choosing and name[-1] == "t" and name[0] != "source":
            raise InputError("--set t does not go with --budget, which chooses t")
        wanted = name if name[0] in ("source", "mechanism") else ("mechanism", *name)
        spec = apply_setting(spec, wanted, value)
    runs = expand(spec)
    if len({run.source.model_dump_json() for run in runs}) > 1:
        raise InputError("tradeoff compares settings of a mechanism on one corpus")
    if choosing and len(runs) > 1:
        raise InputError("--budget begins at one setting: give no lists, and the smallest epsilon")
    return runs


def _grid(study: Study, settings: Sequence[ComponentSpec]) -> list[Point]:
    from rich.console import Console
    from rich.progress import track

    screen = Console(stderr=True)
    return [
        study.measure(setting)
        for setting in track(settings, "measure", console=screen, transient=True)
    ]


def _chosen(study: Study, runs: Sequence[RunSpec], budget: Any) -> Choice:
    from rich.console import Console

    from uedp_bench.harness.tradeoff import select_for

    with Console(stderr=True).status("measure") as status:
        return select_for(study, runs[0].mechanism[0], budget, status.update)


def _as_json(points: Sequence[Point], found: Choice | None) -> dict[str, Any]:
    from uedp_bench.harness.tradeoff import NOTE

    def flat(point: Point) -> dict[str, Any]:
        return {
            **point.axes,
            "inference_error": point.error["posterior"].model_dump(mode="json"),
            "inference_error_map": point.error["map"].model_dump(mode="json"),
            "utility_loss": point.loss.model_dump(mode="json"),
            "unchanged": point.unchanged.model_dump(mode="json"),
            "params": point.params,
        }

    values: dict[str, Any] = {"points": [flat(point) for point in points]}
    if found is not None:
        values |= {"chosen": flat(found.chosen), "note": NOTE}
    return values


def _print(points: Sequence[Point], found: Choice | None) -> None:
    from rich.table import Table

    from uedp_bench.harness.tradeoff import NOTE

    varied = _varied(points)
    table = Table(box=None, header_style="bold")
    for name in (*varied, "inference error", "(map)", "utility loss", "unchanged"):
        table.add_column(name, justify="right", no_wrap=True)
    for point in points:
        numbers = (point.error["posterior"], point.error["map"], point.loss, point.unchanged)
        table.add_row(*(_plain(point.params[name]) for name in varied), *map(_interval, numbers))
    screen = console()
    screen.print(table)
    if found is not None:
        chosen = found.chosen
        screen.print(
            f"chosen: epsilon {chosen.params['epsilon']:g}, t {chosen.params['t']:g}; inference "
            f"error {_interval(chosen.error['posterior'])}, loss {_interval(chosen.loss)}",
            markup=False,
        )
        screen.print(NOTE, markup=False)


def _varied(points: Sequence[Point]) -> list[str]:
    """Epsilon, t, and what else differs between points."""
    always = list(points[0].axes)
    return always + [
        name
        for name in points[0].params
        if name not in always and any(p.params[name] != points[0].params[name] for p in points)
    ]


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else "-" if value is None else str(value)


def _interval(estimate: Estimate) -> str:
    """A number and its interval."""
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.3f}"
    # A bracket with letters in it would be taken for markup; these hold numbers only.
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}]"
