"""What is shipped, what importing costs, and that strangers' plug-ins register as built-ins do."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
import zipfile
from collections.abc import Callable
from importlib.metadata import distributions, entry_points, packages_distributions
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version
from tiny import plugged

import uedp_bench
from uedp_bench.cli.main import run_cli

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SHIPPED = ("uedp_bench", "mechanisms", "attacks", "tasks", "leaderboard")
HEAVY = ("torch", "transformers", "spacy", "mlflow", "datasets", "sklearn", "scipy", "pandas")
KINDS = ("mechanisms", "attacks", "tasks", "sources", "models")


def tracked_files() -> list[str]:
    """Files of the checkout that git knows, symlinks to folders left out."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout: the files that must be shipped are those git lists")
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    return [name for name in listed if name and (ROOT / name).is_file()]


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, env=environment
    )


def test_pages_are_built_without_installing_again(tmp_path):
    environment = tmp_path / "elsewhere"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin" / "mkdocs").touch()
    steps = run("make", "-n", "-C", ROOT, "docs", f"VENV={environment}")
    assert steps.returncode == 0 and "mkdocs build" in steps.stdout
    assert not any(word in steps.stdout for word in (" pip ", "venv ", "touch "))


def pip_free_site(folder: Path, name: str, points: str, **modules: str) -> Path:
    """An installed package as an installer leaves it: modules, and a dist-info beside them."""
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(points))
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(textwrap.dedent(text))
    return folder


class Done(NamedTuple):
    """Exit code of a command line, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


ONE_AFTER_THE_OTHER = """
import contextlib, io, json, sys
from uedp_bench.cli.main import run_cli
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_cli(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def command_lines(site: Path, *commands: str) -> list[Done]:
    """Command lines, one after the other, where the packages of a folder are installed."""
    arguments = json.dumps([command.split() for command in commands])
    done = run(sys.executable, "-c", ONE_AFTER_THE_OTHER, arguments, PYTHONPATH=str(site))
    assert done.returncode == 0, done.stderr
    return [Done(*json.loads(line)) for line in done.stdout.splitlines()]


# --------------------------------------------------------------------------------- what is shipped


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built by way of the source distribution from a clean copy of the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in tracked_files():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    out = copy.parent / f"{copy.name}-dist"
    built = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, copy)
    assert built.returncode == 0, built.stdout + built.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


@pytest.mark.long
def test_the_wheel_holds_exactly_the_files_of_the_mapped_folders(wheel):
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {
        name if name.startswith("uedp_bench/") else f"uedp_bench/{name}"
        for name in tracked_files()
        if name.split("/")[0] in SHIPPED and not name.startswith("leaderboard/results/")
    }
    assert shipped == expected


@pytest.mark.long
def test_the_wheel_says_what_it_is(wheel):
    info = {Path(name).name: name for name in wheel.namelist() if ".dist-info/" in name}
    metadata = wheel.read(info["METADATA"]).decode()
    assert f"\nVersion: {uedp_bench.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "Apache License" in wheel.read(info["LICENSE"]).decode()
    assert "SpryMedia" in wheel.read(info["License-datatables.txt"]).decode()
    assert "jStat" in wheel.read(info["License-jstat.txt"]).decode()
    assert "uedp-bench = uedp_bench.__main__:main" in wheel.read(info["entry_points.txt"]).decode()
    assert "make quickstart" in metadata  # the front page of an index is the README


def test_the_version_is_the_same_everywhere():
    version = PROJECT["project"]["version"]
    assert uedp_bench.__version__ == version, "the installation is stale: make install"
    assert re.search(rf"^## \[{re.escape(version)}\]", (ROOT / "CHANGELOG.md").read_text(), re.M)
    oldest = Requirement(f"python{PROJECT['project']['requires-python']}").specifier
    named = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if ":: 3." in c]
    assert named
    assert all(Version(python) in oldest for python in named)


def requirements(*extras: str) -> dict[str, Requirement]:
    project = PROJECT["project"]
    lines = [*project["dependencies"]]
    for extra in extras or project["optional-dependencies"]:
        lines += project["optional-dependencies"][extra]
    parsed = [Requirement(line) for line in lines]
    return {canonicalize_name(r.name): r for r in parsed if r.name != "uedp-bench"}


def test_constraints_pin_every_requirement_to_one_public_version():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    versions: dict[str, Version] = {}
    for pin in pins:
        (only,) = pin.specifier
        assert only.operator == "==", pin
        versions[canonicalize_name(pin.name)] = Version(only.version)
    assert [n for n, v in versions.items() if v.local] == [], "no index has local versions"
    for name, requirement in requirements().items():
        assert versions[name] in requirement.specifier, name
    assert versions["torch"] == Version("2.13.0")


def test_pinned_packages_install_on_the_oldest_python():
    oldest = Version(PROJECT["project"]["requires-python"].removeprefix(">="))
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    too_new = {
        f"{name}: {dist.metadata.get('Requires-Python')}"
        for dist in distributions()
        if f"{(name := dist.metadata['Name'])}=={dist.version}" in pins
        and oldest not in SpecifierSet(dist.metadata.get("Requires-Python") or "")
    }
    assert too_new == set()


def third_party_imports(file: str) -> set[str]:
    """Top-level names of other people's packages that a file imports, anywhere in it."""
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"uedp_bench"}


@pytest.mark.long
def test_every_import_is_a_declared_requirement():
    owners = packages_distributions()
    extras = (
        "approximate",
        "cluster",
        "embeddings",
        "hub",
        "lora",
        "ner",
        "translation",
    )
    declared = set(requirements(*extras))
    undeclared = {
        f"{file}: {name}"
        for file in tracked_files()
        if file.endswith(".py") and file.split("/")[0] in SHIPPED
        for name in third_party_imports(file)
        if not declared & {canonicalize_name(owner) for owner in owners.get(name, (name,))}
    }
    # Who parametrises tests has pytest, and who looks at progress in a notebook has IPython.
    optional = {
        "uedp_bench/testing/__init__.py: pytest",
        "uedp_bench/grid/progress.py: IPython",
    }
    assert undeclared <= optional


def test_no_tracked_file_names_a_folder_of_some_machine():
    # Written so that this file does not match itself.
    pattern = re.compile(r"(?<![\w.~])/" + r"(?:work|root|home|Users|tmp)/(?!\$|<)\w")
    places = []
    for name in tracked_files():
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        places += [f"{name}: {m.group()}" for m in pattern.finditer(text)]
    assert not places


# ---------------------------------------------------------------------------- what importing costs


def test_loading_every_component_imports_nothing_heavy():
    code = (
        "import sys; from uedp_bench.components.registry import REGISTRIES;"
        "loaded = [r.get(name) for r in REGISTRIES.values() for name in r.names()];"
        f"print(len(loaded), sorted({set(HEAVY)!r} & set(sys.modules)))"
    )
    done = run(sys.executable, "-c", code)
    number, _, heavy = done.stdout.strip().partition(" ")
    assert (int(number) >= 18, heavy) == (True, "[]"), done.stderr


@pytest.mark.long
def test_listing_takes_little_time():
    seconds = []
    for _ in range(2):
        start = os.times()
        assert run(sys.executable, "-m", "uedp_bench", "list").returncode == 0
        spent = os.times()
        seconds.append(sum(spent[2:4]) - sum(start[2:4]))  # of the processor, by children
    # About 0.4 s; torch alone would take longer than this.
    assert min(seconds) < 3


def test_every_built_in_is_an_entry_point_of_its_file():
    for kind in KINDS:
        declared = PROJECT["project"]["entry-points"][f"uedp_bench.{kind}"]
        installed = {
            e.name: e.value for e in entry_points(group=f"uedp_bench.{kind}")
            if e.dist and e.dist.name == "uedp-bench"
        }  # fmt: skip
        assert installed == declared, "the installation is stale: make install"


# ---------------------------------------------------------------------------------------- plug-ins

PLUGIN = '''
from pydantic import Field

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.components.component import Params
from uedp_bench.contracts.mechanism import PublishingMechanism

EVENTS = (PrivacyEvent(unit="record", event=NonPrivate(reason="words are kept")),)


class ShuffleParams(Params):
    """Parameters of the plug-in."""

    share: float = Field(default=1.0, ge=0, le=1, description="share of the rows")


class Shuffle(PublishingMechanism[ShuffleParams]):
    """Puts the words of a row into random order."""

    name = "shuffle-words"
    Params = ShuffleParams

    def plan(self, stats):
        return EVENTS

    def publish(self, corpus, run):
        return corpus, EVENTS
'''


@pytest.fixture(scope="module")
def installed_plugin(tmp_path_factory) -> Path:
    """A third party's package, installed by pip into a folder of its own."""
    project, site = tmp_path_factory.mktemp("plugin"), tmp_path_factory.mktemp("site")
    (project / "shuffle_words.py").write_text(PLUGIN)
    (project / "broken_words.py").write_text("import a_module_that_nobody_has\n")
    (project / "pyproject.toml").write_text(
        textwrap.dedent("""
            [build-system]
            requires = ["setuptools"]
            build-backend = "setuptools.build_meta"
            [project]
            name = "uedp-bench-words"
            version = "0.3"
            [project.entry-points."uedp_bench.mechanisms"]
            shuffle-words = "shuffle_words:Shuffle"
            [project.entry-points."uedp_bench.attacks"]
            broken-words = "broken_words:Broken"
            [tool.setuptools]
            py-modules = ["shuffle_words", "broken_words"]
        """)
    )
    done = run(
        sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
        "--no-deps", "--no-build-isolation", "--no-index", "--target", site, project,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return site


@pytest.mark.long
def test_an_installed_package_registers_as_built_ins_do(installed_plugin):
    listed, described = command_lines(
        installed_plugin, "list mechanisms --json", "describe shuffle-words --json"
    )
    rows = {row["name"]: row for row in json.loads(listed.stdout)["mechanisms"]}
    assert rows["shuffle-words"]["package"] == "uedp-bench-words 0.3"
    assert rows["shuffle-words"]["summary"] == "Puts the words of a row into random order."
    assert "uedp" in rows
    assert json.loads(described.stdout)["stage"] == "publishing"
    assert run_cli(["describe", "shuffle-words"]) == 2  # not installed here


@pytest.mark.long
def test_a_plugin_that_does_not_import_says_so_when_asked_for(installed_plugin):
    listed, description = command_lines(installed_plugin, "list attacks", "describe broken-words")
    assert listed.returncode == 0
    assert "broken-words" in listed.stdout
    assert description.returncode == 2
    assert (
        "attack 'broken-words' (broken_words:Broken (uedp-bench-words 0.3))" in description.stderr
    )
    assert "a_module_that_nobody_has" in description.stderr
    assert "Traceback" not in description.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("class Other: pass", "is not a Mechanism"),
        ("", "AttributeError"),
        (PLUGIN.replace('"shuffle-words"', '"others-words"'), "'others-words'"),
    ],
)
def test_an_entry_point_must_be_what_it_says(tmp_path, text, message):
    points = "[uedp_bench.mechanisms]\nwords = some_words:%s\n"
    name = "Shuffle" if "Shuffle" in text else "Other"
    site = pip_free_site(tmp_path / "site", "some-words", points % name, some_words=text)
    (description,) = command_lines(site, "describe mechanism/words")
    assert description.returncode == 2
    assert "'words' (some_words:" in description.stderr
    assert message in description.stderr


@pytest.mark.long
def test_two_packages_of_one_name_are_an_error_that_shows_both(tmp_path):
    points = "[uedp_bench.mechanisms]\nnoiseless = other_words:Other\n"
    site = pip_free_site(tmp_path / "site", "other-words", points)
    for done in command_lines(site, "list", "describe mechanism/uedp"):
        assert done.returncode == 2
        assert "'noiseless'" in done.stderr
        assert "other_words:Other (other-words 1.0)" in done.stderr
        assert "uedp_bench.mechanisms.noiseless:Noiseless (uedp-bench" in done.stderr


def lone(name: str) -> str:
    """The plug-in as a file of its own: the decorator instead of an entry point."""
    text = PLUGIN.replace('"shuffle-words"', repr(name))
    text = text.replace("class Shuffle(", "@mechanisms.register\nclass Shuffle(")
    return "from uedp_bench.components.registry import mechanisms\n" + text


@pytest.fixture
def alone(capsys) -> Callable[..., Done]:
    """Lists mechanisms with some plug-in files, which are forgotten afterwards."""

    def listed(*files: Path) -> Done:
        with plugged():
            code = run_cli(["list", "mechanisms", *(f"--plugin={file}" for file in files)])
        return Done(code, *capsys.readouterr())

    return listed


@pytest.mark.long
def test_a_lone_file_registers_and_may_not_take_a_name(tmp_path, alone):
    file, twin, thief = (tmp_path / f"{name}.py" for name in ("first", "twin", "thief"))
    file.write_text(lone("lone-words"))
    twin.write_text(lone("lone-words"))
    thief.write_text(lone("uedp"))
    done = alone(file, file)
    assert done.returncode == 0, done.stderr
    output = " ".join(done.stdout.split())
    assert re.search(rf"lone-words Puts the words [^\[]* \[{re.escape(str(file))}\]", output)
    both = alone(file, twin)
    assert both.returncode == 2
    assert f"{file}:Shuffle and {twin}:Shuffle" in both.stderr
    taken = alone(thief)
    assert taken.returncode == 2
    assert "uedp_bench.mechanisms.private_training.uedp:UeDP (uedp-bench" in taken.stderr
    assert f"{thief}:Shuffle" in taken.stderr


@pytest.mark.long
def test_a_lone_file_that_does_not_import_says_so(tmp_path, alone):
    file = tmp_path / "broken.py"
    file.write_text("import a_module_that_nobody_has\n")
    done = alone(file)
    assert done.returncode == 2
    assert f"--plugin {file}" in done.stderr
    assert "a_module_that_nobody_has" in done.stderr
