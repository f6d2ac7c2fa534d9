"""The ledger through whole runs: refusals, refuted claims, broken proofs, charged selections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tiny import NOISELESS, ROUNDS, SOURCE, SPIES, USER_DP, flags, plugged, runs, tiny

from uedp_bench.contracts.results import RunSpec, read_result
from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.one_run.components import build
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand, tried_runs
from uedp_bench.spec.identity import Identity
from uedp_bench.spec.spec import parse_spec

TRIED = {"mechanism.user-dp.clip": [0.3, 0.6], "model.units": [8]}


@pytest.fixture(scope="module", autouse=True)
def judges():
    with plugged(SPIES.parent / "judges.py"):
        yield


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    return tmp_path_factory.mktemp("ledger")


def run(out, mechanism, *attacks, **fields):
    (spec,) = runs(mechanism, attacks=list(attacks), **fields)
    return execute(spec, Execution(out, "cpu", keep_release=False))


def verdict(**params):
    return {"name": "verdict", "params": params}


def only(result, kind, unit="user"):
    (guarantee,) = [g for g in result.guarantees if (g.kind, g.unit) == (kind, unit)]
    return guarantee


# ---------------------------------------------------------------------------------------- refusals


def test_a_sampler_that_the_accountant_was_not_told_of_refuses_the_proof(out):
    result = run(out, {"name": "secretly-fixed", "params": ROUNDS})
    guarantee = only(result, "proven")
    assert (guarantee.status, guarantee.epsilon) == ("refused", float("inf"))
    assert "'poisson-sampled' but happened as 'fixed-size-sampled'" in guarantee.reason
    assert only(result, "claimed").epsilon < float("inf")


def test_a_source_whose_rows_depend_on_each_other_refuses_the_proof(out):
    result = run(out, USER_DP, source={"name": "mixed-rows", "params": SOURCE})
    guarantee = only(result, "proven")
    assert (guarantee.status, guarantee.epsilon) == ("refused", float("inf"))
    assert guarantee.reason == "rows of one user depend on those of others"


@pytest.mark.parametrize("declared", [False, True])
def test_marks_by_a_model_of_unknown_training_refuse_the_proof(out, monkeypatch, declared):
    from uedp_bench.text import automatic_annotation

    def by_pipeline(texts, pipeline):
        return [automatic_annotation.by_patterns(text) for text in texts]

    monkeypatch.setattr(automatic_annotation, "by_pipeline", by_pipeline)
    few = {"users": 20, "valid_users": 1, "test_users": 5, "public_users": 10, "sentences": 3}
    annotation = {"candidates": "spacy", "pipeline": "mine", "pipeline_is_public": declared}
    source = {"name": "wiki-biographies", "params": {**few, "annotate": annotation}}
    guarantee = only(run(out, USER_DP, source=source), "proven")
    assert guarantee.status == ("given" if declared else "refused")
    assert (guarantee.epsilon < float("inf")) is declared
    if not declared:
        assert "annotate.pipeline_is_public" in guarantee.reason


# ------------------------------------------------------------------------------------- lower bounds


def test_a_bound_above_the_proof_fails_the_run_loudly(out):
    epsilon = only(run(out, USER_DP, verdict(epsilon=0.1, strict=0.1)), "proven").epsilon
    broken = run(out, USER_DP, verdict(epsilon=2 * epsilon, strict=1.01 * epsilon))
    assert (broken.status, broken.error.type) == ("failed", "PrivacyError")
    assert broken.error.phase == "account"
    for part in ("verdict", "for user", f"{1.01 * epsilon:.6g}", f"proven {epsilon:.6g}"):
        assert part in broken.error.message
    assert read_result(out / broken.id / "result.json").status == "failed"


def test_a_bound_that_chance_may_have_made_fails_nothing(out):
    result = run(out, USER_DP, verdict(epsilon=1e6, strict=0.0))
    assert result.status == "finished"
    assert {g.status for g in result.guarantees} == {"given"}
    assert result.lower_bounds[0].attack == "verdict"


def seer(auc):
    return {"name": "seer", "params": {"auc": auc}}


def test_a_metric_above_its_ceiling_fails_the_run_loudly(out):
    honest = run(out, USER_DP, seer(0.5))
    ceiling = honest.ceilings["seer"]["auc_user"]
    assert 0.5 < ceiling < 0.99
    by_chance = run(out, USER_DP, seer(min(1.0, ceiling + 0.01)))
    assert by_chance.status == "finished"
    broken = run(out, USER_DP, seer(1.0))
    assert (broken.status, broken.error.type) == ("failed", "PrivacyError")
    assert broken.error.phase == "account"
    for part in ("seer.auc_user is 1", "for user", f"at most {ceiling:.6g}"):
        assert part in broken.error.message


def test_without_a_proof_for_users_no_metric_has_a_ceiling(out):
    for mechanism in (NOISELESS, {"name": "secretly-fixed", "params": ROUNDS}):
        result = run(out, mechanism, seer(1.0))
        assert (result.status, result.ceilings) == ("finished", {})
        assert "ceilings" not in result.model_dump(mode="json")


def test_records_of_one_user_are_a_group_of_the_proof(out):
    params = {"steps": 2, "batch_size": 10, "noise_multiplier": 20.0}
    result = run(out, {"name": "dp-sgd", "params": params}, seer(0.5))
    assert only(result, "proven", "record").epsilon < 1
    assert 0.5 < result.ceilings["seer"]["auc_user"] < 0.6


def test_a_claim_below_a_bound_is_refuted_in_the_result(out):
    sizes = {"users": 60, "entities": 50, "sentences": 300, "sensitive_sentences": 200}
    uedp = {"name": "uedp", "params": {**ROUNDS, **sizes, "denominators": "data"}}
    peeking = run(out, uedp)
    claim, proof = (only(peeking, kind, "user-entity") for kind in ("claimed", "proven"))
    assert claim.status == "given"
    assert (proof.status, proof.epsilon) == ("refused", float("inf"))
    assert "private data" in proof.reason
    high = 1.1 * claim.epsilon
    result = run(out, uedp, verdict(epsilon=high, strict=high, unit="user-entity", spread=5,
                                    sentences=5))  # fmt: skip
    refuted = only(result, "claimed", "user-entity")
    assert (refuted.status, refuted.epsilon) == ("refuted", claim.epsilon)
    assert "verdict" in refuted.reason
    assert read_result(out / result.id / "result.json") == result


# ---------------------------------------------------------------------------------------- selection


def test_a_selection_is_recorded_and_charged(out):
    mechanism = {"name": "user-dp", "params": {**ROUNDS, "clip": 0.3}}
    free = only(run(out, mechanism), "proven")
    result = run(out, mechanism, selection={"tried": TRIED})
    charged = only(result, "proven")
    assert charged.epsilon > free.epsilon
    assert charged.accountant.endswith("+ selection")
    assert result.selection["settings"] == 2
    assert result.selection["tried"] == TRIED
    (entry,) = result.selection["guarantees"]
    assert (entry["epsilon_of_one_trial"], entry["epsilon"]) == (free.epsilon, charged.epsilon)
    assert only(result, "claimed") == only(run(out, mechanism), "claimed")
    random = {"tried": TRIED, "repetitions": "truncated-negative-binomial", "mean": 3, "eta": 1}
    drawn = run(out, mechanism, selection=random)
    assert only(drawn, "proven").accountant == "rdp + selection"
    assert read_result(out / drawn.id / "result.json") == drawn


def test_settings_with_other_noise_are_charged_at_their_own(out):
    mechanism = {"name": "user-dp", "params": {**ROUNDS, "noise_multiplier": 2.0}}
    tried = {"mechanism.user-dp.noise_multiplier": [2.0, 0.5]}
    result = run(out, mechanism, selection={"tried": tried})
    loud = run(out, {"name": "user-dp", "params": {**ROUNDS, "noise_multiplier": 0.5}})
    assert only(result, "proven").epsilon > only(loud, "proven").epsilon


@pytest.mark.parametrize(
    ("selection", "reason"),
    [
        ({"tried": {"model.units": [8, 4]}, "charge": False}, "asks for no charge"),
        # One trial has read private text without noise, whatever the released run did.
        ({"tried": {"task.vocabulary": ["public", "private"]}}, "private text"),
    ],
)
def test_a_selection_that_is_not_charged_is_visible(out, selection, reason):
    result = run(out, USER_DP, selection=selection)
    guarantee = only(result, "proven")
    assert guarantee.epsilon == only(run(out, USER_DP), "proven").epsilon
    assert any("validation" in text and reason in text for text in guarantee.assumptions)
    assert not result.selection["guarantees"][0]["charged"]


def test_a_run_must_be_one_of_the_settings_tried(out):
    result = run(out, {"name": "user-dp", "params": {**ROUNDS, "clip": 0.4}},
                 selection={"tried": TRIED})  # fmt: skip
    assert (result.status, result.error.type) == ("failed", "InputError")
    assert "mechanism.user-dp.clip: [0.3, 0.6]" in result.error.message
    assert result.error.phase == "load"


def test_a_selection_concerns_the_mechanisms_that_it_names():
    tried = {"mechanism.user-dp.clip": [0.3, 0.6]}
    spec = parse_spec(tiny(USER_DP, NOISELESS, selection={"tried": tried}))
    user_dp, noiseless = expand(spec)
    assert user_dp.selection is not None
    assert noiseless.selection is None
    assert [part.mechanism[0].params["clip"] for part in tried_runs(user_dp)] == [0.3, 0.6]
    assert tried_runs(noiseless) == (noiseless,)
    wrong = tiny(USER_DP, selection={"tried": {"mechanism.user_dp.clip": [1.0]}})
    with pytest.raises(UnknownNameError, match="user-dp"):
        expand(parse_spec(wrong))
    unknown = runs(USER_DP, selection={"tried": {"model.unit": [8]}})[0]
    with pytest.raises(InputError, match="unit"):
        tried_runs(unknown)


def test_the_seeds_of_a_benchmark_are_trials_unless_it_says_otherwise():
    many = {**tiny(USER_DP, selection={"tried": TRIED}), "seeds": [1, 2, 3]}
    assert [run.selection.seeds for run in expand(parse_spec(many))] == [3, 3, 3]
    one = {**many, "selection": {"tried": TRIED, "seeds": 1}}
    assert [run.selection.seeds for run in expand(parse_spec(one))] == [1, 1, 1]


def test_a_selection_enters_the_identity_only_where_there_is_one():
    plain = runs(USER_DP)[0]
    chosen = runs(USER_DP, selection={"tried": {"model.units": [8, 4]}})[0]
    assert Identity.from_spec(plain, "c") != Identity.from_spec(chosen, "c")
    old = json.loads(plain.model_dump_json())
    del old["selection"]
    assert Identity.from_spec(RunSpec.model_validate(old), "c") == Identity.from_spec(plain, "c")
    assert expand(parse_spec(chosen.model_dump(mode="json"))) == [chosen]
    assert build(chosen)


def test_a_spec_file_declares_a_selection(tmp_path):
    from typer.testing import CliRunner

    from uedp_bench.cli.main import app

    spec = tmp_path / "spec.yaml"
    spec.write_text(json.dumps({"selection": {"tried": {"model.units": [8, 4]}}}))
    command = flags(tmp_path / "out", "--mechanism", "user-dp", "--json")
    sizes = [part for k, v in ROUNDS.items() for part in ("--set", f"mechanism.{k}={v}")]
    done = CliRunner().invoke(app, [command[0], str(spec), *command[1:], *sizes])
    assert done.exit_code == 0, done.output
    (file,) = Path(tmp_path / "out").glob("*/result.json")
    assert read_result(file).selection["settings"] == 2
