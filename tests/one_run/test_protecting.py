"""Reference models: trained once for all runs that ask for the same one."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from prepared_runs import prepared
from tiny import MODEL, NOISELESS, SPIES, USER_DP, plugged, runs

from uedp_bench.components import registry
from uedp_bench.corpus import SPLITS
from uedp_bench.errors import InputError
from uedp_bench.one_run.pipeline import Pipeline
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.protecting import Retraining
from uedp_bench.one_run.runner import execute

ASKS = {"name": "hold-out", "params": {"finds": "reference"}}


@pytest.fixture(scope="module", autouse=True)
def spies():
    with plugged(SPIES):
        yield


@pytest.fixture
def trainings(monkeypatch):
    """Counts the trainings behind `Run.retrain`."""
    counted = []
    train = Retraining._train

    def count(self, *args):
        counted.append(args[1:3])
        train(self, *args)

    monkeypatch.setattr(Retraining, "_train", count)
    return counted


def retraining(spec, cache):
    """A run of a spec that can retrain, without running it."""
    ready = replace(prepared(spec, cache), cache=cache)
    vocabulary = ready.parts.task.vocabulary(ready.planted_corpus.corpus)
    return Retraining(ready, vocabulary).bound(), ready.planted_corpus.corpus


def scores(release, corpus):
    return np.concatenate([s.logp for s in release.token_logprobs(corpus.texts[:4])])


def some(corpus, count=8):
    users = np.zeros(corpus.user_count, dtype=bool)
    users[:count] = True
    return users


def test_runs_of_one_seed_share_the_reference_and_each_pays_for_it(tmp_path, trainings):
    results = [
        execute(s, Execution(tmp_path, "cpu")) for s in runs(NOISELESS, USER_DP, attacks=[ASKS])
    ]
    assert [result.error for result in results] == [None, None]
    assert len(trainings) == 1
    details = [result.details["hold-out"] for result in results]
    assert details[0]["reference"] == details[0]["again"] == details[1]["reference"]
    for result in results:
        cost = result.cost.model_dump()
        assert cost["reference_models"] == 2
        assert cost["reference_seconds"] > 0


def test_another_seed_model_mechanism_version_or_set_of_users_is_another_reference(
    tmp_path, trainings, monkeypatch
):
    (spec,) = runs(USER_DP)
    run, corpus = retraining(spec, tmp_path)
    users = some(corpus)
    base = scores(run.retrain(users, mechanism="none", seed=1), corpus)
    others = [
        run.retrain(users, mechanism="none", seed=2),
        run.retrain(some(corpus, 9), mechanism="none", seed=1),
        run.retrain(users, mechanism="same", seed=1),
    ]
    assert len(trainings) == 4
    assert not any(np.array_equal(scores(other, corpus), base) for other in others)
    wider = {"name": "lstm-small", "params": {**MODEL, "units": 9}}
    retraining(runs(USER_DP, model=wider)[0], tmp_path)[0].retrain(users, mechanism="none", seed=1)
    assert len(trainings) == 5
    monkeypatch.setattr(registry.models.get("lstm-small"), "version", 99)
    retraining(spec, tmp_path)[0].retrain(users, mechanism="none", seed=1)
    assert len(trainings) == 6


def test_training_like_the_mechanism_depends_on_its_parameters(tmp_path, trainings):
    other = {"name": "user-dp", "params": {**USER_DP["params"], "noise_multiplier": 2.0}}
    for spec in runs(USER_DP, other):
        run, corpus = retraining(spec, tmp_path)
        for mechanism in ("same", "none"):
            run.retrain(some(corpus), mechanism=mechanism, seed=1)
    assert [mechanism for mechanism, _ in trainings] == ["same", "none", "same"]


def test_a_reference_that_was_cut_short_is_trained_again(tmp_path, trainings):
    run, corpus = retraining(runs()[0], tmp_path)
    first = scores(run.retrain(some(corpus), mechanism="none", seed=1), corpus)
    (done,) = tmp_path.glob("retrain-*/done.json")
    done.unlink()
    (done.parent / "done.partial").write_text('{"sec')
    (done.parent / "release" / "weights.pt").write_bytes(b"half")
    again = scores(run.retrain(some(corpus), mechanism="none", seed=1), corpus)
    assert len(trainings) == 2
    assert np.array_equal(first, again)
    assert json.loads(done.read_text())["mechanism"] == "none"


def test_a_reference_with_a_flipped_bit_is_trained_again(tmp_path, trainings):
    run, corpus = retraining(runs()[0], tmp_path)
    first = scores(run.retrain(some(corpus), mechanism="none", seed=1), corpus)
    (weights,) = tmp_path.glob("retrain-*/release/weights.pt")
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 64
    weights.write_bytes(content)
    again = scores(run.retrain(some(corpus), mechanism="none", seed=1), corpus)
    assert len(trainings) == 2
    assert np.array_equal(first, again)


def test_who_asks_at_the_same_time_waits_for_the_first(tmp_path, trainings, monkeypatch):
    counting = Retraining._train

    def slowly(self, *args):
        time.sleep(0.5)
        counting(self, *args)

    monkeypatch.setattr(Retraining, "_train", slowly)
    retrainings = [retraining(spec, tmp_path) for spec in runs(NOISELESS, USER_DP)]
    with ThreadPoolExecutor(2) as pool:
        both = list(pool.map(
            lambda pair: scores(
                pair[0].retrain(some(pair[1]), mechanism="none", seed=1), pair[1]), retrainings,
        ))  # fmt: skip
    assert len(trainings) == 1
    assert np.array_equal(*both)


def test_chosen_users_train_whatever_their_split_and_nobody_else_does(tmp_path, monkeypatch):
    seen = []

    def spy(parts, corpus, run, vocabulary=None, **_):
        seen.append((parts.pipeline, corpus))
        raise InputError("seen enough")

    monkeypatch.setattr("uedp_bench.one_run.protecting.protect", spy)
    run, corpus = retraining(runs(USER_DP)[0], tmp_path)
    users = np.zeros(corpus.user_count, dtype=bool)
    chosen = [np.unique(corpus.only(split).users)[0] for split in ("train", "test", "public")]
    users[chosen] = True
    with pytest.raises(InputError, match="seen enough"):
        run.retrain(users, mechanism="none", seed=1)
    pipeline, shown = seen[0]
    assert isinstance(pipeline, Pipeline)
    assert [part.name for part in pipeline.parts] == ["noiseless"]
    assert sorted(set(shown.only("train").users.tolist())) == sorted(chosen)
    assert shown.only("public").texts == corpus.only("public").texts
    assert not len(shown.only("test", "valid", "held_out"))


def test_rows_of_other_splits_stay_out_where_splits_are_named(tmp_path, monkeypatch):
    seen = []

    def spy(parts, corpus, run, vocabulary=None, **_):
        seen.append(corpus)
        raise InputError("seen enough")

    monkeypatch.setattr("uedp_bench.one_run.protecting.protect", spy)
    (spec,) = runs(USER_DP)
    ready = prepared(spec, tmp_path)
    corpus = ready.planted_corpus.data.corpus
    (author,) = np.unique(corpus.only("train").users)[:1]
    mine = np.flatnonzero(corpus.users == author)
    tested = np.isin(np.arange(len(corpus)), mine[:1])
    mixed = corpus.with_split(tested, "test")
    planted_corpus = replace(ready.planted_corpus, corpus=mixed)
    run = Retraining(replace(ready, planted_corpus=planted_corpus), None).bound()
    users = np.arange(mixed.user_count) == author
    for splits, rows in ((("train", "held_out"), mine[1:]), (SPLITS, mine)):
        with pytest.raises(InputError, match="seen enough"):
            run.retrain(users, mechanism="none", seed=1, splits=splits)
        assert seen[-1].only("train").origin.tolist() == rows.tolist()
        valid = mixed.only("valid").origin if splits != SPLITS else np.empty(0)
        assert seen[-1].only("valid").origin.tolist() == valid.tolist()
        assert len(seen[-1].only("public")) == len(mixed.only("public"))


def test_nobody_cannot_train(tmp_path):
    run, corpus = retraining(runs()[0], tmp_path)
    with pytest.raises(InputError, match=r"retraining.*user"):
        run.retrain(np.zeros(corpus.user_count, dtype=bool), mechanism="none", seed=1)


def test_models_of_one_public_seed_start_alike_and_hide_by_their_own(tmp_path, trainings):
    (spec,) = runs(USER_DP)
    run, corpus = retraining(spec, tmp_path)
    for mechanism in ("same", "none"):
        releases = {
            seeds: scores(
                run.retrain(some(corpus), mechanism=mechanism, seed=seeds[0], public_seed=seeds[1]),
                corpus,
            )
            for seeds in ((1, 1), (2, 1), (3, 1), (2, 2))
        }
        weights = list(releases.values())
        assert len({each.tobytes() for each in weights}) == len(weights)
    first, second, *_ = trainings
    assert (first[1], second[1]) == ((1, 1), (2, 1))
    before = len(trainings)
    run.retrain(some(corpus), mechanism="same", seed=1, public_seed=1)
    run.retrain(some(corpus), mechanism="same", seed=1)  # the same by default
    assert len(trainings) == before


def test_a_public_seed_decides_weights_before_training(tmp_path):
    untouched = {"name": "public-only"}
    run, corpus = retraining(runs(untouched)[0], tmp_path)
    scores_by_seed = [
        scores(run.retrain(some(corpus), mechanism="same", seed=s, public_seed=p), corpus)
        for s, p in ((1, 5), (2, 5), (2, 6))
    ]
    assert np.array_equal(scores_by_seed[0], scores_by_seed[1])
    assert not np.array_equal(scores_by_seed[1], scores_by_seed[2])
