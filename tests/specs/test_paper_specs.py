"""Packaged specs of the papers: they parse, run, and claim what the papers claim."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uedp_bench.accounting.accountants.renyi import moments_epsilon
from uedp_bench.accounting.ledger import claimed, proven
from uedp_bench.contracts.results import Result, RunSpec
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.one_run.components import build
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import Spec, apply_setting, packaged_specs, parse_spec, read_spec

NAMES = [name for name in packaged_specs() if name.startswith("paper/")]
NOTHING_KNOWN = CorpusStats(users=1, rows=1, sensitive_rows=1, entities=1, public=False)

Printed = dict[tuple[str, str], float]
# Figure 4 (T = 50) for AWD-LSTM; Figure 2a ends at 0.20 for GPT-2. Keys: mechanism, estimator.
PAPER: dict[str, Printed] = {
    "paper/uedp-conll2003": {("uedp", "f_E+"): 0.52, ("uedp", "f_E"): 0.62, ("user-dp", ""): 1.18},
    "paper/uedp-ag-news": {("uedp", "f_E+"): 0.50, ("uedp", "f_E"): 0.75, ("user-dp", ""): 1.48},
    "paper/uedp-sec": {("uedp", "f_E+"): 0.40, ("uedp", "f_E"): 0.71, ("user-dp", ""): 1.40},
    "paper/uedp-conll2003-gpt2": {("uedp", "f_E+"): 0.20},
}

# Specs of UeDP in arms beside each other, with the number of runs of a seed.
UEDP = {
    "paper/uedp-conll2003-quick": 18,
    "paper/uedp-categories-quick": 3,
    "paper/uedp-audit-quick": 5,
    "paper/uedp-sampling-quick": 3,
    "paper/uedp-sampling-released-quick": 4,
    "paper/uedp-awd-lstm": 16,
    "paper/uedp-figure6-quick": 15,
    "paper/uedp-contracts-quick": 16,
    "paper/uedp-contracts-awd-lstm": 14,
    "paper/uedp-contracts-gpt2-quick": 15,
    "paper/uedp-ag-quick": 12,
    "paper/uedp-ag-audit-quick": 1,
    "paper/uedp-gpt2-quick": 21,
    "paper/uedp-gpt2": 10,
    "paper/uedp-gpt2-adapters": 6,
}

# Specs of mechanisms on text and on representations, with the number of runs of a seed.
PRIVATE_TEXT = {
    "paper/uedp-ag-news-bert": 4,
    "paper/dpnr-ag": 17,
    "paper/dpnr-ag-quick": 13,
    "paper/dpnr-ag-dropout-quick": 5,
    "paper/dpnr-ag-figure4": 5,
    "paper/dpnr-blog": 17,
    "paper/dpnr-blog-quick": 13,
    "paper/dpnr-blog-figure4": 5,
    "paper/vickrey-product-reviews": 47,
    "paper/vickrey-imdb": 21,
    "paper/vickrey-imdb-quick": 7,
    "paper/deepcandidate-20news": 22,
    "paper/deepcandidate-20news-quick": 9,
    "paper/deepcandidate-imdb": 22,
    "paper/deepcandidate-imdb-quick": 10,
    "paper/secure-inference": 4,
    "paper/secure-inference-quick": 3,
    "paper/secure-inference-linear-quick": 3,
}

# Specs of taggers, with the number of runs of a seed.
TAGGERS = {
    "paper/federated-tagging-dp": 12,
    "paper/federated-tagging-dp-quick": 4,
    "paper/federated-tagging-clients": 10,
    "paper/federated-tagging-clients-quick": 4,
    "paper/federated-tagging-incremental": 2,
    "paper/federated-tagging-incremental-quick": 2,
    "paper/wikipii": 4,
    "paper/wikipii-quick": 7,
    "paper/wikipii-automatic-quick": 1,
    "paper/wikipii-conll2003-quick": 5,
    "paper/wikipii-noise-quick": 6,
}

# Specs of translators, with the number of runs of a seed.
TRANSLATORS = {
    "paper/translation-fragments": 42,
    "paper/translation-fragments-quick": 7,
    "paper/translation-fragments-small": 21,
}

# Specs of canaries in federations, with the number of runs of a seed.
FEDERATIONS = {"paper/federated-secret-sharer": 40, "paper/federated-secret-sharer-quick": 22}

# Specs of masked language models and what is tagged by them, with the number of runs of a seed.
PRETRAINING = {
    "paper/private-pretraining": 8,
    "paper/private-pretraining-extraction": 8,
    "paper/private-pretraining-quick": 5,
    "paper/private-pretraining-extraction-quick": 4,
}


def spec_of(name: str, **settings: Any) -> Spec:
    spec = parse_spec(read_spec(name))
    for path, value in settings.items():
        spec = apply_setting(spec, path.replace("__", "-").split("."), value)
    return spec


def claims_of(run: RunSpec) -> dict[tuple[str, str], tuple[Any, float]]:
    """(mechanism, estimator) -> claim and its epsilon, from the constants of the spec alone."""
    (trainer,) = build(run).pipeline.trainers
    claims = trainer.claims(NOTHING_KNOWN)
    if not claims:
        return {}
    (guarantee,) = claimed(claims, run.delta)
    key = (trainer.name, getattr(trainer.params, "estimator", ""))
    return {key: (claims[0], guarantee.epsilon)}


def test_every_paper_spec_is_checked() -> None:
    kinds = (PAPER, UEDP, PRIVATE_TEXT, TAGGERS, TRANSLATORS, PRETRAINING, FEDERATIONS)
    assert set(NAMES) == {name for kind in kinds for name in kind}


@pytest.mark.parametrize("name", TAGGERS)
def test_specs_of_taggers_build_every_run(name: str) -> None:
    spec = spec_of(name)
    if spec.source.name != "wiki-biographies":
        spec = apply_setting(spec, ["source", "path"], "x")
    runs = [run for run in expand(spec) if run.seed == 1]
    assert len(runs) == TAGGERS[name]
    for run in runs:
        build(run)


@pytest.mark.parametrize("name", FEDERATIONS)
def test_specs_of_canaries_in_federations_claim_what_the_paper_prints(name: str) -> None:
    """DP-FedAvg claims 18.8, as Appendix A.3 computes it; no other run claims anything."""
    spec = apply_setting(spec_of(name), ["source", "path"], "x")
    runs = [run for run in expand(spec) if run.seed == 1]
    assert len(runs) == FEDERATIONS[name]
    claims_of_runs = [claimed(build(run).pipeline.claims(NOTHING_KNOWN), run.delta) for run in runs]
    assert [round(one.epsilon, 1) for claims in claims_of_runs for one in claims] == [18.8, 18.8]


@pytest.mark.parametrize("name", TRANSLATORS)
def test_specs_of_translators_build_every_run(name: str) -> None:
    spec = spec_of(name)
    if spec.source.name != "parallel-embedded":
        spec = apply_setting(spec, ["source", "path"], "x")
    if spec.model is not None and spec.model.name == "marian":
        spec = apply_setting(spec, ["model", "pretrained"], "y")
    runs = [run for run in expand(spec) if run.seed == 1]
    assert len(runs) == TRANSLATORS[name]
    for run in runs:
        build(run)


@pytest.mark.long
@pytest.mark.parametrize("name", PRETRAINING)
def test_specs_of_pretraining_build_every_run_at_the_epsilons_of_the_paper(name: str) -> None:
    spec = apply_setting(spec_of(name), ["source", "path"], "x")
    if spec.task.name == "pretrained-tagging":
        labelled = {"name": "bc5cdr", "params": {"path": "x", "train_on": "devel"}}
        spec = apply_setting(spec, ["task", "labelled"], labelled)
    runs = expand(spec.model_copy(update={"seeds": [1]}))
    assert len(runs) == PRETRAINING[name]
    epsilons = set()
    for run in runs:
        pipeline = build(run).pipeline
        for guarantee in proven(pipeline.plan(NOTHING_KNOWN), delta=run.delta):
            epsilons.add(round(guarantee.epsilon, 3))
    assert {1.0, 3.2} <= epsilons <= {0.0, 1.0, 3.2, 8.0, float("inf")}


@pytest.mark.parametrize("name", PAPER)
def test_constants_claim_what_the_paper_prints(name: str, tmp_path: Path) -> None:
    """To the printed digits, between the spec's rounds and one more (docs/claims.md)."""
    runs = expand(spec_of(name, **{"source.path": str(tmp_path / "rows.csv")}))
    assert {run.seed for run in runs} == {1, 2, 3}
    claims: dict[tuple[str, str], tuple[Any, float]] = {}
    for run in runs:
        claims |= claims_of(run)
    for key, printed in PAPER[name].items():
        claim, epsilon = claims[key]
        event = claim.event
        after_one_more = moments_epsilon(
            event.event.rate, event.event.event.noise_multiplier, event.count + 1, 1e-5
        )
        assert round(epsilon, 2) <= printed <= round(after_one_more, 2), key
        assert epsilon == pytest.approx(printed, abs=0.008)


@pytest.mark.parametrize("name", UEDP)
def test_quick_specs_of_uedp_build_every_run(name: str) -> None:
    runs = expand(spec_of(name, **{"source.path": "x"}).model_copy(update={"seeds": [1]}))
    assert len(runs) == UEDP[name]
    for run in runs:
        claims_of(run)


def test_rounds_of_the_quick_spec_claim_what_figure_6_begins_with() -> None:
    """Half a unit of epsilon, for f_E+ and for user-level DP alike; f_E claims more."""
    runs = expand(spec_of("paper/uedp-conll2003-quick", **{"source.path": "x"}))
    epsilons = {
        (*key, run.mechanism[-1].params["rounds"]): epsilon
        for run in runs
        if run.mechanism[-1].params.get("noise_multiplier") == 2.0
        for key, (_, epsilon) in claims_of(run).items()
    }
    wanted = {("uedp", "f_E+", 42): 0.5, ("user-dp", "", 19): 0.5, ("uedp", "f_E", 42): 0.583}
    assert epsilons == pytest.approx(wanted, abs=5e-3)


@pytest.mark.parametrize("name", PRIVATE_TEXT)
def test_specs_on_private_text_build_every_run(name: str) -> None:
    runs = expand(spec_of(name, **{"source.path": "x"}).model_copy(update={"seeds": [1]}))
    assert len(runs) == PRIVATE_TEXT[name]
    epsilons = set()
    for run in runs:
        parts = build(run)
        epsilons |= {g.epsilon for g in claimed(parts.pipeline.claims(NOTHING_KNOWN), 1e-5)}
    # Every epsilon of the sweep is claimed as the papers claim it; a total gives its own.
    wanted = {m.params.get("epsilon") for run in runs for m in run.mechanism} - {None}
    dropped = any(m.params.get("word_dropout") for run in runs for m in run.mechanism)
    assert {e for e in wanted if e not in epsilons} <= ({1.0} if dropped else set())


def test_gpt2_is_given_the_fewest_rounds_that_reach_0_20() -> None:
    runs = expand(spec_of("paper/uedp-conll2003-gpt2", **{"source.path": "x"}))
    (claim, epsilon), *_ = (
        claims_of(run)["uedp", "f_E+"] for run in runs if run.mechanism[-1].name == "uedp"
    )
    assert claim.event.count == 191
    assert epsilon == pytest.approx(0.20, abs=1e-4)


def conll_folder(folder: Path) -> Path:
    """Files in the format of the shared task: 24, 4 and 6 documents of three sentences."""
    rng = np.random.default_rng(5)
    people = ["Ada", "Ben", "Cleo", "Dov", "Eva"]
    for name, documents in (("eng.train", 24), ("eng.testa", 4), ("eng.testb", 6)):
        lines = []
        for _ in range(documents):
            lines.append("-DOCSTART- -X- O O\n")
            for sentence in range(3):
                person = rng.choice(people)
                tokens = [(person, "I-PER"), ("met", "O"), ("Rome", "I-LOC"), (".", "O")]
                tokens = tokens if sentence else [("It", "O"), ("rained", "O"), (".", "O")]
                lines += [f"{token} NN I-NP {tag}" for token, tag in tokens] + [""]
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.long
def test_the_conll_spec_runs_end_to_end_in_a_small_size(tmp_path: Path) -> None:
    settings = {"source.path": str(conll_folder(tmp_path)), "model.embedding": 4, "model.units": 6}
    settings |= {f"mechanism.{name}.rounds": 2 for name in ("uedp", "user-dp")}
    settings |= {f"mechanism.{name}.users_per_round": 400 for name in ("uedp", "user-dp")}
    spec = spec_of("paper/uedp-conll2003", **settings)
    results: dict[str, list[Result]] = {}
    for run in expand(spec.model_copy(update={"seeds": [1]})):
        result = execute(run, Execution(out=tmp_path / "runs", device="cpu"))
        assert result.status == "finished", result.error
        results.setdefault(run.mechanism[-1].name, []).append(result)
    assert {name: len(rows) for name, rows in results.items()} == {
        "noiseless": 1, "deidentify": 1, "user-dp": 1, "uedp": 2,
    }  # fmt: skip
    for result in results["uedp"]:
        claim, *proofs = result.guarantees
        assert (claim.kind, claim.status) == ("claimed", "given")
        # Private vocabulary and denominators, as published: nothing can be proven.
        assert {proof.status for proof in proofs} == {"refused"}
        assert "denominators" in proofs[0].reason
        assert result.diagnostics["signal_to_noise"] < 0.1
        assert np.isfinite(result.utility["perplexity"].value)
