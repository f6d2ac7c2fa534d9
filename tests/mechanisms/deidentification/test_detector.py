"""De-identification with a detector of its own: labels are neither looked at nor lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans
from uedp_bench.corpus.spans import LostSpans
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.deidentification.deidentify import Deidentify
from uedp_bench.one_run.publishing import publish

STATS = CorpusStats(users=3, rows=3, sensitive_rows=3, entities=3, public=True)
TEXTS = ("today John Smith met Zyx in Oslo", "Mary came", "John Smith left")
GOLD = [(0, 6, 16, 0), (0, 21, 24, 0), (0, 28, 32, 1), (1, 0, 4, 0), (2, 0, 10, 0)]


def corpus(**columns: Any) -> Corpus:
    split = np.array([SPLITS.index(name) for name in ("train", "train", "public")])
    own = {"entities": Spans.build(TEXTS, GOLD), "entity_types": ("PER", "LOC")} | columns
    return Corpus(TEXTS, {"user": np.arange(3)}, split, **own)


def published(of: Corpus, **params: Any) -> tuple[Corpus, Run]:
    run = Run(1, STATS)
    out, _ = publish(Deidentify.create({"detector": "names", **params}), of, run)
    return out, run


def surfaces(of: Corpus) -> list[tuple[str, str]]:
    kinds = of.entities.type.tolist()
    return [(of.entity_types[kind], of.surface(at)) for at, kind in enumerate(kinds)]


def test_what_the_detector_finds_is_replaced_and_nothing_else() -> None:
    out, run = published(corpus())
    assert out.texts == ("today <PERSON> met Zyx in Oslo", "<PERSON> came", TEXTS[2])
    # The labels follow: what was hidden says what it became, what was missed what it is.
    assert surfaces(out) == [
        ("PER", "<PERSON>"), ("PER", "Zyx"), ("LOC", "Oslo"), ("PER", "<PERSON>"),
        ("PER", "John Smith"),
    ]  # fmt: skip
    assert (out.entity_types, out.detector, dict(out.layers)) == (("PER", "LOC"), None, {})
    assert run.diagnostics["entities_from"] == "names"
    measured = run.diagnostics["detection"]["recall"]
    assert (measured["PER"]["mentions"], measured["PER"]["covered"]) == (3, 2)
    assert measured["LOC"]["covered"] == 0


def test_labels_do_not_change_what_is_published() -> None:
    """The detector acts on text: planted or missing labels make no difference."""
    texts = published(corpus())[0].texts
    none = corpus(entities=Spans.none())
    assert published(none)[0].texts == texts
    lost = replace(corpus(), entities=LostSpans("somebody"))
    out, run = published(lost)
    assert out.texts == texts
    assert out.entities.lost
    assert "detection" not in run.diagnostics


def test_layers_follow_beside_the_entities() -> None:
    layer = Layer.build(TEXTS, [(0, 6, 16, 0), (0, 28, 32, 0)], ("NAME",))
    out, _ = published(corpus(layers={"gold": layer}))
    spans = out.layers["gold"].spans
    assert [out.texts[row][a:b] for row, a, b, _ in spans.mentions()] == ["<PERSON>", "Oslo"]


def test_types_are_those_of_the_detector() -> None:
    assert published(corpus(), entity_types=["PERSON"])[0].texts[1] == "<PERSON> came"
    with pytest.raises(InputError, match=r"names.*type 'PER'.*'PERSON'"):
        published(corpus(), entity_types=["PER"])


def test_a_row_depends_on_its_text_alone() -> None:
    whole = published(corpus(), style="surrogate")[0].texts
    alone = published(corpus().take(np.array([1])), style="surrogate")[0].texts
    assert alone[0] == whole[1]


def test_what_it_finds_can_be_asked(tmp_path: Path) -> None:
    def found(**params: Any) -> list[tuple[str, str]]:
        layer = Deidentify.create(params).entity_detector().find(corpus())
        return [(TEXTS[row][a:b], layer.types[kind]) for row, a, b, kind in layer.spans.mentions()]

    of_names = [("John Smith", "PERSON"), ("Mary", "PERSON"), ("John Smith", "PERSON")]
    assert found(detector="names") == of_names
    assert len(found()) == len(GOLD)
    assert found(entity_types=["LOC"]) == [("Oslo", "LOC")]
    (file := tmp_path / "list.txt").write_text("Oslo\nsmith\n")
    listed = [("Oslo", "<LISTED>")]
    assert found(detector="names", public_list=file)[1:2] == listed
    only = found(only_listed=True, public_list=file)
    assert only == [("Smith", "<LISTED>"), *listed, ("Smith", "<LISTED>")]


def test_it_reads_entities_only_where_they_are_its_detector() -> None:
    assert Deidentify.create({}).reads() == {"entities"}
    assert Deidentify.create({"detector": "names"}).reads() == frozenset()


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"detector": "spacy"}, "pipeline=en_core_web_sm"),
        ({"pipeline": "en_core_web_sm"}, "pipeline.*corpus"),
        ({"detector": "names", "pipeline": "x"}, "pipeline.*names"),
        ({"detector": "tagger"}, "detector is tagger.*tagger"),
        ({"tagger": "x"}, "tagger.*detector is corpus"),
        ({"tagger_trained_on": "public"}, "tagger.*detector is corpus"),
        ({"detector": "names", "only_listed": True, "public_list": "x"}, "detector.*only_listed"),
        ({"detector": "nam"}, "detector"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(params: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Deidentify.create(params)


def test_specs_without_a_detector_keep_their_identity() -> None:
    assert set(Deidentify.create({}).params.model_dump(mode="json")) == {
        "style", "entity_types", "public_list", "only_listed",
    }  # fmt: skip
