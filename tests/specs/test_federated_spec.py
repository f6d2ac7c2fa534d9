"""The packaged federated study: its cells are what its page says, and both ends of it run."""

from __future__ import annotations

import math
from pathlib import Path

from uedp_bench.accounting.ledger import proven
from uedp_bench.components import registry
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.one_run.components import build
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec, read_spec

STATS = CorpusStats(720, 2880, 1000, 100, public=True)
SMALL = {"rounds": 2, "users_per_round": 5}


def runs() -> list[RunSpec]:
    return expand(parse_spec(read_spec("federated")))


def test_the_cells_are_those_of_the_page() -> None:
    cells = []
    for run in runs():
        (part,) = run.mechanism
        created = registry.mechanisms.create(part.name, part.params).params
        cells.append((part.name, getattr(created, "algorithm", ""), getattr(created, "iid", False),
                      created.clip, created.clip_policy))  # fmt: skip
    policies = ("flat", "per-layer", "adaptive")
    assert sorted(cells, key=str) == sorted(
        [
            *(("fedavg", algorithm, iid, None, "flat") for algorithm in ("fedsgd", "fedavg")
              for iid in (False, True)),
            *(("fedavg", "fedavg", False, 0.5, policy) for policy in policies),
            *(("user-dp", "", False, 0.5, policy) for policy in policies),
        ],
        key=str,
    )  # fmt: skip


def test_noise_alone_makes_a_promise_and_it_is_the_same_for_every_policy() -> None:
    epsilons: dict[str, set[float]] = {"fedavg": set(), "user-dp": set()}
    for run in runs():
        (guarantee,) = proven(build(run).pipeline.plan(STATS), delta=run.delta)
        epsilons[run.mechanism[0].name].add(guarantee.epsilon)
    assert epsilons["fedavg"] == {math.inf}
    (epsilon,) = epsilons["user-dp"]
    assert 4.0 < epsilon < 6.0


def test_both_ends_of_it_run(tmp_path: Path) -> None:
    spec = read_spec("federated")
    spec["source"]["params"] = {"users": 60, "public_users": 15, "test_users": 5}
    spec["attacks"] = []
    first, last = spec["mechanisms"][0], spec["mechanisms"][-1]
    first["params"] |= {**SMALL, "iid": True}
    last["params"] |= {**SMALL, "clip_policy": "adaptive"}
    spec["mechanisms"] = [first, last]
    for run in expand(parse_spec(spec)):
        result = execute(run, Execution(tmp_path, "cpu"))
        assert result.status == "finished"
        (guarantee,) = [g for g in result.guarantees if g.kind == "proven"]
        assert math.isfinite(guarantee.epsilon) == (run.mechanism[0].name == "user-dp")
        assert result.cost.model_dump()["bytes_sent_by_server"] > 0
