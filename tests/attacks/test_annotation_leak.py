"""A tagger that remembers records prefers their values; one that never saw them ranks all alike."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy.stats import kstest
from toy import toy_run

from uedp_bench.attacks.annotation_leak import (
    AnnotationLeak,
    AnnotationLeakParams,
    Decoys,
    Fact,
    Place,
    PlantedSubjects,
    filled,
    frequencies,
)
from uedp_bench.contracts.release import Release
from uedp_bench.corpus import Corpus, Layer, Spans
from uedp_bench.errors import InputError

SUBJECTS, DECOYS = 240, 7


@pytest.fixture(scope="module")
def corpus():
    """Each subject has a spouse with its own surname; the text says so once."""
    rng = np.random.default_rng(0)
    names = ["".join(rng.choice(list("abcdefghij"), 6)).title() for _ in range(3 * SUBJECTS)]
    texts, mentions, records = [], [], []
    for user in range(SUBJECTS):
        first, spouse, surname = names[3 * user : 3 * user + 3]
        value = f"{spouse} {surname}"
        text = f"{first} {surname} married {value} in May ."
        start = text.index(value)
        mentions.append((user, start, start + len(value), 0))
        texts.append(text)
        records.append({"Spouse(s)": (value,)})
    spans = Spans.build(texts, mentions)
    return Corpus(
        texts=tuple(texts),
        groups={"user": np.arange(SUBJECTS)},
        split=np.zeros(SUBJECTS, dtype=np.int64),
        entities=spans,
        entity_types=("SP",),
        layers={"automatic": Layer(spans, ("SP",), np.ones(SUBJECTS, dtype=bool))},
        records=tuple(records),
    )


class Asked(Release):
    """A tagger whose loss of a row is a function of its text."""

    types = ("SP",)

    def __init__(self, loss):
        self.loss = loss

    def spans(self, corpus):
        return Spans.none()

    def scorable(self, corpus):
        return np.ones(len(corpus), dtype=bool)

    def row_losses(self, corpus):
        rows = corpus.layers["automatic"].spans
        assert rows.row.tolist() == list(range(len(corpus)))  # annotation follows the value
        values = [t[a:b] for t, a, b in zip(corpus.texts, rows.start, rows.end, strict=True)]
        return np.array([self.loss(t, v) for t, v in zip(corpus.texts, values, strict=True)])


def noise(text, value):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") / 2**32


def leak(corpus, loss, subjects=SUBJECTS // 2):
    attack = AnnotationLeak(AnnotationLeakParams(subjects=subjects, decoys=DECOYS))
    planted, who = attack.plant(corpus, np.random.default_rng(1))
    return attack.run(Asked(lambda t, v: loss(t, v)), who, planted, toy_run())


def test_a_model_that_never_saw_a_record_ranks_its_values_uniformly(corpus):
    leakage = leak(corpus, noise)
    chance = leakage.metrics["exposure_chance"].value
    assert chance == pytest.approx(np.mean([3 - np.log2(k) for k in range(1, 9)]))
    for side in ("exposure", "exposure_held_out"):
        estimate = leakage.metrics[side]
        assert estimate.low - 0.15 < chance < estimate.high + 0.15
    assert leakage.metrics["auc"].low < 0.5 < leakage.metrics["auc"].high


def test_ranks_are_uniform_with_and_without_ties():
    from uedp_bench.attacks.annotation_leak import _exposures

    rng = np.random.default_rng(2)
    for losses in (rng.random((4000, 8)), rng.integers(2, size=(4000, 8)), np.zeros((4000, 8))):
        ranks = 8 / 2.0 ** _exposures(losses.astype(float), rng)
        assert kstest(ranks + rng.random(4000) - 1, "uniform", (0, 8)).pvalue > 1e-4


def test_a_model_that_remembers_records_is_seen(corpus):
    attack = AnnotationLeak(AnnotationLeakParams(subjects=SUBJECTS // 2, decoys=DECOYS))
    planted, who = attack.plant(corpus, np.random.default_rng(1))
    seen = set(planted.only("train").texts)
    remembers = Asked(lambda t, v: -1.0 if t in seen else noise(t, v))
    metrics = attack.run(remembers, who, planted, toy_run()).metrics
    assert metrics["exposure"].value == np.log2(DECOYS + 1)
    assert metrics["exposure_held_out"].value < 1.8
    assert metrics["auc"].low > 0.8


def test_what_the_text_gives_away_is_no_memory(corpus):
    fits = leak(corpus, lambda t, v: -t.split().count(v.split()[-1]) + 1e-6 * noise(t, v))
    assert fits.metrics["exposure"].value > 2.5
    assert fits.metrics["exposure_without_model"].value > 2.5
    assert fits.metrics["auc"].low <= 0.5 <= fits.metrics["auc"].high


def test_decoys_are_of_others_as_frequent_under_the_same_key_and_of_as_many_words():
    def fact(user, value, key="Spouse(s)"):
        return Fact(user, key, value, ())

    facts = [
        fact(0, "Ann Lee"), fact(0, "Eve Fox"), fact(1, "Bo Wu"), fact(2, "Cy Orr"),
        fact(3, "Dee"), fact(4, "Flo Day"), fact(5, "Gus Kay", "Children"), fact(6, "Bo Wu"),
    ]  # fmt: skip
    count = frequencies(["Ann Lee met Bo Wu .", "Cy Orr and Eve Fox", "Dee , Gus Kay"],
                        [one.value for one in facts])  # fmt: skip
    assert (count["Ann Lee"], count["Flo Day"]) == (1, 0)
    decoys, rng = Decoys(facts, count), np.random.default_rng(0)
    assert sorted(decoys.draw(facts[0], 2, rng)) == ["Bo Wu", "Cy Orr"]
    assert decoys.draw(facts[0], 3, rng) is None


def test_annotations_follow_what_is_put_in_the_place_of_a_value(corpus):
    start = corpus.texts[3].index(corpus.records[3]["Spouse(s)"][0])
    place = Place(3, start, start + len(corpus.records[3]["Spouse(s)"][0]))
    rows = filled(corpus, [place, place], ["Jo Wu", "Maximilian Featherstone"])
    spans = rows.layers["automatic"].spans
    assert [t[a:b] for t, a, b in zip(rows.texts, spans.start, spans.end, strict=True)] == [
        "Jo Wu", "Maximilian Featherstone",
    ]  # fmt: skip
    assert rows.texts[0].endswith(" married Jo Wu in May .")


def test_too_few_subjects_and_no_records(corpus):
    attack = AnnotationLeak(AnnotationLeakParams(subjects=SUBJECTS))
    with pytest.raises(InputError, match=r"annotation-leak\.subjects is 240: .* 120"):
        attack.plant(corpus, np.random.default_rng(0))
    bare = Corpus(corpus.texts, corpus.groups, corpus.split)
    assert attack.plant(bare, np.random.default_rng(0)) == (bare, PlantedSubjects())
