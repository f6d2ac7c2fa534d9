"""`uedp-bench new`, `check` and `doctor`: components of one's own, and what a machine can run."""

from __future__ import annotations

import keyword
import os
import platform
import re
import shlex
import sys
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from uedp_bench.cli.console import AsJson, PluginFiles, echo, print_json
from uedp_bench.components import registry
from uedp_bench.errors import InputError, PluginError, UnknownNameError, shown
from uedp_bench.version import __version__

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
    from uedp_bench.testing import check_component, subjects_of

    registry.load_plugins(plugin or [])

    def heard(check: Check, outcome: Outcome) -> None:
        name = check.name.removeprefix("check_").replace("_", " ")
        echo(f"  {outcome.state:16}  {name:{WIDE}}  {outcome.seconds:5.1f} s  {outcome.reason}")
        if explain:
            echo(f"{'':20}{check.about}")

    params = dict(_setting(text) for text in settings or [])
    subjects = [one for each in what for one in subjects_of(each, params=params)]
    for subject in subjects if params else ():
        subject.create()  # what the user gave is refused before anything is checked
    reports = []
    for subject in subjects:
        if not as_json:
            echo(f"{subject.kind} {subject.name}")
        reports.append(check_component(subject, heard=None if as_json else heard))
        if not as_json:
            echo(f"  {_conclusion(reports[-1])}\n")
    if as_json:
        print_json([_plain(report) for report in reports])
    if not reports or not all(report.conforms for report in reports):
        raise typer.Exit(1)


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
    from uedp_bench.spec.spec import parse_setting

    path, value = parse_setting(text, "rounds=2")
    if len(path) > 1:
        raise InputError(f"--set {shown(text)}: give the name of the parameter alone")
    return path[0], value


PACKAGES = ("torch", "transformers", "tokenizers", "numpy", "scipy", "pandas", "pydantic",
            "mlflow", "dp-accounting")  # fmt: skip
PROJECT = "uedp-bench"

State = Literal["good", "note", "bad"]
Out = Annotated[
    Path, typer.Option("--out", metavar="DIR", help="Folder of results that is looked at.")
]


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        what: name of what was examined.
        state: "bad" where something does not work that somebody asked for.
        said: finding in words, with the remedy where it is bad.
    """

    what: str
    state: State
    said: str


def doctor_command(
    out: Out = Path("runs"), plugin: PluginFiles = None, as_json: AsJson = False
) -> None:
    """Look at versions, device, threads, extras, components and the store of the tracking.

    Exit code 1 if something does not work. An extra that is not installed is no failure.

    \b
    uedp-bench doctor
    uedp-bench doctor --plugin my_mechanism.py --json
    """  # noqa: D301
    registry.load_plugins(plugin or [])
    findings = [*_versions(), *_machine(), *_extras(), *_components(), *_store(out)]
    if as_json:
        print_json([asdict(one) for one in findings])
    else:
        wide = max(len(one.what) for one in findings)
        for one in findings:
            echo(f"{one.state:4}  {one.what:{wide}}  {one.said}")
        bad = sum(one.state == "bad" for one in findings)
        echo(f"\n{bad} of {len(findings)} do not work" if bad else "\nall is well")
    if any(one.state == "bad" for one in findings):
        raise typer.Exit(1)


def _versions() -> list[Finding]:
    findings = [Finding(PROJECT, "good", f"{__version__}, Python {platform.python_version()}")]
    for name in PACKAGES:
        try:
            findings.append(Finding(name, "good", metadata.version(name)))
        except metadata.PackageNotFoundError:
            findings.append(Finding(name, "bad", f"is not installed: pip install {name}"))
    return findings


def _machine() -> list[Finding]:
    import torch

    threads = os.environ.get("OMP_NUM_THREADS")
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return [
        Finding("device", "good", ", ".join(gpus) if gpus else "cpu (no GPU that torch can use)"),
        Finding("threads", "good", f"{os.cpu_count()} cores, torch uses {torch.get_num_threads()}"
                + (f" (OMP_NUM_THREADS={threads})" if threads else "")),
    ]  # fmt: skip


def _extras() -> list[Finding]:
    """One finding for each extra: what it lacks."""
    try:
        required = metadata.requires(PROJECT) or []
    except metadata.PackageNotFoundError:
        return [Finding("extras", "bad", f"{PROJECT} is not installed: pip install -e .")]
    lacks: dict[str, list[str]] = {}
    for text in required:
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", text)
        name = re.match(r"[\w.-]+", text)
        if extra is None or name is None or extra[1] in ("dev", "test"):
            continue
        lacks.setdefault(extra[1], [])
        try:
            metadata.version(name[0])
        except metadata.PackageNotFoundError:
            lacks[extra[1]].append(name[0])
    return [
        Finding(f"extra {extra}", "note", f"lacks {', '.join(names)}: pip install "
                f"'{PROJECT}[{extra}]'")
        if names
        else Finding(f"extra {extra}", "good", "installed")
        for extra, names in lacks.items()
    ]  # fmt: skip


def _components() -> list[Finding]:
    """One finding for each kind, and one for each component that does not load."""
    findings = []
    for group, components in registry.REGISTRIES.items():
        try:
            names = components.names()
        except PluginError as error:
            findings.append(Finding(group, "bad", str(error)))
            continue
        broken = []
        for name in names:
            try:
                components.get(name)
            except PluginError as error:
                broken.append(Finding(f"{components.kind} {name}", "bad", str(error)))
        summary = f"{len(names) - len(broken)} of {len(names)} load"
        findings += [Finding(group, "bad" if broken else "good", summary), *broken]
    return findings


def _store(out: Path) -> list[Finding]:
    """Findings on the folder of results (can it be written?) and on the tracking store."""
    folder = out if out.exists() else out.resolve().parent
    writable = os.access(folder, os.W_OK)
    summary = f"{out} can be written" if writable else f"{folder} cannot be written: give --out"
    results = Finding("results", "good" if writable else "bad", summary)
    store = out / "mlflow.db"
    if not store.is_file():
        none = f"no store in {out} yet: the first run makes it"
        return [results, Finding("tracking", "good", none)]
    import sqlite3

    try:
        with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as database:
            runs = database.execute("select count(*) from runs").fetchone()[0]
    except sqlite3.Error as error:
        broken = f"{store} cannot be read ({error}): move it away, and the next run makes another"
        return [results, Finding("tracking", "bad", broken)]
    return [results, Finding("tracking", "good", f"{store} has {runs} runs")]


Kind = Annotated[
    str, typer.Argument(metavar="mechanism|attack|task|source|model|event", help="What to write.")
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Lower-case words joined by hyphens.")]
Destination = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write it.")]
Package = Annotated[
    bool, typer.Option("--package", help="Write a package with an entry point, not a lone file.")
]


def new_command(
    kind: Kind, name: Name, out: Destination = Path(), package: Package = False
) -> None:
    """Write a component that works, documented and with its test, to change it to your own.

    \b
    uedp-bench new mechanism my-mechanism
    uedp-bench new attack my-attack --out plugins
    uedp-bench new task my-task --package
    """  # noqa: D301
    written = write_component(kind, name, out, package=package)
    for path in written:
        echo(f"wrote {path}")
    file, test = (shlex.quote(str(path)) for path in written[:2])
    folder = shlex.quote(str(written[0].parent))
    if kind == "event":
        loaded = "" if package else f" --plugin {file}"
        install = f"pip install -e {folder}, then " if package else ""
        echo(f"next: {install}uedp-bench describe event/{name}{loaded}; pytest {test}")
    elif package:
        echo(f"next: pip install -e {folder}, then uedp-bench check {kind}/{name}")
    else:
        example = f" --set {shlex.quote(f'path={written[-1]}')}" if kind == "source" else ""
        echo(f"next: uedp-bench check {file}{example}; pytest {test}")


NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

EXAMPLE = "author,region,stars,text\n" + "".join(
    f"author{at // 2},{'north' if at % 3 else 'south'},{1 + at % 5},"
    f"a {'lovely' if at % 5 > 2 else 'dull'} book number {at}\n"
    for at in range(40)
)
"""Rows of the file that a new source reads."""


def write_component(kind: str, name: str, folder: Path, *, package: bool = False) -> list[Path]:
    """Write a component and its test; nothing that exists is overwritten.

    Args:
        kind: kind of the component: "mechanism", "attack", "task", "source" or "model"; or "event",
            which is written with its accountants.
        name: name of the component: lower-case words joined by hyphens.
        folder: folder of the files, or of the package.
        package: True to write a package that registers by an entry point, not a lone file.

    Returns:
        The files that were written.

    Raises:
        UnknownNameError: for another kind.
        InputError: for a name that is none or is taken, or a file that exists.
    """
    kinds = [plural.removesuffix("s") for plural in registry.REGISTRIES]
    if kind not in kinds:
        raise UnknownNameError("kind of component", kind, kinds)
    if not NAME.fullmatch(name):
        raise InputError(f"the name {shown(name)} is not lower-case words joined by hyphens")
    if name in registry.REGISTRIES[f"{kind}s"]:
        raise InputError(f"there is a {kind} {name} already: choose another name")
    module, class_name = name.replace("-", "_"), "".join(map(str.capitalize, name.split("-")))
    target = folder / name if package else folder
    texts = {f"{module}.py": f"{kind}.py", f"test_{module}.py": f"test_{kind}.py"}
    if package:
        texts |= {"pyproject.toml": "pyproject.toml", "README.md": "README.md"}
    title = name.replace("-", " ").capitalize()
    words = {"kind": kind, "name": name, "module": module, "Class": class_name, "title": title}
    files = {target / file: _filled(text, words) for file, text in texts.items()}
    head = files[target / f"{module}.py"].split('"""')[2].partition("\n\n\n")[0]
    reserved = {*sys.stdlib_module_names, *keyword.kwlist, *_installed_modules()}
    if module in reserved or class_name in {*reserved, *re.findall(r"\w+", head)}:
        raise InputError(
            f"the name {shown(name)} makes the module {module} and the class {class_name}, and "
            "Python, a package or the file has one of them already: choose another name"
        )
    if package:
        files[target / f"{module}.py"] = _by_entry_point(files[target / f"{module}.py"], kind)
        if kind == "event":  # which the kit checks in plans of mechanisms alone
            readme = files[target / "README.md"]
            files[target / "README.md"] = readme.replace(f"uedp-bench check event/{name}\n", "")
    if kind == "source":
        files[target / f"{module}_example.csv"] = EXAMPLE
    for file in files:
        if file.exists():
            raise InputError(f"{file} exists: choose another name or folder")
    target.mkdir(parents=True, exist_ok=True)
    for file, text in files.items():
        file.write_text(text, encoding="utf-8")
    return list(files)


@cache
def _installed_modules() -> frozenset[str]:
    """Top-level modules of all installed packages; their lists of files take long to read."""
    return frozenset(metadata.packages_distributions())


def _filled(name: str, words: dict[str, str]) -> str:
    text = (files("uedp_bench") / "testing" / "templates" / f"{name}.txt").read_text(
        encoding="utf-8"
    )
    return Template(text).substitute(words)


def _by_entry_point(text: str, kind: str) -> str:
    """The module without its decorator: an entry point registers it."""
    text = text.replace(f"@{kind}s.register\n", "")
    text = text.replace(f"    {kind}s,\n", "")  # a line of its own
    return text.replace(f", {kind}s\n", "\n")
