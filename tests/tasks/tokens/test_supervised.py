"""A task of one's own is a reader and a score; all else is there, and keeps what it promises."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from masked_rows import STATS, rows_of_words
from text_encoders import HashedWords, MeanOfWords
from torch import Tensor, nn

from uedp_bench.api.networks import Reader, SupervisedParams, SupervisedTask
from uedp_bench.components.metric import Metric
from uedp_bench.components.registry import models, tasks
from uedp_bench.contracts.capabilities import Predictor, RowScorer, capabilities
from uedp_bench.contracts.learner import Batch, Losses
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.models.networks.modules import ModuleSet
from uedp_bench.models.word_vocabularies import WordVocabulary


class Network(nn.Module):
    def __init__(self, encoder: Any, seed: int) -> None:
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(encoder.width, 1)
        nn.init.normal_(self.head.weight, generator=torch.Generator().manual_seed(seed))

    def forward(self, batch: Batch) -> Tensor:
        answer: Tensor = self.head(self.encoder(batch["tokens"], batch["lengths"]))
        return answer[:, 0]


@dataclass(frozen=True, eq=False, kw_only=True)
class RatingReader(Reader):
    scale: float = 1.0
    steps: tuple[int, ...] = ()

    def read(self, corpus: Corpus) -> Mapping[str, Any]:
        labels = np.asarray(corpus.labels, dtype=np.float32)
        return {"tokens": self.framed(corpus.texts), "ratings": labels * self.scale}

    def network(self, seed: int, head_seed: int) -> nn.Module:
        return Network(self.model.build_encoder(self.vocabulary, seed), head_seed)

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        nats = (module(batch) - batch["ratings"]) ** 2 / 2
        return Losses(nats, torch.ones_like(nats))


class RatingParams(SupervisedParams):
    scale: float = 2.0


class Rating(SupervisedTask[RatingParams]):
    """Rates texts."""

    name = "rating"
    Params = RatingParams
    reader_type = RatingReader
    metrics = (Metric("squared_error", better="lower"),)

    def score(self, release: Any, corpus: Corpus) -> Any:
        raise NotImplementedError


def task(model: Any = MeanOfWords, **params: Any) -> Rating:
    return Rating(RatingParams(**params), model.create({"width": 4}))


def corpus(**columns: Any) -> Corpus:
    rows = rows_of_words(40)
    labels = np.where(np.arange(40) % 8, np.arange(40) % 3, -1)
    return replace(rows, **{"labels": labels, "label_names": ("1", "2", "3"), **columns})


def learners(rating: Rating, rows: Corpus) -> Any:
    visible = rows.only("train", "valid", "public")
    return rating.stages(visible, rating.vocabulary(rows), Run(1, STATS))


def test_labelled_rows_are_learnt_and_parameters_reach_the_reader() -> None:
    (learner,) = learners(task(max_tokens=5), corpus())
    assert (learner.corpus.labels >= 0).all()
    assert learner.corpus.where("train").any()
    batch = learner.batch([0, 1], np.array([7, 8]))
    assert batch["tokens"].shape[1] <= 5
    assert batch["ratings"].tolist() == (2.0 * learner.corpus.labels[:2]).tolist()
    assert batch["seeds"].tolist() == [7, 8]


def test_public_rows_are_learnt_first_where_asked_for() -> None:
    rating = task(pretraining_epochs=2, pretraining_batch_size=3)
    public, private = learners(rating, corpus())
    assert rating.roles() == (public.role, private.role) == ("public", "private")
    assert (public.schedule.epochs, public.schedule.batch_size) == (2, 3)
    assert public.corpus.where("train").all()
    without = corpus()
    silent = replace(without, labels=np.where(without.where("public"), -1, without.labels))
    with pytest.raises(InputError, match=r"pretraining_epochs.*public row"):
        learners(rating, silent)


@pytest.mark.parametrize(
    ("model", "columns"),
    [
        (MeanOfWords, {"labels": None}),
        (MeanOfWords, {"labels": np.full(40, -1)}),
        (MeanOfWords, {"vectors": np.zeros((40, 3))}),
        (HashedWords, {}),
    ],
    ids=["no labels", "no label", "vectors", "frozen"],
)
def test_what_cannot_be_learnt_is_refused(model: Any, columns: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        learners(task(model), corpus(**columns))


class BringsVocabulary(MeanOfWords):
    def brings_vocabulary(self) -> bool:
        return True

    def vocabulary(self, texts: Any, *, origin: str, private: bool) -> Any:
        assert not texts
        return WordVocabulary(("own",), origin=origin, private=private)


@pytest.mark.parametrize(
    ("model", "source", "private"),
    [(MeanOfWords, "private", True), (MeanOfWords, "public", False),
     (BringsVocabulary, "private", False)],
)  # fmt: skip
def test_a_vocabulary_is_private_where_private_text_made_it(
    model: Any, source: str, private: bool
) -> None:
    vocabulary = task(model, vocabulary=source).vocabulary(corpus())
    assert vocabulary is not None
    assert vocabulary.private is private
    assert ("own" in vocabulary.words) is (model is BringsVocabulary)


@pytest.mark.parametrize("name", ["next-word", "tagging", "masked-language-model", "translation"])
def test_vectors_in_place_of_text_are_refused(name: str) -> None:
    kind = tasks.get(name)
    supervised = kind.create({}, model=models.create(kind.default_model, {}))
    with pytest.raises(InputError):
        supervised.vocabulary(corpus().with_vectors(np.ones((40, 2))))


def test_what_was_counted_of_a_corpus_is_counted_once() -> None:
    rating, counted, rows = task(), list[int](), corpus()
    for part in (rows, rows, corpus()):
        rating.once(part, "floor", lambda: counted.append(1))
        rating.once(part, "other", lambda: counted.append(2))
    assert counted == [1, 2, 1, 2]


def test_a_prediction_depends_on_its_row_alone() -> None:
    (learner,) = learners(task(), corpus())
    release, test = learner.release(learner.module), corpus().only("test")
    assert isinstance(release, Predictor) and isinstance(release, RowScorer)
    together = release.predictions(test)
    alone = [release.predictions(test.take(np.array([row])))[0] for row in range(len(test))]
    assert together == pytest.approx(alone, rel=1e-5)
    assert torch.is_grad_enabled()
    with torch.no_grad():
        learner.module.head.bias.fill_(float("nan"))
    with pytest.raises(UedpBenchError, match="NaN"):
        release.predictions(test)


def test_a_network_may_give_several_numbers_a_row() -> None:
    (learner,) = learners(task(), corpus())
    learner.module.forward = lambda batch: torch.stack([batch["ratings"], -batch["ratings"]], dim=1)
    test = corpus().only("test")
    release = learner.release(learner.module)
    assert release.predictions(test).tolist() == [[2.0 * x, -2.0 * x] for x in test.labels]
    assert len(release.predictions(test.take(np.array([], dtype=int)))) == 0


@pytest.mark.parametrize("networks", [1, 2])
def test_a_saved_release_answers_as_before(networks: int, tmp_path: Path) -> None:
    rating = task()
    (learner,) = learners(rating, corpus())
    both = learner.module if networks == 1 else ModuleSet([learner.module] * 2)
    reader = replace(learner.reader, steps=(3, 1))
    release = reader.release(both)
    release.save(tmp_path)
    again, test = rating.load(tmp_path), corpus().only("test")
    assert {*capabilities(again)} == {"Predictor", "RowScorer"}
    assert (again.reader.scale, again.reader.steps) == (2.0, (3, 1))
    if networks == 1:
        assert np.array_equal(again.predictions(test), release.predictions(test))
    else:
        assert len(again.module) == 2


def test_fields_that_a_saved_release_lacks_have_their_defaults(tmp_path: Path) -> None:
    (learner,) = learners(task(), corpus())
    learner.release(learner.module).save(tmp_path)
    file = tmp_path / RatingReader.FILE
    content = json.loads(file.read_text())
    file.write_text(json.dumps({"model": content["model"]}))
    reader = RatingReader.load(tmp_path).reader
    assert (reader.scale, reader.max_tokens, reader.score_rows) == (1.0, None, 512)
    file.unlink()
    with pytest.raises(InputError, match=RatingReader.FILE):
        RatingReader.load(tmp_path)


def test_example_rows_have_the_form_of_a_batch_and_no_row_of_the_corpus() -> None:
    (learner,) = learners(task(), corpus())
    examples = learner.example_batch()
    own = learner.batch([0, 1, 2, 3], np.arange(4))
    assert examples.keys() == own.keys()
    assert all(examples[name].dtype == own[name].dtype for name in own)
    others = learners(task(), corpus(labels=np.arange(40) % 2))[0].example_batch()
    assert all(torch.equal(examples[name], others[name]) for name in examples)
