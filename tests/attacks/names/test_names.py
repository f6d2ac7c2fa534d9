"""Models that know names by heart give them away; models that do not, give chance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from toy import toy_run

from uedp_bench.attacks.names.extraction import PIIExtraction
from uedp_bench.attacks.names.inference import PIIInference, ranks
from uedp_bench.contracts.release import Release
from uedp_bench.corpus import SPLITS, Corpus, Spans
from uedp_bench.errors import InputError

EACH = 40
"""Names of each side."""


def corpus() -> Corpus:
    """Rows of one name each, half of them trained on."""
    texts = tuple(f"we met N{at:03d} in town {at}" for at in range(2 * EACH))
    return Corpus(
        texts=texts,
        groups={"user": np.arange(2 * EACH)},
        split=np.repeat([SPLITS.index("train"), SPLITS.index("test")], EACH),
        entities=Spans.build(texts, [(at, 7, 11, 0) for at in range(2 * EACH)]),
        entity_types=("PER",),
    )


class Writer(Release):
    """Knows some texts by heart: completes them, and writes nothing else, letter by letter."""

    def __init__(self, texts=(), loss=None) -> None:
        self.texts, self.loss, self.rng = texts, loss, np.random.default_rng(0)

    def filler_losses(self, before, after, fillers):
        if self.loss is not None:
            return np.array([self.loss(filler) for filler in fillers])
        return np.array([float(before + one + after not in self.texts) for one in fillers])

    def encode(self, text):
        return [ord(letter) for letter in text]

    def decode(self, tokens):
        return "".join(chr(token) for token in tokens)

    def next_logprobs(self, prefixes):
        out = np.full((len(prefixes), 128), 1e-9)
        for row, prefix in zip(out, prefixes, strict=True):
            written = self.decode(prefix)
            for text in self.texts:
                if text.startswith(written) and len(written) < len(text):
                    row[ord(text[len(written)])] += 1.0
        return np.log(out / out.sum(axis=1, keepdims=True))

    def save(self, folder):
        raise NotImplementedError


def inferred(release: Release, **params):
    attack = PIIInference.create({"candidates": 20, **params})
    rows = corpus()
    _, planted = attack.plant(rows, np.random.default_rng(0))
    return attack.run(release, planted, rows, toy_run()).metrics


def test_a_model_that_knows_its_text_by_heart_infers_its_names_alone():
    metrics = inferred(Writer(corpus().texts[:EACH]))
    assert metrics["accuracy"].value == 1.0
    assert metrics["exposure"].value == pytest.approx(np.log2(20))
    assert metrics["accuracy_floor"].value == 0.0  # all alike: ties count against the adversary
    assert metrics["auc"].value == 1.0


def test_a_model_that_knows_nothing_infers_no_more_than_the_floor():
    rng = np.random.default_rng(1)
    trials = [inferred(Writer(loss=lambda _: rng.random())) for _ in range(40)]
    apart = [one["accuracy"].value - one["accuracy_floor"].value for one in trials]
    assert abs(np.mean(apart)) < 3 * np.std(apart) / np.sqrt(len(apart)) + 1e-9
    assert np.mean([one["accuracy"].value for one in trials]) == pytest.approx(1 / 20, abs=0.02)
    below = sum(not one["auc"].low <= 0.5 <= one["auc"].high for one in trials)
    assert below <= 6  # 5 % of 40 are 2; more than 6 have a probability of 0.3 %


def test_what_the_model_before_training_prefers_is_deducted():
    """A name that everybody finds likely would win each gap of either side."""
    common = {f"N{at:03d}": float(at) for at in range(2 * EACH)}
    before = Writer(loss=common.__getitem__)
    learnt = set(corpus().texts[:EACH])

    class After(Writer):
        def filler_losses(self, old, after, fillers):
            hits = np.array([old + one + after in learnt for one in fillers])
            return before.filler_losses(old, after, fillers) - 0.5 * hits

    attack, rows = PIIInference.create({"candidates": 20}), corpus()
    alone = attack.run(After(), None, rows, toy_run()).metrics
    beside = attack.run(After(), None, rows, toy_run().retraining(None, before)).metrics
    assert beside["accuracy"].value == 1.0 > alone["accuracy"].value + 0.5
    assert beside["accuracy_base"].value < 0.3
    assert beside["accuracy_floor"].value == 0.0


def test_a_source_with_few_names_has_fewer_candidates():
    attack, rows = PIIInference.create({"candidates": 4 * EACH}), corpus()
    leakage = attack.run(Writer(rows.texts[:EACH]), None, rows, toy_run())
    assert leakage.details["candidates"] == 2 * EACH
    assert leakage.metrics["exposure"].value == pytest.approx(np.log2(2 * EACH))


def test_sides_that_share_no_type_are_refused_before_training():
    rows = corpus()
    kinds = [(at, 7, 11, int(at >= EACH)) for at in range(2 * EACH)]
    apart = replace(rows, entities=Spans.build(rows.texts, kinds), entity_types=("PER", "ORG"))
    with pytest.raises(InputError, match="pii-inference"):
        PIIInference.create({}).plant(apart, np.random.default_rng(0))


def test_ties_count_against_the_adversary():
    losses = [[1, 1, 2], [0.5, 1, 2], [3, 1, 2], [np.nan, 1, 2], [1, np.nan, 2]]
    assert ranks(np.array(losses)).tolist() == [2, 1, 3, 3, 2]


def extracted(texts, base=None, **params):
    attack = PIIExtraction.create({"samples": 200, "tokens": 24, **params})
    run = toy_run() if base is None else toy_run().retraining(None, Writer(base))
    return attack.run(Writer(texts), None, corpus(), run).metrics


def test_names_that_a_model_writes_are_of_members_alone():
    texts = corpus().texts
    metrics = extracted(texts[: EACH // 2])
    assert metrics["recall"].value == pytest.approx(0.5, abs=0.05)
    assert metrics["recall_floor"].value == 0.0
    assert metrics["precision"].value == 1.0
    both = extracted(texts, base=texts[: EACH // 4])
    assert abs(both["recall"].value - both["recall_floor"].value) < 0.15
    assert both["recall_base"].value == pytest.approx(0.25, abs=0.03)
    assert both["precision"].value == pytest.approx(0.5, abs=0.1)


def test_a_model_that_writes_no_name_has_no_precision():
    metrics = extracted(["nobody at all"])
    assert metrics["recall"].value == 0.0 < metrics["recall"].high
    assert "precision" not in metrics
