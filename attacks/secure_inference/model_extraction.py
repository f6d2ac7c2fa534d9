"""Model extraction: copy a classifier by asking for the classes of texts of one's own."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from pydantic import Field

from uedp_bench.api import Attack, CapabilityError, InputError, Leakage, Metric, Params, Planted
from uedp_bench.api.capabilities import Classifier, Compilable, LabelOnly, class_labels
from uedp_bench.api.statistics import mean_estimate
from uedp_bench.api.text import or_alone
from uedp_bench.attacks._true_classes import true_classes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from uedp_bench.api import Corpus, Estimate, FloatArray, IntArray, Release, Run

NO_PUBLIC = "there is no public row to ask about: the source has no split 'public'"
"""Why the attack is left out of runs without public rows."""

_TERMS = 20_000
_TERM = r"\w+|[^\w\s]"
_FOLDS = 3


@runtime_checkable
class PublicInputs(Protocol):
    """Says what the owner of a text computes alone, by what everybody knows."""

    def public_inputs(self, corpus: Corpus) -> NDArray[np.float32]:
        """(rows, ...) what the trained part reads of each row."""
        ...


class ModelExtractionParams(Params):
    """Number of queries."""

    queries: int = Field(
        default=500, ge=2, description="public texts whose class is asked for, at most"
    )
    test_rows: int = Field(
        default=2000, ge=1, description="test rows on which the copy is judged, at most"
    )


class _Queries(NamedTuple):
    """Features of public rows and of test rows, and (rows,) the classes that the release gives."""

    queries: Any
    test: Any
    answers: IntArray
    test_answers: IntArray


class ModelExtraction(Attack[ModelExtractionParams]):
    """Trains a copy of a classifier on its answers about public texts.

    The copy is a logistic regression on what the owner of a text computes alone, where the release
    says so (the vectors of a public encoder), else on TF-IDF of the texts. Two floors stand beside
    it: the most frequent answer, and the same copy trained on the public rows' own labels, for
    which nobody was asked. A protocol that hides everything but the class hides none of this.
    """

    name = "model-extraction"
    version = 2
    source = "Tramer et al. 2016, Stealing machine learning models via prediction APIs"
    Params = ModelExtractionParams
    metrics = (
        Metric.rate("agreement", "copy agrees", "share of test rows to which a copy that was "
                    "trained on answers gives the class of the release", "lower", main=True),
        Metric.rate("agreement_majority", "copy agrees, majority", "of saying the most frequent "
                    "answer"),
        Metric.rate("agreement_public_labels", "copy agrees, public labels", "of a copy that was "
                    "trained on public labels and asked nobody", main=True),
        Metric.rate("accuracy", "copy's accuracy", "share of test rows whose class the copy tells",
                    "lower"),
        Metric.rate("accuracy_majority", "copy's accuracy, majority", "of saying the most frequent "
                    "answer"),
        Metric.rate("accuracy_public_labels", "copy's accuracy, public labels", "of a model of "
                    "public labels"),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (LabelOnly, Classifier)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, Planted]:
        """Plants nothing; refuses before training what could not be attacked after it.

        Raises:
            InputError: if there is no test row.
        """
        if corpus.where("public").any():
            _check_test_rows(corpus)
        return corpus, Planted()

    def refuses(self, release: Release, corpus: Corpus) -> str | None:
        """Without public text there is nothing to ask about."""
        if release.takes_vectors:
            return "the classifier takes vectors that only the mechanism makes"
        return None if corpus.where("public").any() else NO_PUBLIC

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """Asks, trains the copy, and compares it with the release and with the truth.

        Raises:
            InputError: if there is no test row, or no text in public rows that are asked about.
        """
        p = self.params
        public = _drawn(corpus.only("public"), p.queries, run.shared("extraction", "queries"))
        test = _drawn(corpus.only("test"), p.test_rows, run.shared("extraction", "test"))
        _check_test_rows(test)
        run.progress("model extraction", 0, 2)
        features, what = _features(release, public, test)
        queries = _Queries(*features, class_labels(release, public), class_labels(release, test))
        run.progress("model extraction", 1, 2)
        truth = true_classes(release, test, self.name)
        users = or_alone(test.users)
        public_labels = true_classes(release, public, self.name)
        guesses = {
            "": _copy(queries, queries.answers),
            "_majority": np.full(len(test), np.bincount(queries.answers).argmax()),
        }
        if len(np.unique(public_labels[public_labels >= 0])) > 1:
            guesses["_public_labels"] = _copy(queries, public_labels)
        metrics = {}
        for name, guessed in guesses.items():
            metrics[f"agreement{name}"] = _share(guessed == queries.test_answers, users, run)
            metrics[f"accuracy{name}"] = _share((guessed == truth)[truth >= 0],
                                                users[truth >= 0], run)  # fmt: skip
        details = {
            "queries": len(public),
            "test_rows": len(test),
            "features": what,
            "answers": np.bincount(queries.answers, minlength=len(release.classes)).tolist(),
            "accuracy_of_the_release": float((queries.test_answers == truth)[truth >= 0].mean()),
        }
        return Leakage(metrics, details)


def _check_test_rows(corpus: Corpus) -> None:
    if not corpus.where("test").any():
        raise InputError("model-extraction: there is no test row to judge the copy on")


def _drawn(rows: Corpus, most: int, rng: np.random.Generator) -> Corpus:
    return rows.take(np.sort(rng.permutation(len(rows))[:most]))


def _features(release: Release, public: Corpus, test: Corpus) -> tuple[tuple[Any, Any], str]:
    """Features of public and of test rows, and what they are."""
    if (read := _reader(release)) is not None:
        return (_flat(read(public)), _flat(read(test))), "what the text's owner computes"
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(text.strip() for text in public.texts):
        raise InputError("model-extraction: the public rows that it asks about have no text")
    vectorizer = TfidfVectorizer(sublinear_tf=True, max_features=_TERMS, token_pattern=_TERM)
    return (vectorizer.fit_transform(public.texts), vectorizer.transform(test.texts)), "tf-idf"


def _reader(release: Release) -> Callable[[Corpus], Any] | None:
    """Public function of rows that the network reads, if the release declares one."""
    if isinstance(release, PublicInputs):
        return release.public_inputs
    if isinstance(release, Compilable):
        with suppress(CapabilityError):
            return release.network().read
    return None


def _flat(inputs: Any) -> FloatArray:
    values = np.asarray(inputs, dtype=np.float64)
    return values.reshape(len(values), -1)


def _copy(queries: _Queries, labels: IntArray) -> IntArray:
    """(test,) classes by a model that learnt labels (queries,), without -1 and very rare ones."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.preprocessing import MaxAbsScaler

    counts = np.bincount(labels[labels >= 0])
    learnable = np.flatnonzero(counts >= _FOLDS)  # every part of the cross-validation has these
    if len(learnable) < 2:
        return np.full(len(queries.test_answers), counts.argmax())
    some = np.isin(labels, learnable)
    scaler = MaxAbsScaler().fit(queries.queries)
    model = GridSearchCV(LogisticRegression(max_iter=500), {"C": np.logspace(-1, 3, 5)}, cv=_FOLDS)
    model.fit(scaler.transform(queries.queries)[some], labels[some])
    return np.asarray(model.predict(scaler.transform(queries.test)), dtype=np.int64)


def _share(hits: Any, users: IntArray, run: Run) -> Estimate:
    return mean_estimate(hits.astype(np.float64), run.shared("extraction", "bootstrap"), users)
