"""A classifier: how it reads rows, what it loses on each, and what it answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from uedp_bench.api import (
    BoolArray,
    CapabilityError,
    Corpus,
    FloatArray,
    InputError,
    IntArray,
    Stream,
    UedpBenchError,
)
from uedp_bench.api.capabilities import PlainNetwork
from uedp_bench.api.networks import (
    Batch,
    Losses,
    Reader,
    Schedule,
    SplitLearner,
    load_weights,
    on_device,
    row_seeds,
    save_weights,
)
from uedp_bench.components.component import named
from uedp_bench.contracts.learner import EXAMPLE_LENGTHS, example_ids
from uedp_bench.data.stored_rows import RowVectors
from uedp_bench.tasks.classification.targets import classes_of, with_target
from uedp_bench.tasks.tokens.reader import (
    SupervisedLearner,
    SupervisedRelease,
    batches_by_length,
    tensors,
)
from uedp_bench.tasks.tokens.rows import Columns, EncodedRows, Preprocessing, TextRows, prepare

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.api import FeatureArray, RepresentationMechanism
    from uedp_bench.contracts.learner import RowLengths

VECTORS_AT_ONCE = 4096
"""Rows of a text in a file whose vectors a frozen encoder computes together, at most."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassifierReader(Reader):
    """Reader of a classifier's rows: token ids, vectors of a frozen encoder, published vectors.

    Attributes:
        classes: names of the classes.
        target: target of prediction: "label", or the name of an attribute.
        takes_vectors: True if it reads published vectors, not text.
        vectors: their size; None for text.
        preprocessing: change made to every text.
        hidden: sizes of the head's hidden layers.
        dropout: dropout of the inputs of the head's layers, in training.
    """

    classes: tuple[str, ...]
    target: str = "label"
    takes_vectors: bool = False
    vectors: int | None = None
    preprocessing: Preprocessing = "none"
    hidden: tuple[int, ...] = ()
    dropout: float = 0.0

    needs_vocabulary: ClassVar[bool] = False

    @property
    def vectorised(self) -> bool:
        """See `Learner`; vectors go through few plain layers alone, whatever the model is."""
        return self.vectors is not None or self.model.frozen() or super().vectorised

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `Reader`: rows with one of the classes that the release tells apart."""
        labels, names = classes_of(corpus, self.target)
        if labels is None or names != self.classes:
            return np.zeros(len(corpus), dtype=bool)
        return np.asarray(labels >= 0)

    def prepared(self, corpus: Corpus) -> Corpus:
        """See `Reader`: labels are what is predicted."""
        return with_target(corpus, self.target)

    def read(self, corpus: Corpus) -> Mapping[str, Any]:
        """See `Reader`."""
        return {**self.inputs(corpus), "labels": corpus.labels}

    def inputs(self, corpus: Corpus) -> Mapping[str, Any]:
        """Columns of rows without their labels."""
        if corpus.vectors is not None:
            return {"vectors": np.ascontiguousarray(corpus.vectors, dtype=np.float32)}
        return self._texts(prepare(corpus.texts, self.preprocessing), cache=True)

    def examples(self, corpus: Corpus) -> Mapping[str, Any]:
        """See `Reader`: random tokens, or vectors, and random classes."""
        rng = np.random.default_rng(0)
        size = len(EXAMPLE_LENGTHS)
        labels = rng.integers(max(1, len(corpus.label_names)), size=size)
        if corpus.vectors is not None or self.model.frozen() or self.vocabulary is None:
            own = corpus.vectors
            width = self.model.feature_size() if own is None else own.shape[1]
            vectors = rng.normal(size=(size, width)) / np.sqrt(width)
            return {"vectors": vectors.astype(np.float32), "labels": labels}
        ids = example_ids(self.vocabulary.size, self.room)
        return {"tokens": TextRows.framed(ids, self.vocabulary, self.room), "labels": labels}

    def encoded(self, corpus: Corpus) -> tuple[EncodedRows, RowLengths]:
        """See `Reader`; a frozen encoder reads each row of a file once."""
        if not corpus.stored or corpus.vectors is not None or not self.model.frozen():
            return super().encoded(corpus)
        kept = RowVectors(len(corpus), partial(self._vectors, corpus), VECTORS_AT_ONCE)
        rows = EncodedRows(len(corpus), partial(self._frozen, corpus, kept), 0)
        return rows, np.ones(1, dtype=np.int64)

    def masked(
        self, corpus: Corpus, rate: float, rngs: Sequence[np.random.Generator]
    ) -> Mapping[str, Any]:
        """Inputs of all rows with words dropped by independent coins: row i's from `rngs[i]`.

        Generators may be the same one, which then tosses the coins of the rows in order. Words are
        those of the text as it is, so that one that preprocessing removes has its coin as well: a
        dropped word leaves the mask whatever it was.

        Raises:
            InputError: for published vectors, which have no words.
        """
        if corpus.vectors is not None:
            raise InputError("word_dropout: published vectors have no words; leave it at 0")
        texts = [
            self._dropped(text.split(), rng, rate)
            for text, rng in zip(corpus.texts, rngs, strict=True)
        ]
        return self._texts(texts, cache=False)

    def truncated(self, columns: Columns, corpus: Corpus) -> int | None:
        """See `Reader`; none where vectors are read: a frozen encoder has a limit of its own."""
        return 0 if "vectors" in columns.columns else super().truncated(columns, corpus)

    def row_size(self, columns: Columns, longest: int, module: nn.Module) -> int:
        """See `Reader`."""
        width = max(int(module.width), len(self.classes))  # type: ignore[arg-type]
        return width if self.vectors else int(self.model.row_numbers(longest, width))

    def network(self, seed: int, head_seed: int) -> nn.Module:
        """See `Reader`."""
        from uedp_bench.models.networks.classifier import ClassifierNetwork, Given
        from uedp_bench.models.networks.modules import take_head

        if self.vectors:
            encoder: Any = Given(self.vectors)
        else:
            encoder = self.model.build_encoder(self.vocabulary, seed)
        classes = len(self.classes)
        network = ClassifierNetwork(encoder, classes, self.hidden, self.dropout, head_seed)
        take_head(encoder, network.output_layer(), self.classes)
        return network

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """Cross-entropy of each row's label."""
        return cross_entropy(module(batch), batch)

    def learner(
        self, module: nn.Module, corpus: Corpus, schedule: Schedule | None = None
    ) -> ClassifierLearner:
        """See `Reader`."""
        return ClassifierLearner(self, module, corpus, schedule)

    def release(self, module: nn.Module) -> ClassifierRelease:
        """See `Reader`."""
        return ClassifierRelease(self, module)

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """See `Reader`."""
        if not self.vectors:
            self.model.save_encoder(module.encoder, folder / "encoder")
        save_weights(module.head, folder / "head.pt")  # type: ignore[arg-type]

    def load_network(self, folder: Path) -> nn.Module:
        """See `Reader`."""
        from uedp_bench.models.networks.classifier import ClassifierNetwork, Given

        if self.vectors:
            encoder: Any = Given(self.vectors)
        else:
            encoder = self.model.load_encoder(self.vocabulary, folder / "encoder")
        module = ClassifierNetwork(encoder, len(self.classes), self.hidden, 0.0, seed=0)
        load_weights(module.head, folder / "head.pt")
        return module

    def _vectors(self, corpus: Corpus, rows: IntArray) -> tuple[IntArray, FeatureArray]:
        vectors = self.inputs(self.in_memory(corpus, rows))["vectors"]
        return np.ones(len(rows), dtype=np.int64), vectors

    def _frozen(self, corpus: Corpus, kept: RowVectors, rows: IntArray) -> Columns:
        labels = np.asarray(corpus.labels)[rows]
        return Columns({"vectors": kept.some(rows)[1], "labels": labels}, self.sized)

    def _dropped(self, words: list[str], rng: np.random.Generator, rate: float) -> str:
        shown = zip(prepare(words, self.preprocessing), rng.random(len(words)) < rate, strict=True)
        kept = [self.model.mask if gone else word for word, gone in shown]
        return " ".join(word for word in kept if word)

    def _texts(self, texts: Sequence[str], *, cache: bool) -> Mapping[str, Any]:
        if self.model.frozen():
            return {"vectors": self.model.features(texts, self.device, cache=cache)}
        return {"tokens": self.framed(texts)}


class ClassifierLearner(SupervisedLearner, SplitLearner):
    """A classifier in two parts, and the labelled rows that it learns from."""

    reader: ClassifierReader

    def __init__(
        self,
        reader: ClassifierReader,
        module: nn.Module,
        corpus: Corpus,
        schedule: Schedule | None = None,
    ) -> None:
        super().__init__(reader, module, corpus, schedule)
        self.width, self.target = int(module.width), reader.target  # type: ignore[arg-type]

    def masked_batch(
        self, rows: Sequence[int] | IntArray, rng: np.random.Generator, rate: float
    ) -> Batch:
        """See `SplitLearner`; a frozen encoder encodes the masked texts anew."""
        chosen = np.asarray(rows, dtype=np.int64)
        corpus = self.corpus.take(chosen)
        masked = self.reader.masked(corpus, rate, [rng] * len(chosen))
        every, seeds = np.arange(len(chosen)), row_seeds(rng, chosen.shape)
        return tensors(self.reader.batch({**masked, "labels": corpus.labels}, every, seeds))

    def encode(self, module: nn.Module, batch: Batch) -> Tensor:
        """(rows, d) representations."""
        represented: Tensor = module.represent(batch)  # type: ignore[operator]
        return represented

    def head_losses(self, module: nn.Module, z: Tensor, batch: Batch) -> Losses:
        """Cross-entropy of each row's label given its representation."""
        seeds = batch["seeds"] if module.training else None
        return cross_entropy(module.classify(z, seeds), batch)  # type: ignore[operator]


def cross_entropy(logits: Tensor, batch: Batch) -> Losses:
    """Nats of the label of each row, its one target."""
    import torch

    nats = torch.nn.functional.cross_entropy(logits, batch["labels"], reduction="none")
    return Losses(nats, torch.ones_like(nats))


class ClassifierRelease(SupervisedRelease):
    """Classifier, Encoder, RowScorer and Compilable; `events` are set by the harness.

    With a channel (`through`), what leaves the owner of a text is its perturbed representation, and
    classes are those of perturbed representations.
    """

    view = "model weights, representations of inputs"

    reader: ClassifierReader
    module: Any

    def __init__(self, reader: ClassifierReader, module: nn.Module) -> None:
        super().__init__(reader, module)
        self.classes, self.target = reader.classes, reader.target
        self.takes_vectors = reader.takes_vectors
        self._mechanism: RepresentationMechanism[Any] | None = None
        self._noise = Stream.root(0, "", "seed")

    def through(self, mechanism: RepresentationMechanism[Any], noise: Stream) -> ClassifierRelease:
        """The release with a mechanism's channel between encoder and head.

        Args:
            mechanism: mechanism whose `channel` it is.
            noise: streams of it; each row's own is keyed by the row and its text.
        """
        served = copy(self)
        served._mechanism, served._noise = mechanism, noise
        return served

    def class_logprobs(self, corpus: Corpus) -> FloatArray:
        """See `Classifier`.

        Raises:
            UedpBenchError: if one is NaN.
        """
        classes = len(self.classes)
        return self._each(
            corpus, lambda z: self.module.classify(z).double().log_softmax(-1), classes
        )

    def representations(self, corpus: Corpus) -> FloatArray:
        """See `Encoder`.

        Raises:
            UedpBenchError: if one is NaN.
        """
        return self._each(corpus, lambda z: z, int(self.module.width))

    def learner(self, corpus: Corpus) -> ClassifierLearner:
        """See `TrainedRelease`; no channel perturbs what the learner reads.

        Raises:
            InputError: for text, where the classifier takes published vectors.
        """
        self._check_inputs(corpus)
        return self.reader.learner(self.module, corpus)

    def network(self) -> PlainNetwork:
        """See `Compilable`."""
        from uedp_bench.tasks.classification.plain_network import plain_network

        if self._mechanism is not None:
            raise CapabilityError(
                f"{self._mechanism.name} perturbs what passes between two parts of the network: "
                "they are no plain layers"
            )
        return plain_network(self.reader, self.module)

    @property
    def draws_noise(self) -> bool:
        """True where a mechanism perturbs representations."""
        return self._mechanism is not None

    def content(self) -> dict[str, Any]:
        """See `SupervisedRelease`: the channel, and the key of its noise."""
        return {
            "channel": None if self._mechanism is None else named(self._mechanism),
            "noise": {"key": self._noise.key.hex(), "source": self._noise.source},
        }

    def restored(self, content: Mapping[str, Any]) -> ClassifierRelease:
        """See `SupervisedRelease`."""
        from uedp_bench.api import mechanisms

        if content["channel"] is None:
            return self
        if (key := content.get("noise")) is None:  # saved before there were such keys
            noise = Stream.root(content["seed"], "", "seed")
        else:
            noise = Stream(bytes.fromhex(key["key"]), key["source"])
        return self.through(mechanisms.create(**content["channel"]), noise)

    def _each(self, corpus: Corpus, last: Callable[[Tensor], Tensor], size: int) -> FloatArray:
        """(rows, size) of the last step on each row's representation, as released."""
        import torch

        rngs = self._rngs(corpus)
        rows = self._read(corpus, rngs)
        out = np.empty((len(corpus), size))
        with torch.no_grad():
            for chosen in batches_by_length(rows.lengths, lambda _: self.reader.score_rows):
                inputs = self.reader.batch(rows.columns, chosen, np.zeros_like(chosen))
                z: Tensor = self.module.represent(on_device(tensors(inputs), str(self.device)))
                if self._mechanism is not None:
                    z = self._mechanism.channel().perturb(z, [rngs[row] for row in chosen])
                out[chosen] = last(z).double().cpu().numpy()
        if np.isnan(out).any():
            raise UedpBenchError("the released classifier gives NaN: its weights are not finite")
        return out

    def _read(self, corpus: Corpus, rngs: list[np.random.Generator]) -> Columns:
        self._check_inputs(corpus)
        rate = 0.0 if self._mechanism is None else self._mechanism.channel().word_dropout
        reader = self.reader
        read = reader.masked(corpus, rate, rngs) if rate > 0 else reader.inputs(corpus)
        return Columns(read, reader.sized)

    def _check_inputs(self, corpus: Corpus) -> None:
        if self.takes_vectors and corpus.vectors is None:
            raise InputError("the classifier takes published vectors, and was given text")

    def _rngs(self, corpus: Corpus) -> list[np.random.Generator]:
        """One generator a row: its key and what it holds, so that equal texts share no noise."""
        if self._mechanism is None:
            return []
        vectors = corpus.vectors
        contents = (
            text.encode("utf-8", "surrogatepass") if vectors is None else vectors[row].tobytes()
            for row, text in enumerate(corpus.texts)
        )
        return [
            self._noise.rng(key, hashlib.sha256(content).hexdigest())
            for key, content in zip(corpus.keys.tolist(), contents, strict=True)
        ]
