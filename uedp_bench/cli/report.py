"""`uedp-bench report`: results as one document for an auditor."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from uedp_bench.cli.console import PluginFiles, echo
from uedp_bench.errors import InputError, UedpBenchError

if TYPE_CHECKING:
    from uedp_bench.leaderboard.evidence import Section

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
    sections = evidence(results, mechanism or ())
    text = _markdown(sections) if out.suffix == ".md" else _html(sections)
    try:
        if browser:
            _print(browser, text, out)
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


def _print(browser: str, html: str, out: Path) -> None:
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
