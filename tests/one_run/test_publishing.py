"""What a publisher does not say it carries is gone after it, and whoever needs it is refused."""

from __future__ import annotations

import pickle
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from examples import example
from tiny import plugged, runs

from uedp_bench.accounting.events import NonPrivate, PrivacyEvent
from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.mechanism import PublishingMechanism
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import CONTENT, Corpus, Layer, LostSpans, Spans, concatenate
from uedp_bench.errors import CapabilityError, InputError, PluginError
from uedp_bench.mechanisms.deidentification.deidentify import Deidentify
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.mechanisms.private_training.uedp import UeDP
from uedp_bench.mechanisms.representations.majority import Majority
from uedp_bench.one_run.components import build
from uedp_bench.one_run.pipeline import Pipeline
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.publishing import (
    check_carried,
    not_carried,
    not_there,
    publish,
    publish_all,
    wanted,
)
from uedp_bench.one_run.runner import execute
from uedp_bench.tasks.language.next_word import NextWord

EVENTS = (PrivacyEvent(unit="record", event=NonPrivate(reason="a test")),)
TEXTS = ("Ann met Bo", "Bo in Rome", "rain", "Ann again")
MENTIONS = [(0, 0, 3, 0), (0, 8, 10, 0), (1, 0, 2, 0), (1, 6, 10, 1), (3, 0, 3, 0)]
SECRET = tuple(f"secret {i}" for i in range(4))


@pytest.fixture
def corpus() -> Corpus:
    return Corpus(
        texts=TEXTS,
        groups={"user": np.array([0, 1, 1, 0])},
        split=np.array([0, 0, 4, 0]),
        entities=Spans.build(TEXTS, MENTIONS),
        entity_types=("PER", "LOC"),
        labels=np.array([1, 0, 1, 0]),
        label_names=("a", "b"),
        targets=SECRET,
        layers={"gold": Layer.build(TEXTS, MENTIONS[:1], ("PER",))},
        records=({"name": ("secret",)}, {}),
    )


def run_of() -> Run:
    return Run(1, CorpusStats(users=2, rows=3, sensitive_rows=3, entities=3, public=False))


class Publisher(PublishingMechanism):
    """Publishes what it is given, changed by hand."""

    name = "by-hand"
    corpora: dict

    def plan(self, stats):
        return EVENTS

    def publish(self, corpus, run):
        return replace(corpus, **self.corpora), EVENTS


def by_hand(carries: frozenset[str] = frozenset(), **corpora: object) -> Publisher:
    kind = type("ByHand", (Publisher,), {"carries": carries, "corpora": corpora})
    return kind()


def content(corpus: Corpus) -> str:
    return repr((corpus.texts, corpus.targets, corpus.layers, corpus.entities))


def test_texts_replaced_by_hand_take_no_label_along(corpus: Corpus) -> None:
    out, events = publish(by_hand(texts=("x",) * 4), corpus, run_of())
    assert events == EVENTS
    assert out.texts == ("x",) * 4
    assert "secret" not in content(out)
    with pytest.raises(CapabilityError, match=r"layer gold.*after by-hand.*`reads`"):
        len(out.layer("gold").spans)
    assert out.labels is not None
    assert np.array_equal(out.labels, [1, 0, 1, 0])
    assert np.array_equal(out.users, corpus.users)
    # Not "no entities": nobody knows where they are.
    readers = (
        lambda c: len(c.entities), lambda c: c.entities.row, lambda c: c.sensitive,
        lambda c: c.rows_of_entity, lambda c: c.users_of_entity, lambda c: c.surface(0),
        lambda c: c.entities.mentions(),
    )  # fmt: skip
    for reader in readers:
        with pytest.raises(CapabilityError, match=r"mentions.*by-hand.*`reads`"):
            reader(out)


def test_a_stranger_who_names_nothing_carries_nothing(corpus: Corpus) -> None:
    """Every column that tells what rows say, also one that is declared later."""
    filled = {name: getattr(corpus, name) for name in CONTENT}
    assert not any(value is None or value == {} for value in filled.values())
    for publisher in (by_hand(), by_hand(texts=("x",) * 4), by_hand(vectors=np.ones((4, 1)))):
        out, _ = publish(publisher, corpus, run_of())
        for name in CONTENT:
            left = getattr(out, name)
            spans = [left] if name == "entities" else []
            if name == "layers":
                spans = [layer.spans for layer in left.values()]
                assert not any(layer.rows.any() for layer in left.values())
            assert all(isinstance(each, LostSpans) for each in spans)
            assert spans or left is None
    carried, _ = publish(by_hand(frozenset(CONTENT)), corpus, run_of())
    assert all(getattr(carried, name) is not None for name in CONTENT)
    assert carried.layer("gold").spans.mentions() == MENTIONS[:1]
    with pytest.raises(PluginError, match=r"layer gold.*\(0, 3\).*row 0"):
        publish(by_hand(frozenset({"layers"}), texts=("", *TEXTS[1:])), corpus, run_of())


def test_where_names_stand_is_published_for_those_that_read_it_only(corpus: Corpus) -> None:
    """No guarantee for words is about it: it is as private as before where nobody needs it."""
    everything = frozenset(CONTENT)
    promising = type("Promising", (by_hand(everything).__class__,), {"unit": "word"})()
    tagger, plain, nobody = Tagger.create(), Noiseless.create(), NextWord.create()
    for publisher, task, columns in (
        (promising, nobody, set()),
        (promising, tagger, {"entities"}),
        (by_hand(everything), nobody, set(CONTENT)),
    ):
        pipeline = Pipeline.build([publisher], plain)
        out, _ = publish_all(pipeline, corpus, run_of(), task)
        assert out.entities.lost == ("entities" not in columns)
        assert out.layer("gold").spans.lost == ("layers" not in columns)
        assert (out.targets is None) == ("targets" not in columns)
        assert (out.records is None) == ("records" not in columns)
        check_carried(pipeline, tagger)
        refused = not_carried(tagger, pipeline, task)  # as an attack on what was published
        assert (refused is None) == ("entities" in columns)
    reads = {"reads": lambda self: frozenset({"layer gold"})}
    one = type("OneLayer", (Tagger,), {"name": "one-layer", **reads}).create()
    two = replace(corpus, layers={"gold": corpus.layer("gold"), "pos": corpus.layer("gold")})
    out, _ = publish_all(Pipeline.build([promising], plain), two, run_of(), one)
    assert (out.layer("gold").spans.lost, out.layer("pos").spans.lost) == (False, True)
    between = Pipeline.build([promising, Deidentify.create()], plain)
    assert wanted(between, promising, nobody) == {"entities"}


def test_rows_of_lost_mentions_move_like_others(corpus: Corpus) -> None:
    out, _ = publish(by_hand(texts=("x", "y", "z", "w")), corpus, run_of())
    again = pickle.loads(pickle.dumps(out))  # noqa: S301
    for part in (again, again.only("train"), concatenate(again, again), concatenate(out, again)):
        assert isinstance(part.entities, LostSpans)
        assert part.fingerprint
        assert repr(part)
        with pytest.raises(CapabilityError, match="by-hand"):
            _ = part.sensitive
    assert again.only("train").texts == ("x", "y", "w")
    assert again.fingerprint == out.fingerprint
    assert concatenate(corpus, replace(corpus, targets=None)).targets is None


def test_vectors_leave_no_text_and_no_target(corpus: Corpus) -> None:
    shown = np.ones((4, 2))
    for publisher in (by_hand(vectors=shown), Majority.create()):
        out, _ = publish(publisher, corpus, run_of())
        assert out.vectors is not None
        assert set(out.texts) == {""}
        assert out.targets is None
    assert corpus.with_vectors(shown).targets is None


def test_deidentification_carries_mentions_and_no_target(corpus: Corpus) -> None:
    out, _ = publish(Deidentify.create(), corpus, run_of())
    assert out.texts == ("<PER> met <PER>", "<PER> in <LOC>", "rain", "<PER> again")
    assert [out.surface(i) for i in range(len(out.entities))] == ["<PER>"] * 3 + ["<LOC>", "<PER>"]
    assert out.targets is None
    assert out.records is None
    assert out.layer("gold").spans.mentions() == [(0, 0, 5, 0)]


def test_what_is_carried_must_fit_the_text(corpus: Corpus) -> None:
    carried = frozenset({"entities", "targets"})
    out, _ = publish(by_hand(carried, texts=("Eve met Bo", *TEXTS[1:])), corpus, run_of())
    assert out.targets == SECRET
    assert out.surface(0) == "Eve"
    assert out.entity_count == 4  # ids are those of the surfaces that are published
    with pytest.raises(PluginError, match=r"by-hand.*entities.*\(0, 3\)"):
        publish(by_hand(carried, texts=("", *TEXTS[1:])), corpus, run_of())
    with pytest.raises(PluginError, match=r"by-hand.*entities.*number 1.* 1"):
        publish(by_hand(carried, entity_types=("PER",)), corpus, run_of())
    with pytest.raises(InputError, match=r"by-hand.*'label'"):
        Pipeline.build([by_hand(frozenset({"label"}))], Noiseless.create())


class Tagger(NextWord):
    """Needs to know where entities are."""

    name = "tagger"

    def reads(self):
        return frozenset({"entities"})


def test_who_reads_what_was_not_carried_is_refused_by_name() -> None:
    plain = Noiseless.create()
    lossy = Pipeline.build([by_hand()], plain)
    with pytest.raises(CapabilityError, match=r"tagger.*entities.*by-hand"):
        check_carried(lossy, Tagger.create())
    assert not_carried(Tagger.create(), lossy, NextWord.create())
    check_carried(lossy, NextWord.create())
    check_carried(Pipeline.build([Deidentify.create()], plain), Tagger.create())
    uedp = UeDP.create({"sigma": 1.0}) if "sigma" in UeDP.Params.model_fields else UeDP.create()
    for first, refused in ((by_hand(), True), (Deidentify.create(), False)):
        pipeline = Pipeline.build([first, uedp], plain)
        if not refused:
            check_carried(pipeline, NextWord.create())
            continue
        with pytest.raises(CapabilityError, match=r"uedp.*entities.*by-hand"):
            check_carried(pipeline, NextWord.create())
    with pytest.raises(CapabilityError, match=r"deidentify.*entities"):
        check_carried(Pipeline.build([by_hand(), Deidentify.create()], plain), NextWord.create())


@pytest.mark.parametrize("column", ["layer gold", "records", "targets"])
def test_who_reads_another_column_is_refused_by_its_name(column: str) -> None:
    kind = type("Reader", (Tagger,), {"name": "reader", "reads": lambda self: frozenset({column})})
    reader, plain = kind.create(), Noiseless.create()
    lossy = Pipeline.build([by_hand()], plain)
    with pytest.raises(CapabilityError, match=f"reader .*{column}.*by-hand"):
        check_carried(lossy, reader)
    assert column in str(not_carried(reader, lossy, NextWord.create()))
    carrying = by_hand(frozenset({"layers", "records", "targets"}))
    check_carried(Pipeline.build([carrying], plain), reader)
    assert not_carried(reader, Pipeline.build([plain], plain), NextWord.create()) is None


@pytest.mark.parametrize("column", ["gold", "layers", "labels"])
def test_what_no_corpus_has_cannot_be_read(column: str) -> None:
    kind = type("Reader", (Tagger,), {"name": "reader", "reads": lambda self: frozenset({column})})
    with pytest.raises(PluginError, match=f"reader .*'{column}'.*layer NAME"):
        check_carried(Pipeline.build([by_hand()], Noiseless.create()), kind.create())


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("layer golden", "layer golden.*'gold'"),
        ("layer pos", "layer pos.*: gold"),
        ("records", "reader.*records"),
        ("targets", "reader.*targets"),
    ],
)
def test_what_the_source_does_not_fill_cannot_be_read(
    corpus: Corpus, column: str, message: str
) -> None:
    kind = type("Reader", (Tagger,), {"name": "reader", "reads": lambda self: frozenset({column})})
    bare = replace(corpus, targets=None, records=None)
    assert re.search(message, not_there(kind.create(), bare) or "")
    assert not_there(NextWord.create(), bare) is None
    assert not_there(Tagger.create(), replace(bare, entities=Spans.none())) is None


def test_a_task_is_refused_before_it_trains_on_a_corpus_without_its_layer(tmp_path: Path) -> None:
    file = tmp_path / "gold_reader.py"
    file.write_text(
        "from uedp_bench.components.registry import tasks\n"
        "from uedp_bench.tasks.language.next_word import NextWord\n"
        "@tasks.register\n"
        "class GoldReader(NextWord):\n"
        "    name = 'gold-reader'\n"
        "    def reads(self):\n"
        "        return frozenset({'layer gold'})\n"
    )
    with plugged(file):
        (spec,) = runs([{"name": "noiseless"}], task={"name": "gold-reader"})
        result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    assert result.error is not None
    assert result.error.type == "CapabilityError"
    assert "gold-reader" in result.error.message
    assert result.error.phase == "load"  # nothing was trained


def test_text_cannot_be_read_after_vectors(corpus: Corpus) -> None:
    pipeline = Pipeline.build([Majority.create(), by_hand()], Noiseless.create())
    with pytest.raises(CapabilityError, match=r"by-hand.*text.*majority.*vectors"):
        publish_all(pipeline, corpus, run_of(), NextWord.create())


def test_the_word_dropout_of_the_readme_loses_its_labels_loudly(
    tmp_path: Path, corpus: Corpus
) -> None:
    file = tmp_path / "word_dropout.py"
    file.write_text(example(file.name))
    with plugged(file):
        params = {"name": "word-dropout", "params": {"rate": 0.5}}
        out, _ = publish(mechanisms.create("word-dropout", params["params"]), corpus, run_of())
        with pytest.raises(CapabilityError, match=r"mentions.*word-dropout"):
            _ = out.sensitive
        assert out.targets is None
        (spec,) = runs([params, {"name": "uedp"}])
        with pytest.raises(CapabilityError, match=r"uedp.*entities.*word-dropout"):
            build(spec)
        result = execute(spec, Execution(tmp_path, "cpu", keep_release=False))
    assert result.error is not None
    assert "word-dropout" in result.error.message
    assert result.error.phase == "load"  # nothing was trained
