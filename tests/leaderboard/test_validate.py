"""One thing in a valid result is changed at a time, and validation says which."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable

import pytest
from validated import GONE, REFERENCE, Data, changed, checked, errors, reference

from uedp_bench.accounting.guarantee import general
from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.recorded_identity import identity_of


def test_a_proof_that_lost_one_of_the_general_assumptions_is_an_error(tmp_path):
    data = json.loads(reference("user-dp"))
    own = [text for text in data["guarantees"][1]["assumptions"] if text not in general()]
    older = changed(data, "guarantees/1/assumptions", own)
    (note,) = [p for p in checked(tmp_path, older).notes if "all proofs assume" in p.what]
    assert note.where == "guarantees.1.assumptions"
    whole = checked(tmp_path, changed(data, "guarantees/1/assumptions", [*own, *general()]))
    assert whole.errors == ()
    lost = checked(tmp_path, changed(data, "guarantees/1/assumptions", [*own, *general()[:2]]))
    assert "seed" in errors(lost)["guarantees.1.assumptions"]


@pytest.mark.parametrize("mechanism", ["noiseless", "user-dp", "uedp", "uedp-group"])
def test_what_is_changed_below_is_valid_as_it_is(tmp_path, mechanism):
    report = checked(tmp_path, reference(mechanism))
    assert report.errors == ()
    notes = {problem.where for problem in report.notes if "all proofs assume" not in problem.what}
    assert notes == {"id"}  # not the name of its folder


# Field (parts joined by /), new value, place that is named (the field itself by default), and what
# is said of it. Of the mechanism user-dp: guarantee 0 is claimed, 1 is proven.
FORM = [
    ("schema_version", 99, "", "99 is unknown: this version of uedp-bench reads versions 1 to 2"),
    ("epsilons", 3, "", "is no field"),
    ("status", "done", "", "'done': it must be 'finished' or 'failed'"),
    ("group", GONE, "", "is missing"),
    ("guarantees/0/kind", "guessed", "", "'guessed': it must be 'claimed', 'stated' or 'proven'"),
    ("utility/perplexity/value", "57.2", "", "'57.2' must be written as 57.2"),
    ("utility/perplexity/value", math.nan, "", "nan is no number of JSON"),
    ("utility/perplexity/value", math.inf, "", 'infinity is the text "inf"'),
    ("guarantees/1/epsilon", "Infinity", "", "must be written as"),
    ("spec/mechanism/0/params/sigma", "a\ud800", "", "'a\\ud800' has half of a character"),
    ("cost/a\ud800", 1.0, "cost", "the name 'a\\ud800' has half of a character"),
    ("spec/seed", True, "", "true must be written as 1"),
    ("spec/seed", 1.0, "", "1.0 must be written as 1"),
    ("events/0/event/count", -3, "events.0.event.count", "-3: it must be greater"),
]
RANGES = [
    ("utility/accuracy/value", 1.5, "", "1.5 is above 1, the most that is possible"),
    ("utility/perplexity/value", 0.5, "", "0.5 is below 1, the least"),
    ("utility/perplexity/low", None, "", "is missing: an interval has both ends"),
    ("utility/perplexity/low", 1e6, "", "is above the upper end"),
    ("leakage/membership/auc/value", -0.1, "", "-0.1 is below 0"),
    ("leakage/membership/tpr_at_1pct_fpr/high", 0.0, "leakage.membership.tpr_at_1pct_fpr.low",
     "above the upper end 0"),
    ("leakage/secret-sharer/extracted_random_sampling/value", 0.9, "", "is not in its interval"),
    ("leakage/secret-sharer/exposure_mean/value", 10.5, "", "above 10, the most"),
    ("cost/train_seconds", -1.0, "", "-1 is no cost"),
    ("cost/rows_trained", "inf", "", "'inf' is no cost"),
    ("diagnostics/signal_to_noise", -0.5, "", "is below 0"),
    ("series/train_loss/3/0", 1, "series.train_loss.3", "step 1 comes after step 3"),
    ("details/membership/scores/loss/roc/5", [2.0, 0.1], "", "is no pair of rates in [0, 1]"),
    ("details/membership/scores/loss/roc/5", [0.0, 0.0], "", "falls"),
    ("details/membership/scores/loss/auc/value", 0.9, "details.membership.scores.loss.roc",
     "the AUC is 0.9"),
    ("guarantees/1/delta", 1.0, "", "1 promises nothing"),
    ("guarantees/1/epsilon", -1.0, "", "-1: it must be greater than or equal to 0"),
]  # fmt: skip
CONSISTENCY = [
    ("status", "failed", "error", "is missing: a failed run says why"),
    ("error", {"type": "E", "message": "m", "phase": "train"}, "", "a finished run has none"),
    ("utility/oov_rate", GONE, "", "is missing: next-word declares it"),
    ("leakage/membership", GONE, "", "is missing: the attack neither ran nor was skipped"),
    ("leakage/reidentify", {}, "", "is of no attack of the spec"),
    ("skipped_attacks/0", {"name": "membership", "reason": "r"}, "leakage.membership",
     "the attack is in skipped_attacks"),
    ("skipped_attacks/0", {"name": "reidentify", "reason": "r"}, "", "is no attack of the spec"),
    ("details/reidentify", {}, "", "is of no attack that ran, and not of the task"),
    ("leakage/secret-sharer/exposure_mean/value", 1.0, "", "is not the"),
    ("leakage/membership/auc/value", 0.505, "", "of the score 'lira_shrunk'"),
    ("leakage/membership/auc_user/value", 0.9, "", "area between"),
    ("leakage/membership/tpr_at_0.1pct_fpr/value", 0.02, "", "is above tpr_at_1pct_fpr"),
    ("details/secret-sharer/canaries/0/rank", 1, "details.secret-sharer.canaries.0.exposure",
     "does not follow from rank 1"),
    ("details/membership/main_score", "best", "", "'best' is none of its scores"),
    ("details/membership/scores", GONE, "", "Field required"),
    ("events/0/stage", "magic", "", "'magic' is no mechanism of the spec: noiseless, user-dp"),
    ("spec/mechanism", [], "", "is empty"),
    ("spec/mechanism/0/params/rounds", "many", "spec.mechanism.0.params",
     "user-dp.rounds is 'many': Input should be a valid integer"),
    ("spec/mechanism/0/params/sigma", 3.0, "spec.mechanism.0.params", "no parameter 'sigma'"),
]  # fmt: skip
PROVENANCE = [
    ("provenance/package", GONE, "", "it must be a text"),
    ("provenance/commit", "main", "", "'main' is no commit"),
    ("provenance/commit", GONE, "", "is missing"),
    ("provenance/created", "yesterday", "", "is no time"),
    ("provenance/created", "2026-01-31T12:00:00", "", "no time zone"),
    ("provenance/created", "3000-01-31T12:00:00+00:00", "", "is in the future"),
    ("provenance/corpus/fingerprint", GONE, "", "is missing: nobody can tell the corpus"),
    ("provenance/corpus/fingerprint", "0" * 16, "", "is not the"),
]
IDENTITY = [
    ("id", "0" * 16, "", "is not the hash of provenance.identity"),
    ("id", "../../etc", "", "'../../etc' is no id"),
    ("group", "0" * 16, "", "is not the hash of provenance.identity"),
    ("spec/seed", 2, "", "2 is not the 1 of provenance.identity.seed"),
    ("spec/delta", 1e-6, "", "1e-06 is not the 1e-05 of provenance.identity.delta"),
    ("spec/mechanism/0/params/clip", 9.0, "", "9 is not the"),
    ("spec/mechanism/0/name", "dp-sgd", "", "'dp-sgd' is not the 'user-dp' of"),
    ("spec/attacks/2", {"name": "reidentify"}, "spec.attacks", "has 3 components"),
    ("spec/source/params/users", 4000, "", "4000 is not the 3000"),
    ("provenance/identity/seed", 2, "id", "is not the hash"),
    ("provenance/identity/mechanism/0/2/clip", 9.0, "id", "is not the hash"),
    ("provenance/identity/task", "next-word", "", "array"),
    ("provenance/identity/task", GONE, "", "is missing"),
    ("provenance/identity", [], "", "be an object"),
]
GUARANTEES = [
    ("guarantees/1/epsilon", 1.0, "", "proven epsilon 1 is less than 7.982"),
    ("guarantees/1/epsilon", 20.0, "", "proven epsilon 20 is more than 7.982"),
    ("guarantees/1/epsilon", "inf", "", "proven epsilon inf is more than 7.982"),
    ("guarantees/1/delta", 1e-3, "", "0.001 is not the 1e-05"),
    ("guarantees/1/unit", "record", "guarantees.1", "no event speaks of record (add-or-remove)"),
    ("guarantees/1/unit", "record", "guarantees", "proven, user (add-or-remove), is missing"),
    ("guarantees/1", GONE, "guarantees", "proven, user (add-or-remove), is missing"),
    ("guarantees/1/status", "refused", "guarantees.1.epsilon", "infinite then"),
    ("guarantees/1/status", "refuted", "", "'refuted' is for what is claimed or stated"),
    ("guarantees/1/notion", "metric-dp", "", "is not the 'dp' of its events"),
    ("guarantees/1/notion", "none", "", "'none' where epsilon is infinite"),
    ("guarantees/1/assumptions", [], "", "lack one of its events"),
    ("guarantees/1/protected", {"spread": 3}, "", "is not the point that the events declare"),
    ("guarantees/0/epsilon", 0.1, "", "0.1 is not the 10.1"),
    ("guarantees/0/unit", "user-entity", "", "is not the 'user' claimed"),
    ("guarantees/0", GONE, "guarantees", "has 0 claims, and the mechanisms of the spec make 1"),
    ("guarantees/0/status", "refuted", "", "no bound of this file exceeds the claim"),
    ("events/0/event/event/event/noise_multiplier", 9.0, "", "is 9, and its"),
    ("events/0/event/event/event/noise_multiplier", 9.0, "guarantees.1.epsilon", "is more than"),
    ("events/0/event/event/rate", 0.9, "guarantees.1.epsilon", "is less than"),
    ("events/0/unit", "record", "guarantees.1", "no event speaks of user"),
    ("events", [], "", "has 0 events, and the mechanisms plan 1"),
    ("events", [], "guarantees.1", "no event speaks of user"),
    ("provenance/vocabulary/private", True, "guarantees.1.status", "private text"),
    ("selection", {"settings": 3}, "", "the spec declares none"),
]


@pytest.mark.parametrize(
    ("field", "value", "where", "message"),
    [*FORM, *RANGES, *CONSISTENCY, *PROVENANCE, *IDENTITY, *GUARANTEES],
)
def test_one_change_is_found_where_it_is(tmp_path, field, value, where, message):
    report = checked(tmp_path, changed(json.loads(reference("user-dp")), field, value))
    by_place = errors(report)
    place = where or field.replace("/", ".")
    assert place in by_place, by_place
    assert any(message in p.what for p in report.errors if p.where == place), by_place[place]
    assert "could not be checked" not in str(by_place)


BOUND = {"unit": "user", "epsilon": 9.0, "strict_epsilon": 9.0, "delta": 1e-5,
         "confidence": 0.95, "method": "m", "attack": "membership"}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "where", "message"),
    [
        ({}, "lower_bounds.0.strict_epsilon", "7.982"),
        ({"strict_epsilon": -1.0}, "lower_bounds.0.strict_epsilon", "greater than or equal to 0"),
        ({"epsilon": "inf"}, "lower_bounds.0.epsilon", "less than inf"),
        ({"delta": 1.0}, "lower_bounds.0.delta", "less than 1"),
        ({"confidence": 1.0}, "lower_bounds.0.confidence", "less than 1"),
        ({"spread": -1}, "lower_bounds.0.spread", "greater than or equal to 0"),
        ({"attack": "audit"}, "lower_bounds.0.attack", "'audit'"),
        ({"strict_epsilon": 11.0}, "guarantees.0.status", "'refuted'"),
    ],
)
def test_lower_bounds(tmp_path, change, where, message):
    data = changed(json.loads(reference("user-dp")), "lower_bounds", [{**BOUND, **change}])
    assert message in errors(checked(tmp_path, data))[where]


def test_a_claim_that_a_bound_refutes_must_be_marked(tmp_path):
    bound = {**BOUND, "unit": "user-entity", "strict_epsilon": 1.0, "epsilon": 1.0}
    data = changed(json.loads(reference("uedp")), "lower_bounds", [bound])
    by_place = errors(checked(tmp_path, data))
    assert by_place.keys() == {"guarantees.0.status"}
    assert "'refuted'" in by_place["guarantees.0.status"]
    data["guarantees"][0] |= {"status": "refuted", "reason": "membership says 1"}
    assert checked(tmp_path, data).valid
    data["lower_bounds"][0]["strict_epsilon"] = 0.1
    assert errors(checked(tmp_path, data)).keys() == {"guarantees.0.status"}


@pytest.mark.parametrize(
    ("field", "value", "where", "message"),
    [
        ("guarantees/0/curve/2/epsilon", 0.1, "", "0.1 is less"),
        ("guarantees/0/curve/2/epsilon", 1e3, "", "1000 is more"),
        ("guarantees/0/curve/2", GONE, "guarantees.0.curve", "6 points"),
        ("guarantees/0/curve/2/spread", 2, "guarantees.0.curve", "has 7 points"),
        ("guarantees/0/protected/spread", 9, "guarantees.0.protected", "is not the point"),
        ("events/0/protected", None, "events.0.protected", '{"spread": 3'),
    ],
)
def test_points_of_a_curve(tmp_path, field, value, where, message):
    data = changed(json.loads(reference("uedp-group")), field, value)
    assert message in errors(checked(tmp_path, data))[where or field.replace("/", ".")]


def test_lists_of_events_may_differ_by_rounding_alone(tmp_path):
    data = json.loads(reference("dp-ftrl", "bloggers-mechanisms-levers", seed=11))
    where = "events/0/event/coefficients"
    first, *others = data["events"][0]["event"]["coefficients"]
    near = [first * (1 + 1e-6), *others]
    assert checked(tmp_path, changed(data, where, near)).errors == ()
    by_place = errors(checked(tmp_path, changed(data, where, [first * 1.01, *others])))
    assert "plans" in by_place["events.0.event.coefficients.0"]
    by_place = errors(checked(tmp_path, changed(data, where, [first, *others, first])))
    assert "plans" in by_place["events.0.event.coefficients"]


@pytest.mark.parametrize("value", [False, None])
def test_whether_anything_was_learnt_must_follow_from_the_floors(tmp_path, value):
    data = json.loads(reference("user-dp"))
    assert data["learned"] is True
    by_place = errors(checked(tmp_path, changed(data, "learned", value)))
    # Files of schema version 1 cannot know of models that saw public text, and say nothing.
    assert by_place.keys() == ({"learned"} if value is False else set())
    better = changed(data, "floors/unigrams", 1.0)
    assert "learned" in errors(checked(tmp_path, better))
    assert "headline" in errors(checked(tmp_path, changed(data, "headline", None)))
    other = changed(data, "headline/metric", "grades")
    assert "headline.metric" in errors(checked(tmp_path, other))


def test_metrics_of_one_task_add_up(tmp_path):
    data = json.loads(reference("dpnr", "reproductions/dpnr-ag-dropout"))
    value = data["utility"]["accuracy"]["value"] + 0.01
    by_place = errors(checked(tmp_path, changed(data, "utility/accuracy/value", value)))
    by_place.pop("events.0.event.coordinates", None)  # of an older version of the mechanism
    assert by_place.keys() == {"utility.accuracy.value"}
    assert "add up" in by_place["utility.accuracy.value"]


# ---------------------------------------------------------------------------- notes


@pytest.mark.parametrize(
    ("field", "value", "where", "message"),
    [
        ("tracking", {"mlflow_run_id": "a"}, "tracking", "{}"),
        ("provenance/commit", None, "provenance.commit", "code"),
        ("provenance/vocabulary/origin", "file /home/<me>/w.txt", "provenance.vocabulary.origin",
         "read it"),
        ("spec/source/params/public", ["/home/<me>/x.txt"], "spec.source.params.public",
         "relative"),
        ("utility/perplexity/value", 99.0, "utility.perplexity.value", "bootstrap"),
    ],
)  # fmt: skip
def test_what_is_no_error_is_a_note(tmp_path, field, value, where, message):
    report = checked(tmp_path, changed(json.loads(reference("user-dp")), field, value))
    assert report.errors == ()
    assert message in {note.where: note.what for note in report.notes}[where]


def rehashed(data: Data, change: Callable[[Data], None]) -> Data:
    """A result whose recorded identity is changed, and its id and group with it."""
    out = copy.deepcopy(data)
    change(out["provenance"]["identity"])
    out["id"], out["group"] = identity_of(out["provenance"]["identity"])
    return out


def test_another_version_of_a_component_is_noted(tmp_path):
    def older(parts: Data) -> None:
        parts["mechanism"][0][1] = 7

    report = checked(tmp_path, rehashed(json.loads(reference("user-dp")), older))
    assert report.errors == ()
    note = {note.where: note.what for note in report.notes}["provenance.identity.mechanism.0"]
    installed = mechanisms.get("user-dp").version
    assert f"version {installed}" in note
    # Another version may claim another epsilon, and nobody can tell here.
    claim = changed(rehashed(json.loads(reference("user-dp")), older), "guarantees/0/epsilon", 9.0)
    report = checked(tmp_path, claim)
    assert report.errors == ()
    assert "version" in {n.where: n.what for n in report.notes}["guarantees.0"]


def test_digests_stand_for_files_only(tmp_path):
    data = json.loads(reference("user-dp"))
    data["spec"]["task"]["params"]["vocabulary"] = "words.txt"

    def of_a_file(parts: Data) -> None:
        parts["task"][2]["vocabulary"] = "0123456789abcdef"

    def of_a_number(parts: Data) -> None:
        of_a_file(parts)
        parts["mechanism"][0][2]["clip"] = "0123456789abcdef"

    assert checked(tmp_path, rehashed(data, of_a_file)).errors == ()
    by_place = errors(checked(tmp_path, rehashed(data, of_a_number)))
    assert by_place.keys() == {"spec.mechanism.0.params.clip"}


def test_components_that_are_not_installed_are_noted(tmp_path):
    data = json.loads(reference("noiseless"))
    data["spec"]["mechanism"][0]["name"] = "nowhere-installed"
    data["events"][0]["stage"] = "nowhere-installed"

    def renamed(parts: Data) -> None:
        parts["mechanism"][0][0] = "nowhere-installed"

    report = checked(tmp_path, rehashed(data, renamed))
    assert report.errors == ()
    notes = {note.where: note.what for note in report.notes}
    assert "'nowhere-installed'" in notes["spec.mechanism.0.name"]
    assert "--plugin" in notes["spec.mechanism.0.name"]
    assert "spec.mechanism.0" in notes["events"]


def test_without_a_recorded_identity_the_spec_is_hashed(tmp_path):
    data = json.loads(reference("user-dp"))
    older = {
        k: part
        for k, part in data["provenance"]["identity"].items()
        if k not in ("engine", "unprotected")
    }
    data["id"], data["group"] = identity_of(older)
    data = changed(data, "provenance/identity", GONE)
    assert checked(tmp_path, data).valid
    by_place = errors(checked(tmp_path, changed(data, "spec/seed", 2)))
    assert by_place.keys() == {"id"}
    assert "spec" in by_place["id"]
    assert errors(checked(tmp_path, changed(data, "group", "0" * 16))).keys() == {"group"}
    # Nobody but the submitter has the file: nothing of it is opened, and its content is not known.
    named = changed(data, "spec/task/params/vocabulary", str(REFERENCE))
    report = checked(tmp_path, named)
    assert report.errors == ()
    assert any("spec.task.params.vocabulary" in n.what for n in report.notes)
