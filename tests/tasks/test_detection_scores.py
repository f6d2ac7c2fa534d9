"""Recall, precision and types of a detector, on spans whose every share is known."""

from __future__ import annotations

import numpy as np
import pytest

from uedp_bench.corpus import Layer
from uedp_bench.tasks.pii_detection import Detection, detection_scores

TEXTS = ("Ann Lee met Bo", "Ann Lee left", "Bo in Rome", "Ann", "nothing")
GOLD = [(0, 0, 7, 0), (0, 12, 14, 0), (1, 0, 7, 0), (2, 0, 2, 0), (2, 6, 10, 1), (3, 0, 3, 0)]
FOUND = [(0, 0, 3, 0), (0, 4, 7, 1), (1, 0, 3, 0), (1, 8, 12, 0), (2, 6, 10, 0), (3, 0, 3, 0)]
USERS = np.array([0, 0, 1, 2, 3])


def measured(marks=FOUND, types=("PERSON", "ORG"), **same):
    detection = Detection(
        TEXTS, Layer.build(TEXTS, GOLD, ("PER", "LOC")), Layer.build(TEXTS, marks, types), USERS
    )
    return detection_scores(detection, same, np.random.default_rng(0))


def test_shares_are_those_counted_by_hand() -> None:
    utility, details = measured()
    values = {name: each.value for name, each in utility.items()}
    # "Ann Lee" once by two spans, Rome and "Ann"; half of the other "Ann Lee", no "Bo".
    assert values["covered"] == 3 / 6
    # Of six entities of users: user 0 has Ann Lee (one of two is left) and Bo, user 1 Bo and Rome.
    assert values["covered_entities"] == 2 / 5
    assert values["precision"] == 5 / 6
    assert values["hidden"] == (3 + 3 + 3 + 4 + 4 + 3) / sum(map(len, TEXTS))
    # Same boundaries: Rome and Ann; of the same kind: Ann alone.
    assert values["f1_exact"] == pytest.approx(2 * 2 / 12)
    assert values["f1_strict"] == pytest.approx(2 * 1 / 12)
    # Ann Lee twice (the second half is an ORG), Ann.
    assert values["recall_type"] == pytest.approx(3 / 6)
    assert values["nothing_covered"] == 0.0
    person, place = details["recall"]["PER"], details["recall"]["LOC"]
    assert (person["mentions"], person["covered"]["value"]) == (5, 2 / 5)
    assert (person["touched"]["value"], person["right"]["value"]) == (3 / 5, 3 / 5)
    assert (place["covered"]["value"], place["right"]["value"]) == (1.0, 0.0)
    assert details["precision"]["PERSON"]["precision"]["value"] == 4 / 5
    assert details["precision"]["ORG"]["mentions"] == 1


def test_types_that_mean_the_same_can_be_declared() -> None:
    names = ("WHO", "WHERE")
    rome = [(2, 6, 10, 1), (3, 0, 3, 0)]
    assert measured(rome, names)[0]["recall_type"].value == 0.0
    utility, _ = measured(rome, names, WHO="PERSON", WHERE="GPE")
    assert utility["recall_type"].value == pytest.approx(2 / 6)
    assert utility["f1_strict"].value == pytest.approx(2 * 2 / 8)


def test_a_detector_that_finds_nothing() -> None:
    utility, details = measured([])
    assert {utility[name].value for name in ("covered", "precision", "hidden", "f1_type")} == {0.0}
    assert details["precision"] == {}
    assert utility["covered"].low == 0.0


def test_intervals_are_over_users() -> None:
    utility, _ = measured()
    for name in ("covered", "covered_entities", "precision", "hidden", "f1_partial"):
        estimate = utility[name]
        assert estimate.low is not None
        assert estimate.high is not None
        assert estimate.low < estimate.value < estimate.high, name


@pytest.mark.parametrize("other", ["ALIAS", "ZALIAS"])
def test_type_scores_do_not_depend_on_how_another_type_is_called(other: str) -> None:
    marks = [(0, 0, 7, 0), (0, 0, 7, 1), (1, 0, 7, 0), (1, 0, 7, 1)]
    utility, _ = measured(marks, (other, "PERSON"))
    assert utility["recall_type"].value == pytest.approx(2 / 6)
    assert utility["f1_type"].value == pytest.approx(2 * 2 / 10)
