"""`uedp-bench show`: a result in plain words, in the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.accounting.events import DECLARED
from uedp_bench.cli.console import AsJson, echo, print_json
from uedp_bench.errors import InputError, nearest, shown

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Estimate, LowerBound, Result
    from uedp_bench.leaderboard.bundles import Line

WIDE = 24

What = Annotated[
    str, typer.Argument(metavar="RUN", help="An id, its beginning, a folder or a result.json.")
]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder of results, or a bundle of them.")
]


def show_command(run: What, out: Out = Path("runs"), as_json: AsJson = False) -> None:
    """Show a result in plain words: what it promises, what it is worth, what attacks found.

    \b
    uedp-bench show 3f2a --out runs/quickstart
    uedp-bench show runs/quickstart/3f2a17c09be1/result.json
    uedp-bench show 3f2a --out leaderboard/results
    """  # noqa: D301
    result = _result(run, out)
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    for line in lines(result):
        echo(line)


def _result(run: str, out: Path) -> Result:
    """The result that is called so.

    Raises:
        InputError: if none, or several, are called so.
    """
    from uedp_bench.contracts.results import read_result
    from uedp_bench.store.result_files import result_of_text

    named = Path(run)
    for file in (named, named / "result.json"):
        if file.is_file():
            return read_result(file)
    runs: dict[str, Path | Line] = {file.parent.name: file for file in out.glob("*/result.json")}
    if not any(name.startswith(run) for name in runs):
        runs |= {line.id: line for line in _lines(out, run)}
    fits = [name for name in sorted(runs) if name.startswith(run)]
    if len(fits) == 1:
        place = runs[fits[0]]
        if isinstance(place, Path):
            return read_result(place)
        return result_of_text(place.text, place.place)
    if fits:
        raise InputError(f"{shown(run)} begins several runs of {out}: {', '.join(fits[:8])}")
    near = nearest(run, runs)
    hint = f"did you mean {near}?" if near else f"it has {len(runs)} runs; --out names a folder"
    raise InputError(f"no run {shown(run)} in {out}; {hint}")


def _lines(out: Path, run: str) -> Iterator[Line]:
    """Lines of all bundles of a folder; the text of those alone whose id begins so."""
    from uedp_bench.leaderboard.bundles import SUFFIX, read_lines
    from uedp_bench.leaderboard.sources import Folder

    for file in Folder(out, may_come=True).find():
        for line in read_lines(Path(file.name)) if file.name.endswith(SUFFIX) else ():
            yield line if line.id.startswith(run) else replace(line, text="")


def lines(result: Result) -> Iterator[str]:
    """What a result says, line by line."""
    from uedp_bench.leaderboard.run_pages.in_words import in_words

    spec = result.spec
    yield (
        f"{result.label}, task {spec.task.name}, model {spec.model.name}, source "
        f"{spec.source.name}, seed {spec.seed} ({result.id})"
    )
    if result.error is not None:
        yield f"It failed in the phase {result.error.phase}: {result.error.message}"
        return
    for sentence in in_words(result):
        yield sentence.text
    yield from _part("utility", result.utility)
    yield "\nguarantee"
    for given in result.guarantees or ():
        epsilon = "no epsilon" if math.isinf(given.epsilon) else f"epsilon {given.epsilon:.4g}"
        why = f" ({DECLARED})" if given.accountant == DECLARED else ""
        why += f" ({given.pure:.4g} at delta 0)" if given.pure is not None else ""
        why += f": {given.reason}" if given.reason else ""
        why += f" ({given.note})" if given.kind == "stated" else ""
        yield f"  {given.kind:{WIDE}}{epsilon} for {given.unit}, delta {given.delta:g}{why}"
    if not result.guarantees:
        yield "  none: private rows were not used"
    for attack, found in result.leakage.items():
        yield from _part(f"attack {attack}", found, result.ceilings.get(attack, {}))
        yield from (_refuted(each) for each in result.lower_bounds if each.attack == attack)
    for skipped in result.skipped_attacks:
        yield f"\nattack {skipped.name} was left out: {skipped.reason}"
    for failure in result.failed_attacks:
        yield f"\nattack {failure.name} failed: {failure.reason}"
    yield "\ncost"
    for name, value in result.cost.model_dump().items():
        if isinstance(value, int | float) and not isinstance(value, bool) and value:
            yield f"  {name:{WIDE}}{value:,.6g}"


def _refuted(bound: LowerBound) -> str:
    """Epsilon that an attack refuted, with all that the number depends on."""
    where = "" if bound.spread is None else f", spread {bound.spread}"
    where += "" if bound.sentences is None else f", {bound.sentences} sentences of others"
    assumed = f", if {' and '.join(bound.assumptions)}" if bound.assumptions else ""
    return (
        f"  refutes every epsilon below {bound.epsilon:.4g} for {bound.unit} ({bound.adjacency}, "
        f"delta {bound.delta:g}{where}), {100 * bound.confidence:g} % sure, by {bound.method}"
        f"{assumed}"
    )


def _part(
    title: str, found: dict[str, Estimate], ceilings: Mapping[str, float] | None = None
) -> Iterator[str]:
    yield f"\n{title}"
    allowed = ceilings or {}
    wide = max([WIDE, *(len(name) + 1 for name in found)])
    for name, one in found.items():
        low, high = one.low, one.high
        interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
        most = f", proofs allow {allowed[name]:.4g}" if name in allowed else ""
        yield f"  {name:{wide}}{one.value:.4g}{interval}{most}"
