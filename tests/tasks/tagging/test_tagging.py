"""Tagging: rows that take part, losses, releases, floors, and what carries spans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from uedp_bench.contracts.capabilities import RowScorer, Tagger, capabilities
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Layer, Spans
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.mechanisms.deidentification.deidentify import Deidentify
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.models.bilstm import BiLSTM
from uedp_bench.models.networks.modules import ModuleSet
from uedp_bench.one_run.publishing import publish
from uedp_bench.tasks.tagging.tagger import TaggerReader, TaggerRelease
from uedp_bench.tasks.tagging.tagging import Tagging

PUBLIC = CorpusStats(users=10, rows=60, sensitive_rows=0, entities=0, public=True)
TYPES = ("LOC", "PER")
NAMES = (("Rome", "New York", "Oslo"), ("Ann", "Bob Lee", "Cy"))


def sentences(rows: int = 120, seed: int = 0) -> Corpus:
    """Rows with up to three names among small words; five users, and one whose text is public."""
    rng = np.random.default_rng(seed)
    texts, mentions = [], []
    for row in range(rows):
        words: list[str] = []
        for _ in range(rng.integers(1, 4)):
            words += [f"w{i}" for i in rng.integers(5, size=rng.integers(1, 4))]
            kind = int(rng.integers(2))
            name = NAMES[kind][int(rng.integers(3))]
            start = len(" ".join(words)) + 1
            mentions.append((row, start, start + len(name), kind))
            words += name.split()
        texts.append(" ".join([*words, "end"]))
    split = [("train", "train", "train", "valid", "test", "public")[row % 6] for row in range(rows)]
    numbers = np.array([SPLITS.index(name) for name in split])
    user = np.where(numbers == SPLITS.index("public"), 5, np.arange(rows) % 5)
    return Corpus(
        texts=tuple(texts),
        groups={"user": user},
        split=numbers,
        entities=Spans.build(texts, mentions),
        entity_types=TYPES,
    )


def task(**params: Any) -> Tagging:
    tagging: Tagging = Tagging.create(params)
    tagging.model = BiLSTM.create({"embedding_size": 8, "units": 8, "character_filters": 0})
    return tagging


def stages_of(tagging: Tagging, corpus: Corpus) -> list[Any]:
    visible = corpus.only("train", "valid", "public")
    return list(tagging.stages(visible, tagging.vocabulary(visible), Run(1, PUBLIC)))


def trained(tagging: Tagging, corpus: Corpus, epochs: int = 8) -> TaggerRelease:
    learner = stages_of(tagging, corpus)[-1]
    fit = Noiseless.create({"epochs": epochs, "batch_size": 8, "learning_rate": 0.02})
    module, _ = fit.train(learner, learner.corpus, Run(1, PUBLIC))
    release = learner.release(module)
    assert isinstance(release, TaggerRelease)
    return release


@pytest.fixture(scope="module")
def softmax() -> TaggerRelease:
    return trained(task(), sentences())


@pytest.fixture(scope="module")
def crf() -> TaggerRelease:
    return trained(task(decoder="crf"), sentences())


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_learns_what_can_be_learnt(decoder: str, request: pytest.FixtureRequest) -> None:
    release, corpus = request.getfixturevalue(decoder), sentences()
    tagging = task(decoder=decoder)
    metrics = tagging.score(release, corpus).metrics
    assert {*metrics} == {one.name for one in tagging.metrics}
    assert metrics["f1_strict"].value > 0.9
    assert {*capabilities(release)} >= {"Tagger", "RowScorer"}
    details = tagging.score(release, corpus).details
    assert {*details["types"]} == {*TYPES}
    gold = corpus.take(np.flatnonzero(corpus.where("test"))).entities
    assert sum(each["gold"] for each in details["types"].values()) == len(gold)


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_spans_are_those_of_rows_alone_and_say_where_they_are(
    decoder: str, request: pytest.FixtureRequest
) -> None:
    release, corpus = request.getfixturevalue(decoder), sentences().only("test")
    together = release.spans(corpus)
    assert not together.lost and together.entity.min() == 0
    for row in range(len(corpus)):
        alone = release.spans(corpus.take(np.array([row])))
        assert [(a, b, c) for _, a, b, c in alone.mentions()] == [
            (a, b, c) for at, a, b, c in together.mentions() if at == row
        ]
    names = {name for kind in NAMES for name in kind}
    surfaces = {corpus.texts[row][a:b] for row, a, b, _ in together.mentions()}
    assert surfaces <= names
    assert release.spans(replace(corpus, texts=("",) * len(corpus))).mentions() == []


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_the_gradient_of_a_row_is_the_same_beside_longer_rows(decoder: str, reduction: str) -> None:
    learner = stages_of(task(decoder=decoder, reduction=reduction), sentences())[-1]
    lengths = [len(text.split()) for text in learner.corpus.texts]
    short, long = int(np.argmin(lengths)), int(np.argmax(lengths))

    def gradient(rows: list[int]) -> list[torch.Tensor]:
        batch = learner.batch(np.array(rows), np.arange(len(rows)))
        nats, targets = learner.losses(learner.module.train(), batch)
        assert int(targets[0]) == (lengths[short] if reduction == "mean" else 1)
        weights = list(learner.module.parameters())
        return list(torch.autograd.grad(nats[0] / targets[0], weights, allow_unused=True))

    for alone, padded in zip(gradient([short]), gradient([short, long]), strict=True):
        assert torch.allclose(alone, padded, atol=1e-6)


def test_the_loss_of_a_row_is_the_mean_over_its_words(softmax: TaggerRelease) -> None:
    corpus = sentences().only("test")
    learner = softmax.learner(corpus)
    batch = learner.batch(np.arange(len(corpus)), np.zeros(len(corpus), dtype=np.int64))
    with torch.no_grad():
        logp = torch.log_softmax(softmax.module(batch).double(), dim=2).numpy()
    labels = batch["labels"].numpy()
    by_hand = [
        -np.mean([logp[row, at, label] for at, label in enumerate(of) if label >= 0])
        for row, of in enumerate(labels)
    ]
    assert softmax.row_losses(corpus) == pytest.approx(by_hand, abs=1e-6)


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_a_saved_release_answers_as_it_did(
    decoder: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    release, corpus = request.getfixturevalue(decoder), sentences().only("test")
    release.save(tmp_path)
    again = task().load(tmp_path)
    assert isinstance(again, Tagger)
    assert isinstance(again, RowScorer)
    assert again.types == release.types
    assert again.spans(corpus).mentions() == release.spans(corpus).mentions()
    assert again.row_losses(corpus) == pytest.approx(release.row_losses(corpus))


@pytest.mark.parametrize("decoder", ["softmax", "crf"])
def test_two_of_one_network_answer_as_it_does(
    decoder: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    release, corpus = request.getfixturevalue(decoder), sentences().only("test")
    twice = TaggerRelease(release.reader, ModuleSet([release.module] * 2))
    assert twice.spans(corpus).mentions() == release.spans(corpus).mentions()
    assert twice.row_losses(corpus) == pytest.approx(release.row_losses(corpus), abs=1e-5)
    twice.save(tmp_path)
    again = TaggerReader.load(tmp_path)
    assert again.row_losses(corpus) == pytest.approx(release.row_losses(corpus), abs=1e-5)


class Nothing(Release):
    """Finds no entity at all."""

    types = TYPES

    def spans(self, corpus: Corpus) -> Spans:
        return Spans.none()


class Everything(Nothing):
    """Finds what is written down."""

    def spans(self, corpus: Corpus) -> Spans:
        return corpus.entities


def test_finding_nothing_scores_nothing_of_entities_and_much_of_tokens() -> None:
    corpus, tagging = sentences(), task()
    metrics = tagging.score(Nothing(), corpus).metrics
    assert (
        metrics["f1_strict"].value == metrics["recall"].value == metrics["precision"].value == 0.0
    )
    assert metrics["weighted_token_f1"] == metrics["all_outside_weighted_token_f1"]
    assert metrics["weighted_token_f1"].value > 0.2
    perfect = tagging.score(Everything(), corpus).metrics
    floors = ("all_outside_weighted_token_f1", "all_outside_f1", "dictionary_f1")
    scores = [each.value for name, each in perfect.items() if name not in floors]
    assert scores == pytest.approx([1.0] * 9)


def test_finding_nothing_on_conll_scores_746_of_tokens(shared_data: Path) -> None:
    """Jana and Biemann 2021 report .758 for 20 clients under DP: this is the metric's floor."""
    from uedp_bench.tasks.sources.conll2003 import CoNLL2003

    corpus = CoNLL2003.create({"path": shared_data / "conll2003"}).read().only("test", "public")
    metrics = task().score(_of_conll(), corpus).metrics
    assert metrics["f1_strict"].value == 0.0
    assert metrics["weighted_token_f1"].value == pytest.approx(0.746, abs=5e-4)
    assert task().score(_of_conll(), corpus).details["rows"] == 3453  # -DOCSTART- is no row


def _of_conll() -> Nothing:
    release = Nothing()
    release.types = ("LOC", "MISC", "ORG", "PER")
    return release


def test_what_is_found_of_other_types_is_wrong() -> None:
    corpus, tagging = sentences(), task(types=["PER"])
    metrics = tagging.score(Everything(), corpus).metrics
    assert metrics["recall"].value == 1.0
    assert 0.2 < metrics["precision"].value < 0.8


def test_the_dictionary_is_that_of_public_text() -> None:
    corpus = sentences()
    metrics = task().score(Nothing(), corpus).metrics
    assert metrics["dictionary_f1"].value > 0.9  # all names occur in public text
    silent = corpus.entities.outside(corpus.where("public"))
    tagging = task()
    assert "dictionary_f1" not in tagging.score(Nothing(), replace(corpus, entities=silent)).metrics
    notes = tagging.score(Nothing(), replace(corpus, entities=silent)).details["notes"]
    assert "public" in notes[0]


def test_rows_that_nobody_annotated_are_never_learnt_as_outside() -> None:
    corpus = sentences()
    complete = np.arange(len(corpus)) // 6 % 2 == 0
    layer = Layer(corpus.entities, TYPES, complete)
    layered = replace(corpus, layers={"gold": layer}, entities=Spans.none())
    tagging = task(layer="gold", pretraining_epochs=1)
    before, last = stages_of(tagging, layered)
    for learner in (before, last):
        kept = np.isin(np.arange(len(corpus)), learner.corpus.origin)
        assert not (kept & ~complete).any()
        assert learner.corpus.where("train").any()
    assert before.role == "public"
    release = last.release(last.module)
    assert (release.scorable(layered) == complete).all()
    assert not release.scorable(corpus).any()  # it has no such layer
    with pytest.raises(InputError, match=r"row_losses.*row 6"):
        release.row_losses(layered)
    assert (
        tagging.score(Everything(), layered).details["rows"]
        == (complete & corpus.where("test")).sum()
    )
    assert tagging.reads() == {"layer gold"}


def test_public_text_of_users_without_entities_counts_as_not_annotated() -> None:
    """Text from a file of sentences has no entities: it must not teach that names are none."""
    corpus = sentences()
    public = corpus.where("public")
    silent = replace(corpus, entities=corpus.entities.outside(public))
    with pytest.raises(InputError, match=r"pretraining_epochs.*public"):
        stages_of(task(pretraining_epochs=1), silent)
    before, _ = stages_of(task(pretraining_epochs=1), corpus)
    assert len(before.corpus) == public.sum()


def test_an_annotation_that_is_scored_need_not_be_the_one_that_is_learnt() -> None:
    corpus = sentences()
    persons = corpus.entities.chosen(corpus.entities.type == 1)
    some = Layer(replace(persons, type=np.zeros_like(persons.type)), ("PER",),
                 np.ones(len(corpus), dtype=bool))  # fmt: skip
    layered = replace(corpus, layers={"some": some})
    tagging = task(scored_layer="some")
    assert tagging.reads() == {"entities", "layer some"}
    metrics = tagging.score(Everything(), layered).metrics
    assert metrics["recall"].value == 1.0
    assert metrics["precision"].value < 0.8


def test_bad_requests_are_refused_in_plain_words() -> None:
    corpus = sentences()
    with pytest.raises(InputError, match=r"type 'LOCS'.*'LOC'"):
        stages_of(task(types=["LOCS"]), corpus)
    with pytest.raises(CapabilityError, match=r"layer 'gold'.*none"):
        stages_of(task(layer="gold"), corpus)
    nothing = replace(corpus, entities=Spans.none(), entity_types=())
    with pytest.raises(InputError, match=r"task\.layer"):
        stages_of(task(), nothing)
    cut = replace(corpus, entities=Spans.build(corpus.texts, [(7, 0, 1, 0)]))
    with pytest.raises(InputError, match=r"row 7.*LOC.*'w4'"):
        stages_of(task(), cut)


def test_long_rows_are_cut_and_counted() -> None:
    corpus = sentences()
    run, tagging = Run(1, PUBLIC), task(max_tokens=3)
    visible = corpus.only("train", "valid", "public")
    learner = tagging.stages(visible, tagging.vocabulary(visible), run)[-1]
    long = sum(len(text.split()) > 3 for text in learner.corpus.texts)
    assert run.counts["rows_truncated"] == long > 0
    batch = learner.batch(np.arange(len(learner.corpus)), np.arange(len(learner.corpus)))
    assert batch["labels"].shape[1] == 3
    spans = learner.release(learner.module).spans(corpus)
    at = {row: [m.start() for m in _words(text)] for row, text in enumerate(corpus.texts)}
    assert all(start in at[row][:3] for row, start, _, _ in spans.mentions())


def _words(text: str) -> Any:
    import re

    return re.finditer(r"\S+", text)


def test_entities_survive_deidentification() -> None:
    """What a de-identified text is annotated with is where its pseudonyms stand."""
    corpus = sentences().only("train", "valid", "public")
    out, _ = publish(Deidentify.create({}), corpus, Run(1, PUBLIC))
    assert out.texts != corpus.texts
    learner: Learner = stages_of(task(), out)[-1]
    batch = learner.batch(np.arange(len(learner.corpus)), np.arange(len(learner.corpus)))
    begins = (batch["labels"].numpy() % 2 == 1).sum(axis=1)
    train = corpus.take(np.flatnonzero(corpus.where("train", "valid")))
    assert begins.tolist() == np.bincount(train.entities.row, minlength=len(train)).tolist()


def test_words_may_be_apart_from_signs() -> None:
    corpus = sentences()
    commas = [text.replace(" end", ", end") for text in corpus.texts]
    dotted = replace(corpus, texts=tuple(commas))
    with pytest.raises(InputError, match=r"entities, row 0.*'Cy,'"):
        stages_of(task(), dotted)
    release = trained(task(words="signs"), dotted, epochs=4)
    test = dotted.only("test")
    surfaces = {test.texts[row][a:b] for row, a, b, _ in release.spans(test).mentions()}
    assert not any("," in surface for surface in surfaces)
