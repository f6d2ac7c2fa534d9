"""Supervised tasks: a network learns rows of public text first, if asked for, then private ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar

import numpy as np
from pydantic import Field

from uedp_bench.components.component import MayBePath, Params
from uedp_bench.contracts.capabilities import Predictor, RowScorer
from uedp_bench.contracts.learner import Learner, Role, Schedule
from uedp_bench.contracts.model import TextEncoder
from uedp_bench.contracts.task import Task
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.io.files import open_text
from uedp_bench.tasks.tokens.reader import Reader
from uedp_bench.tasks.tokens.rows import Preprocessing, prepare

if TYPE_CHECKING:
    from uedp_bench.contracts.capabilities import Vocabulary
    from uedp_bench.contracts.release import Release
    from uedp_bench.contracts.run_context import Run
    from uedp_bench.contracts.task import WordCounts
    from uedp_bench.corpus import Corpus


WORDS = ("public", "private")
"""Values of the parameter `vocabulary` that are no file."""


class SupervisedParams(Params):
    """Tokens of text, and training on public text before private text."""

    vocabulary: Annotated[str, MayBePath(words=WORDS)] = Field(
        default="public",
        description="where the vocabulary comes from: 'public' (the corpus' public split), "
        "'private' (its training split: every proven epsilon is then infinite), or the path of a "
        "file of public text (plain or gzipped, one sentence a line)",
    )
    max_tokens: int = Field(
        default=128,
        ge=3,
        description="tokens of a row past this many are left out of training, the first and last "
        "special token among them; the number of such rows is in the cost",
    )
    pretraining_epochs: int = Field(
        default=0,
        ge=0,
        description="passes over the public rows that have what is learnt, before private training",
    )
    pretraining_learning_rate: float = Field(
        default=1e-3, gt=0, description="learning rate of Adam, on the public split"
    )
    pretraining_batch_size: int = Field(default=64, ge=1, description="rows a step, as above")


def _vocabulary_texts(source: str, corpus: Corpus) -> tuple[list[str], str]:
    """Texts of which a vocabulary is made, and where they come from."""
    if source not in WORDS:
        with open_text(path := Path(source), "task.vocabulary") as lines:
            texts = [" ".join(line.split()) for line in lines if line.strip()]
        if not texts:
            raise InputError(f"task.vocabulary: {path} holds no sentence")
        return texts, f"file {path.name}"
    split = "train" if source == WORDS[1] else "public"
    texts = list(corpus.only(split).texts)
    if not texts and split == "public":
        raise InputError(
            "task.vocabulary is 'public', but the corpus has no public text: give source.public "
            "files, say source.valid_is_public=true where the split valid is public, or "
            "task.vocabulary a file of public text; with task.vocabulary=private nothing is proven"
        )
    return texts, f"{split} split"


T = TypeVar("T")
SP = TypeVar("SP", bound=SupervisedParams)


class SupervisedTask(Task[SP]):
    """Base of tasks whose network learns rows of text, each with its own loss.

    A `Reader` says how rows are read, which network learns them and what it loses; `score` says how
    useful the release is. Vocabulary, stages, batches, saving and loading are here.

    Attributes:
        reader_type: reader of the rows.
    """

    Params = SupervisedParams
    reader_type: ClassVar[type[Reader]]
    needs: ClassVar[tuple[type, ...]] = (Predictor,)
    releases: ClassVar[tuple[type, ...]] = (Predictor, RowScorer)
    models: ClassVar[type] = TextEncoder
    default_model = "bilstm"

    def __init__(self, params: SP | None = None, model: Any = None) -> None:
        super().__init__(params, model)
        self._scored: tuple[Corpus | None, dict[str, Any]] = (None, {})

    @property
    def preprocessing(self) -> Preprocessing:
        """Change made to every text."""
        return "none"

    def words(self, corpus: Corpus) -> Sequence[Sequence[str]]:
        """See `Task`."""
        return self.words_of(corpus.texts)

    def words_of(self, texts: Sequence[str]) -> list[list[str]]:
        """Words of each text as the model reads them.

        Raises:
            CapabilityError: if the model brings its vocabulary, or has none.
        """
        model = self.text_model()
        if model.frozen() or model.brings_vocabulary():
            raise CapabilityError(
                f"the model {model.name} brings its own vocabulary, and a mechanism would choose "
                "another: leave the vocabulary mechanism out, or train the model from scratch"
            )
        words: list[list[str]] = model.words(prepare(texts, self.preprocessing))
        return words

    def vocabulary(self, corpus: Corpus, words: WordCounts | None = None) -> Vocabulary | None:
        """See `Task`; None for a frozen model, and a pretrained one brings its own.

        Raises:
            InputError: if vectors were published in place of text, there is no public text and it
                is asked for, the file cannot be read, or a mechanism chose the words and the
                parameter is not its default.
        """
        model, source = self.text_model(), self.params.vocabulary
        if corpus.vectors is not None:
            raise InputError(
                f"{self.name} learns from text, and the mechanism publishes vectors: use it for "
                "text-classification"
            )
        if model.frozen():
            return None
        private = False
        if words is not None:
            if source != WORDS[0]:
                raise InputError(
                    f"task.vocabulary is {source!r}, and a mechanism chooses the vocabulary: leave "
                    "one of the two out"
                )
            texts, origin = words.texts(), words.origin
        elif model.brings_vocabulary():
            texts, origin = [], "the pretrained model"
        else:
            texts, origin = _vocabulary_texts(source, corpus)
            texts, private = prepare(texts, self.preprocessing), source == WORDS[1]
        vocabulary: Vocabulary = model.vocabulary(texts, origin=origin, private=private)
        return vocabulary

    def reader(self, corpus: Corpus, vocabulary: Vocabulary | None) -> Reader:
        """The reader of rows; its fields have the values of parameters of the same name.

        Args:
            corpus: whole; what a reader tells apart (classes, types) is that of its columns.
            vocabulary: tokens of the model.
        """
        own = {each.name for each in fields(self.reader_type)} - {"vocabulary"}
        values = {name: value for name, value in self.params if name in own}
        return self.reader_type(self.text_model(), vocabulary, **values)

    def stages(self, corpus: Corpus, vocabulary: Vocabulary | None, run: Run) -> Sequence[Learner]:
        """See `Task`.

        Raises:
            InputError: if no training row has what is learnt, or no public row where pre-training
                is asked for.
        """
        reader = self.reader(corpus, vocabulary)
        reader = replace(reader, device=run.device, score_rows=run.speed.score_rows)
        corpus = self.learnable(corpus, reader)
        train = self.training_rows(corpus)
        module = reader.network(run.shared_seed("init"), run.shared_seed("init", "head"))
        learners = [reader.learner(module, train)]
        if self.params.pretraining_epochs:
            public = self.public_rows(corpus)
            p = self.params
            plan = Schedule(
                p.pretraining_epochs, p.pretraining_batch_size, p.pretraining_learning_rate
            )
            learners.insert(0, reader.learner(module, public, plan))
        for learner in learners:
            run.count({"rows_truncated": learner.truncated})
        return learners

    def roles(self) -> tuple[Role, ...]:
        """See `Task`: public pre-training comes first."""
        return ("public", "private") if self.params.pretraining_epochs else ("private",)

    def load(self, folder: Path) -> Release:
        """See `Task`."""
        release: Release = self.reader_type.load(folder)
        return release

    def once(self, corpus: Corpus, name: str, compute: Callable[[], T]) -> T:
        """Value of `compute`, computed once for a name and corpus.

        A run scores a second time where its model saw public text before: floors are counted once.
        """
        if self._scored[0] is not corpus:
            self._scored = (corpus, {})
        by_name = self._scored[1]
        if name not in by_name:
            by_name[name] = compute()
        value: T = by_name[name]
        return value

    def learnable(self, corpus: Corpus, reader: Reader) -> Corpus:
        """The rows that have what is learnt."""
        rows = reader.scorable(corpus)
        return corpus if rows.all() else corpus.take(np.flatnonzero(rows))

    def training_rows(self, corpus: Corpus) -> Corpus:
        """Rows of `train`, and those of `valid`, by which mechanisms may choose a network.

        Raises:
            InputError: if there is nothing to train on.
        """
        rows = corpus.only("train", "valid")
        if not rows.where("train").any():
            raise InputError(
                f"{self.name}: no row of the split 'train' has what it learns (by default a "
                f"label; {self.reader_type.__name__}.scorable decides): take a source whose rows "
                "have it"
            )
        return rows

    def public_rows(self, corpus: Corpus) -> Corpus:
        """Rows of `public` as training rows.

        Raises:
            InputError: if there is none.
        """
        public = corpus.only("public")
        if not len(public):
            raise InputError(
                f"task.pretraining_epochs is {self.params.pretraining_epochs}, but no public row "
                f"has what {self.name} learns: give source.public files, or set it to 0"
            )
        return public.with_split(np.ones(len(public), dtype=bool), "train")

    def text_model(self) -> Any:
        """The model.

        Raises:
            CapabilityError: if it cannot learn the task.
        """
        if not isinstance(self.model, self.models):
            kind = self.models.__name__
            raise CapabilityError(f"{self.name} needs a {kind} (such as {self.default_model})")
        return self.model


def train_first(corpus: Corpus) -> Corpus:
    """The rows of `train`, then those of `valid`."""
    order = [np.flatnonzero(corpus.where(split)) for split in ("train", "valid")]
    return corpus.take(np.concatenate(order))
