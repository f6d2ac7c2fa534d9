"""What `import uedp_bench` gives: few names, known to editors, and none of them slow to import."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import uedp_bench as ub

ROOT = Path(__file__).parents[1]
SLOW = (
    "torch", "transformers", "mlflow", "scipy", "pandas", "sklearn", "plotly", "pydantic", "spacy",
    "datasets", "dp_accounting", "presidio_anonymizer", "faker",
)  # fmt: skip


def test_names_are_those_that_type_checkers_see() -> None:
    body = ast.parse((ROOT / "uedp_bench" / "__init__.py").read_text(encoding="utf-8")).body
    (seen,) = (node for node in body if isinstance(node, ast.If))
    declared = {
        name.name: part.module
        for part in seen.body
        if isinstance(part, ast.ImportFrom)
        for name in part.names
        if name.name == name.asname
    }
    assert declared == {
        name: module for module, names in ub._ON_FIRST_USE.items() for name in names
    }
    assert sorted(declared) == ub.__all__


def test_every_name_is_there_where_it_is_defined_and_says_what_it_is() -> None:
    assert {*ub.__all__, "__version__"} == set(dir(ub))
    for module, names in ub._ON_FIRST_USE.items():
        for name in names:
            value = getattr(ub, name)
            assert value.__module__ == module and value.__doc__, name


def test_no_module_of_the_package_hides_a_name() -> None:
    for name in ub.__all__:
        assert importlib.util.find_spec(f"uedp_bench.{name}") is None, name


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"'uedp_bench'.*'rum'"):
        ub.rum  # noqa: B018


STEPS = (
    "import uedp_bench as ub; dir(ub)",
    "ub.account",
    "import uedp_bench.accounting.ledger",
    "from uedp_bench.bounds.lower_bounds import epsilon_lower_bound",
    "import uedp_bench.api",
    "from uedp_bench.api import capabilities, events, networks, statistics, text",
    "import uedp_bench.mechanisms.deidentification.deidentify",
    "from uedp_bench.cli.main import run_cli; run_cli(['list', '--json'])",
    "run_cli('bound one-run --canaries 9 --guesses 9 --correct 9 --delta 0'.split())",
)


def test_guarantees_and_lists_import_nothing_slow() -> None:
    """In one fresh interpreter: whatever a step imports shows in all that follow."""
    code = "".join(f"{step}\nloaded({step!r})\n" for step in STEPS)
    head = (
        "import sys\ndef loaded(step):\n"
        f"    print('loaded', [m for m in {SLOW!r} if m in sys.modules], step)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", head + code], capture_output=True, text=True, check=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("loaded ")]
    assert lines[0] == f"loaded [] {STEPS[0]}"
    assert lines[1:-1] == [f"loaded ['pydantic'] {step}" for step in STEPS[1:-1]]
    assert "torch" not in lines[-1]
