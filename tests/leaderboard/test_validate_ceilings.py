"""Ceilings of a result are those of its proofs, and no metric lies above its own by chance."""

from __future__ import annotations

import json

import pytest
from validated import GONE, changed, checked, errors, reference

from uedp_bench.attacks.membership.attack import Membership
from uedp_bench.statistics.intervals import fraction_estimate

ATTACK = "ceilings/membership"
JUDGED = "details/membership/judged"
RATE = "tpr_user_at_1pct_fpr"


@pytest.mark.parametrize(
    ("field", "value", "where"),
    [
        (f"{ATTACK}/{RATE}", 0.9, ""),
        (f"{ATTACK}/auc_user", 0.5, ""),
        (f"{ATTACK}/auc", GONE, ""),
        (f"{ATTACK}/auc_bag_of_words", 0.9, ""),
        ("ceilings", GONE, f"{ATTACK}/auc"),
        ("ceilings/reidentify", {"recall_at_1": 0.5}, ""),
        (JUDGED, GONE, ""),
        (JUDGED, [400, 400], ""),
        (f"{JUDGED}/members", 0, JUDGED),
        (f"{JUDGED}/members", 100, f"leakage/membership/{RATE}"),
        (f"leakage/membership/{RATE}/low", 0.0, f"leakage/membership/{RATE}"),
    ],
)
def test_what_is_changed_is_named(tmp_path, field, value, where):
    messages = errors(checked(tmp_path, changed(json.loads(reference("user-dp")), field, value)))
    assert (where or field).replace("/", ".") in messages


def test_a_result_without_a_proof_has_no_ceiling(tmp_path):
    data = json.loads(reference("noiseless"))
    assert "ceilings" not in data or not data["ceilings"]
    messages = errors(checked(tmp_path, changed(data, "ceilings", {"membership": {"auc": 0.9}})))
    assert messages == {"ceilings.membership.auc": "is there, and no proof bounds it"}


def test_a_metric_above_the_proof_is_an_error(tmp_path):
    data = json.loads(reference("user-dp"))
    members = data["details"]["membership"]["judged"]["members"]
    forged = fraction_estimate(members, members).model_dump(mode="json")
    messages = errors(checked(tmp_path, changed(data, f"leakage/membership/{RATE}", forged)))
    assert "the mechanism, the accountant or the attack is wrong" in messages["leakage.membership"]


def test_an_older_attack_needs_no_ceilings(tmp_path):
    data = json.loads(reference("user-dp"))
    for part in data["provenance"]["identity"]["attacks"]:
        part[1] = 4 if part[0] == "membership" else part[1]
    del data["ceilings"], data["details"]["membership"]["judged"]
    messages = errors(checked(tmp_path, data))
    assert not [where for where in messages if "judged" in where or "ceilings" in where]


@pytest.mark.parametrize("since", [5, None])
def test_attacks_declare_since_when_they_judge_users(tmp_path, monkeypatch, since):
    monkeypatch.setattr(Membership, "judges_users_since", since)
    data = json.loads(reference("user-dp"))
    del data["ceilings"], data["details"]["membership"]["judged"]
    messages = errors(checked(tmp_path, data))
    assert ("details.membership.judged" in messages) == (since is not None)
