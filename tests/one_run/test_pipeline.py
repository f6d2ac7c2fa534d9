"""Composition: the order of stages, and what is left of each one's events."""

from __future__ import annotations

import pytest
from toy import toy_run

from uedp_bench.accounting.events import (
    Gaussian,
    NonPrivate,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from uedp_bench.accounting.ledger import proven
from uedp_bench.accounting.protocol_events import SecureComputation
from uedp_bench.contracts.mechanism import (
    Mechanism,
    PublishingMechanism,
    ServingMechanism,
    VocabularyMechanism,
)
from uedp_bench.contracts.run_context import Run
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.deidentification.deidentify import Deidentify
from uedp_bench.mechanisms.documents.deepcandidate import DeepCandidate
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.mechanisms.representations.dpnr import DPNR
from uedp_bench.mechanisms.words.metric_dp import MetricDP
from uedp_bench.one_run.pipeline import Pipeline

STATS = toy_run(users=1000).stats


def event(reason, unit="user"):
    return PrivacyEvent(unit=unit, event=NonPrivate(reason=reason))


class Words(VocabularyMechanism):
    name = "words"

    def plan(self, stats):
        noisy = PoissonSampled(rate=1.0, event=Gaussian(noise_multiplier=5.0))
        return (PrivacyEvent(unit="user", event=Repeated(count=1, event=noisy)),)

    def choose(self, corpus, words, run):
        raise NotImplementedError


class OtherWords(Words):
    name = "other-words"


class Publish(PublishingMechanism):
    name = "publish"
    rowwise = True

    def plan(self, stats):
        return (event("published"),)

    def publish(self, corpus, run):
        raise NotImplementedError


class Mix(PublishingMechanism):
    """Does not say that it maps each row by itself, so it is not taken for pre-processing."""

    name = "mix"

    def plan(self, stats):
        return (event("published"),)

    def publish(self, corpus, run):
        raise NotImplementedError


class Serve(ServingMechanism):
    name = "serve"

    def plan(self, stats):
        return (event("served", "computation"),)

    def serve(self, release, run):
        raise NotImplementedError


class Nowhere(Mechanism):
    name = "nowhere"

    def plan(self, stats):
        return ()


def user_dp():
    return UserDP.create({"users_per_round": 10, "rounds": 2})


def build(*parts):
    return Pipeline.build(parts, Noiseless())


def reasons(pipeline):
    return [e.event.reason for e in pipeline.plan(STATS) if isinstance(e.event, NonPrivate)]


def test_all_four_stages_in_order():
    words, publish, train, serve = Words(), Publish(), user_dp(), Serve()
    pipeline = build(words, publish, train, serve)
    assert pipeline.vocabulary is words
    assert pipeline.publishers == (publish,)
    assert pipeline.trainers == (train,)
    assert pipeline.servers == (serve,)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((user_dp(), Deidentify()), "order.*deidentify.*user-dp"),
        ((Serve(), user_dp()), "order.*user-dp.*serve"),
        ((Publish(), Words()), "order.*words.*publish"),
        ((Noiseless(), user_dp()), "two training.*noiseless.*user-dp"),
        ((Words(), OtherWords()), "vocabulary.*words.*other-words"),
        ((Nowhere(),), "nowhere.*stage"),
        ((), "mechanism.*noiseless"),
    ],
)
def test_what_does_not_compose_is_refused(parts, message):
    with pytest.raises(InputError, match=message):
        build(*parts)


def test_without_training_there_is_training_without_noise():
    pipeline = build(Deidentify())
    assert [type(trainer) for trainer in pipeline.trainers] == [Noiseless]
    assert len(pipeline.plan(STATS)) == 2
    assert all(isinstance(e.event, NonPrivate) for e in pipeline.plan(STATS))


def test_publishing_row_by_row_keeps_the_guarantee_of_training():
    alone, composed = build(user_dp()), build(Publish(), Deidentify(), user_dp())
    assert composed.plan(STATS) == alone.plan(STATS)
    assert composed.claims(STATS) == alone.claims(STATS)
    assert composed.refusals(STATS) == ()


def test_publishing_that_mixes_rows_is_refused_and_shown():
    pipeline = build(Mix(), user_dp())
    assert reasons(pipeline) == ["published"]
    (refusal,) = pipeline.refusals(STATS)
    assert "mix" in refusal
    (guarantee,) = proven(pipeline.plan(STATS), delta=1e-5, refusals=pipeline.refusals(STATS))
    assert (guarantee.epsilon, guarantee.status) == (float("inf"), "refused")
    assert build(Mix(), Noiseless()).refusals(STATS) == ()


def test_publishing_counts_where_training_does_not_protect():
    assert reasons(build(Publish(), Noiseless()))[0] == "published"


class Conceal(Publish):
    """Publishes by a protocol that nobody else sees, and protects nothing of what comes out."""

    name = "conceal"

    def plan(self, stats):
        done = SecureComputation(parties=2, reveals="the text")
        return (PrivacyEvent(unit="computation", adjacency="replace-one", event=done),)


def test_computation_that_nobody_sees_protects_nothing_of_what_is_published():
    pipeline = build(Conceal())
    assert not pipeline.only_processes(STATS)
    assert "noiseless" in {e.stage for e in pipeline.plan(STATS)}


def test_training_without_noise_on_protected_text_costs_no_word():
    """What a word costs was paid when text was published; other text gets no such exemption."""
    perturb = MetricDP.create({"epsilon": 2.0})
    pipeline = build(perturb)
    assert pipeline.plan(STATS) == pipeline.staged(perturb, perturb.plan(STATS))
    (guarantee,) = proven(pipeline.plan(STATS), delta=1e-5, refusals=pipeline.refusals(STATS))
    assert (guarantee.unit, guarantee.epsilon, guarantee.notion) == ("word", 2.0, "metric-dp")
    assert pipeline.only_processes(STATS)
    for other in (
        (perturb, user_dp()),
        (Words(), perturb),
        (Deidentify(), perturb),
        (Noiseless(),),
    ):
        assert not build(*other).only_processes(STATS)
    leaky = build(MetricDP.create({"epsilon": 2.0, "unknown": "keep"}))
    mixed = build(Deidentify(), MetricDP.create({"epsilon": 2.0}))
    for plan in (leaky.plan(STATS), mixed.plan(STATS)):
        assert all(each.epsilon == float("inf") for each in proven(plan, delta=1e-5))
    assert "trained without noise" in reasons(leaky)


def test_a_word_of_published_text_is_no_word_of_the_text():
    """Amplification by word dropout needs the words that neighbours differ in."""
    perturb = MetricDP.create({"epsilon": 2.0})
    for rate, refused in ((0.5, True), (0.0, False)):
        send = DPNR.create({"epsilon": 1.0, "dimension": 4, "word_dropout": rate})
        assert not build(Deidentify(), send).refusals(STATS)  # text at inference is the original
        pipeline = build(perturb, send)
        assert any("word_dropout to 0" in why for why in pipeline.refusals(STATS)) is refused
        guarantees = proven(pipeline.plan(STATS), delta=1e-5, refusals=pipeline.refusals(STATS))
        (word,) = (each for each in guarantees if each.unit == "word")
        assert word.epsilon == (float("inf") if refused else 4.0)


def test_a_sentence_of_published_text_is_no_sentence_of_the_text():
    perturb, choose = MetricDP.create({"epsilon": 2.0}), DeepCandidate.create({"epsilon": 1.0})
    assert build(choose).refusals(STATS) == ()
    (refusal,) = build(perturb, choose).refusals(STATS)
    assert "metric-dp" in refusal
    assert build(perturb, choose, user_dp()).refusals(STATS) == ()  # none of it is released


def test_a_mechanism_that_acts_twice_draws_noise_of_its_own_each_time():
    perturb = [MetricDP.create({"epsilon": 0.1}) for _ in range(2)]
    pipeline = build(*perturb)
    assert pipeline.refusals(STATS) == ()
    stages = [pipeline.stage_of(part) for part in perturb]
    run = Run(1, STATS, scope="s")
    first, second = (run.within(stage).stream().rng("row", "the same text") for stage in stages)
    assert first.integers(2**62) != second.integers(2**62)


def test_choosing_the_vocabulary_always_counts_and_pre_processing_still_does_not():
    words, train = Words(), user_dp()
    pipeline = build(words, Publish(), train)
    mine, other = pipeline.staged(words, words.plan(STATS)), train.plan(STATS)
    planned = pipeline.plan(STATS)
    assert planned[:1] == mine and [event.stage for event in planned] == ["words", "user-dp"]
    assert [event.event for event in planned[1:]] == [event.event for event in other]
    assumption = "vocabulary and initial weights do not depend on private text"
    assert assumption in other[0].assumptions and assumption not in planned[1].assumptions
    assert f"{assumption} beyond what words is charged for" in planned[1].assumptions
    (both,) = proven(pipeline.plan(STATS), delta=1e-5)
    (alone,) = proven(train.plan(STATS), delta=1e-5)
    assert alone.epsilon < both.epsilon < float("inf")


def test_what_serving_tells_comes_last():
    assert build(user_dp(), Serve()).plan(STATS)[-1].event.reason == "served"
    assert len(build(user_dp(), Serve()).plan(STATS)) == 2


def test_claims_of_all_parts_count_once():
    assert len(build(user_dp()).claims(STATS)) == 1
    assert build(Words(), user_dp()).claims(STATS) == ()  # no paper claims both together
    assert build(Deidentify()).claims(STATS) == ()


def test_a_mechanism_that_names_its_stage_itself_trains_two_stages_all_the_same():
    sends = DPNR.create({"epsilon": 1.0, "dimension": 4})
    once, twice = (Pipeline.build([sends], Noiseless(), ["source"] * n) for n in (1, 2))
    assert [event.stage for event in once.plan(STATS)] == ["dpnr", "dpnr"]
    assert [event.stage for event in twice.plan(STATS)] == ["dpnr", "dpnr", "dpnr 2", "dpnr 2"]
    (word,) = (each for each in proven(twice.plan(STATS), delta=1e-5) if each.unit == "word")
    (alone,) = (each for each in proven(once.plan(STATS), delta=1e-5) if each.unit == "word")
    assert word.epsilon == 2 * alone.epsilon


def test_each_private_stage_has_a_name_of_its_own():
    first, second = user_dp(), user_dp()
    shared = Pipeline.build([first], Noiseless(), ["source"] * 2)
    assert shared.trainers == (first, first)
    own = Pipeline.build([Deidentify(), first, second], Noiseless(), ["source"] * 2)
    assert own.trainers == (first, second)
    for pipeline in (shared, own):
        assert [stage.name for stage in pipeline.training] == ["user-dp", "user-dp 2"]
        assert [event.stage for event in pipeline.plan(STATS)] == ["user-dp", "user-dp 2"]
        assert pipeline.claims(STATS) == ()
    (two,), (one,) = (proven(each.plan(STATS), delta=1e-5) for each in (own, build(first)))
    assert one.epsilon < two.epsilon < 2 * one.epsilon


def test_an_event_that_cannot_be_names_its_mechanism():
    """As of public sizes that do not fit each other; a run stops before it trains."""

    class Certain(Words):
        def plan(self, stats):
            return (PrivacyEvent(unit="user", event=PoissonSampled(
                rate=2.0 * stats.users, event=Gaussian(noise_multiplier=1.0))),)  # fmt: skip

    pipeline = Pipeline.build([Certain(), UserDP()], Noiseless())
    with pytest.raises(InputError, match=r"words.*rate is 2000"):
        pipeline.plan(STATS)
