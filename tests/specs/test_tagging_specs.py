"""The packaged comparisons of taggers: what they prove, and on how many units."""

from __future__ import annotations

import pytest

from uedp_bench.accounting.ledger import proven
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.one_run.components import build
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec, read_spec

CONLL = CorpusStats(users=946, rows=14_041, sensitive_rows=11_132, entities=7_747, public=True)


def runs(name: str = "tagging-conll2003") -> list[RunSpec]:
    spec = read_spec(name)
    spec["source"] = {"name": "conll2003", "params": {"path": "somewhere"}}
    return [run for run in expand(parse_spec(spec)) if run.seed == 1]


@pytest.mark.long
@pytest.mark.parametrize(
    ("spec", "label", "unit", "epsilons"),
    [
        ("tagging-conll2003", "dp-sgd", "record", [1, 2, 4, 8]),
        ("tagging-conll2003", "user-dp", "user", [1, 2, 4, 8]),
        ("tagging-conll2003", "uedp-group", "user-entity", [1, 2, 4, 8]),
        ("tagging-conll2003-frozen", "dp-sgd", "record", [1, 2, 4, 8]),
        # Two decoders, two reductions, two policies of clipping.
        ("tagging-conll2003-crf", "dp-sgd", "record", [1] * 8 + [8] * 8),
    ],
)
def test_the_curves_are_drawn_at_the_epsilons_that_they_say(
    spec: str, label: str, unit: str, epsilons: list[float]
) -> None:
    proven_epsilons = []
    for run in runs(spec):
        if run.label == label:
            pipeline = build(run).pipeline
            assert pipeline.refusals(CONLL) == ()
            by_unit = {g.unit: g.epsilon for g in proven(pipeline.plan(CONLL), delta=run.delta)}
            proven_epsilons.append(by_unit[unit])
    assert sorted(proven_epsilons) == pytest.approx(epsilons, rel=1e-3)
    assert all(
        one <= epsilon for one, epsilon in zip(sorted(proven_epsilons), epsilons, strict=True)
    )


def test_the_small_comparison_is_one_of_taggers_with_both_attacks() -> None:
    grid = expand(parse_spec(read_spec("tagging")))
    assert {run.label for run in grid} == {
        "noiseless", "deidentify", "public-only", "dp-sgd", "user-dp",
    }  # fmt: skip
    assert {run.task.name for run in grid} == {"tagging"}
    assert all({part.name for part in run.attacks} == {"membership", "audit"} for run in grid)


def test_what_a_server_reads_is_compared_by_word_vectors_and_noise() -> None:
    grid = expand(parse_spec(read_spec("gradient-inversion")))
    cells = {
        (run.model.params.get("frozen_embedding", False),
         run.mechanism[0].params["noise_multiplier"], run.seed)
        for run in grid
    }  # fmt: skip
    assert cells == {(f, z, s) for f in (False, True) for z in (0.0, 0.5, 1.0) for s in (1, 2, 3)}
    assert {run.attacks[0].name for run in grid} == {"gradient-inversion"}
