"""`uedp-bench check`: whether a component keeps its contract."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.cli.console import AsJson, PluginFiles, echo, print_json
from uedp_bench.errors import InputError, shown

if TYPE_CHECKING:
    from uedp_bench.testing import Check, Outcome, Report

WIDE = 34

What = Annotated[
    list[str],
    typer.Argument(metavar="FILE|MODULE:CLASS|NAME", help="What to check; several may be given."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of its small runs."),
]
Explain = Annotated[bool, typer.Option("--explain", help="Say what each check protects from.")]


def check_command(
    what: What,
    settings: Settings = None,
    plugin: PluginFiles = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Check that mechanisms, attacks, tasks, sources or models keep their contracts.

    Small runs are made on the embedded corpus; it takes seconds, and nothing is downloaded.
    Exit code 1 if a check fails.

    \b
    uedp-bench check my_mechanism.py
    uedp-bench check my_package.attack:MyAttack --set queries=20
    uedp-bench check user-dp --explain
    """  # noqa: D301
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from uedp_bench.components.registry import load_plugins
    from uedp_bench.testing import check_component, subjects_of

    load_plugins(plugin or [])
    params = dict(_setting(text) for text in settings or [])
    subjects = [one for each in what for one in subjects_of(each, params=params)]
    for subject in subjects if params else ():
        subject.create()  # what the user gave is refused before anything is checked
    reports = []
    for subject in subjects:
        if not as_json:
            echo(f"{subject.kind} {subject.name}")
        heard = None if as_json else _Lines(explain)
        reports.append(check_component(subject, heard=heard))
        if not as_json:
            echo(f"  {_conclusion(reports[-1])}\n")
    if as_json:
        print_json([_plain(report) for report in reports])
    if not reports or not all(report.conforms for report in reports):
        raise typer.Exit(1)


class _Lines:
    """Prints a line for each check."""

    def __init__(self, explain: bool) -> None:
        self._explain = explain

    def __call__(self, check: Check, outcome: Outcome) -> None:
        """As `check_component` calls it."""
        name = check.name.removeprefix("check_").replace("_", " ")
        echo(f"  {outcome.state:16}  {name:{WIDE}}  {outcome.seconds:5.1f} s  {outcome.reason}")
        if self._explain:
            echo(f"{'':20}{check.about}")


def _conclusion(report: Report) -> str:
    if report.conforms:
        return report.verdict.partition(": ")[2]
    why = "" if report.failed else ": nothing was checked, which is a failure"
    return f"does not conform ({report.verdict.partition(': ')[2]}){why}"


def _plain(report: Report) -> dict[str, Any]:
    return {
        "kind": report.kind,
        "name": report.name,
        "conforms": report.conforms,
        "checks": [asdict(one) for one in report.outcomes],
    }


def _setting(text: str) -> tuple[str, Any]:
    from uedp_bench.spec.settings import parse_setting

    path, value = parse_setting(text, "rounds=2")
    if len(path) > 1:
        raise InputError(f"--set {shown(text)}: give the name of the parameter alone")
    return path[0], value
