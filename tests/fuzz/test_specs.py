"""Specs that nobody means well: a spec is a list of runs, or one line says why not."""

from __future__ import annotations

from functools import cache

import pytest
from hostile import answer, as_yaml, damaged, mutated, rounds

from uedp_bench.spec.grid import expand
from uedp_bench.spec.identity import Identity
from uedp_bench.spec.spec import packaged_specs, parse_spec, read_spec

pytestmark = pytest.mark.long


@cache
def specs():
    """Every packaged spec; read when a test runs, for nearly every run of the suite skips these."""
    return [read_spec(name) for name in packaged_specs()]


@pytest.fixture
def nothing_runs(monkeypatch):
    """`run` goes as far as the list of runs and their identities."""

    def counted(data, options, as_json):
        for run in expand(parse_spec(data), options.max_runs)[:3]:
            Identity.from_spec(run, "")

    monkeypatch.setattr("uedp_bench.cli.run.benchmark", counted)


@pytest.mark.usefixtures("nothing_runs")
def test_mutated_values(tmp_path):
    for at, rng in rounds("spec values"):
        file = tmp_path / f"{at}.yaml"
        spec = mutated(rng.choice(specs()), rng)
        file.write_bytes(as_yaml(spec))
        answer(["run", str(file)])


@pytest.mark.usefixtures("nothing_runs")
def test_damaged_texts(tmp_path):
    for at, rng in rounds("spec texts"):
        file = tmp_path / f"{at}.yaml"
        file.write_bytes(damaged(as_yaml(rng.choice(specs())), rng))
        answer(["run", str(file)])
