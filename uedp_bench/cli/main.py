"""The command `uedp-bench`: its commands, and what a user sees when something goes wrong.

Exit codes: 0 all done; 1 a run, an attack, a check or the tracking failed, or a claim is refuted;
2 bad input, nothing ran; 3 a gate does not pass; 130 stopped by Ctrl-C.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any

import typer

from uedp_bench.cli import bound, data, leaderboard, listing
from uedp_bench.cli.account import account_command, calibrate_command
from uedp_bench.cli.advise import advise_command
from uedp_bench.cli.check import check_command, doctor_command, new_command
from uedp_bench.cli.data import init_command, plant_command
from uedp_bench.cli.gate import gate_command, report_command
from uedp_bench.cli.listing import show_command
from uedp_bench.cli.run import quickstart_command, run_command
from uedp_bench.errors import (
    InputError,
    SeveralInputError,
    UedpBenchError,
    UnknownNameError,
    flags,
    plain,
    shown,
)
from uedp_bench.io.folders import FULL
from uedp_bench.version import __version__

INTERRUPTED = 130
MOST_SAID = 2_000
"""Characters of an error message."""

BAD_PATHS = {
    errno.EACCES, errno.EEXIST, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT,
    errno.ENOTDIR, errno.ENXIO, errno.EPERM, errno.EROFS,
}  # fmt: skip
"""Errors of the system about a file that a user named and that cannot be used so."""

STOPPED = "stopped; run the same command again to resume"

HELP = """Utility, guarantee, leakage and cost of text privacy mechanisms, in one table.

\b
  uedp-bench quickstart                       six mechanisms on the embedded corpus
  uedp-bench advise mail.csv                  what protects its people, in words
  uedp-bench init mail.csv                    a spec that runs, from a file of your own
  uedp-bench list mechanisms                  what there is
  uedp-bench describe uedp                    what it takes
  uedp-bench data describe conll2003 --path DIR
  uedp-bench new mechanism my-mechanism       a component of your own that works, with its test
  uedp-bench check my_mechanism.py            whether a component of yours keeps its contract
  uedp-bench account uedp --set NAME=VALUE    its guarantees, claimed and proven
  uedp-bench calibrate user-dp --epsilon 8    the noise that a proven guarantee needs
  uedp-bench bound --members A --nonmembers B the epsilon that an attack's scores refute
  uedp-bench plant SPEC.yaml --out planted    canaries for a model that is trained elsewhere
  uedp-bench run SPEC.yaml --out runs         a benchmark; the same command resumes it
  uedp-bench gate runs --max audited=1        exit code 3 if a threshold is not kept
  uedp-bench report runs --out report.html    one document for an auditor
  uedp-bench doctor                           what is installed, and what does not work
  uedp-bench show RUN --out runs              one result in plain words
  uedp-bench leaderboard --results runs       its table
  uedp-bench leaderboard serve --results runs its pages; 'leaderboard build' writes them as files
"""

app = typer.Typer(
    help=HELP,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"uedp-bench {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Show the help where no command is given."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


app.command("quickstart")(quickstart_command)
app.command("advise")(advise_command)
app.command("init")(init_command)
app.command("run")(run_command)
app.command("list")(listing.list_command)
app.command("describe")(listing.describe_command)
app.command("account")(account_command)
app.command("calibrate")(calibrate_command)
app.command("show")(show_command)
app.command("doctor")(doctor_command)
app.command("new")(new_command)
app.command("check")(check_command)
app.command("plant")(plant_command)
app.command("gate")(gate_command)
app.command("report")(report_command)
app.add_typer(bound.app, name="bound")
app.add_typer(data.app, name="data")
app.add_typer(leaderboard.app, name="leaderboard")


def main() -> None:
    """Entry point of the console script."""
    command = partial(run_cli, sys.argv[1:])
    _make_printable()
    ranks = os.environ.get("WORLD_SIZE", "")
    if ranks.isdecimal() and int(ranks) > 1 and "TORCHELASTIC_RUN_ID" in os.environ:
        from uedp_bench.training.executors import as_rank

        sys.exit(as_rank(command))
    sys.exit(command())


def _make_printable() -> None:
    """Let a closed output swallow what is printed, and a narrow encoding take what it can."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


@cache
def parser() -> Any:
    """All commands with their options, put together once a process."""
    return typer.main.get_command(app)


def run_cli(arguments: Sequence[str]) -> int:
    """Run one command line; errors that a user can mend become one line on standard error.

    Returns:
        The exit code. Errors that are nobody's on purpose are raised.
    """
    command = parser()
    try:
        _check_text(arguments)
        _check_command(arguments)
        code = command.main(list(arguments), prog_name="uedp-bench", standalone_mode=False)
    except InputError as error:
        runs = list(arguments[:1]) == ["run"]
        return _complain_of(error) if runs else _complain(str(error), 2)
    except UedpBenchError as error:
        return _complain(str(error), 1)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except SystemExit as stopped:
        if isinstance(stopped.__context__, BrokenPipeError):
            return 1  # nobody reads on, as under `| head`: the parser ends so, and that is no error
        # A command ends by returning, so a component called sys.exit().
        return _complain(f"a component called sys.exit({stopped.code!r}): nothing was done", 1)
    except OSError as error:
        if error.errno in BAD_PATHS and error.filename:
            return _complain(f"{_shown(error.filename)}: {error.strerror}", 2)
        if error.errno not in FULL:
            where = f"{_shown(error.filename)}: " if error.filename else ""
            return _complain(f"{where}{error.strerror or error}", 1)
        where = f" ({_shown(error.filename)})" if error.filename else ""
        return _complain(
            f"the disk is full{where}; results written so far are kept: make room, then run the "
            "same command again to resume",
            1,
        )
    except Exception as error:
        # The parser's own errors; where their class lives depends on typer's version.
        explain = getattr(error, "format_message", None)
        if explain is None:
            raise
        return _complain(explain().replace("Value error, ", ""), 2)  # pydantic's words
    if code == INTERRUPTED:
        typer.echo(STOPPED, err=True)
    return code if isinstance(code, int) else 0


def _check_text(arguments: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8: no result could record them.

    Raises:
        InputError: for the first of them.
    """
    for at, argument in enumerate(arguments, start=1):
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InputError(f"argument {at} ({shown(argument)}) is not UTF-8 text") from None


def _check_command(arguments: Sequence[str]) -> None:
    """Refuse a name of no command.

    Raises:
        UnknownNameError: with the nearest command, or all.
    """
    group = parser()
    for argument in arguments:
        commands = getattr(group, "commands", None)
        if commands is None or argument.startswith("-"):
            return
        if argument not in commands:
            raise UnknownNameError("command", argument, commands)
        group = commands[argument]


def _shown(path: object) -> str:
    return plain(os.fsdecode(path) if isinstance(path, bytes) else str(path), 200)


def _complain_of(error: InputError) -> int:
    """Say everything that is wrong with a spec, a line each, with the settings that mend it."""
    for one in error.errors if isinstance(error, SeveralInputError) else (error,):
        message = str(one)
        if one.mends:
            message += f"{'' if message.endswith('?') else ';'} mend: {flags(one.mends)}"
        _complain(message, 2)
    return 2


def _complain(message: str, code: int) -> int:
    typer.echo(f"error: {plain(' '.join(message.split()), MOST_SAID)}", err=True)
    return code
