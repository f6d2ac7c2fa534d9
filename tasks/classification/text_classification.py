"""Text classification: error, macro-F1 and accuracy, beside majority and random guessing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.asking import class_labels, protected_rows
from uedp_bench.component import MayBePath, Params
from uedp_bench.corpus import Corpus, IntArray, or_alone
from uedp_bench.errors import CapabilityError, InputError, nearest
from uedp_bench.learner import Role, Schedule
from uedp_bench.model import TextEncoder
from uedp_bench.release import Classifier, Encoder, LabelOnly, RowScorer
from uedp_bench.served_release import Compilable
from uedp_bench.task import Task
from uedp_bench.tasks.classification.inputs import InputReader
from uedp_bench.tasks.classification.learner import ClassifierLearner
from uedp_bench.tasks.classification.targets import with_target
from uedp_bench.tasks.tokens.pretraining import public_stage, roles_of
from uedp_bench.tasks.tokens.rows import Preprocessing
from uedp_bench.tasks.tokens.vocabulary import DESCRIPTION, WORDS, make_vocabulary, words_of

if TYPE_CHECKING:
    from uedp_bench.model import Vocabulary
    from uedp_bench.models.networks.classifier import ClassifierNetwork
    from uedp_bench.release import Release
    from uedp_bench.results import Estimate
    from uedp_bench.run_context import Run
    from uedp_bench.word_counts import WordCounts

_BOOTSTRAP_SEED = 2020


class TextClassificationParams(Params):
    """What is classified, and by which head on top of the model's representation."""

    target: str = Field(
        default="label",
        description="what to predict: 'label' (the source's labels), or the name of an attribute",
    )
    vocabulary: Annotated[str, MayBePath(words=WORDS)] = Field(
        default="public", description=DESCRIPTION
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
    pretraining_epochs: int = Field(
        default=0, ge=0, description="passes over labelled public rows before private training"
    )
    pretraining_learning_rate: float = Field(
        default=1e-3, gt=0, description="learning rate of Adam, on the public split"
    )
    pretraining_batch_size: int = Field(default=64, ge=1, description="rows a step, as above")


class TextClassification(Task[TextClassificationParams]):
    """Learn the class of a row from its text, or from the vector that was published for it.

    A model encodes the text into one vector, its representation; a head of fully connected layers
    classifies it. Published vectors are representations already, and only the head is trained, so
    that mechanisms on text, in training and on representations share one table. Rows without a
    label take no part. `majority_error` is that of the most frequent class of the training rows,
    `random_error` of guessing classes as often as they occur there, `tfidf_error` of a logistic
    regression on TF-IDF of them, which costs seconds; none is private.
    """

    name = "text-classification"
    version = 2
    source = (
        "Lyu, He and Li 2020 (DPNR), section 4; Meehan, Mrini and Chaudhuri 2022, section 5; Lai "
        "et al. 2022 (UeDP), section VI"
    )
    Params = TextClassificationParams
    needs: ClassVar[tuple[type, ...]] = (Classifier, LabelOnly)
    releases: ClassVar[tuple[type, ...]] = (Classifier, Encoder, RowScorer, Compilable)
    models = TextEncoder
    default_model = "bilstm"
    utility = ("error", "macro_f1", "accuracy", "majority_error", "random_error", "tfidf_error")
    optional = ("tfidf_error",)
    floors: ClassVar[Mapping[str, str]] = MappingProxyType(
        {"majority": "majority_error", "random": "random_error"}
    )
    counted = ("majority_error", "random_error", "tfidf_error")

    def classes_of(self) -> frozenset[str]:
        """The classes that are learnt."""
        target = self.params.target
        return frozenset({"labels" if target == "label" else f"attribute {target}"})

    def words(self, corpus: Corpus) -> Sequence[Sequence[str]]:
        """See `Task`."""
        return words_of(self._model(), corpus.texts, self.params.preprocessing)

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary | None:
        """See `Task`; None for published vectors and frozen encoders."""
        if corpus.vectors is not None or self._model().frozen():
            return None
        return make_vocabulary(
            self._model(), self.params.vocabulary, corpus, self.params.preprocessing, words
        )

    def stages(
        self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run
    ) -> Sequence[ClassifierLearner]:
        """See `Task`.

        Raises:
            InputError: if there are no labels, fewer than two classes among the training rows, or
                no labelled public row where pre-training is asked for.
        """
        corpus = self._labelled(corpus)
        train = corpus.only("train", "valid")
        classes = np.unique(_labels(train)[train.where("train")])
        if len(classes) < 2:
            names = ", ".join(train.label_names[label] for label in classes) or "none"
            raise InputError(
                f"text-classification needs training rows of at least two classes of "
                f"{self.params.target!r}; there are: {names}"
            )
        module = self._network(corpus, vocabulary, run)
        stages = []
        missing = "no public row has a label; set it to 0"
        if (before := public_stage(self.params, corpus, missing)) is not None:
            stages.append(self._learner(module, vocabulary, before[0], run, before[1]))
        stages.append(self._learner(module, vocabulary, train, run))
        return stages

    def roles(self) -> tuple[Role, ...]:
        """See `Task`."""
        return roles_of(self.params)

    def score(self, release: Release, corpus: Corpus) -> dict[str, Estimate]:
        """See `Task`.

        Raises:
            CapabilityError: if the release tells no classes.
            InputError: if no test row has a label.
        """
        from uedp_bench.statistics.classification import macro_f1_estimate
        from uedp_bench.statistics.intervals import mean_estimate

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

    def load(self, folder: Path) -> Release:
        """See `Task`."""
        from uedp_bench.tasks.classification.release import ClassifierRelease

        return ClassifierRelease.load(folder)

    def _model(self) -> TextEncoder[Any]:
        if not isinstance(self.model, TextEncoder):
            raise CapabilityError("text-classification needs a text encoder (such as bilstm)")
        return self.model

    def _labelled(self, corpus: Corpus) -> Corpus:
        """The rows that have a class, with what is to be predicted as their labels."""
        target = self.params.target
        if target != "label":
            known = corpus.attribute_names
            if target not in known:
                near = nearest(target, ["label", *known])
                hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(known)}"
                raise InputError(f"task.target is {target!r}, which the source does not have; "
                                 f"{hint}")  # fmt: skip
            corpus = with_target(corpus, target)
        if corpus.labels is None:
            raise InputError(
                "text-classification needs a source with labels; this one has "
                f"{', '.join(corpus.attribute_names) or 'no attributes either'} (task.target)"
            )
        return corpus.take(np.flatnonzero(corpus.labels >= 0))

    def _network(
        self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run
    ) -> ClassifierNetwork:
        from uedp_bench.models.networks.classifier import ClassifierNetwork, Given
        from uedp_bench.models.networks.output_layer import take_head

        p = self.params
        if corpus.vectors is not None:
            encoder: Any = Given(corpus.vectors.shape[1])
        else:
            encoder = self._model().build_encoder(vocabulary, run.shared_seed("init"))
        seed = run.shared_seed("init", "head")
        names = corpus.label_names
        network = ClassifierNetwork(encoder, len(names), p.hidden, p.dropout, seed)
        take_head(encoder, network.output_layer(), names)
        return network

    def _learner(
        self,
        module: ClassifierNetwork,
        vocabulary: Vocabulary | None,
        corpus: Corpus,
        run: Run,
        schedule: Schedule | None = None,
    ) -> ClassifierLearner:
        p = self.params
        reader = InputReader(self._model(), vocabulary, p.preprocessing, p.max_tokens, run.device)
        learner = ClassifierLearner(
            reader, module, corpus, score_rows=run.speed.score_rows, schedule=schedule
        )
        learner.target = p.target
        run.count({"rows_truncated": learner.truncated})
        return learner


def _yardstick(release: Release, corpus: Corpus) -> IntArray | None:
    """(test,) classes by a cheap strong classifier, where the text of test rows is as it was.

    There is none for vectors, and none for text that a mechanism perturbed at inference.
    """
    from uedp_bench.tasks.classification.cheap_classifier import predictions

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
