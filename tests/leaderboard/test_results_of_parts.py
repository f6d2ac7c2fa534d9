"""Stored results are the runs that the parts of the reference set say, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from reference import Part, read_parts
from references import bundle_names, bundle_results

from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PARTS = [
    part for part in read_parts(ROOT / "benchmarks" / "reference_parts.yaml")
    if part.name in bundle_names() and part.name != "audits"  # made by a script, without a spec
]  # fmt: skip
RUN_IN_PART = {
    "bloggers-trend",
    "reproductions/uedp-awd-lstm",
    "reproductions/uedp-contracts-awd-lstm",
    "reproductions/uedp-gpt2-real",
}
"""Parts of which some runs are stored; docs/reference-set.md says which are missing."""
LOCAL = {"path", "public", "pretrained", "encoder", "embedding", "vocabulary"}
"""Parameters that name files of a machine."""


def general(spec: Any) -> Any:
    """A spec without what differs between machines."""
    data = spec.model_dump(mode="json") if hasattr(spec, "model_dump") else spec
    if isinstance(data, dict):
        return {k: general(v) for k, v in data.items() if k not in LOCAL}
    return [general(part) for part in data] if isinstance(data, list) else data


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_results_are_the_runs_of_the_commands(part: Part) -> None:
    wanted = sorted(str(general(run)) for run in part.runs() or ())
    spec_texts = sorted(
        str(general(run))
        for result in bundle_results(part.name)
        # Parameters that came later have defaults that keep what the run did.
        for run in expand(parse_spec(result.spec.model_dump(mode="json")))
    )
    if part.name in RUN_IN_PART:
        assert set(spec_texts) < set(wanted)
        assert len(set(spec_texts)) == len(spec_texts)
    else:
        assert spec_texts == wanted
