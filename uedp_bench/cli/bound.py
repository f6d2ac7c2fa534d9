"""`uedp-bench bound`: what an attack's scores, or its right guesses, refute."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.cli.console import AsJson, print_json, refuse_options
from uedp_bench.errors import InputError, plain, shown
from uedp_bench.io.files import read_regular, read_text, shown_path

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_BYTES = 2**30
"""Size of a file of scores, at most."""

ENDINGS = (".txt", ".csv", ".json", ".npy")

app = typer.Typer(rich_markup_mode=None)

Confidence = Annotated[
    float, typer.Option("--confidence", help="One minus the chance that the bound is too high.")
]


@app.callback(invoke_without_command=True)
def bound_command(
    context: typer.Context,
    members: Annotated[
        Path | None,
        typer.Option("--members", metavar="FILE", help="Scores of what was in training."),
    ] = None,
    nonmembers: Annotated[
        Path | None, typer.Option("--nonmembers", metavar="FILE", help="Scores of what was not.")
    ] = None,
    delta: Annotated[float, typer.Option("--delta", help="Delta of the guarantee.")] = 1e-5,
    confidence: Confidence = 0.95,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            help="clopper-pearson, clopper-pearson-f-dp, one-run, one-run-f-dp or nct.",
        ),
    ] = "clopper-pearson",
    as_json: AsJson = False,
) -> None:
    """The largest epsilon that an attack refutes; 0 where it refutes nothing.

    Scores are high for members. A file has one number a line (.txt, .csv) or is a list (.json) or
    a one-dimensional array (.npy).

    \b
    uedp-bench bound --members in.txt --nonmembers out.txt --delta 1e-5
    uedp-bench bound one-run --canaries 1000 --guesses 200 --correct 180 --delta 1e-5

    \b
    clopper-pearson       scores are independent: a training each, or canaries that do not interact
    one-run               each score is of a canary that was in one training by its own fair coin
    clopper-pearson-f-dp  scores are independent, and the trade-off curve is a Gaussian's
    one-run-f-dp          fair coins, and the trade-off curve is a Gaussian's
    nct                   scores are independent, and normal with one variance on both sides

    Whatever is chosen by looking at the scores is paid for, so that noise gives a bound above 0 in
    at most 5 % of cases at 95 %.
    """  # noqa: D301
    if context.invoked_subcommand is not None:
        refuse_options(context)
        return
    if members is None and nonmembers is None:
        typer.echo(context.get_help())
        return
    if members is None or nonmembers is None:
        missing, other = ("--members", "--nonmembers")[:: 1 if members is None else -1]
        raise InputError(f"{missing} FILE: missing beside {other}; a bound compares both")
    from uedp_bench.bounds.lower_bounds import (
        epsilon_lower_bound,
        epsilon_of_auc,
        normality_p_value,
    )
    from uedp_bench.statistics.intervals import auc

    sides = read_scores(members, "--members"), read_scores(nonmembers, "--nonmembers")
    epsilon = epsilon_lower_bound(
        *sides,
        delta=delta,
        confidence=confidence,
        method=method,  # type: ignore[arg-type]  # checked there, with a hint
    )
    area = auc(*sides)
    others: dict[str, float | None] = {"auc": area}
    if delta > 0.0:
        others["epsilon_of_auc"] = epsilon_of_auc(area, delta)
    if method == "nct":
        others["normality_p_value"] = normality_p_value(*sides)
    _show(epsilon, delta, confidence, method, as_json, others)


@app.command("one-run")
def one_run_command(
    canaries: Annotated[
        int, typer.Option("--canaries", metavar="M", help="Each in by its own fair coin.")
    ],
    guesses: Annotated[
        int,
        typer.Option(
            "--guesses", metavar="R", help="Canaries guessed on; fixed before seeing scores."
        ),
    ],
    correct: Annotated[int, typer.Option("--correct", metavar="V", help="Right guesses.")],
    delta: Annotated[float, typer.Option("--delta", help="Delta of the guarantee, in [0, 1).")],
    confidence: Confidence = 0.95,
    f_dp: Annotated[
        bool,
        typer.Option(
            "--f-dp", help="Assume that the mechanism's trade-off curve is a Gaussian's: larger."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """The bound from one training run with M canaries, R guesses and V right ones.

    \b
    uedp-bench bound one-run --canaries 1000 --guesses 200 --correct 180 --delta 1e-5
    """  # noqa: D301
    from uedp_bench.bounds.one_run import one_run_bound, one_run_f_dp_bound

    bound = one_run_f_dp_bound if f_dp else one_run_bound
    epsilon = bound(canaries, guesses, correct, delta=delta, confidence=confidence)
    method = "one-run-f-dp" if f_dp else "one-run"
    _show(epsilon, delta, confidence, method, as_json, {})


def read_scores(path: Path, option: str) -> NDArray[np.float64]:
    """Scores of a file; see the command's help for what it may hold.

    Raises:
        InputError: naming the option, the file and, in text, the line.
    """
    import numpy as np

    where = f"{option} {shown_path(path)}"
    if path.suffix.lower() not in ENDINGS:
        raise InputError(f"{where}: its name must end in {', '.join(ENDINGS)}")
    if path.suffix.lower() == ".npy":
        return _from_array(read_regular(path, option, MOST_BYTES), where)
    text = read_text(path, option, MOST_BYTES)
    if path.suffix.lower() == ".json":
        return _from_json(text, where)
    lines = enumerate(text.splitlines(), start=1)
    numbers = [_number(line, f"{where}: line {at}") for at, line in lines if line.strip()]
    return np.array(numbers, dtype=np.float64)


def _from_array(content: bytes, where: str) -> NDArray[np.float64]:
    import numpy as np

    try:
        # Its header may announce more than there is: the shape is looked at before memory is taken.
        file = io.BytesIO(content)
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else None
        read = np.lib.format.read_array_header_2_0 if version == (2, 0) else read
        if read is None:
            raise ValueError(f"version {version} of the format")
        shape, _, dtype = read(file)
        if len(shape) != 1 or dtype.kind not in "iuf":
            raise ValueError(f"shape {shape} of {dtype}")
        data = np.frombuffer(content, dtype, offset=file.tell())
        if len(data) != shape[0]:
            raise ValueError(f"{len(data)} numbers in place of {shape[0]}")
        return data.astype(np.float64)
    except Exception as error:  # of the parser of Python that NumPy reads headers with, too
        raise InputError(
            f"{where} is no one-dimensional .npy file of numbers: {plain(str(error), 200)}"
        ) from None


def _from_json(text: str, where: str) -> NDArray[np.float64]:
    import numpy as np

    try:
        items = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: {plain(str(error), 200)}") from None
    if not isinstance(items, list):
        raise InputError(f"{where}: not a list of numbers")
    # Results write infinity as the string "inf".
    numbers = [_number(str(x), f"{where}: item {at}") for at, x in enumerate(items)]
    return np.array(numbers, dtype=np.float64)


def _number(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {shown(text.strip())} is not a number") from None


def _show(
    epsilon: float,
    delta: float,
    confidence: float,
    method: str,
    as_json: bool,
    beside: dict[str, float | None],
) -> None:
    """Print the bound, and what tells whether scores or bound are weak."""
    if as_json:
        bound = {"epsilon": epsilon, "delta": delta, "confidence": confidence, "method": method}
        print_json({**bound, **beside})
        return
    typer.echo(f"epsilon is at least {epsilon:.6g} at delta {delta:g} ({method}, {confidence:.6g})")
    if "epsilon_of_auc" in beside:
        typer.echo(
            f"the scores have AUC {beside['auc']:.4g}, as those of the best attack on a Gaussian "
            f"mechanism of epsilon {beside['epsilon_of_auc']:.6g} have"
        )
    if "normality_p_value" in beside:
        p = beside["normality_p_value"]
        verdict = "is not tested: too few scores vary" if p is None else f"has p {p:.2g}"
        typer.echo(f"that the scores are normal, which nct rests on, {verdict}")
    if epsilon == 0.0:
        typer.echo("nothing is refuted: that is no proof of privacy")
