"""`uedp-bench leaderboard validate`: what is wrong with result files of anybody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.cli.console import AsJson, PluginFiles, print_json

if TYPE_CHECKING:
    from uedp_bench.leaderboard.validation.report import Report

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Results, bundles, or folders: every result.json and bundle below them.",
    ),
]


def validate_command(files: Files, plugin: PluginFiles = None, as_json: AsJson = False) -> None:
    """Form, ranges, consistency, identity and guarantees of results; says everything wrong.

    Exit code 1 if a file has an error. A note says what could not be checked, and why.

    \b
    uedp-bench leaderboard validate runs/mine
    uedp-bench leaderboard validate result.json --json
    uedp-bench leaderboard validate result.json --plugin my_mechanism.py
    """  # noqa: D301
    validated(files, plugin or (), as_json=as_json)


def validated(files: Sequence[Path], plugins: Sequence[Path], *, as_json: bool = False) -> None:
    """Checks results and says what is wrong; ends with exit code 1 where one has an error.

    Args:
        files: results, bundles and folders.
        plugins: files of components to load first.
        as_json: say it as JSON.
    """
    from uedp_bench.leaderboard.validate import check, find, without_twins
    from uedp_bench.leaderboard.validation.checking_process import Guard
    from uedp_bench.leaderboard.validation.report import Report
    from uedp_bench.registry import load_plugins

    load_plugins(plugins)  # a bad plug-in is reported here, not in the other process
    reports = []
    with Guard(check, plugins) as guarded:
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
        for line in [*([_summary(reports)] if len(reports) > 1 else []), *_told(reports)]:
            typer.echo(line)
    if not all(report.valid for report in reports):
        raise typer.Exit(1)


def _text(report: Report) -> str:
    counts = [_count(len(report.errors), "error"), _count(len(report.notes), "note")]
    verdict = ", ".join(filter(None, counts)) or "valid"
    lines = [f"{report.path}: {verdict if report.errors else _valid(verdict)}"]
    for problem in report.problems:
        where = f"{problem.where}: " if problem.where else ""
        lines.append(f"  {problem.severity:<6}{where}{problem.what}")
    return "\n".join(lines)


def _valid(verdict: str) -> str:
    return verdict if verdict == "valid" else f"valid, {verdict}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}" if number else ""


def _summary(reports: Sequence[Report]) -> str:
    bad = sum(not report.valid for report in reports)
    return f"{len(reports)} results, {f'{bad} of them with errors' if bad else 'all of them valid'}"


def _told(reports: Sequence[Report]) -> list[str]:
    """Sentences that a submitter should know of all files, each once."""
    counts = Counter(text for report in reports for text in report.told)
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
            "told": list(report.told)}  # fmt: skip
