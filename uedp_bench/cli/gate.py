"""`uedp-bench gate` and `report`: results against thresholds, and as evidence for an auditor."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.cli.console import AsJson, PluginFiles, console, echo, print_json
from uedp_bench.errors import InputError, UedpBenchError

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Result, RunSpec
    from uedp_bench.leaderboard.evidence import Section
    from uedp_bench.leaderboard.gate import Check, Thresholds

CLOSED = 3
"""Exit code where a check does not pass."""

SPECS = (".yaml", ".yml")
"""Suffixes of specs; any other target holds results."""

Limits = list[str] | None


def gate_command(
    target: Annotated[
        Path,
        typer.Argument(metavar="RUNS|SPEC.yaml", help="A folder or bundle of runs, or a spec."),
    ],
    at_most: Annotated[
        Limits,
        typer.Option("--max", metavar="NAME=VALUE", help="Largest value allowed (repeat)."),
    ] = None,
    at_least: Annotated[
        Limits,
        typer.Option("--min", metavar="NAME=VALUE", help="Smallest value allowed (repeat)."),
    ] = None,
    thresholds: Annotated[
        Path | None,
        typer.Option(
            "--thresholds",
            metavar="FILE",
            help="YAML with max, min, mechanisms, interval, refuted; the stricter limit counts.",
        ),
    ] = None,
    mechanism: Annotated[
        Limits,
        typer.Option("--mechanism", metavar="NAME", help="Judge rows of it alone (repeat)."),
    ] = None,
    interval: Annotated[
        bool, typer.Option("--interval", help="Judge the worse end of each 95 % interval.")
    ] = False,
    refuted: Annotated[
        bool, typer.Option("--allow-refuted", help="Let rows pass whose claims are refuted.")
    ] = False,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where a spec's runs go.")
    ] = Path("runs/gate"),
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML there.")
    ] = None,
    github: Annotated[
        bool,
        typer.Option(
            "--github", envvar="GITHUB_ACTIONS", help="Print annotations of GitHub Actions."
        ),
    ] = False,
    plugin: PluginFiles = None,
    as_json: AsJson = False,
) -> None:
    """Exit with 0 if every row keeps all thresholds, with 3 if one does not.

    A name is a metric (accuracy, secret-sharer.exposure_user), a guarantee (proven.user), or a
    lower bound: audited.user at 95 %, strict.user at 1 - 1e-6 without conditions. What was not
    measured does not pass, and a claim that an attack refuted never does.

    \b
      uedp-bench gate runs --max proven=8 --max audited=1 --mechanism user-dp
      uedp-bench gate runs --max membership.tpr_user_at_1pct_fpr=0.05 --min accuracy=0.8 --interval
      uedp-bench gate spec.yaml --thresholds privacy.yaml --junit gate.xml
    """  # noqa: D301
    from uedp_bench.components.registry import load_plugins
    from uedp_bench.leaderboard.gate import Thresholds, github_lines, judge, read_thresholds
    from uedp_bench.leaderboard.gate import junit as junit_xml

    load_plugins(plugin or [])
    limits = read_thresholds(thresholds) if thresholds else Thresholds()
    limits = limits.model_copy(
        update={
            "max": _stricter(limits.max, _numbers("--max", at_most), min),
            "min": _stricter(limits.min, _numbers("--min", at_least), max),
            "mechanisms": tuple(mechanism or limits.mechanisms),
            "interval": interval or limits.interval,
            "refuted": refuted or limits.refuted,
        }
    )
    if junit is not None and (junit.is_dir() or not junit.parent.is_dir()):
        raise InputError(f"--junit {junit}: give a file in a folder that is there")
    results = _results(target, limits, out, plugin or ())
    checks = judge(results, limits, packed=_holds_bundle(target))
    if junit is not None:
        _write(junit, junit_xml(checks))
    if as_json:
        print_json([asdict(check) for check in checks])
    else:
        _print(checks)
    if github:
        for line in github_lines(checks):
            echo(line, err=as_json)  # Actions reads both, and JSON stands alone
    if any(check.status != "passes" for check in checks):
        raise typer.Exit(CLOSED)


def _numbers(option: str, texts: Limits) -> dict[str, float]:
    """Name and value of each option.

    Raises:
        InputError: if one is not NAME=NUMBER.
    """
    limits: dict[str, float] = {}
    for text in texts or ():
        name, _, value = text.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not name.strip() or not math.isfinite(number):
            raise InputError(f"{option} {text}: give NAME=NUMBER, such as audited=1")
        if name.strip() in limits:
            raise InputError(f"{option} {text}: {name.strip()} has a limit already; give one")
        limits[name.strip()] = number
    return limits


def _stricter(
    one: Mapping[str, float], other: Mapping[str, float], pick: Callable[[float, float], float]
) -> dict[str, float]:
    both = {name: pick(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _results(
    target: Path, thresholds: Thresholds, out: Path, plugins: Sequence[Path]
) -> list[Result]:
    """Results of a folder or a bundle; of a spec, once it has run."""
    from uedp_bench.leaderboard.gate import check_names
    from uedp_bench.leaderboard.loading import load_results
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import parse_spec, read_spec

    if target.suffix not in SPECS:
        if not (results := load_results([target])):
            raise InputError(f"no results in {target}; make some with: uedp-bench quickstart")
        return results
    from uedp_bench.python_api.running import run

    if not target.is_file():
        raise InputError(f"{target}: no such spec")
    runs = expand(parse_spec(read_spec(str(target))))
    check_names(runs, thresholds)
    settings = decisive_settings(runs, thresholds)
    results = list(run(target, out=out, plugins=plugins, settings=settings))
    failures = [result.error for result in results if result.error]
    if failures:
        raise UedpBenchError(f"{len(failures)} runs failed: {failures[0].message}")
    return results


def _holds_bundle(target: Path) -> bool:
    """True if results, or some of them, come from a bundle."""
    from uedp_bench.leaderboard.sources import SUFFIX, Folder

    if target.suffix in SPECS:
        return False
    return any(location.name.endswith(SUFFIX) for location in Folder(target).find())


def decisive_settings(runs: Iterable[RunSpec], thresholds: Thresholds) -> dict[str, float]:
    """Settings with which an audit stops retraining once a threshold is exceeded."""
    limits = [
        limit
        for name, limit in thresholds.max.items()
        if name.partition(".")[0] in ("audited", "strict") and limit > 0
    ]
    params_by_name: dict[str, list[Mapping[str, Any]]] = {}
    for ref in (ref for run in runs for ref in run.attacks):
        params_by_name.setdefault(ref.name, []).append(ref.params)
    # The largest: a smaller one could end retrainings before another limit is decided.
    return {
        f"attack.{name}.target_epsilon": max(
            *limits, *(each.get("target_epsilon") or 0.0 for each in every)
        )
        for name, every in params_by_name.items()
        if limits and all(each.get("stop") == "early" for each in every)
    }


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--junit {file}: {error.strerror}") from None


def _print(checks: Sequence[Check]) -> None:
    from rich.table import Table
    from rich.text import Text

    styles = {"passes": "green", "fails": "bold red", "not measured": "yellow"}
    table = Table("row", "threshold", "verdict", "reason", box=None, pad_edge=False)
    for check in checks:
        table.add_row(
            Text(check.row), Text(f"{check.quantity} {check.limit}".strip()),
            Text(check.status, style=styles[check.status]), Text(check.reason),
        )  # fmt: skip
    console().print(table)
    bad = sum(check.status != "passes" for check in checks)
    echo(f"{len(checks) - bad} of {len(checks)} checks pass" if bad else "all checks pass")


# ------------------------------------------------------------------------------------------- report

ENDINGS = (".html", ".md", ".pdf")

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

SECONDS = 120.0
"""Time that a browser has for a document."""

TITLE = "Privacy evidence"


def report_command(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="A folder or bundle of runs.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="FILE.html, .md, or .pdf (by Chromium).")
    ],
    mechanism: Annotated[
        list[str] | None,
        typer.Option("--mechanism", metavar="NAME", help="Report its rows alone (repeat)."),
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Write one document for an auditor, without using the network.

    It has a verdict in words, privacy units, guarantees with their assumptions, attacks beside the
    unprotected row, fingerprints of data, versions, hashes of results, and what that says on points
    of NIST SP 800-226 and OWASP AISVS C11.2. The same results make the same HTML and Markdown.

    \b
      uedp-bench report runs --out report.html
      uedp-bench report results.jsonl.gz --mechanism user-dp --out report.pdf
    """  # noqa: D301
    if out.suffix not in ENDINGS:
        raise InputError(f"--out {out}: the ending is one of {', '.join(ENDINGS)}")
    browser = _browser(out) if out.suffix == ".pdf" else ""
    from uedp_bench.components.registry import load_plugins
    from uedp_bench.leaderboard.evidence import evidence
    from uedp_bench.leaderboard.loading import load_results

    load_plugins(plugin or [])
    if not (results := load_results([runs])):
        raise InputError(f"no results in {runs}; make some with: uedp-bench quickstart")
    sections = evidence(results, mechanism or (), packed=_holds_bundle(runs))
    text = _markdown(sections) if out.suffix == ".md" else _html(sections)
    try:
        if browser:
            _print_pdf(browser, text, out)
        else:
            out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror}") from None
    echo(f"written: {out}", err=True)


def _markdown(sections: Sequence[Section]) -> str:
    from uedp_bench.leaderboard.table import markdown_text, sheet_markdown

    parts = [f"# {TITLE}"]
    for section in sections:
        parts += [f"## {section.title}", *map(markdown_text, section.sentences)]
        parts += map(sheet_markdown, section.sheets)
    return "\n\n".join(parts) + "\n"


def _html(sections: Sequence[Section]) -> str:
    from uedp_bench.leaderboard.site_files import render

    return render("report.html.j2", {"title": TITLE, "sections": sections})


def _browser(out: Path) -> str:
    """Path of a browser that prints.

    Raises:
        InputError: if there is none.
    """
    named = os.environ.get("UEDP_BENCH_CHROMIUM")
    browser = next(filter(None, map(shutil.which, [named] if named else BROWSERS)), None)
    if browser is None:
        raise InputError(
            f"--out {out}: PDF needs Chromium or Chrome; install one (Debian: apt install "
            "chromium), name it by UEDP_BENCH_CHROMIUM, or write .html and print that"
        )
    return browser


def _print_pdf(browser: str, html: str, out: Path) -> None:
    """Print a document that loads nothing; the browser finds no host.

    Raises:
        UedpBenchError: if the browser writes nothing.
    """
    with TemporaryDirectory() as folder:
        page, printed = Path(folder) / "report.html", Path(folder) / "report.pdf"
        page.write_text(html, encoding="utf-8")
        command = [
            browser, "--headless", "--disable-gpu", "--no-first-run", "--no-pdf-header-footer",
            "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}/profile",
            *(["--no-sandbox"] if getattr(os, "geteuid", int)() == 0 else []),  # root has none
            f"--print-to-pdf={printed}", page.as_uri(),
        ]  # fmt: skip
        try:
            subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)  # noqa: S603
        except subprocess.TimeoutExpired:
            raise UedpBenchError(f"{browser} did not print within {SECONDS:g} s") from None
        if not printed.is_file():
            raise UedpBenchError(f"{browser} printed no PDF")
        out.write_bytes(printed.read_bytes())
