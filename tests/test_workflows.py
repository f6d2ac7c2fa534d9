"""Workflows run the repository's own commands, and the project's address stands in one place."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))
STEPS = set(re.findall(r"^step '([a-z]+)", (ROOT / ".ci" / "run").read_text("utf-8"), re.M))
PYTHONS = {c.split()[-1] for c in PROJECT["classifiers"] if ":: Python :: 3." in c}
PINNED = re.compile(r"uses: [\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+$")

each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load(path.read_text("utf-8"))["jobs"].values())


def variants(job: dict[str, Any]) -> list[dict[str, str]]:
    """Values of a job's matrix, one dictionary a machine."""
    matrix = job.get("strategy", {}).get("matrix", {"python": [], "steps": []})
    pairs = [{"python": p, "steps": s} for p in matrix["python"] for s in matrix["steps"]]
    return [*pairs, *matrix.get("include", [])]


def calls(path: Path) -> Iterator[list[str]]:
    """Words of every command that a workflow runs, with the matrix put in."""
    for job in jobs(path):
        for command in (step["run"] for step in job["steps"] if "run" in step):
            for values in variants(job) or [{}]:
                line = command
                for name, value in values.items():
                    line = line.replace(f"${{{{ matrix.{name} }}}}", value)
                yield line.split()


def test_there_are_workflows_and_forms():
    assert {path.stem for path in WORKFLOWS} == {"checks", "release"}
    assert {path.stem for path in FORMS} == {"bug", "claim", "component"}
    assert {"lint", "types", "tests", "documentation", "wheel"} <= STEPS


@each_workflow
def test_workflows_call_make_and_ci_run_alone(path):
    commands = list(calls(path))
    assert commands
    for program, *words in commands:
        assert program in ("make", ".ci/run")
        assert words
        assert set(words) <= (TARGETS if program == "make" else STEPS), words


def test_checks_run_every_step_and_every_python():
    (job,) = jobs(ROOT / ".github" / "workflows" / "checks.yml")
    by_step = {step: {v["python"] for v in variants(job) if step in v["steps"].split()}
               for step in STEPS - {"install"}}  # fmt: skip
    assert [step for step, pythons in by_step.items() if not pythons] == []
    for step in ("lint", "types", "tests"):
        assert by_step[step] == PYTHONS
    assert all(python in SpecifierSet(PROJECT["requires-python"]) for python in PYTHONS)


@each_workflow
def test_workflows_install_pinned_packages_and_the_small_torch(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    index = workflow["env"]["PIP_EXTRA_INDEX_URL"]
    assert f"PIP_EXTRA_INDEX_URL={index}" in (ROOT / "README.md").read_text("utf-8")
    for name in ("Makefile", ".ci/run"):
        installed = re.findall(
            r"(?<!\w)(?:pip|\(PIP\)) install.*", (ROOT / name).read_text("utf-8")
        )
        assert installed
        assert all("-c constraints.txt" in line for line in installed)


@each_workflow
def test_workflows_have_no_rights_and_no_movable_actions(path):
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    assert "pull_request_target" not in workflow[True]  # YAML 1.1 reads `on` as true
    used = [line.strip(" -") for line in path.read_text("utf-8").splitlines() if "uses:" in line]
    assert used
    assert [line for line in used if not PINNED.match(line)] == []
    for job in jobs(path):
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 120
        # An expression in a command is text that whoever names a branch or a tag chooses.
        assert all("github." not in step.get("run", "") for step in job["steps"])


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_ask_for_what_is_needed(path):
    form = yaml.safe_load(path.read_text("utf-8"))
    assert form["name"]
    assert form["description"]
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert len({field["id"] for field in fields}) == len(fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


@pytest.mark.parametrize("name", ["Makefile", ".ci/run"])
def test_paths_that_commands_name_exist(name):
    text = (ROOT / name).read_text("utf-8")
    paths = set(re.findall(r"(?<![\w./$])(?:tests|benchmarks|docs|leaderboard)/[\w./-]*\w", text))
    assert paths
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


def test_an_unknown_step_runs_nothing():
    done = subprocess.run(
        [ROOT / ".ci" / "run", "lint", "tset"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "'tset'" in done.stderr
    assert set(done.stderr.partition("steps: ")[2].split()) == STEPS


@pytest.mark.parametrize("tag", ["v9.9.9", "0", "v0.2.0'; exit 0; '"])
def test_a_release_refuses_the_tag_of_another_version(tag):
    done = subprocess.run(
        ["make", "-C", ROOT, "release", "PYTHON=false"],
        env={"PATH": "/usr/bin:/bin", "TAG": tag}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "=== install" not in done.stdout
    assert tag in done.stderr


def test_the_container_installs_the_wheel_with_pinned_packages():
    lines = (ROOT / "Dockerfile").read_text("utf-8").splitlines()
    images = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert {image.partition("-")[0] for image in images} <= {f"python:{one}" for one in PYTHONS}
    assert images[-1] == images[0]  # a bare one again: nothing of the sources is in it
    installed = [line for line in lines if "pip install" in line]
    assert [line for line in installed if "-c constraints.txt" not in line] == []
    index = re.search(r"PIP_EXTRA_INDEX_URL=\S+", "\n".join(lines))
    assert index is not None
    assert index[0] in (ROOT / "README.md").read_text("utf-8")
    assert next(line for line in reversed(lines) if line.startswith("USER")) != "USER root"


def test_the_address_is_one_setting():
    address = PROJECT["urls"].get("repository", "")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation.get("repository-code", "") == address
    assert set(PROJECT["urls"]) <= {"repository", "documentation"}
    texts = [*ROOT.glob("*.md"), ROOT / "mkdocs.yml", *(ROOT / ".github").rglob("*.*ml"),
             *(path for folder in ("docs", "uedp_bench", "leaderboard/templates")
               for pattern in ("*.md", "*.py", "*.j2", "*.txt")
               for path in (ROOT / folder).rglob(pattern))]  # fmt: skip
    elsewhere = {
        url
        for path in texts
        for url in re.findall(r"https?://[^\s)>\"'`]*/uedp-bench\b", path.read_text("utf-8"))
        if url not in (address, "https://pypi.org/project/uedp-bench")
    }
    assert elsewhere == set()
