"""Which trials of a selection compose: the counterexamples, and what refuses them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from uedp_bench.accounting.declarations import Selection
from uedp_bench.accounting.events import Gaussian, PoissonSampled, PrivacyEvent, Repeated
from uedp_bench.accounting.ledger import proven
from uedp_bench.accounting.selection import Trials, charge
from uedp_bench.components import registry
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.one_run.guaranteeing import no_common_neighbours, shared_noise, trials_of
from uedp_bench.one_run.pipeline import Pipeline

STATS = CorpusStats(users=4000, rows=24000, sensitive_rows=9000, entities=500, public=True)
TRIED = {"model.units": [8, 16]}


def pipeline(*names, **params):
    parts = [registry.mechanisms.create(name, params.get(name.replace("-", "_"), {}))
             for name in names]  # fmt: skip
    return Pipeline.build(parts, registry.mechanisms.create("noiseless"))


def charged(selection, *pipelines):
    guarantees = proven(pipelines[0].plan(STATS), delta=1e-5)
    return guarantees, charge(guarantees, trials_of(selection, pipelines, STATS))


# ------------------------------------------------------------------------------- shared noise (S1)


def winners(seeds, shared, weight):
    """How often the setting with twice the local learning rate wins, by the larger released sum.

    One user with an update of norm 1, clipped at its learning rate; 60 rounds at rate 0.025 and
    noise 1. Its trials draw the same coins and noise, or their own.
    """
    won = 0
    for seed in range(seeds):
        released = []
        for trial, rate in enumerate((0.5, 1.0)):
            rng = np.random.default_rng([seed, 0 if shared else 1 + trial])
            coins, noise = rng.random(60) < 0.025, rng.standard_normal(60)
            released.append(float((rate * weight * coins + noise).sum()))
        won += released[1] > released[0]
    return won / seeds


def epsilon_charged():
    base = PoissonSampled(rate=0.025, event=Gaussian(noise_multiplier=1.0))
    event = PrivacyEvent(unit="user", event=Repeated(count=60, event=base))
    trials = Trials(Selection(tried=TRIED), ((event,),) * 2)
    (total,), _ = charge(proven([event], delta=1e-5), trials)
    return total.epsilon


def test_trials_that_share_their_noise_break_what_is_charged_for_independent_ones():
    epsilon = epsilon_charged()
    assert epsilon < 2.0
    without, with_user = (winners(400, True, weight) for weight in (0.0, 1.0))
    assert without == 0.0
    # P(second wins | D') - e^epsilon P(second wins | D) is 0.78, four deviations off 0.7.
    assert with_user > 0.7 > 1e-5
    independent = [winners(400, False, weight) for weight in (0.0, 1.0)]
    assert independent[1] <= math.exp(epsilon) * independent[0]


class Plugin(registry.mechanisms.get("user-dp")):
    """DP-FedAvg by somebody who does not say where the noise comes from."""

    name = "plugin"
    fresh_noise = False


def test_a_mechanism_that_does_not_say_so_is_refused():
    silent = registry.mechanisms.create("noiseless")
    trials = [Pipeline.build([Plugin.create({"clip": clip})], silent) for clip in (0.3, 0.6)]
    assert "plugin" in shared_noise(trials)
    guarantees, ((total,), record) = charged(Selection(tried=TRIED), *trials)
    assert guarantees[0].status == "given"
    assert (total.status, total.epsilon, total.notion) == ("refused", math.inf, "none")
    assert "fresh_noise" in total.reason
    (entry,) = record["guarantees"]
    assert (entry["charged"], record["method"]) == (False, "")
    assert "independent" in entry["reason"]


def test_one_trial_is_no_choice_and_needs_no_independence():
    (alone,) = [Pipeline.build([Plugin.create({})], registry.mechanisms.create("noiseless"))]
    guarantees, ((total,), _) = charged(Selection(tried={"model.units": [8]}, seeds=1), alone)
    assert total.epsilon == pytest.approx(guarantees[0].epsilon)
    guarantees, ((total,), _) = charged(Selection(tried={"model.units": [8]}, seeds=2), alone)
    assert total.status == "refused"


@pytest.mark.parametrize(
    "name", ["user-dp", "dp-sgd", "uedp", "uedp-group", "uedp-spread", "dpnr", "metric-dp",
             "truncation", "deepcandidate"],
)  # fmt: skip
def test_mechanisms_of_the_package_that_protect_say_so(name):
    assert registry.mechanisms.get(name).fresh_noise


# ------------------------------------------------------------------------------------------- seeds


def test_every_seed_of_every_setting_is_a_trial():
    trials = [pipeline("user-dp", user_dp={"clip": clip}) for clip in (0.3, 0.6)]
    tried = {"mechanism.user-dp.clip": [0.3, 0.6]}
    _, ((total,), record) = charged(Selection(tried=tried, seeds=3), *trials)
    (event,) = trials[0].plan(STATS)
    six = Repeated(count=6 * event.event.count, event=event.event.event)
    (all_six,) = proven([event.model_copy(update={"event": six})], delta=1e-5)
    assert total.epsilon == pytest.approx(all_six.epsilon)
    assert (record["settings"], record["seeds"]) == (2, 3)
    assert record["method"] == "composition of all 6 trials (2 settings, 3 seeds each)"
    random = {"repetitions": "poisson", "mean": 4.0}
    _, ((three,), _) = charged(Selection(tried=tried, seeds=3, **random), *trials)
    _, ((one,), _) = charged(Selection(tried=tried, seeds=1, **random), *trials)
    assert three.epsilon > 1.3 * one.epsilon


def test_a_value_that_stands_twice_is_no_second_trial():
    with pytest.raises(ValueError, match=r"model\.units: 8 "):
        Selection(tried={"model.units": [8, 16, 8]})


# ------------------------------------------------------------------------- common neighbours (S3)


def capped(keys, users, cap):
    """Which rows stay: those with the `cap` smallest keys of each user."""
    kept = set()
    for user in set(users):
        rows = [row for row, owner in enumerate(users) if owner == user]
        kept |= set(sorted(rows, key=lambda row: keys[row])[:cap])
    return kept


def test_a_sentence_that_is_removed_lets_another_in_and_caps_have_no_common_neighbours():
    """One user with three sentences, the third on the entity: caps of one and of two."""
    let_in = 0
    for seed in range(200):
        keys = np.random.default_rng(seed).random(3)
        before = [capped(keys, [0, 0, 0], cap) for cap in (1, 2)]
        after = [0, 1]
        for cap, kept in zip((1, 2), before, strict=True):
            gone = kept - {2}
            remaining = {after[i] for i in capped(keys[after], [0] * len(after), cap)}
            let_in += remaining != gone
    assert let_in > 100


@pytest.mark.parametrize("name", ["uedp-group", "uedp-spread"])
def test_a_choice_over_caps_is_refused_for_entities_and_charged_for_users(name):
    key = name.replace("-", "_")
    params = {"protected_spread": 1, "noise_multiplier": 2.0, "rounds": 10}
    trials = [pipeline(name, **{key: {**params, "sentences_per_user": cap}}) for cap in (2, 6)]
    tried = {f"mechanism.{name}.sentences_per_user": [2, 6]}
    guarantees, (totals, record) = charged(Selection(tried=tried, seeds=1), *trials)
    by_unit = {guarantee.unit: guarantee for guarantee in totals}
    assert by_unit["user-entity"].status == "refused"
    assert f"{name}.sentences_per_user" in by_unit["user-entity"].reason
    assert by_unit["user-entity"].curve == ()
    user = next(guarantee for guarantee in guarantees if guarantee.unit == "user")
    assert user.epsilon < by_unit["user"].epsilon < math.inf
    assert [entry["charged"] for entry in record["guarantees"]] == [
        guarantee.unit == "user" for guarantee in totals
    ]


def test_what_rewrites_text_first_has_no_common_neighbours_for_entities():
    trials = [pipeline("deidentify", "uedp", uedp={"users_per_round": k}) for k in (50, 60)]
    assert "deidentify" in no_common_neighbours(trials, several=False)
    plain = [pipeline("uedp", uedp={"users_per_round": k}) for k in (50, 60)]
    assert no_common_neighbours(plain, several=True) == ""
    uncapped = {"sentences_per_user": None, "clipping": "one-level", "rounds": 5}
    assert no_common_neighbours([pipeline("uedp-spread", uedp_spread=uncapped)], several=True) == ""


def test_one_cap_has_common_neighbours_with_one_seed_and_not_with_several():
    base = {"protected_spread": 1, "epsilon": 8.0, "rounds": 10}
    trials = [pipeline("uedp-group", uedp_group={**base, "clip": clip}) for clip in (0.1, 0.2)]
    tried = {"mechanism.uedp-group.clip": [0.1, 0.2]}
    guarantees, (one, _) = charged(Selection(tried=tried, seeds=1), *trials)
    assert all(before.epsilon < after.epsilon < math.inf
               for before, after in zip(guarantees, one, strict=True))  # fmt: skip
    for several in ({"seeds": 2}, {"repetitions": "poisson", "mean": 2.0}):
        _, (totals, _) = charged(Selection(tried=tried, **several), *trials)
        refused = next(guarantee for guarantee in totals if guarantee.unit == "user-entity")
        assert refused.status == "refused"
        assert "seeds" in refused.reason
