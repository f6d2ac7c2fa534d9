"""Attributes in a representation are found, others are not, and numbers mean what they say."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from encoders import (
    TableClassifier,
    TableEncoder,
    VectorEncoder,
    attacked,
    authors,
    noise,
    with_coordinate,
)

from uedp_bench.attacks.representations.attribute_inference import AttributeInference
from uedp_bench.corpus import SPLITS, Corpus, IntArray, concatenate
from uedp_bench.errors import InputError

attack = partial(attacked, AttributeInference, hidden=32, epochs=20, learning_rate=0.01)


def presence(corpus: Corpus, *columns: IntArray) -> Corpus:
    names = [f"person{i}" for i in range(len(columns))]
    return replace(
        corpus,
        attributes=dict(zip(names, columns, strict=True)),
        attribute_names=dict.fromkeys(names, ("absent", "present")),
    )


def test_an_attribute_in_one_coordinate_is_found_and_the_other_is_not() -> None:
    corpus = authors(0)
    table = with_coordinate(noise(corpus, 1), corpus.attributes["sex"])
    leakage = attack(TableEncoder(table), corpus)
    assert leakage.metrics["accuracy_sex"].value > 0.98
    test = corpus.where("test")
    for name in ("sex", "age"):
        counts = np.bincount(corpus.attributes[name][test])
        assert leakage.metrics[f"majority_{name}"].value == pytest.approx(counts.max() / test.sum())
    assert leakage.metrics["accuracy_age"].low < leakage.metrics["majority_age"].value
    mean = (leakage.metrics["accuracy_sex"].value + leakage.metrics["accuracy_age"].value) / 2
    assert leakage.metrics["empirical_privacy"].value == pytest.approx(1 - mean)
    by_class = leakage.details["attributes"]["sex"]["by_class"]
    assert by_class["f"]["share"] + by_class["m"]["share"] == pytest.approx(1.0)
    confusion = np.array(leakage.details["attributes"]["age"]["confusion"])
    assert confusion.sum() == test.sum()
    recalls = np.diag(confusion) / confusion.sum(axis=1)
    balanced = leakage.details["attributes"]["age"]["balanced_accuracy"]["value"]
    assert balanced == pytest.approx(recalls.mean())


def test_a_nonlinear_attribute_needs_the_hidden_layer() -> None:
    corpus = authors(0)
    table = noise(corpus, 1, width=4)
    sex = (table[:, 0] * table[:, 1] > 0).astype(np.int64)
    corpus = replace(corpus, attributes={"sex": sex}, attribute_names={"sex": ("f", "m")})
    deep = attack(TableEncoder(table), corpus)
    flat = attack(TableEncoder(table), corpus, hidden=0)
    assert deep.metrics["accuracy_sex"].value > 0.85
    assert flat.metrics["accuracy_sex"].value < 0.65


def test_noise_says_no_more_than_the_majority() -> None:
    """An attacker whose interval lies above the majority of a test split has seen too much."""
    trials, above = 40, 0
    for seed in range(trials):
        corpus = authors(seed)
        quick = {"hidden": 16, "epochs": 4, "attributes": ["sex"]}
        metrics = attack(TableEncoder(noise(corpus, 1000 + seed)), corpus, seed, **quick).metrics
        low = metrics["accuracy_sex"].low
        assert low is not None
        above += low > metrics["majority_sex"].value
    assert above <= 0.05 * trials


def test_empirical_privacy_of_entities_is_one_minus_pooled_f1() -> None:
    corpus = authors(2)
    rng = np.random.default_rng(5)
    often, rare = rng.random(len(corpus)) < 0.7, rng.random(len(corpus)) < 0.2
    corpus = presence(corpus, often.astype(np.int64), rare.astype(np.int64))
    table = with_coordinate(noise(corpus, 1), corpus.attributes["person0"])
    leakage = attack(TableEncoder(table), corpus)
    truth = np.stack([often, rare])[:, corpus.where("test")]
    # The majority finds every mention of the first, wrongly in some rows, and none of the second.
    hits, wrong, missed = truth[0].sum(), (~truth[0]).sum(), truth[1].sum()
    majority = 1 - 2 * hits / (2 * hits + wrong + missed)
    assert leakage.metrics["empirical_privacy_majority"].value == pytest.approx(majority)
    tables = [np.array(one["confusion"]) for one in leakage.details["attributes"].values()]
    pooled = sum(tables)
    f1 = 2 * pooled[1, 1] / (2 * pooled[1, 1] + pooled[0, 1] + pooled[1, 0])
    assert leakage.metrics["empirical_privacy"].value == pytest.approx(1 - f1)
    assert leakage.details["empirical_privacy_is"] == "1 - F1"
    as_accuracy = attack(TableEncoder(table), corpus, empirical="accuracy")
    right = sum(np.trace(one) for one in tables) / pooled.sum()
    assert as_accuracy.metrics["empirical_privacy"].value == pytest.approx(1 - right)


def test_rows_of_unknown_attribute_are_left_out_and_counted() -> None:
    corpus = authors(0)
    table = with_coordinate(noise(corpus, 1), corpus.attributes["sex"])
    complete_leakage = attack(TableEncoder(table), corpus, attributes=["sex"])
    hidden = corpus.attributes["sex"].copy()
    hidden[::5] = -1
    partly = replace(corpus, attributes={"sex": hidden}, attribute_names={"sex": ("f", "m")})
    leakage = attack(TableEncoder(table), partly)
    about = leakage.details["attributes"]["sex"]
    unknown = int((hidden[corpus.where("test")] < 0).sum())
    assert about["rows_unknown"] == unknown > 0
    assert about["rows"] == complete_leakage.details["attributes"]["sex"]["rows"] - unknown
    assert leakage.metrics["accuracy_sex"].value > 0.98


def test_the_order_of_rows_does_not_matter_and_a_seed_gives_the_same_numbers() -> None:
    corpus = authors(3)
    table = with_coordinate(noise(corpus, 1), corpus.attributes["sex"]) + 0.5 * noise(corpus, 2)
    first = attack(TableEncoder(table), corpus)
    assert attack(TableEncoder(table), corpus) == first
    mixed = corpus.take(np.random.default_rng(9).permutation(len(corpus)))
    again = attack(TableEncoder(table), mixed)
    assert {k: v.value for k, v in again.metrics.items()} == pytest.approx(
        {k: v.value for k, v in first.metrics.items()}
    )
    # Rows that are numbered anew are drawn in another order, and the attacker is another one.
    order = np.random.default_rng(9).permutation(len(corpus))
    anew = replace(corpus.take(order), origin=np.arange(len(corpus)))
    other = attack(TableEncoder(table[order]), anew)
    for name in ("accuracy_sex", "empirical_privacy"):
        assert other.metrics[name].value == pytest.approx(first.metrics[name].value, abs=0.05)


def test_published_rows_are_joined_with_the_truth_by_origin() -> None:
    corpus = authors(4)
    table = with_coordinate(noise(corpus, 1), corpus.attributes["sex"])
    order = np.random.default_rng(9).permutation(len(corpus))
    # A mechanism may leave rows out, and need not carry attributes along.
    shown = corpus.take(order[: 9 * len(order) // 10]).with_vectors(
        table[order][: 9 * len(order) // 10]
    )
    shown = replace(shown, attributes={}, attribute_names={}, labels=None)
    leakage = attack(VectorEncoder(shown), corpus)
    assert leakage.metrics["accuracy_sex"].value > 0.98
    assert leakage.details["rows"]["train"] == int(shown.where("train").sum()) < 600
    # A planted row has no author.
    extra = replace(shown.take(np.array([0])), origin=np.array([-1]))
    planted = attack(VectorEncoder(concatenate(shown, extra)), corpus)
    assert planted.metrics == leakage.metrics


def test_test_rows_that_were_not_published_are_asked_for_as_they_are() -> None:
    corpus = authors(4)
    table = with_coordinate(noise(corpus, 1), corpus.attributes["sex"])
    release = TableEncoder(table)
    plain = attack(release, corpus)
    release.published = corpus.only("train", "valid")
    assert attack(release, corpus).metrics == plain.metrics


def test_fairness_is_the_accuracy_of_the_main_task_by_group() -> None:
    corpus = authors(6)
    assert corpus.labels is not None
    sex, test = corpus.attributes["sex"], corpus.where("test")
    # Right for all of one sex, and for 60 % of the other.
    right = (sex == 0) | (np.arange(len(corpus)) % 10 < 6)
    predictions = np.where(right, corpus.labels, (corpus.labels + 1) % 3)
    release = TableClassifier(noise(corpus, 1), np.log(0.1 + np.eye(3)[predictions]))
    leakage = attack(release, corpus)
    low = right[test & (sex == 1)].mean()
    gap = leakage.metrics["fairness_gap_sex"]
    assert gap.value == pytest.approx(1 - low)
    assert gap.low > 0.2
    groups = leakage.details["main_task_by_group"]["sex"]
    assert groups["f"]["accuracy"]["value"] == 1.0
    assert groups["m"]["accuracy"]["value"] == pytest.approx(low)
    assert groups["m"]["difference"]["value"] == pytest.approx(low - 1)
    assert groups["m"]["share"] == pytest.approx(sex[test].mean())
    assert leakage.details["main_task_accuracy"]["value"] == pytest.approx(right[test].mean())
    assert "fairness_gap_sex" not in attack(TableEncoder(release.table), corpus).metrics


def test_an_attacker_who_finds_nothing_decides_by_the_prior() -> None:
    corpus = authors(0, share=0.2)
    constant = np.ones((len(corpus), 5))
    leakage = attack(TableEncoder(constant), corpus)
    assert leakage.metrics["accuracy_sex"].value == leakage.metrics["majority_sex"].value
    assert math.isfinite(leakage.details["attributes"]["sex"]["valid_loss"]["released"][0])


def one_class(corpus: Corpus, split: str) -> Corpus:
    sex = np.where(corpus.where(split), 1, corpus.attributes["sex"])
    return replace(corpus, attributes={**corpus.attributes, "sex": sex})


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_attribute_with_one_class_is_refused_before_training(split: str) -> None:
    what, rng = AttributeInference.create(), np.random.default_rng(0)
    with pytest.raises(InputError, match=rf"attributes: 'sex'.*\(m\).*{split}"):
        what.plant(one_class(authors(0), split), rng)
    AttributeInference.create({"attributes": ["age"]}).plant(one_class(authors(0), split), rng)


def test_attributes_that_do_not_exist_are_refused() -> None:
    corpus, rng = authors(0), np.random.default_rng(0)
    with pytest.raises(InputError, match=r"attributes: .*'sexe'.*'sex'"):
        AttributeInference.create({"attributes": ["sexe"]}).plant(corpus, rng)
    with pytest.raises(InputError, match=r"attribute-inference: .*private attributes"):
        AttributeInference.create().plant(replace(corpus, attributes={}, attribute_names={}), rng)
    with pytest.raises(InputError, match=r"empirical.*'f1'.*'sex'.*'accuracy'"):
        AttributeInference.create({"empirical": "f1"}).plant(corpus, rng)


def test_representations_that_are_not_numbers_are_refused() -> None:
    corpus = authors(0)
    table = noise(corpus, 1)
    table[np.flatnonzero(corpus.where("test"))[7], 2] = math.nan
    with pytest.raises(InputError, match=r"test split: 1 of 300 rows.* 7"):
        attack(TableEncoder(table), corpus)
    with pytest.raises(InputError, match=r"shape \(600, 2, 4\)"):
        attack(TableEncoder(noise(corpus, 1).reshape(-1, 2, 4)), corpus)


def test_noise_that_all_coordinates_share_hides_nothing_from_a_centring_attacker() -> None:
    corpus = authors(0, share=0.5)
    rng = np.random.default_rng(4)
    table = rng.normal(size=(len(corpus), 6))
    table[:, 0] += 4.0 * corpus.attributes["sex"]
    shared = table + rng.laplace(scale=400.0, size=(len(corpus), 1))
    leakage = attack(TableEncoder(shared), corpus)
    assert leakage.metrics["accuracy_sex"].value > 0.9
    assert leakage.details["attributes"]["sex"]["view"] == "row-centred"
    plain = attack(TableEncoder(shared), corpus, views=["released"])
    assert plain.metrics["accuracy_sex"].value < 0.75
    kept = leakage.metrics["empirical_privacy_released"].value
    assert kept == plain.metrics["empirical_privacy"].value


def test_rows_of_a_person_together_single_the_person_out() -> None:
    """A row hints at two facts, ten rows tell both, and 12 people share each pair of values."""
    people, each = 72, 10
    users = np.repeat(np.arange(people), each)
    facts = {"sex": users % 2, "age": users // 2 % 3}
    split = np.where(users < 48, SPLITS.index("train"), SPLITS.index("valid"))
    split[users >= 60] = SPLITS.index("test")
    corpus = Corpus(
        texts=tuple(f"text number {i}" for i in range(len(users))),
        groups={"user": users},
        split=split,
        attributes=facts,
        attribute_names={"sex": ("f", "m"), "age": ("20", "30", "40")},
    )
    hints = np.stack([users % 2, *(facts["age"] == age for age in range(3))], axis=1)
    table = 2.0 * hints + np.random.default_rng(0).normal(size=hints.shape)
    leakage = attack(TableEncoder(table), corpus)
    assert leakage.details["people"] == 12
    for name in facts:
        assert (
            leakage.details["accuracy_of_people"][name]
            == 1.0
            > leakage.metrics[f"accuracy_{name}"].value
        )
    assert leakage.metrics["reidentification_risk"].value == pytest.approx(6 / people)
    assert leakage.metrics["reidentification_risk_chance"].value == 1 / people
    shuffled = leakage.metrics["reidentification_risk_shuffled"].value
    assert 1 / people < shuffled < 3 / people
    blind = attack(TableEncoder(noise(corpus, 1)), corpus)
    assert blind.metrics["reidentification_risk"].value < 3 / people


def test_attributes_of_rows_single_nobody_out() -> None:
    corpus = authors(0)
    by_row = replace(corpus, attributes=corpus.attributes | {"age": corpus.labels})
    nobody = replace(corpus, groups={"user": np.full(len(corpus), -1)})
    assert "reidentification_risk" in attack(TableEncoder(noise(corpus, 1)), corpus).metrics
    for other in (by_row, nobody):
        leakage = attack(TableEncoder(noise(other, 1)), other)
        assert not [name for name in leakage.metrics if name.startswith("reidentification")]
        assert "people" not in leakage.details
