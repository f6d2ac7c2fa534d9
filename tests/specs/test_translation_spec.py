"""The packaged comparison of translators: what is in it, what it proves and what attacks ask."""

from __future__ import annotations

import numpy as np

from uedp_bench.accounting.ledger import proven
from uedp_bench.components.registry import sources
from uedp_bench.one_run.components import build
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec, read_spec


def test_the_comparison_has_whole_sentences_fragments_votes_and_noise() -> None:
    grid = expand(parse_spec(read_spec("translation")))
    variants = ["public-only", "noiseless", *["phrase-fragments"] * 3, "phrase-union", "dp-sgd"]
    assert {run.seed for run in grid} == {1, 2, 3}
    for seed in (1, 2, 3):
        assert [run.label for run in grid if run.seed == seed] == variants
    names = {"fragment-reassembly", "membership", "secret-sharer"}
    assert all({part.name for part in run.attacks} == names for run in grid)
    stats = sources.create("parallel-embedded", {}).documented()
    assert stats is not None
    epsilons = {}
    for run in grid:
        pipeline = build(run).pipeline
        assert pipeline.refusals(stats) == ()
        by_unit = {g.unit: g.epsilon for g in proven(pipeline.plan(stats), delta=run.delta)}
        epsilons[run.label] = by_unit
    assert epsilons["public-only"] == {"user": 0.0}
    assert epsilons["dp-sgd"]["record"] < 8.0
    assert epsilons["phrase-union"]["user"] < 8.0
    assert np.isinf(list(epsilons["phrase-fragments"].values())).all()
    assert np.isinf(list(epsilons["noiseless"].values())).all()
