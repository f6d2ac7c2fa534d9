"""`uedp-bench account` and `uedp-bench calibrate`: guarantees from parameters, and the inverse."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.cli.console import PluginFiles, console, print_json
from uedp_bench.components.component import MOST_WHOLE
from uedp_bench.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from uedp_bench.accounting.guarantee import Guarantee
    from uedp_bench.one_run.planning.calibration import Solution

Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the mechanism (repeat)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")]


def account_command(
    mechanism: Annotated[
        str | None,
        typer.Argument(metavar="[MECHANISM]", help="A mechanism, or a published system (below)."),
    ] = None,
    settings: Settings = None,
    delta: Annotated[
        float | None, typer.Option(metavar="D", help="Delta of every guarantee. [default: 1e-5]")
    ] = None,
    spread: Annotated[
        str | None,
        typer.Option(
            metavar="1,3,all", help="Other users that mention the entity: points of the curve."
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JSON list of privacy events, or a result.json."),
    ] = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Print what a mechanism's paper claims and what can be proven, from parameters alone.

    Beside the mechanisms of 'uedp-bench list', which run too, there are published systems that are
    accounted for only: federated-ner, federated-secret-sharer.
    'uedp-bench describe NAME' shows the parameters of either. Mechanisms in a row are joined by +;
    one that trains may stand once for each private stage, the second as 'user-dp 2'.

    \b
      uedp-bench account uedp --set users=946 --set users_per_round=50 --set rounds=50
        --set noise_multiplier=2 --set sentences=14040 --set sensitive_sentences=11176
        --spread 1,3,10,all
      uedp-bench account dpnr --set epsilon=0.05 --json
      uedp-bench account deidentify+user-dp --set users=946
      uedp-bench account --events runs/ID/result.json --delta 1e-6
    """  # noqa: D301
    from uedp_bench.components.registry import load_plugins
    from uedp_bench.one_run.planning.account import DELTA, account, read_events, solved_noise

    load_plugins(plugin or [])
    points = _points(spread)
    if (mechanism is None) == (events is None):
        raise InputError("account needs a MECHANISM or --events FILE, and not both")
    if events is not None:
        if settings:
            raise InputError("--set does not go with --events: the events hold all parameters")
        _print(read_events(events).prove(delta, points), {}, as_json)
        return
    from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism, PlannedPipeline

    name = mechanism or ""
    parameters, delta = _settings(name, settings, delta)
    planned = (PlannedPipeline if "+" in name else PlannedMechanism).from_settings(name, parameters)
    guarantees = account(planned, DELTA if delta is None else delta, points)
    answers = {"readings": planned.readings(), "solved": solved_noise(planned, points)}
    _print(guarantees, answers, as_json)


def calibrate_command(
    mechanism: Annotated[str, typer.Argument(metavar="MECHANISM", help="As for account.")],
    epsilon: Annotated[float, typer.Option(metavar="E", help="To be proven, at most.")],
    delta: Annotated[
        float | None, typer.Option(metavar="D", help="To be proven. [default: 1e-5]")
    ] = None,
    settings: Settings = None,
    solve: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The smallest noise_multiplier, or the largest users_per_round, batch_size, "
            "sampling_rate, rounds, steps, epochs, epsilon or word_epsilon. [default: the first "
            "of these that there is]",
        ),
    ] = None,
    spread: Annotated[
        int | None,
        typer.Option(
            metavar="K", min=0, help="Point of the curve. [default: the mechanism's, else all]"
        ),
    ] = None,
    as_json: AsJson = False,
    plugin: PluginFiles = None,
) -> None:
    """Find the parameter of a mechanism that meets a target, as proven.

    \b
      uedp-bench calibrate user-dp --epsilon 8 --set users=4000 --set users_per_round=400
      uedp-bench calibrate user-dp --epsilon 8 --set users=4000 --set noise_multiplier=1
        --solve rounds
      uedp-bench calibrate uedp-group --epsilon 8 --set sampling_rate=0.1 --set rounds=60
        --set sentences_per_user=6 --set protected_sentences=3
    """  # noqa: D301
    from uedp_bench.components.registry import load_plugins
    from uedp_bench.one_run.planning.account import DELTA
    from uedp_bench.one_run.planning.calibration import Target, default_parameter
    from uedp_bench.one_run.planning.calibration import solve as solve_for
    from uedp_bench.one_run.planning.planned_mechanisms import PlannedMechanism
    from uedp_bench.spec.descriptions import needs_parameter

    load_plugins(plugin or [])
    if "+" in mechanism:
        raise InputError(f"calibrate {mechanism}: give one mechanism at a time")
    parameters, delta = _settings(mechanism, settings, delta)
    parameter = default_parameter(mechanism, parameters) if solve is None else solve
    if needs_parameter(mechanism, parameter):  # before it is solved for, too; any value will do
        parameters = {parameter: 1, **parameters}
    planned = PlannedMechanism.from_settings(mechanism, parameters, "calibrate")
    target = Target(epsilon, DELTA if delta is None else delta, spread)
    _print_solution(solve_for(planned, target, parameter), as_json)


def _print_solution(solution: Solution, as_json: bool) -> None:
    guarantee, solved = solution.guarantee, solution.parameter
    proven: dict[str, Any] = {
        "epsilon": solution.epsilon,
        "delta": guarantee.delta,
        "unit": guarantee.unit,
        "adjacency": guarantee.adjacency,
        "accountant": guarantee.accountant,
    }
    if solution.point is not None:
        proven |= {"spread": solution.point.spread, "sentences": solution.point.sentences}
    if guarantee.kind == "stated":
        proven["kind"] = guarantee.kind
    if as_json:
        # The parameter may have the name of what is proven: epsilon.
        named = {} if solved in proven else {solved: solution.value}
        print_json({"parameter": solved, "value": solution.value, **named, **proven})
        return
    from rich.table import Table

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    heading = f"{solved} (solved for)"
    for name, value in {heading: solution.value, **proven}.items():
        shown = "any" if value is None else str(value)
        table.add_row(
            f"{name} ({guarantee.kind})" if name == "epsilon" else name,
            _number(value) if isinstance(value, float) and name != heading else shown,
        )
    console().print(table)


def _settings(
    mechanism: str, settings: Sequence[str] | None, delta: float | None
) -> tuple[dict[str, Any], float | None]:
    """Parameters, and delta wherever it was given; a mechanism that has a delta gets the same."""
    from uedp_bench.one_run.pipeline import numbered
    from uedp_bench.spec.descriptions import has_parameter
    from uedp_bench.spec.spec import parse_setting

    parameters: dict[str, Any] = {}
    parts = numbered([word.strip() for word in mechanism.split("+")])
    for setting in settings or []:
        path, value = parse_setting(setting, "rounds=50")
        below = path[1:] if path[0] == "mechanism" and len(path) > 1 else path
        if len(below) > 2 or (len(below) == 2 and below[0] not in parts):
            raise InputError(f"--set {'.'.join(path)}: give the plain name, as {path[-1]}=...")
        parameters[".".join(below) if len(parts) > 1 else below[-1]] = value
    own = has_parameter(mechanism, "delta")
    if "delta" in parameters:
        value_of_delta = parameters["delta"] if own else parameters.pop("delta")
        if isinstance(value_of_delta, bool) or not isinstance(value_of_delta, int | float):
            raise InputError(
                f"delta is {shown(value_of_delta)}; it must be a number between 0 and 1"
            )
        if delta is not None and value_of_delta != delta:
            raise InputError(f"--delta {delta} and --set delta={value_of_delta} differ: give one")
        delta = float(value_of_delta)
    elif own and delta is not None:
        parameters["delta"] = delta
    return parameters, delta


def _points(spread: str | None) -> list[int | None] | None:
    if spread is None:
        return None
    points: list[int | None] = []
    for word in spread.split(","):
        whole = word.strip().isdecimal() and len(word) <= len(str(MOST_WHOLE))
        if word.strip() != "all" and not (whole and int(word) <= MOST_WHOLE):
            raise InputError(
                f"--spread {shown(spread)}: give whole numbers of at most {MOST_WHOLE:,}, or all, "
                "as 1,3,10,all"
            )
        points.append(None if word.strip() == "all" else int(word))
    return points


def _print(guarantees: Sequence[Guarantee], answers: Mapping[str, Any], as_json: bool) -> None:
    """Guarantees, then what was solved for (`solved`) and epsilon elsewhere (`readings`)."""
    readings, solved = answers.get("readings", ()), answers.get("solved", {})
    if as_json:
        answer: dict[str, Any] = {"guarantees": [g.model_dump(mode="json") for g in guarantees]}
        if readings:
            answer["readings"] = [{"of": what, "epsilon": value} for what, value in readings]
        if solved:
            answer["solved"] = solved
        print_json(answer)
        return
    from rich.markup import escape
    from rich.table import Table

    from uedp_bench.accounting.guarantee import SOURCES
    from uedp_bench.accounting.noise_search import at_least

    out = console()
    if not guarantees:
        out.print("nothing is claimed, and nothing can be proven")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("kind", "unit", "adjacency", "epsilon", "delta", "accountant", "source"):
        table.add_column(column, no_wrap=column != "source")
    for g in guarantees:
        cells = (g.kind, g.unit, g.adjacency, _epsilon(g), f"{g.delta:g}", g.accountant, g.source)
        table.add_row(*map(escape, cells))
        if g.pure is not None:
            pure = (g.kind, g.unit, g.adjacency, _number(g.pure), "0", "basic", SOURCES["basic"])
            table.add_row(*map(escape, pure))
    out.print(table)
    for g in guarantees:
        _print_curve(g)
    for name, value in solved.items():
        out.print(f"{name} (solved for): {at_least(value):.10g}")
    for what, value in readings:
        out.print(f"epsilon of {escape(what)}: {_number(value)}")
    for g in guarantees:
        for word, text in (("reason", g.reason), ("note", g.note)):
            if text:
                out.print(f"\n{g.kind}, {g.unit}, {word}: {escape(text)}")
    assumed: dict[tuple[str, ...], list[str]] = {}
    for g in guarantees:
        assumed.setdefault(g.assumptions, []).append(f"{g.kind}, {g.unit}")
    for assumptions, who in assumed.items():
        if assumptions:
            out.print(f"\n{'; '.join(who)}, assumptions:")
        for text in assumptions:
            out.print(f"  - {escape(text)}")


def _print_curve(guarantee: Guarantee) -> None:
    if not guarantee.curve:
        return
    from rich.table import Table

    at = guarantee.protected
    where = "everybody" if at is None else f"{at.spread} others, {at.sentences} sentences"
    title = f"{guarantee.kind}, {guarantee.unit}: the curve (epsilon above: {where})"
    table = Table(box=None, padding=(0, 2, 0, 0), title=title, title_justify="left")
    for column in ("other users that mention the entity", "their sentences", "epsilon"):
        table.add_column(column, justify="right")
    for point in guarantee.curve:
        sentences = "any" if point.sentences is None else str(point.sentences)
        table.add_row(str(point.spread), sentences, _number(point.epsilon))
    out = console()
    out.print()
    out.print(table)


def _epsilon(guarantee: Guarantee) -> str:
    text = _number(guarantee.epsilon)
    if guarantee.notion == "simulation":
        return f"{text} (simulation)"  # compares with no other
    return text if guarantee.status == "given" else f"{text} ({guarantee.status})"


def _number(value: float) -> str:
    """Four significant digits."""
    return "inf" if value == float("inf") else f"{value:.4g}"
