"""`uedp-bench advise`: from a file to a sentence on what protects its people, and at what cost."""

from __future__ import annotations

import json
import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.cli.console import AsJson, console, echo, print_json
from uedp_bench.cli.data import (
    Delimiter,
    Label,
    PublicText,
    QuotingName,
    Spans,
    Split,
    TaskName,
    Text,
    User,
    columns_by_role,
    layout_of,
    print_proposal,
    targets,
)
from uedp_bench.cli.run import Device, Quiet, Workers, print_failures
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Result
    from uedp_bench.first_spec.column_roles import Role
    from uedp_bench.first_spec.first_spec import FirstSpec

MEASURING, TRAINING = 0.1, 0.7
"""Shares of the time for rehearsals, and for rows; the rest is for the search and delays."""

EFFORT = (0.02, 4.0)
"""Least and largest factor of the text that one training looks at."""


def advise_command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="Your file, or a folder.")],
    minutes: Annotated[
        float,
        typer.Option("--minutes", min=0.1, help="Time for everything; sizes are fitted to it."),
    ] = 10.0,
    epsilon: Annotated[
        str, typer.Option("--epsilon", metavar="E,...", help="Proven epsilons to compare.")
    ] = "1,4",
    task: TaskName = None,
    text: Text = None,
    user: User = None,
    label: Label = None,
    spans: Spans = None,
    split: Split = None,
    delimiter: Delimiter = None,
    quoting: QuotingName = None,
    public: PublicText = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Spec and runs. [default: runs/NAME-advice]"),
    ] = None,
    device: Device = "auto",
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say in words what protects the people of a file, and what that costs.

    It reads the file as init does, and trains and attacks a ladder of rows: without anybody's
    text, without protection, de-identified, and private at each epsilon. A row is recommended only
    if it is proven, surely better than every floor, and no attack tells its members from others.
    Users come before rows. Of these rows it takes the smallest epsilon that keeps half of what the
    text adds, or else the row that keeps most; none if a private row beats the unprotected one.
    All rows choose among the same three learning rates on users of the split valid, whom no
    guarantee covers.

    The same command goes on after Ctrl-C, and adds seeds that were left out for time.

    \b
      uedp-bench advise mail.csv
      uedp-bench advise reviews.tsv --label stars --user author --minutes 30 --epsilon 1,4,8
    """  # noqa: D301
    from uedp_bench.leaderboard.advice import advise
    from uedp_bench.leaderboard.rows import aggregate
    from uedp_bench.leaderboard.table import render, to_json
    from uedp_bench.python_api.run_grid import Options

    if not math.isfinite(minutes):
        raise InputError(f"--minutes {minutes}: give a number of 0.1 or more")
    begun, stem = time.monotonic(), path.name.partition(".")[0] or path.resolve().name
    folder = out or Path("runs") / f"{stem}-advice"
    named = columns_by_role(text, user, label, spans, split)
    request = {
        "file": str(path),
        "epsilon": targets(epsilon),
        "task": task,
        "columns": named,
        "layout": layout_of(delimiter, quoting),
        "public": [str(file) for file in public or ()],
    }
    options = Options(folder / "runs", device, workers, quiet=quiet or as_json)
    proposal = _stored_proposal(folder, request)
    if proposal is None:
        proposal = _propose(folder, request, path, named, minutes, options)
    results, left = _run(folder, options, begun + 60 * minutes)
    paths = {result.id: options.out / result.id / "result.json" for result in results}
    rows = aggregate(results, paths)
    answer = advise(rows, proposal["column"], proposal["left_out"])
    if as_json:
        recommended = None if answer.row is None else answer.row.group
        print_json({**proposal, "recommended": recommended, "advice": answer.sentences,
                    "seeds_left_out": left, "rows": json.loads(to_json(rows))})  # fmt: skip
    else:
        for line in (*answer.sentences, proposal["settings"], ""):
            echo(line)
        console().print(render(rows))
        _print_next(folder, left)
    if print_failures(results):
        raise typer.Exit(1)


def _stored_proposal(folder: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    """Facts and guesses of an earlier call with the same request; None where there was none.

    Raises:
        InputError: if the folder holds something else.
    """
    spec, file = folder / "spec.yaml", folder / "proposal.json"
    if not spec.exists():
        return None
    try:
        stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        stored = {}
    if stored.get("request") != json.loads(json.dumps(request)):
        raise InputError(
            f"--out {folder}: it has a spec of another call; give the same file and options, or "
            "another folder"
        )
    return stored


def _propose(
    folder: Path,
    request: dict[str, Any],
    path: Path,
    named: dict[Role, str],
    minutes: float,
    options: Any,
) -> dict[str, Any]:
    """Look at the file, fit sizes to the time, choose learning rates, and write the spec."""
    from uedp_bench.first_spec.first_spec import first_spec
    from uedp_bench.first_spec.suggestion import RateSearch, at_each_epsilon
    from uedp_bench.io.folders import write_atomically
    from uedp_bench.io.yaml_files import load_yaml
    from uedp_bench.python_api.run_grid import run_grid
    from uedp_bench.tracking.tracker import Tracker

    def look(effort: float) -> FirstSpec:
        spec = first_spec(
            path, named, task=request["task"], public=tuple(map(Path, request["public"])),
            epsilons=request["epsilon"], effort=effort, layout=request["layout"],
        )  # fmt: skip
        return replace(spec, suggestion=at_each_epsilon(spec.suggestion))

    names = (str(folder / "spec.yaml"), str(options.out))
    spec = look(1.0)
    effort = _effort(load_yaml(spec.text(names)), minutes, options)
    if effort is not None:
        spec = look(effort)
    if not options.quiet:
        print_proposal(spec)
    settings = "Learning rates of private rows were not searched: "
    try:
        search = RateSearch(load_yaml(spec.text(names)), spec.suggestion)
    except InputError as error:
        settings += f"{error}."
    else:
        where = replace(options, out=folder / "search")
        results = run_grid(search.spec, where, Tracker(where.out, None))
        best = "the best that ran, or fixed:" if print_failures(results) else "the best of three"
        spec = replace(spec, suggestion=search.choose(results))
        settings = (
            f"Learning rates of private rows are {best} on users of the split valid, whom no "
            f"guarantee covers: it costs the others no epsilon ({where.out})."
        )
    proposal = {
        "request": request,
        "found": spec.facts,
        "guessed": spec.guesses,
        "left_out": spec.suggestion.left_out,
        "settings": f"{settings} Sizes were measured on the whole file.",
        "column": str(spec.origin.params.get("user_column", "")),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / "proposal.json", json.dumps(proposal, indent=1))
    write_atomically(folder / "spec.yaml", spec.text(names, "advise"))
    return proposal


def _effort(data: dict[str, Any], minutes: float, options: Any) -> float | None:
    """Factor of the text of a training that fits all seeds into the time; None near 1."""
    from uedp_bench.grid.forecast import forecast
    from uedp_bench.grid.scheduler import default_workers, jobs_of
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import parse_spec
    from uedp_bench.training.device import choose_device

    workers = options.workers
    workers = default_workers(options.device) if workers is None else workers
    # The unprotected row tries several rates, and the last one has noise: the others lie between.
    plain = [one for one in data["mechanisms"] if _is_called(one, "noiseless")]
    costly = {**data, "mechanisms": [*plain, data["mechanisms"][-1]], "seeds": data["seeds"][:1]}
    jobs = jobs_of(expand(parse_spec(costly)), options.out)
    device = choose_device(options.device, options.threads)
    predicted = forecast(jobs, device, workers, 60 * MEASURING * minutes)
    measured = [dict(one.seconds) for one in predicted.settings if one.seconds]
    if not measured:
        return None
    seeds = len(data["seeds"])
    runs = seeds * len(data["mechanisms"])
    # Shadow models without protection are trained once a seed, for all rows.
    shared = any("shadow_mechanism" in one["params"] for one in data["attacks"])
    attack = max(one.pop("attack", 0.0) for one in measured) * (seeds if shared else runs)
    training = sum(sum(one.values()) for one in measured) / len(measured) * runs
    fits = 60 * TRAINING * minutes * max(1, workers) / max(training + attack, 1e-9)
    return None if 0.8 <= fits <= 1.25 else min(max(fits, EFFORT[0]), EFFORT[1])


def _is_called(mechanism: Any, name: str) -> bool:
    """True if an entry of a spec is a mechanism of this name."""
    return mechanism == name or (isinstance(mechanism, dict) and mechanism.get("name") == name)


def _run(folder: Path, options: Any, end: float) -> tuple[list[Result], list[int]]:
    """Results of the spec, one seed after the other while there is time, and the seeds left."""
    from uedp_bench.python_api.run_grid import run_grid
    from uedp_bench.spec.spec import parse_spec, read_spec
    from uedp_bench.tracking.tracker import Tracker

    data = parse_spec(read_spec(str(folder / "spec.yaml"))).model_dump()
    seeds: list[int] = data["seeds"]
    for count in range(1, len(seeds) + 1):
        begun = time.monotonic()
        started = {**data, "seeds": seeds[:count]}
        results = run_grid(started, options, Tracker(options.out, None))
        took = time.monotonic() - begun
        if time.monotonic() + took > end:
            break
    return results, seeds[count:]


def _print_next(folder: Path, left: Sequence[int]) -> None:
    """Print where the spec is, and what was left out for time."""
    spec, runs = (shlex.quote(str(folder / name)) for name in ("spec.yaml", "runs"))
    again = f"uedp-bench run {spec} --out {runs} --no-tracking"
    if left:
        seeds = ", ".join(map(str, left))
        echo(f"left out for time: seed {seeds}; the same command, or {again}, adds them")
    echo(f"spec      {spec}: change it, then {again}")
    echo(f"pages     uedp-bench leaderboard serve --results {runs}")
