"""The audit: what it plants, that it catches leaks, and that it finds none where there is none."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tiny import MODEL, SOURCE, plugged, tiny
from toy import ToyLearner, Weights, looked_at_once

from uedp_bench.accounting.accountants.privacy_loss_grid import gaussian_epsilon
from uedp_bench.attacks.audit.attack import Audit
from uedp_bench.attacks.audit.trials import Sides, Trials, curve_evidence
from uedp_bench.attacks.membership.attack import Membership
from uedp_bench.attacks.membership.records import records_of
from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.bounds.trade_off import TradeOffCurve, refutes
from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.release import Release, Updates
from uedp_bench.contracts.results import write_result
from uedp_bench.contracts.run_context import Run, Speed, no_progress
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus
from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.errors import InputError
from uedp_bench.leaderboard.validate import check
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.one_run.planting import plant_all, withdrawn
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

LEAKY = Path(__file__).parents[2] / "support" / "leaky.py"
TINY = 1e-10  # a delta at which one training can refute something with confidence 1 - 1e-6


@pytest.fixture(scope="module", autouse=True)
def leaky():
    with plugged(LEAKY):
        yield


def planted(corpus: Corpus, seed: int = 1, **params):
    attack = Audit.create(params)
    return attack, *attack.plant(corpus, np.random.default_rng(seed))


def audited(mechanism, *, seed=1, delta=1e-5, model=None, users=60, folder, **params):
    """The result of one audited run on the embedded corpus."""
    spec = tiny(mechanism, attacks=[{"name": "audit", "params": {"word_pool": 100, **params}}])
    spec |= {"seeds": [seed], "delta": delta}
    spec["source"] = {"name": "embedded", "params": {**SOURCE, "users": users}}
    spec["model"] = {"name": "lstm-small", "params": {**MODEL, **(model or {})}}
    (run,) = expand(parse_spec(spec))
    return execute(run, Execution(folder, device="cpu", keep_release=False, speed=Speed(chunk=256)))


# ---------------------------------------------------------------------------- what is planted


def test_all_canaries_are_in_the_corpus_until_the_excluded_ones_are_withdrawn(development_corpus):
    _, corpus, what = planted(development_corpus)
    train, out = corpus.where("train"), withdrawn({"audit": what}, len(corpus))
    assert len({canary.user for canary in what.canaries}) == 100
    assert 30 < sum(canary.included for canary in what.canaries) < 70
    for canary in what.canaries:
        rows = corpus.rows_of_user[canary.user]
        assert train[rows].all()
        assert {corpus.texts[row] for row in rows} == {canary.text}
        assert (out[rows] == (not canary.included)).all()
    others = ~np.isin(corpus.users, [canary.user for canary in what.canaries])
    assert not out[others].any()
    same = np.array(corpus.texts)[others] == np.array(development_corpus.texts)[others]
    assert same.all()
    assert not what.injected


def test_who_holds_an_entity_canary_has_no_other_text_that_a_cap_could_let_in(development_corpus):
    _, corpus, what = planted(development_corpus, canary="entity", canaries=20, spread=2)
    out = withdrawn({"audit": what}, len(corpus))
    used = corpus.where("train") | corpus.where("valid")
    for canary in what.canaries:
        for other in canary.others:
            rows = corpus.rows_of_user[other]
            held = np.array([corpus.texts[row] == canary.text for row in rows])
            assert held.sum() == 1
            assert not (used[rows] & ~held & ~out[rows]).any()
            assert (out[rows[held]] == (not canary.included)).all()


def test_only_some_rows_and_no_validation_rows_of_a_canary_user_stay(development_corpus):
    some = np.arange(len(development_corpus)) % 6 == 5
    mixed = development_corpus.with_split(some & development_corpus.where("train"), "valid")
    attack, corpus, what = planted(mixed, user_rows=1, canary="update")
    out = withdrawn({"audit": what}, len(corpus))
    visible = corpus.where("train", "valid") & ~out
    for canary in what.canaries:
        assert visible[corpus.rows_of_user[canary.user]].sum() == canary.included
    assert what.injected == tuple(c.user for c in what.canaries if c.included)
    assert [target.unit for target in attack._targets(of_records=what.of_records)] == [
        "user",
        "record",
    ]


def test_an_excluded_user_that_is_replaced_keeps_its_text(development_corpus):
    attack, corpus, what = planted(development_corpus, adjacency="replace-one")
    assert not what.withdrawn
    for canary in what.canaries:
        rows = corpus.rows_of_user[canary.user]
        kept = [corpus.texts[row] == development_corpus.texts[row] for row in rows]
        assert all(kept) != canary.included
    assert attack._targets(of_records=what.of_records)[0].adjacency == "replace-one"


def test_an_entity_canary_has_the_spread_and_the_sentences_that_were_asked_for(development_corpus):
    attack, corpus, what = planted(
        development_corpus, canary="entity", spread=3, sentences=2, canaries=50
    )
    out = withdrawn({"audit": what}, len(corpus))
    users = [user for canary in what.canaries for user in (canary.user, *canary.others)]
    assert len(set(users)) == len(users) == 50 * 4
    for canary in what.canaries:
        rows = np.flatnonzero([text == canary.text for text in corpus.texts])
        (entity,) = {int(e) for row in rows for e in corpus.entities_of_row[row]}
        assert corpus.spread[entity] == 3
        assert sorted(corpus.rows_of_entity[entity]) == rows.tolist()
        assert (out[rows] == (not canary.included)).all()
        counts = np.bincount(corpus.users[rows])
        assert [counts[other] for other in canary.others] == [2, 2, 2]
        assert counts[canary.user] == len(corpus.rows_of_user[canary.user])
    excluded, spare = sum(not c.included for c in what.canaries), 50 * 3 * (6 - 2)
    assert int(out.sum()) == excluded * (6 + 3 * 2) + spare
    (target,) = attack._targets(of_records=what.of_records)
    assert (target.unit, target.spread, target.sentences) == ("user-entity", 3, 6)


def test_no_other_attack_shows_who_is_out(development_corpus):
    attacks = (SecretSharer.create(), Audit.create(), Membership.create())
    corpus, what = plant_all(attacks, development_corpus, 1)
    canaries = {canary.user: canary.text for canary in what["audit"].canaries}
    mine = np.isin(corpus.users, list(canaries))
    assert all(corpus.texts[row] == canaries[corpus.users[row]] for row in np.flatnonzero(mine))
    assert not set(canaries) & set(what["membership"].non_members)
    assert sum(canary.occurrences for canary in what["secret-sharer"].canaries) > 0
    after = corpus.with_split(withdrawn(what, len(corpus)), "held_out")
    records, left_out = records_of(what["membership"], after)
    assert left_out > 0
    assert not set(records.users.tolist()) & set(canaries)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"canary": "entity"}, "canary.*'entity'.*spread"),
        ({"spread": 3}, "spread.*sentences.*'user'"),
        ({"canary": "entity", "spread": 1, "retrainings": 4}, "retrainings"),
        ({"canary": "entity", "spread": 1, "adjacency": "replace-one"}, "replace-one"),
        ({"adjacency": "replace-one", "retrainings": 4}, "retrainings"),
        ({"retrainings": 1}, "retrainings is 1"),
        ({"stop": "early"}, "give retrainings"),
        ({"retrainings": 9, "target_epsilon": 1.0}, "stop='early'"),
        ({"retrainings": 9, "stop": "early", "target_epsilon": -1.0}, "target_epsilon"),
        ({"prefix_words": 5}, "below canary_words"),
        ({"canaries": 10}, "canaries"),
        ({"references": 1}, "references is 1"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(params, message):
    with pytest.raises(InputError, match=message):
        Audit.create(params)


def test_too_few_users_are_refused(make_corpus):
    with pytest.raises(InputError, match=r"audit\.canaries.* 80 .* 60 .* 7 "):
        planted(make_corpus(100), canary="entity", spread=3, sentences=7, canaries=20)


# ---------------------------------------------------------------------------- what is found


class Remembers(Release):
    """Losses of fillers: noise, and less of it for texts that it saw."""

    def __init__(self, seen: set[str], gain: float, seed: int = 0) -> None:
        self.seen, self.gain, self.rng = seen, gain, np.random.default_rng(seed)

    def filler_losses(self, before, after, fillers):
        hits = np.array([before + filler + after in self.seen for filler in fillers])
        return self.rng.normal(20.0, 1.0, len(fillers)) - self.gain * hits


def test_a_release_that_remembers_everything_is_bounded_and_one_that_does_not_is_not(
    development_corpus, make_run
):
    attack, corpus, what = planted(development_corpus, canaries=300)
    seen = {canary.text for canary in what.canaries if canary.included}
    leakage = attack.run(Remembers(seen, 20.0), what, corpus, make_run(1))
    assert leakage.metrics["auc"].value == 1.0
    assert leakage.metrics["epsilon_lower_bound"].value > 2.5
    first, at_small_delta = leakage.lower_bounds[:2]
    assert (first.delta, at_small_delta.delta) == (1e-5, 1e-10)
    assert 1.5 < at_small_delta.strict_epsilon < at_small_delta.epsilon
    assert all(b.strict_epsilon is None for b in leakage.lower_bounds if b.assumptions)
    blind = [
        attack.run(Remembers(seen, 0.0, seed), what, corpus, make_run(1)) for seed in range(20)
    ]
    above = [one.metrics["epsilon_lower_bound"].value > 0.0 for one in blind]
    assert sum(above) <= 4  # 5 % of 20 is 1; more than 4 would come once in 400 times
    assert all(not bound.strict_epsilon for one in blind for bound in one.lower_bounds)


def test_a_release_that_cannot_be_asked_gives_the_reason_and_no_bound(development_corpus, make_run):
    attack, corpus, what = planted(development_corpus, canary="update")
    leakage = attack.run(Remembers(set(), 0.0), what, corpus, make_run(1))
    assert not leakage.lower_bounds
    assert "Updates" in leakage.details["notes"][-1]


def test_without_noise_one_training_refutes_what_the_accountant_says(tmp_path, monkeypatch):
    honest = {"rounds": 1, "users_per_round": 60, "noise_multiplier": 20.0}
    leaky = {"name": "leaky-user-dp", "params": honest}
    result = audited(leaky, canary="update", canaries=58, delta=TINY, folder=tmp_path / "stated")
    (stated,) = [g for g in result.guarantees if g.kind == "stated"]
    assert (result.status, stated.status) == ("finished", "refuted")
    # Had it been reviewed, the accountant or the review would be wrong.
    monkeypatch.setattr("uedp_bench.one_run.guaranteeing.unreviewed", lambda spec: ())
    result = audited(leaky, canary="update", canaries=58, delta=TINY, folder=tmp_path)
    assert result.status == "failed"
    assert result.error.type == "PrivacyError"
    assert "exceeds" in result.error.message
    fine = audited({"name": "leaky-user-dp", "params": {**honest, "really": 1.0}},
                   canary="update", canaries=58, delta=TINY, folder=tmp_path)  # fmt: skip
    assert fine.status == "finished"


def test_the_claim_for_the_released_code_of_uedp_is_refuted(tmp_path):
    # Its noise has the deviation sigma^2 in place of sigma: with a small sigma, next to none.
    params = {
        "rounds": 60, "users_per_round": 120, "noise": "released", "noise_multiplier": 10.0,
        "entity_rate": 0.1, "clip": 0.01, "local_learning_rate": 100.0,
        "server_optimizer": "adam", "server_learning_rate": 0.03,
    }  # fmt: skip
    result = audited({"name": "uedp", "params": params}, users=120, canaries=116, user_rows=1,
                     canary_words=4, delta=TINY, model={"units": 32, "embedding": 32},
                     folder=tmp_path)  # fmt: skip
    assert result.error is None
    (claim,) = [g for g in result.guarantees if g.kind == "claimed"]
    (bound,) = [b for b in result.lower_bounds if b.unit == "user" and not b.assumptions]
    assert claim.epsilon < 0.42 < bound.strict_epsilon
    assert claim.status == "refuted"


SIZES = CorpusStats(21, 21, 0, 0, public=True)


def retrained(corpus: Corpus, what, mechanism, trials: int, progress=no_progress, **params):
    """An audit of `mechanism` on a network of 300 weights, one round in which all take part."""

    def train(mask, *, seed, **_):
        # Other users send nothing: one of them stands for all.
        chosen = [what.subject.user, int(np.flatnonzero(mask)[0])][not mask[what.subject.user] :]
        learner = ToyLearner(np.zeros((len(chosen), 300)), chosen)
        run = Run(seed, SIZES, injected=(what.subject.user,))
        module, _ = mechanism.train(learner, learner.corpus, run)
        return Weights(module)

    everybody = np.zeros(corpus.user_count, dtype=bool)
    everybody[corpus.users[corpus.where("train")]] = True
    run = Run(1, SIZES, injected=what.injected, delta=0.1, retrainer=train, progress=progress)
    release = train(everybody, seed=1)
    assert isinstance(release, Updates)
    values = {"canary": "update", "canaries": 20, "retrainings": trials, **params}
    with looked_at_once():
        return Audit.create(values).run(release, what, corpus, run)


@pytest.mark.parametrize("really", [0.5, 1.0])
def test_halved_noise_is_caught_by_independent_trainings_and_honest_noise_is_not(
    make_corpus, really
):
    corpus = make_corpus(users=21, rows=1)
    _, corpus, what = planted(corpus, canary="update", canaries=20, retrainings=2)
    out = withdrawn({"audit": what}, len(corpus))
    params = {"rounds": 1, "users_per_round": 21, "clip": 1.0, "noise_multiplier": 1.0}
    honest = UserDP.create(params)
    mechanism = mechanisms.get("leaky-user-dp").create({**params, "really": really})
    leakage = retrained(corpus.with_split(out, "held_out"), what, mechanism, 400)
    bound = leakage.lower_bounds[0]
    true = 1.1664  # epsilon of a Gaussian mechanism with noise 1 at delta 0.1
    assert honest.plan(SIZES) == mechanism.plan(SIZES)
    assert bound.delta == 0.1
    assert (bound.epsilon > true) == (really < 1.0)
    assert bound.strict_epsilon <= (true if really == 1.0 else bound.epsilon)
    claimed = TradeOffCurve.sampled(partial(gaussian_epsilon, 1.0))
    sides = Sides(*map(np.array, leakage.details["retrainings"].values()))
    at_95 = curve_evidence(Sides(np.zeros(20), np.zeros(20)), Trials(sides), 0.05)
    assert refutes(at_95, claimed) == (really < 1.0)
    assert really < 1.0 or not refutes(bound.evidence, claimed)


@pytest.mark.parametrize("really", [0.1, 1.0])
def test_retrainings_end_once_the_target_is_refuted(make_corpus, really):
    corpus = make_corpus(users=21, rows=1)
    _, corpus, what = planted(corpus, canary="update", canaries=20, retrainings=2)
    corpus = corpus.with_split(withdrawn({"audit": what}, len(corpus)), "held_out")
    params = {"rounds": 1, "users_per_round": 21, "clip": 1.0, "noise_multiplier": 1.0}
    mechanism = mechanisms.get("leaky-user-dp").create({**params, "really": really})
    lines: list[tuple[str, int]] = []
    early = {"stop": "early", "target_epsilon": 1.1664}
    leakage = retrained(
        corpus, what, mechanism, 120, lambda text, done, _: lines.append((text, done)), **early
    )
    reports = [(text, done) for text, done in lines if "retrainings" in text]
    trials = leakage.details["retrainings"]
    assert [done for _, done in reports] == list(range(1, len(trials["included"]) + 1))
    assert all("epsilon above" in text and "target" in text for text, _ in reports)
    assert (len(trials["included"]) < 120) == (really < 1.0)
    assert [len(trials["members"]), len(trials["nonmembers"])] == [
        sum(trials["included"]), len(trials["included"]) - sum(trials["included"])
    ]  # fmt: skip
    bound = leakage.lower_bounds[0]
    assert "e-values" in bound.method
    assert not [each for each in leakage.lower_bounds if each.method == "clopper-pearson-f-dp"]
    assert (bound.strict_epsilon > 1.1664) == (really < 1.0)
    claimed = TradeOffCurve.sampled(partial(gaussian_epsilon, 1.0))
    assert refutes(bound.evidence, claimed) == (really < 1.0)


# ---------------------------------------------------------------------------- honest mechanisms

FEDERATED = {"rounds": 3, "users_per_round": 60}
HONEST = {
    "user-dp": {**FEDERATED, "noise_multiplier": 1.0},
    "uedp": {**FEDERATED, "noise_multiplier": 0.05, "server_learning_rate": 100.0},
    "uedp-group": {"rounds": 3, "sampling_rate": 1.0},
    "uedp-spread": {**FEDERATED, "epsilon": 8.0},
    "dp-sgd": {"steps": 3, "batch_size": 200, "noise_multiplier": 1.0},
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", sorted(HONEST))
def test_no_bound_exceeds_what_is_proven_for_an_honest_mechanism(name, seed, tmp_path):
    kinds = [{"canary": "update"}, {"canary": "entity", "spread": 1, "canaries": 25}]
    for kind in kinds[: 1 if name in ("user-dp", "dp-sgd") else 2]:
        rows = {"user_rows": 1} if name == "dp-sgd" else {}
        result = audited({"name": name, "params": HONEST[name]}, seed=seed, folder=tmp_path,
                         **{"canaries": 50, **kind, **rows})  # fmt: skip
        assert result.error is None, result.error
        bounds = [b for b in result.lower_bounds if not b.assumptions]
        proofs = [g for g in result.guarantees if g.kind == "proven"]
        assert all(g.status == "given" for g in proofs)
        # For everybody at once uedp proves more than noise with an end can carry.
        assert all(np.isfinite(g.epsilon) or "end of the sampler" in g.reason for g in proofs)
        assert any(np.isfinite(g.epsilon) for g in proofs)
        pairs = [(g, b) for g in proofs for b in bounds if (g.unit, g.delta) == (b.unit, b.delta)]
        assert pairs or kind["canary"] == "update"  # a user with an entity that nobody mentions
        assert all(b.epsilon <= g.epsilon for g, b in pairs)


# ---------------------------------------------------------------------------- whole runs


def test_a_mechanism_without_rounds_has_no_update_to_find_and_says_so(tmp_path):
    result = audited({"name": "noiseless", "params": {"epochs": 1}}, canary="update", canaries=40,
                     folder=tmp_path)  # fmt: skip
    assert result.error is None, result.error
    assert "update" in result.details["audit"]["notes"][0]
    assert all(not bound.strict_epsilon for bound in result.lower_bounds)


def test_retrainings_put_the_subject_in_and_leave_it_out(tmp_path):
    params = {"rounds": 1, "users_per_round": 60, "noise_multiplier": 0.1}
    params["local_learning_rate"] = 1e-4  # what other users send is small beside the canary
    result = audited({"name": "user-dp", "params": params}, canary="update", canaries=20,
                     retrainings=6, folder=tmp_path)  # fmt: skip
    assert result.error is None, result.error
    scores = result.details["audit"]["retrainings"]
    assert len(scores["members"]) == len(scores["nonmembers"]) == 3
    assert min(scores["members"]) > max(scores["nonmembers"])
    assert "6 retrainings" in result.lower_bounds[0].method
    assert result.cost.reference_models == 6


def test_early_retrainings_of_a_run_are_found_again_and_validate(tmp_path):
    params = {"rounds": 1, "users_per_round": 60, "noise_multiplier": 4.0}
    first, again = (
        audited({"name": "user-dp", "params": params}, canary="update", canaries=20, retrainings=4,
                stop="early", folder=tmp_path)
        for _ in range(2)
    )  # fmt: skip
    assert first.error is None, first.error
    assert first.details["audit"]["retrainings"]["included"][:2] == [True, False]
    assert first.details == again.details
    assert first.lower_bounds == again.lower_bounds
    path = tmp_path / "result.json"
    write_result(first, path)
    assert not check(path).errors
    data = json.loads(path.read_text(encoding="utf-8"))
    data["details"]["audit"]["retrainings"]["included"][:2] = [False, False]
    path.write_text(json.dumps(data), encoding="utf-8")
    assert {problem.where for problem in check(path).errors} == {"details.audit.retrainings"}


def test_names_that_a_detector_would_have_to_find_are_no_entity_canaries(
    development_corpus: Corpus,
) -> None:
    detector = DetectionParams(detector="names")
    detected = replace(development_corpus, detector=detector)
    attack = Audit.create({"canary": "entity", "spread": 1, "canaries": 20})
    with pytest.raises(InputError, match=r"audit\.canary.*'entity'.*names"):
        attack.plant(detected, np.random.default_rng(1))
    attack.plant(development_corpus, np.random.default_rng(1))
