"""A copy of a classifier from its answers: how well it agrees, beside what nobody was asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from uedp_bench.attacks.secure_inference.model_extraction import NO_PUBLIC, ModelExtraction
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError

ROWS = 600
RUN = Run(1, CorpusStats(1, 1, 0, 0, public=True))


class Rule(Release):
    """The class of a row is the sign of its first coordinate, and whoever owns a text has both."""

    classes = ("low", "high", "rare")

    def __init__(self, vectors: np.ndarray) -> None:
        self.vectors, self.queries = vectors, 0

    def labels(self, corpus: Corpus) -> Any:
        self.queries += len(corpus)
        return (self.vectors[corpus.origin][:, 0] > 0).astype(np.int64)


class Told(Rule):
    def public_inputs(self, corpus: Corpus) -> Any:
        return self.vectors[corpus.origin][:, None].astype(np.float32)


class Hesitant(Told):
    """Gives a third answer twice, which no copy can learn."""

    def labels(self, corpus: Corpus) -> Any:
        return np.where(corpus.origin < 2, 2, super().labels(corpus))


def setting() -> tuple[Corpus, np.ndarray]:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(ROWS, 5))
    split = np.where(np.arange(ROWS) < 300, SPLITS.index("public"), SPLITS.index("test"))
    # Labels of the source say something else than the release.
    labels = (vectors[:, 1] - 0.3 * vectors[:, 0] > 0).astype(np.int64)
    texts = tuple("u p" if x > 0 else "d o w n" for x in vectors[:, 0])
    return Corpus(texts, {"user": np.arange(ROWS)}, split, labels=labels,
                  label_names=Rule.classes), vectors  # fmt: skip


def extraction(
    release: Release, corpus: Corpus, **params: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    attack = ModelExtraction.create(params)
    leakage = attack.run(release, attack.plant(corpus, np.random.default_rng(0))[1], corpus, RUN)
    return leakage.metrics, leakage.details


@pytest.mark.parametrize("kind", [Rule, Told, Hesitant])
def test_answers_make_a_copy_that_public_labels_do_not(kind: type[Rule]) -> None:
    corpus, vectors = setting()
    metrics, details = extraction(kind(vectors), corpus)
    assert metrics["agreement"].value > 0.95
    assert metrics["agreement"].value > metrics["agreement_public_labels"].high
    assert metrics["agreement"].value > metrics["agreement_majority"].high
    assert metrics["agreement_majority"].value == pytest.approx(0.5, abs=0.08)
    assert details["features"] == ("tf-idf" if kind is Rule else "what the text's owner computes")
    assert sum(details["answers"]) == details["queries"] == 300


def test_it_asks_about_so_many_rows() -> None:
    corpus, vectors = setting()
    release = Told(vectors)
    _, details = extraction(release, corpus, queries=20, test_rows=50)
    assert (details["queries"], details["test_rows"], release.queries) == (20, 50, 70)


def test_answers_of_one_class_are_copied_by_it() -> None:
    corpus, vectors = setting()
    metrics, _ = extraction(Told(np.abs(vectors)), corpus)
    assert metrics["agreement"].value == metrics["agreement_majority"].value == 1.0


def test_what_it_cannot_attack() -> None:
    corpus, vectors = setting()
    attack = ModelExtraction.create({})
    release = Told(vectors)
    private = replace(corpus, split=np.full(ROWS, SPLITS.index("test")))
    assert attack.refuses(release, private) == NO_PUBLIC
    assert attack.refuses(release, corpus) is None
    release.takes_vectors = True
    assert "mechanism" in str(attack.refuses(release, corpus))
    untested = replace(corpus, split=np.full(ROWS, SPLITS.index("public")))
    with pytest.raises(InputError, match=r"model-extraction: .*test row"):
        attack.plant(untested, np.random.default_rng(1))
    assert attack.plant(corpus, np.random.default_rng(1))[0] is corpus
    with pytest.raises(InputError, match=r"model-extraction: .*test row"):
        extraction(Told(vectors), untested)
    with pytest.raises(InputError, match=r"model-extraction: .*no text"):
        extraction(Rule(vectors), replace(corpus, texts=("  ",) * ROWS))
