"""A mechanism chooses the vocabulary of a whole run: stages, guarantees, attacks, references."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from prepared_runs import prepared
from tiny import NOISELESS, USER_DP, runs

from uedp_bench.contracts.release import Release
from uedp_bench.leaderboard.validate import check
from uedp_bench.mechanisms.dp_vocabulary import DPVocabulary
from uedp_bench.one_run.preparing import Execution, Prepared
from uedp_bench.one_run.protecting import Retraining, protect
from uedp_bench.one_run.runner import execute

PUBLIC_FIRST = {"name": "next-word", "params": {"pretraining_epochs": 1}}
NAMES = {
    "name": "vocabulary-membership",
    "params": {"users": [1, 50], "names": 5, "controls": 20},
}


def words(**params):
    return {"name": "dp-vocabulary", "params": {"epsilon": 20.0, **params}}


def spec(*mechanisms, **fields):
    (run,) = runs(list(mechanisms), **fields)
    return run


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return execute(
        spec(words(), USER_DP, attacks=[NAMES]), Execution(folder, "cpu", keep_release=False)
    )


def proof(release):
    (guarantee,) = (each for each in release.guarantees if each.kind == "proven")
    return guarantee


def test_one_line_holds_the_vocabulary_and_the_training(result):
    assert result.error is None
    assert proof(result).unit == "user" and 1.0 < proof(result).epsilon < math.inf
    assert [event.stage for event in result.events] == ["dp-vocabulary"] * 2 + ["user-dp"]
    vocabulary = result.provenance["vocabulary"]
    assert (vocabulary["origin"], vocabulary["private"]) == ("DP histogram", False)
    assert vocabulary["size"] == result.diagnostics["words_released"] + 3
    assert "vocabulary" not in result.stored


def test_a_stored_result_is_recomputed(result, tmp_path):
    """The events, and what each is worth, follow from the spec; other noise is found out."""
    file = tmp_path / "result.json"
    stored = json.loads(result.model_dump_json())
    file.write_text(json.dumps(stored))
    assert check(file).errors == ()
    stored["events"][0]["event"]["noise_multiplier"] *= 2
    file.write_text(json.dumps(stored))
    assert check(file).errors


def test_rare_names_stay_out_and_those_of_nearly_everybody_are_words(result):
    assert result.skipped_attacks == ()
    metrics = result.leakage["vocabulary-membership"]
    assert metrics["vocabulary_advantage_1"].value == 0.0
    assert metrics["vocabulary_advantage_50"].value == 1.0
    details = result.details["vocabulary-membership"]
    assert details["vocabulary"] == {"size": result.provenance["vocabulary"]["size"],
                                     "origin": "DP histogram", "private": False}  # fmt: skip


def test_training_without_noise_is_not_protected_by_the_vocabulary(tmp_path):
    counted = words(variant="laplace", words_per_unit=5)
    record = execute(spec(counted, NOISELESS), Execution(tmp_path, "cpu", keep_release=False))
    assert record.error is None
    proofs = [each for each in record.guarantees if each.kind == "proven"]
    assert {each.unit for each in proofs} >= {"record"}
    assert all(math.isinf(each.epsilon) for each in proofs)
    assert all("without noise" in each.reason for each in proofs)
    file = tmp_path / "result.json"
    stored = json.loads(record.model_dump_json())
    file.write_text(json.dumps(stored))
    assert check(file).errors == ()
    stored["events"][0]["event"]["threshold"] -= 1.0
    file.write_text(json.dumps(stored))
    assert any("threshold" in str(problem) for problem in check(file).errors)


def released(folder, *mechanisms, **fields) -> tuple[Prepared, Release]:
    ready = prepared(spec(*mechanisms, **fields), folder)
    return ready, protect(ready.parts, ready.planted_corpus.trained_on, ready.run)


def test_a_public_stage_is_that_of_the_chosen_vocabulary(tmp_path):
    """Two vocabularies are two public stages; the same one is read again."""
    for epsilon, files in ((20.0, 1), (20.0, 1), (9.0, 2)):
        _, release = released(tmp_path, words(epsilon=epsilon), USER_DP, task=PUBLIC_FIRST)
        assert len(list(tmp_path.glob("**/public-*.pt"))) == files
        assert release.vocabulary.size == release.release.vocabulary.size


def test_who_charges_nothing_sees_public_rows_alone(tmp_path, monkeypatch):
    seen = []
    choose = DPVocabulary.choose

    def spy(self, corpus, words, run):
        seen.append((set(np.unique(corpus.split).tolist()), len(words) == len(corpus)))
        return choose(self, corpus, words, run)

    monkeypatch.setattr(DPVocabulary, "choose", spy)
    _, release = released(
        tmp_path, {"name": "dp-vocabulary", "params": {"variant": "public"}}, USER_DP
    )
    released(tmp_path, words(), USER_DP)
    assert seen == [({4}, True), ({0, 1, 4}, True)]
    assert release.vocabulary.origin == "public split"
    assert [event.stage for event in release.release.events] == ["user-dp"]


def test_a_reference_model_reads_by_the_vocabulary_under_attack(tmp_path, monkeypatch):
    ready, release = released(tmp_path, words(), USER_DP)
    retraining = Retraining(ready, release.vocabulary)

    def never(*_):
        raise AssertionError("the vocabulary was chosen again")

    monkeypatch.setattr(DPVocabulary, "choose", never)
    users = np.ones(ready.planted_corpus.corpus.user_count, dtype=bool)
    again = retraining.bound().retrain(users, mechanism="same", seed=5)
    assert again.vocabulary.fingerprint == release.vocabulary.fingerprint


def test_a_model_with_a_vocabulary_of_its_own_is_refused_before_training(tmp_path):
    one = spec(words(), USER_DP, task={"name": "next-word", "params": {"vocabulary": "private"}})
    record = execute(one, Execution(tmp_path, "cpu", keep_release=False))
    assert "mechanism" in record.error.message
