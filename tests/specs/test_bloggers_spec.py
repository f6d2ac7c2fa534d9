"""The packaged comparison on bloggers: its numbers fit together, and all of it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uedp_bench.accounting.ledger import proven
from uedp_bench.components import registry
from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.one_run.components import build
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec, read_spec

LABELS = ["public-only", "noiseless", "deidentify", "user-dp", "uedp-group"]
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
BLOGGERS = 120


def runs(**source: Any) -> list[RunSpec]:
    spec = read_spec("bloggers")
    spec["source"]["params"] |= {"path": "somewhere", "public": ["some.txt"], **source}
    return expand(parse_spec(spec))


def test_the_declared_users_are_those_that_the_spec_makes() -> None:
    spec = runs()[0]
    source = registry.sources.create(spec.source.name, spec.source.params).params
    attacks = {ref.name: ref.params for ref in spec.attacks}
    left = source.users - round(source.valid * source.users) - round(source.test * source.users)
    left -= max(200, int(attacks["membership"].get("held_out_fraction", 0.1) * left))
    declared = {
        ref.params["users"] for run in runs() for ref in run.mechanism if "users" in ref.params
    }
    assert declared == {left}
    assert not registry.sources.create(spec.source.name, spec.source.params).refusals()


@pytest.mark.parametrize(
    ("label", "units"), [("user-dp", {"user"}), ("uedp-group", {"user", "user-entity"})]
)
def test_proven_epsilon_is_eight(label: str, units: set[str]) -> None:
    (run,) = (run for run in runs() if run.label == label and run.seed == 1)
    pipeline = build(run).pipeline
    stats = CorpusStats(users=1, rows=1, sensitive_rows=1, entities=1, public=False)
    assert pipeline.refusals(stats) == ()
    epsilons = {g.unit: g.epsilon for g in proven(pipeline.plan(stats), delta=run.delta)}
    assert set(epsilons) == units
    assert 7.9 < max(epsilons.values()) <= 8.0


def blogs(folder: Path) -> dict[str, Any]:
    """A folder of invented blogs, public text beside them, and the source's parameters for both."""
    rng = np.random.default_rng(0)

    def sentence(name: str) -> str:
        return " ".join([*rng.choice(WORDS, size=4), name]) + "."

    lines = [
        json.dumps({"id": at, "gender": "male", "age": 15 + at % 30,
                    "text": [" ".join(sentence("Anna") for _ in range(6)), sentence("ok") * 5]})
        for at in range(BLOGGERS)
    ]  # fmt: skip
    (folder / "blogs.jsonl").write_text("\n".join(lines))
    public = (json.dumps({"text": " ".join(sentence("ok") for _ in range(5))}) for _ in range(60))
    (folder / "train.jsonl").write_text("\n".join(public))
    return {"path": str(folder), "public": [str(folder / "train.jsonl")], "users": BLOGGERS,
            "rows_per_user": 6, "valid": 0.1, "test": 0.1}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    folder = tmp_path_factory.mktemp("blogs")
    spec = read_spec("bloggers")
    spec["source"]["params"] |= blogs(folder)
    spec["model"]["params"] = {"vocabulary_size": 14, "units": 4, "embedding": 4}
    spec["seeds"] = [1]
    users = BLOGGERS - 24 - 10
    for part in spec["mechanisms"]:
        if isinstance(part, dict) and "users" in part["params"]:
            part["params"] |= {"users": users, "rounds": 2}
            part["params"] |= {"users_per_round": 20} if part["name"] == "user-dp" else {}
    sharer, membership, audit = (ref["params"] for ref in spec["attacks"])
    sharer |= {"p_u": [0.1], "p_e": [1.0], "canaries": 1, "entity_canaries": 1, "references": 8,
               "canary_words": 4}  # fmt: skip
    membership |= {"held_out_users": 10, "shadow_models": 2}
    audit |= {"canaries": 20, "references": 4}
    settings = Execution(folder / "out", device="cpu")
    by_label = {run.label: execute(run, settings) for run in expand(parse_spec(spec))}
    assert list(by_label) == LABELS
    return by_label


@pytest.mark.long
@pytest.mark.parametrize("label", LABELS)
def test_it_runs_with_every_attack(results: dict[str, Result], label: str) -> None:
    result = results[label]
    assert result.status == "finished", result.error
    assert set(result.leakage) == {"secret-sharer", "membership", "audit"}
    assert result.skipped_attacks == ()
    details = result.details["membership"]
    assert details["base"]
    assert details["main_score"] == "lira_shrunk"
    assert result.pretraining["rows"] == 300
    assert "public-only" in result.floors
    proven_ = [g for g in result.guarantees if g.kind == "proven"]
    assert all(g.status == "given" for g in proven_), [g.reason for g in proven_]


@pytest.mark.long
def test_what_uses_nothing_private_is_its_own_floor(results: dict[str, Result]) -> None:
    public = results["public-only"]
    assert public.learned is False
    assert public.floors["public-only"] == public.utility["perplexity"].value
    assert {result.floors["public-only"] for result in results.values()} == set(
        public.floors.values()
    ) - {public.floors["unigrams"]}


@pytest.mark.long
def test_results_hold_no_text_of_bloggers(results: dict[str, Result]) -> None:
    for result in results.values():
        kept = json.dumps(
            [part for name, part in result.model_dump(mode="json").items() if name != "spec"]
        )
        assert "Anna" not in kept
        assert "anna" not in kept
