"""Runs that are ready to start and never do."""

from __future__ import annotations

from pathlib import Path

from uedp_bench.contracts.results import RunSpec
from uedp_bench.one_run.components import build_sources
from uedp_bench.one_run.planting import load_data
from uedp_bench.one_run.preparing import Execution, Prepared, prepare
from uedp_bench.spec.identity import Identity


def prepared(spec: RunSpec, out: Path) -> Prepared:
    """The run of a spec, whose shared models are in a folder."""
    sources = build_sources(spec)
    data = load_data(sources)
    identity = Identity.from_spec(spec, data.fingerprint)
    execution = Execution(out, "cpu")
    return prepare(spec, execution, (sources, data), identity)
