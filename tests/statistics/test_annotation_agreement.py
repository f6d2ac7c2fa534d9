from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from uedp_bench.corpus import SPLITS, Corpus, Layer
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.statistics.label_scores import agreement, tables
from uedp_bench.text.detection import kinds_of_types


def corpus(found_types: tuple[str, ...] = ("LOC", "PER")) -> Corpus:
    texts = ("Ann saw Bo", "Ann in Rome", "Rome", "Ann")
    per, loc = found_types.index("PER"), len(found_types) - 1 - found_types.index("PER")
    return Corpus(
        texts=texts,
        groups={"user": np.array([0, 0, 1, 2])},
        split=np.array([0, 0, 0, SPLITS.index("public")]),
        layers={
            "gold": Layer.build(
                texts, [(0, 0, 3, 0), (0, 8, 10, 0), (1, 0, 3, 0), (1, 7, 11, 1), (2, 0, 4, 2)],
                ("PER", "LOC", "MISC"), np.array([True, True, True, True]),
            ),
            "found": Layer.build(
                texts, [(0, 0, 3, per), (1, 4, 11, loc), (2, 0, 4, loc), (3, 0, 3, per)],
                found_types, np.array([True, True, True, True]),
            ),
        },
    )  # fmt: skip


def test_a_layer_is_measured_by_another_where_both_look() -> None:
    agreed = agreement(corpus(), "found")
    assert (agreed.rows, agreed.users) == (3, 2)  # the public row does not count
    strict = agreed.scores["strict"]
    # MISC is no type of the other layer, and is not found: one of five gold spans is.
    assert (strict.precision.value, strict.recall.value) == pytest.approx((1 / 3, 1 / 5))
    assert agreed.scores["type"].precision.value == pytest.approx(2 / 3)
    assert agreed.by_type["PER"] == {
        "gold": 3, "predicted": 1, "strict": 1, "exact": 1, "type": 1, "overlap": 1,
    }  # fmt: skip
    assert agreed.by_type["LOC"]["strict"] == 0
    assert agreed.to_dict()["scores"]["strict"]["recall"]["value"] == 0.2
    assert [table.row_count for table in tables(agreed, "found")] == [6, 3]
    # Numbers of types are those of each layer.
    assert agreement(corpus(("PER", "LOC")), "found").by_type == agreed.by_type


def test_rows_that_one_of_them_does_not_annotate_do_not_count() -> None:
    both = corpus()
    part = both.layer("found")
    rows = np.array([True, False, True, True])
    layers = {**both.layers, "found": Layer(part.spans, part.types, rows)}
    agreed = agreement(replace(both, layers=layers), "found")
    assert (agreed.rows, agreed.by_type["PER"]["gold"]) == (2, 2)


def test_layers_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(CapabilityError, match=r"layer 'fond'.*'found'"):
        agreement(corpus(), "fond")
    other = Layer.build(corpus().texts, [], ("X",))
    with pytest.raises(InputError, match=r"gold \(PER, LOC, MISC\).*x \(X\)"):
        agreement(replace(corpus(), layers={**corpus().layers, "x": other}), "x")


def one_text(gold: list[tuple[int, int, str]], detected: list[tuple[int, int, str]]) -> Corpus:
    text = "Ann Lee came to Oslo on Monday"
    layers = {}
    for name, spans in (("gold", gold), ("found", detected)):
        types = sorted({kind for *_, kind in spans})
        mentions = [(0, start, end, types.index(kind)) for start, end, kind in spans]
        layers[name] = Layer.build((text,), mentions, tuple(types), np.array([True]))
    return Corpus((text,), {"user": np.array([0])}, np.array([0]), layers=layers)


def test_found_spans_of_types_that_gold_lacks_are_wrong() -> None:
    detected = [(0, 3, "PER"), (16, 20, "GPE"), (24, 30, "DATE")]
    agreed = agreement(one_text([(0, 3, "PER")], detected), "found")
    assert agreed.scores["strict"].precision.value == pytest.approx(1 / 3)
    assert agreed.scores["exact"].precision.value == pytest.approx(1 / 3)
    assert agreed.by_type["DATE"] == {
        "gold": 0, "predicted": 1, "strict": 0, "exact": 0, "type": 0, "overlap": 0,
    }  # fmt: skip


@pytest.mark.parametrize("other", ["ALIAS", "ZALIAS"])
def test_scores_do_not_depend_on_the_name_of_another_type(other: str) -> None:
    corpus = one_text([(0, 3, "PERSON")], [(0, 7, other), (0, 7, "PERSON")])
    type_scores = agreement(corpus, "found").scores["type"]
    assert (type_scores.precision.value, type_scores.recall.value) == (0.5, 1.0)


def test_types_of_one_kind_are_one_and_a_span_said_twice_is_one() -> None:
    corpus = one_text([(0, 7, "PER")], [(0, 7, "PERSON"), (0, 7, "PERSON")])
    agreed = agreement(corpus, "found", kinds=kinds_of_types)
    assert agreed.scores["strict"].precision.value == 1.0
    assert agreed.by_type.keys() == {"PER"}
    with pytest.raises(InputError, match=r"gold \(PER\).*found \(PERSON\)"):
        agreement(corpus, "found")
