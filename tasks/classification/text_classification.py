"""Text classification: error, macro-F1 and accuracy, beside majority and random guessing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.api import Corpus, InputError, IntArray, Metric
from uedp_bench.api.capabilities import (
    Classifier,
    Compilable,
    Encoder,
    LabelOnly,
    RowScorer,
    class_labels,
    protected_rows,
)
from uedp_bench.api.networks import SupervisedParams, SupervisedTask
from uedp_bench.api.text import or_alone
from uedp_bench.corpus import some_texts
from uedp_bench.errors import nearest
from uedp_bench.tasks.classification.classifier import ClassifierReader
from uedp_bench.tasks.classification.targets import with_target
from uedp_bench.tasks.tokens.rows import Preprocessing

if TYPE_CHECKING:
    from uedp_bench.api import Estimate, Release
    from uedp_bench.api.networks import Reader, Vocabulary, WordCounts

_BOOTSTRAP_SEED = 2020

MOST_ROWS = 20_000
"""Training rows that it sees at most, drawn by a fixed seed: more cost minutes."""

_TERMS = 50_000
_SEED = 1988


class TextClassificationParams(SupervisedParams):
    """Target of classification, and the head on top of the model's representation."""

    target: str = Field(
        default="label",
        description="what to predict: 'label' (the source's labels), or the name of an attribute",
    )
    preprocessing: Preprocessing = Field(
        default="none", description="'paper': lower case without punctuation (Lai et al.)"
    )
    max_tokens: int = Field(
        default=256,
        ge=3,
        description="tokens of a row past this many are left out, begin and end among them (a "
        "frozen encoder has a limit of its own); the number of such rows is in the cost",
    )
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(), description="sizes of the head's hidden layers; none: a linear classifier"
    )
    dropout: float = Field(
        default=0.1,
        ge=0,
        lt=1,
        description="dropout of the inputs of the head's layers, in training",
    )


class TextClassification(SupervisedTask[TextClassificationParams]):
    """Learn the class of a row from its text, or from the vector that was published for it.

    A model encodes the text into one vector, its representation; a head of fully connected layers
    classifies it. Published vectors are representations already, and only the head is trained, so
    that mechanisms on text, in training and on representations share one table. Rows without a
    label take no part. `majority_error` is that of the most frequent class of the training rows,
    `random_error` of guessing classes as often as they occur there, `tfidf_error` of a logistic
    regression on TF-IDF of them, which costs seconds; none is private.
    """

    name = "text-classification"
    version = 3
    source = (
        "Lyu, He and Li 2020 (DPNR), section 4; Meehan, Mrini and Chaudhuri 2022, section 5; Lai "
        "et al. 2022 (UeDP), section VI"
    )
    Params = TextClassificationParams
    reader_type = ClassifierReader
    needs: ClassVar[tuple[type, ...]] = (Classifier, LabelOnly)
    releases: ClassVar[tuple[type, ...]] = (Classifier, Encoder, RowScorer, Compilable)
    metrics = (
        Metric.rate("error", "error", "share of test rows whose class is predicted wrong", "lower",
                    main=True),
        Metric.rate("macro_f1", "macro-F1", "mean over classes of the F1 score", "higher",
                    main=True),
        Metric.rate("accuracy", "accuracy", "share of predictions that are right", "higher",
                    main=True),
        Metric.rate("majority_error", "majority's error", "of the most frequent class, without "
                    "privacy"),
        Metric.rate("tfidf_error", "TF-IDF's error", "of logistic regression on words, without "
                    "privacy", baseline="tfidf"),
        Metric.rate("random_error", "random error", "of guessing classes as often as they occur"),
    )  # fmt: skip
    optional = ("tfidf_error",)
    floors: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"majority": "majority_error", "random": "random_error"}
    )
    counted = ("majority_error", "random_error", "tfidf_error")

    def classes_of(self) -> frozenset[str]:
        """The classes that are learnt."""
        target = self.params.target
        return frozenset({"labels" if target == "label" else f"attribute {target}"})

    @property
    def preprocessing(self) -> Preprocessing:
        """See `SupervisedTask`."""
        return self.params.preprocessing

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary | None:
        """See `SupervisedTask`; None for published vectors too."""
        return None if corpus.vectors is not None else super().vocabulary(corpus, words)

    def reader(self, corpus: Corpus, vocabulary: Vocabulary | None) -> Reader:
        """See `SupervisedTask`."""
        p, vectors = self.params, corpus.vectors
        return ClassifierReader(
            self.text_model(),
            vocabulary,
            classes=tuple(self._labelled(corpus).label_names),
            target=p.target,
            takes_vectors=vectors is not None,
            vectors=None if vectors is None else vectors.shape[1],
            preprocessing=p.preprocessing,
            max_tokens=p.max_tokens,
            hidden=p.hidden,
            dropout=p.dropout,
        )

    def learnable(self, corpus: Corpus, reader: Reader) -> Corpus:
        """See `SupervisedTask`: labels are what is predicted."""
        return self._labelled(corpus)

    def training_rows(self, corpus: Corpus) -> Corpus:
        """See `SupervisedTask`.

        Raises:
            InputError: if the training rows have fewer than two classes.
        """
        train = corpus.only("train", "valid")
        classes = np.unique(_labels(train)[train.where("train")])
        if len(classes) < 2:
            names = ", ".join(train.label_names[label] for label in classes) or "none"
            raise InputError(
                f"text-classification needs training rows of at least two classes of "
                f"{self.params.target!r}; there are: {names}"
            )
        return train

    def score(self, release: Release, corpus: Corpus) -> dict[str, Estimate]:
        """See `Task`.

        Raises:
            CapabilityError: if the release tells no classes.
            InputError: if no test row has a label.
        """
        from uedp_bench.api.statistics import mean_estimate
        from uedp_bench.statistics.label_scores import macro_f1_estimate

        corpus = self._labelled(corpus)
        test = corpus.only("test")
        if not len(test):
            raise InputError("the corpus has no labelled row in the split 'test' to score")
        truth, users = _labels(test), or_alone(test.users)
        predicted = class_labels(release, test)
        share = np.bincount(_labels(corpus.only("train")), minlength=len(corpus.label_names))
        share = share / max(share.sum(), 1)

        def mean(values: Any) -> Estimate:
            rng = np.random.default_rng(_BOOTSTRAP_SEED)
            return mean_estimate(np.asarray(values, dtype=np.float64), rng, users)

        rng = np.random.default_rng(_BOOTSTRAP_SEED)
        cheap = _yardstick(release, corpus)
        return {
            "error": mean(predicted != truth),
            "macro_f1": macro_f1_estimate(truth, predicted, len(share), rng, users),
            "accuracy": mean(predicted == truth),
            "majority_error": mean(truth != share.argmax()),
            "random_error": mean(1.0 - share[truth]),
            **({} if cheap is None else {"tfidf_error": mean(cheap != truth)}),
        }

    def _labelled(self, corpus: Corpus) -> Corpus:
        """Rows that have a class, with the target of prediction as their labels."""
        target = self.params.target
        if target != "label":
            attributes = corpus.attribute_names
            if target not in attributes:
                near = nearest(target, ["label", *attributes])
                hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(attributes)}"
                raise InputError(f"task.target is {target!r}, which the source does not have; "
                                 f"{hint}")  # fmt: skip
            corpus = with_target(corpus, target)
        if corpus.labels is None:
            raise InputError(
                "text-classification needs a source with labels; this one has "
                f"{', '.join(corpus.attribute_names) or 'no attributes either'} (task.target); of "
                "a file of yours, source.label_column names the column of labels"
            )
        return corpus.take(np.flatnonzero(corpus.labels >= 0))


def _yardstick(release: Release, corpus: Corpus) -> IntArray | None:
    """(test,) classes by a cheap strong classifier, where the text of test rows is as it was.

    There is none for vectors, and none for text that a mechanism perturbed at inference.
    """
    shown = protected_rows(release)
    perturbed = shown is not None and shown.where("test").any()
    if corpus.vectors is not None or perturbed:
        return None
    train, test = corpus.only("train"), corpus.only("test")
    return predictions(train.texts, _labels(train), test.texts)


def _labels(corpus: Corpus) -> IntArray:
    if corpus.labels is None:
        raise RuntimeError("rows without labels were left out before")
    return corpus.labels


def predictions(train: Sequence[str], labels: IntArray, test: Sequence[str]) -> IntArray | None:
    """(test,) classes of a logistic regression on TF-IDF of words and pairs of words.

    It is trained on the rows as they are, without any protection: it is a yardstick, not a release.
    The last two answers are kept, for runs of one seed share them.

    Args:
        train: texts.
        labels: (train,) their classes.
        test: texts.

    Returns:
        None where the training rows have no word, or a single class.
    """
    if len(train) > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(_SEED).choice(len(train), MOST_ROWS, replace=False))
        train, labels = some_texts(train, chosen), labels[chosen]
    return _predictions(tuple(train), labels.astype(np.int64).tobytes(), tuple(test))


@lru_cache(maxsize=2)
def _predictions(train: tuple[str, ...], labels: bytes, test: tuple[str, ...]) -> IntArray | None:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    classes = np.frombuffer(labels, dtype=np.int64)
    if len(np.unique(classes)) < 2:
        return None
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, max_features=_TERMS)
    try:
        vectors = vectorizer.fit_transform(train)
    except ValueError:  # no text has a word
        return None
    model = LogisticRegression(C=10.0, max_iter=200).fit(vectors, classes)
    predicted: IntArray = model.predict(vectorizer.transform(test)).astype(np.int64)
    return predicted
