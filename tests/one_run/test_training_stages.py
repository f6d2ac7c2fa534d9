"""Stages by role: who trains them, on which rows, at what cost, and what a result says of them."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prepared_runs import prepared
from tiny import plugged

from uedp_bench.accounting.ledger import proven
from uedp_bench.contracts.run_context import Run, Speed
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError, PrivacyError
from uedp_bench.grid.scheduler import jobs_of
from uedp_bench.leaderboard import boards
from uedp_bench.leaderboard.board_cells import NONE
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.run_page import run_context
from uedp_bench.leaderboard.validate import check
from uedp_bench.leaderboard.validation.derived_from_spec import derive
from uedp_bench.leaderboard.validation.identity import check_identity
from uedp_bench.one_run.components import build, build_sources
from uedp_bench.one_run.guaranteeing import SAME_PUBLIC, SAME_SECOND, planned_guarantees
from uedp_bench.one_run.planting import load_data, public_sizes
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.protecting import Retraining
from uedp_bench.one_run.runner import execute
from uedp_bench.one_run.training_stages import _check_repeated, _holds_private
from uedp_bench.randomness import scope_of
from uedp_bench.spec.grid import expand
from uedp_bench.spec.identity import identity_parts
from uedp_bench.spec.spec import parse_spec

PLUGIN = Path(__file__).parents[1] / "support" / "two_heads.py"
SIZES = {"users": 60, "valid_users": 0, "test_users": 8, "public_users": 20, "sentences": 2}
SECOND = {"name": "embedded", "params": {**SIZES, "users": 90, "test_users": 15, "seed": 2}}
USER_DP = {"name": "user-dp", "params": {"rounds": 2, "users_per_round": 10}}
OTHER = {"name": "user-dp", "params": {"rounds": 3, "users_per_round": 20}}
TWICE = {"roles": ["private", "private"]}
NOISELESS = {"name": "noiseless", "params": {"epochs": 1}}


@pytest.fixture(scope="module", autouse=True)
def task():
    with plugged(PLUGIN):
        yield


def spec_of(*mechanisms, source=SIZES, **params):
    data = {
        "task": {"name": "two-heads", "params": params},
        "source": {"name": "embedded", "params": source},
        "mechanisms": [list(mechanisms or [USER_DP])],
    }
    (run,) = expand(parse_spec(data))
    return run


def result_of(folder, *mechanisms, **params):
    settings = Execution(folder, "cpu", speed=Speed(threads=1))
    return execute(spec_of(*mechanisms, **params), settings)


def proof(result):
    (guarantee,) = (each for each in result.guarantees if each.kind != "claimed")
    return guarantee


def failure(result):
    assert result.error is not None
    return f"{result.error.type}: {result.error.message}"


# ------------------------------------------------------------------------------ a second source


@pytest.fixture(scope="module")
def downstream(task, tmp_path_factory):
    out = tmp_path_factory.mktemp("downstream")
    return result_of(out, downstream=SECOND, roles=["public", "private", "downstream"])


def test_a_downstream_stage_costs_nothing_and_the_result_says_what_it_was(downstream):
    assert downstream.error is None, failure(downstream)
    parts, data = build(downstream.spec), load_data(build_sources(downstream.spec))
    stats = public_sizes(build_sources(downstream.spec), *data)
    assert {event.stage for event in downstream.events} == {"user-dp"}
    assert downstream.events == parts.pipeline.plan(stats)
    assert math.isfinite(proof(downstream).epsilon)
    public, private, last = downstream.stages
    assert (public.role, private.role, last.role) == ("public", "private", "downstream")
    assert (private.stage, private.rows, private.schedule) == ("user-dp", None, {})
    assert (public.rows_of, last.rows_of) == ("source", "downstream")
    train = data.downstream.where("train")
    assert last.rows == train.sum() != data.corpus.where("train").sum()
    assert last.schedule == {"epochs": 2, "batch_size": 16, "learning_rate": 0.01}
    assert len(downstream.series["downstream_loss"]) == 2


def test_the_test_rows_of_the_second_source_are_scored(downstream):
    second = load_data(build_sources(downstream.spec)).downstream
    assert downstream.utility["rows"].value == second.where("test").sum()


def test_the_second_source_is_part_of_the_identity_and_of_the_provenance(downstream, tmp_path):
    data = load_data(build_sources(downstream.spec))
    assert downstream.provenance["downstream"]["fingerprint"] == data.downstream.fingerprint
    assert downstream.provenance["identity"]["downstream"] == data.downstream.fingerprint
    assert list(check_identity(downstream)) == []
    private = tuple(f"{name}." for name in downstream.diagnostics["simulation_only"])
    for path in ("provenance.downstream.rows.", "provenance.identity.downstream."):
        assert path.startswith(private)
    assert not "stages.".startswith(private)
    changed = {**SECOND, "params": {**SECOND["params"], "seed": 3}}
    same = {"name": "embedded", "params": {**SECOND["params"], "public": []}}
    roles = ["public", "private", "downstream"]
    ids = [
        jobs_of([spec_of(downstream=second, roles=roles)], tmp_path)[0].id
        for second in (SECOND, same, changed)
    ]
    assert ids[0] == ids[1] == downstream.id != ids[2]


def test_other_rows_under_the_same_parameters_are_another_run(tmp_path):
    """The fingerprint counts, and no path does."""
    ids = []
    for folder, line in (("a", "one two"), ("b", "one two"), ("c", "three two")):
        file = tmp_path / folder / "public.txt"
        file.parent.mkdir()
        file.write_text(f"{line}\n")
        second = {"name": "embedded", "params": {**SECOND["params"], "public": [str(file)]}}
        (job,) = jobs_of([spec_of(downstream=second)], tmp_path)
        ids.append(job.id)
    assert ids[0] == ids[1] != ids[2]


def test_a_result_of_a_task_without_a_second_source_says_nothing_of_one(tmp_path):
    result = result_of(tmp_path, roles=["public", "private"])
    assert result.stages is None
    assert "downstream" not in result.provenance
    assert "downstream" not in result.provenance["identity"]


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("embeded", r"two-heads\.downstream.*'embeded'.*'embedded'"),
        ({"name": "embedded", "params": {"user": 60}}, r"two-heads\.downstream.*'user'.*'users'"),
        ({"name": "embedded", "params": {"users": 1}}, r"downstream embedded\.users is 1: .*50"),
        ({"name": "embedded", "parms": {}}, r"two-heads.*'downstream\.parms'.*'downstream'"),
        ({"params": {}}, r"two-heads\.downstream.*'name'"),
    ],
)
def test_a_second_source_that_is_none_is_refused_with_the_nearest_name(second, message):
    with pytest.raises(InputError, match=message):
        spec_of(downstream=second)


def test_publishers_act_on_the_first_source_alone(tmp_path):
    perturb = {"name": "metric-dp", "params": {"epsilon": 5.0}}
    result = result_of(tmp_path, perturb, downstream=SECOND)
    assert "metric-dp" in failure(result)
    deidentify = {"name": "deidentify", "params": {}}
    assert build(spec_of(deidentify, USER_DP, downstream=SECOND))
    with pytest.raises(InputError, match=r"two-heads.*deidentify.*embedded.*deidentify"):
        build(spec_of(deidentify, USER_DP, downstream=SECOND, **TWICE))


def test_the_model_that_saw_no_private_row_is_the_one_that_public_only_releases(
    downstream, tmp_path
):
    roles = ["public", "private", "downstream"]
    floor = result_of(tmp_path, "public-only", downstream=SECOND, roles=roles)
    assert downstream.floors["public-only"] == floor.utility["accuracy"].value
    assert floor.floors["public-only"] == floor.utility["accuracy"].value


# ------------------------------------------------------------------------- several private stages


def test_two_private_stages_compose(tmp_path):
    once, twice = result_of(tmp_path, roles=["private"]), result_of(tmp_path, **TWICE)
    assert twice.error is None, failure(twice)
    assert [event.stage for event in twice.events] == ["user-dp", "user-dp 2"]
    first, second = twice.events
    assert second.model_copy(update={"stage": "user-dp"}) == first == once.events[0]
    assert proof(once).epsilon < proof(twice).epsilon < 2 * proof(once).epsilon
    assert proof(twice).epsilon == proven(twice.events, delta=1e-5)[0].epsilon
    assert [each.kind for each in twice.guarantees] == ["stated"]  # nobody claimed two in a row
    assert [len(twice.series[name]) for name in ("units", "units_2")] == [2, 2]
    private = twice.diagnostics["simulation_only"]
    assert {"series.units", "series.units_2", "clipped_fraction_2"} <= set(private)
    assert twice.diagnostics["public_sizes"] == twice.diagnostics["public_sizes_2"]
    assert list(check_identity(twice)) == []
    assert derive(twice).events == twice.events


def test_a_mechanism_for_each_stage(tmp_path):
    result = result_of(tmp_path, USER_DP, OTHER, **TWICE)
    assert [event.stage for event in result.events] == ["user-dp", "user-dp 2"]
    assert [event.event.count for event in result.events] == [2, 3]
    assert math.isfinite(proof(result).epsilon)
    with pytest.raises(InputError, match=r"2 private.*3 mechanisms"):
        build(spec_of(USER_DP, OTHER, USER_DP, **TWICE))
    with pytest.raises(InputError, match=r"two training.*user-dp and user-dp"):
        build(spec_of(USER_DP, OTHER, roles=["private"]))
    with pytest.raises(InputError, match=r"stage.*user-dp"):
        build(spec_of(USER_DP, roles=["public"]))


@pytest.mark.parametrize("mechanisms", [(USER_DP, NOISELESS), (NOISELESS, USER_DP)])
def test_a_private_stage_without_protection_spoils_the_others(tmp_path, mechanisms):
    result = result_of(tmp_path, *mechanisms, **TWICE)
    assert len(result.events) == 2
    assert math.isinf(proof(result).epsilon)
    assert "without noise" in proof(result).reason


def test_publishing_counts_where_one_stage_of_training_does_not_protect():
    publish = {"name": "deidentify", "params": {}}
    run = spec_of(publish, USER_DP, NOISELESS, **TWICE)
    pipeline, stats = (
        build(run).pipeline,
        public_sizes(build_sources(run), load_data(build_sources(run)).corpus),
    )
    stages = [event.stage for event in pipeline.plan(stats)]
    assert stages == ["deidentify", "user-dp", "noiseless"]
    assert pipeline.shows_published
    assert not pipeline.only_processes(stats)


def test_a_private_stage_on_the_second_source_plans_with_its_sizes(tmp_path):
    result = result_of(tmp_path, downstream=SECOND, **TWICE)
    assert [event.event.event.rate for event in result.events] == [10 / 60, 10 / 90]
    assert [stage.rows_of for stage in result.stages] == ["source", "downstream"]
    assert [stage.rows for stage in result.stages] == [None, None]
    assert result.diagnostics["public_sizes_2"]["declared"] == 90
    assert derive(result).events == result.events
    counted = {**SECOND, "params": {**SECOND["params"], "sample": 0.9}}
    refused = result_of(tmp_path, downstream=counted, **TWICE)
    assert math.isinf(proof(refused).epsilon)
    assert "private data" in proof(refused).reason
    assert {"events", "guarantees"} <= set(refused.diagnostics["simulation_only"])


def test_a_private_stage_on_the_second_source_assumes_what_its_rows_need(tmp_path):
    rows = [{"text": f"row {at}", "who": f"u{at}", "label": "ab"[at % 2]} for at in range(9)]
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    params = {"path": str(tmp_path / "x.jsonl"), "user_column": "who", "valid": 1e-9,
              "label_column": "label", "label_names": ["a", "b"]}  # fmt: skip
    second = {"name": "text", "params": params}
    twice = {"name": "user-dp", "params": {"users": 60, "users_per_round": 5, "rounds": 2}}
    for roles, assumed in ((["private", "private"], True), (["private", "downstream"], False)):
        ready = prepared(spec_of(twice, downstream=second, roles=roles), tmp_path)
        *_, proof = planned_guarantees(ready.parts, ready.spec, ready.planted_corpus, None)
        quotas = {*ready.planted_corpus.data.downstream.quotas}
        assert proof.kind == "stated"  # by a task of a stranger
        assert quotas and math.isfinite(proof.epsilon)
        assert (quotas <= {*proof.assumptions}) is assumed
        assert {SAME_PUBLIC if assumed else SAME_SECOND} <= {*proof.assumptions}


def test_secret_streams_of_a_stage_are_its_own():
    run = Run(
        1,
        public_sizes(
            build_sources(spec := spec_of(**TWICE)), load_data(build_sources(spec)).corpus
        ),
        scope="s",
    )
    first, second = build(spec).pipeline.training
    drawn = [run.within(stage.name).rng("noise").integers(2**62) for stage in (first, second)]
    assert drawn[0] != drawn[1]
    parts = [identity_parts(spec_of(downstream=SECOND, **TWICE), f"a+{second}") for second in "bc"]
    assert [each["corpus"] for each in parts] == ["a", "a"]
    scopes = [scope_of(each, "planted") for each in parts]
    assert scopes[0] != scopes[1]  # other rows of the second source: other noise on them


def test_users_of_an_audit_are_replaced_in_the_rows_of_their_own_source_alone(tmp_path):
    seen = {}

    def watch(self, learner, corpus, run):
        seen[run.stats.users] = run.injected
        return original(self, learner, corpus, run)

    from uedp_bench.mechanisms.private_training.user_dp import UserDP

    original = UserDP.train
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(UserDP, "train", watch)
        spec = spec_of(downstream=SECOND, **TWICE)
        from uedp_bench.one_run.protecting import protect

        data = load_data(build_sources(spec))
        run = Run(
            1,
            public_sizes(build_sources(spec), *data),
            injected=(3,),
            downstream=data.visible_downstream,
        )
        protect(build(spec), data.corpus, run)
    assert seen == {60: (3,), 90: ()}


# ----------------------------------------------------------------------------------------- guards


def test_stages_are_those_that_the_task_declared(tmp_path):
    result = result_of(tmp_path, roles=["private", "private"], lies="roles")
    assert "private, private" in failure(result)


@pytest.mark.parametrize(
    "params",
    [
        {"roles": ["public", "private"]},
        {"roles": ["private", "downstream"], "downstream": SECOND},
        {"roles": ["public", "private"], "downstream": SECOND},
    ],
)
def test_no_private_row_is_trained_on_without_the_mechanism(tmp_path, params):
    result = result_of(tmp_path, lies="rows", **params)
    assert failure(result).startswith("PrivacyError: the task two-heads")


def test_a_downstream_stage_needs_a_second_source(tmp_path):
    result = result_of(tmp_path, roles=["private", "downstream"])
    assert "second source" in failure(result)


def test_what_private_rows_have_moved_is_kept_for_no_other_run(tmp_path):
    result_of(tmp_path, roles=["private", "public"])
    assert not list((tmp_path / "cache").glob("public-*"))
    result_of(tmp_path, roles=["public", "private"])
    assert len(list((tmp_path / "cache").glob("public-*.pt"))) == 1


# ------------------------------------------------------------------------------- reference models


def test_reference_models_go_through_all_stages(tmp_path):
    spec = spec_of(downstream=SECOND, **TWICE)
    ready = prepared(spec, tmp_path)
    corpus, downstream = ready.planted_corpus.data
    users = np.zeros(corpus.user_count, dtype=bool)
    users[np.unique(corpus.users[corpus.where("train")])[:30]] = True
    logprobs = []
    for second in (downstream, replace(downstream, texts=("x",) * len(downstream))):
        shown = second.only("train", "valid", "public")
        inner = replace(ready, run=replace(ready.run, downstream=shown))
        run = Retraining(inner, None).bound()
        for mechanism in ("none", "same"):
            release = run.retrain(users, mechanism=mechanism, seed=1)
            logprobs.append(release.class_logprobs(corpus.only("test")).tolist())
    assert len({json.dumps(each) for each in logprobs}) == 4


# ------------------------------------------------------------------------------------ leaderboards


def test_runs_of_other_second_sources_stand_on_other_boards(downstream):
    other = {**downstream.provenance["downstream"], "fingerprint": "0" * 16}
    moved = downstream.model_copy(
        update={"provenance": {**downstream.provenance, "downstream": other}}
    )
    rows = [row for result in (downstream, moved) for row in aggregate([result])]
    titles = [boards.title(board) for board in boards.boards(rows)]
    assert len(titles) == 2
    assert {title.count(" then ") for title in titles} == {1}


def test_results_of_several_stages_are_valid(downstream, tmp_path):
    """All checks of `leaderboard validate`; a changed second source is found out."""
    file = tmp_path / "result.json"
    twice = result_of(tmp_path / "runs", USER_DP, OTHER, downstream=SECOND, **TWICE)
    for result in (downstream, twice):
        file.write_text(result.model_dump_json())
        assert check(file).errors == ()
    moved = json.loads(file.read_text())
    moved["provenance"]["downstream"]["fingerprint"] = "0" * 16
    file.write_text(json.dumps(moved))
    (error,) = check(file).errors
    assert error.where == "provenance.downstream.fingerprint"


def test_the_page_of_a_run_lists_its_stages(downstream):
    (row,) = aggregate([downstream])
    (stages,) = run_context(downstream, row)["pretraining"]
    public, private, last = stages.rows
    assert public[:3] == ("public", NONE, "source")
    assert private[:4] == ("private", "user-dp", "source", NONE)
    assert last[:3] == ("downstream, outside the guarantee", NONE, "second source")
    assert last[4] == "epochs 2, batch_size 16, learning_rate 0.010"


# ------------------------------------------------------------------- rows that two sources share


def corpus_of(*texts):
    return Corpus(tuple(texts), {"user": np.arange(len(texts))}, np.zeros(len(texts), dtype=int))


OWN = corpus_of(*(f"the patient of room {i} was seen again by doctor {i}" for i in range(300)))


def test_another_sample_of_the_private_rows_is_refused_as_a_second_source():
    """Samples number their rows anew: equal numbers do not tell that rows are the same."""
    sample = corpus_of(*(text.upper() + " \u200b " for text in OWN.texts[7::3]))
    assert not _holds_private(sample, OWN, sample)
    with pytest.raises(PrivacyError, match=r"two-heads.*98 of 98 rows"):
        _check_repeated(sample, OWN, "two-heads")


def test_what_two_people_may_both_have_written_is_not():
    others = [f"nobody of the ward has said this sentence {i} times" for i in range(199)]
    _check_repeated(corpus_of(*others, OWN.texts[0]), OWN, "two-heads")
    short = corpus_of("thanks a lot", "see you")
    _check_repeated(short, corpus_of(*short.texts, *OWN.texts), "two-heads")
    _check_repeated(corpus_of("", ""), corpus_of("", ""), "two-heads")  # published as vectors
