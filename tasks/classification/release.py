"""A released classifier: its classes, and the representations that pass between its two parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.component import named
from uedp_bench.corpus import BoolArray, Corpus, FloatArray
from uedp_bench.errors import CapabilityError, InputError, UedpBenchError
from uedp_bench.randomness.streams import Stream
from uedp_bench.release import TrainedRelease
from uedp_bench.served_release import PlainNetwork
from uedp_bench.tasks.classification.inputs import InputReader, Rows
from uedp_bench.tasks.classification.targets import classes_of, with_target
from uedp_bench.tasks.tokens.saved_model import (
    TrainedModel,
    batches_by_length,
    load_model,
    load_weights,
    save_model,
    save_weights,
)

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.learner import Batch
    from uedp_bench.mechanism import RepresentationMechanism
    from uedp_bench.model import TextEncoder, Vocabulary
    from uedp_bench.tasks.classification.learner import ClassifierLearner

_FILE = "release.json"


class ClassifierRelease(TrainedRelease):
    """Classifier, Encoder, RowScorer and Compilable; `events` are set by the harness.

    With a channel (`through`), what leaves the owner of a text is its perturbed representation, and
    classes are those of perturbed representations.

    Args:
        reader: turns rows into inputs.
        module: the network; it is put into evaluation mode.
        classes: names of the classes.
        score_rows: rows at once, at most.
    """

    view = "model weights, representations of inputs"

    def __init__(
        self, reader: InputReader, module: nn.Module, classes: tuple[str, ...], *, score_rows: int
    ) -> None:
        self.reader, self.module, self.classes = reader, module.eval(), classes
        self.score_rows = score_rows
        self._mechanism: RepresentationMechanism[Any] | None = None
        self._noise = Stream.root(0, "", "seed")

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The vocabulary of the encoder."""
        return self.reader.vocabulary

    def through(self, mechanism: RepresentationMechanism[Any], noise: Stream) -> ClassifierRelease:
        """The release with a mechanism's channel between encoder and head.

        Args:
            mechanism: whose `channel` it is.
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
        return self._each(corpus, _class_logprobs, len(self.classes))

    def representations(self, corpus: Corpus) -> FloatArray:
        """See `Encoder`.

        Raises:
            UedpBenchError: if one is NaN.
        """
        return self._each(corpus, _represented, int(self.module.width))  # type: ignore[arg-type]

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `RowScorer`: rows with one of the classes that the release tells apart."""
        labels, names = classes_of(corpus, self.target)
        if labels is None or names != self.classes:
            return np.zeros(len(corpus), dtype=bool)
        return labels >= 0

    def learner(self, corpus: Corpus) -> ClassifierLearner:
        """See `TrainedRelease`; no channel perturbs what the learner reads.

        Raises:
            InputError: for text, where the classifier takes published vectors.
        """
        from uedp_bench.tasks.classification.learner import ClassifierLearner

        self._check_inputs(corpus)
        labelled = with_target(corpus, self.target)
        return ClassifierLearner(self.reader, self.module, labelled, score_rows=self.score_rows)

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
        """Where a mechanism perturbs representations."""
        return self._mechanism is not None

    def save(self, folder: Path) -> None:
        """Writes weights, vocabulary and how to read rows; `load` reads them."""
        from uedp_bench.models.module_set import modules_of

        reader = self.reader
        first = modules_of(self.module)[0]
        head: Any = first.head
        content = {
            "preprocessing": reader.preprocessing,
            "max_tokens": reader.max_tokens,
            "classes": self.classes,
            "target": self.target,
            "takes_vectors": self.takes_vectors,
            "vectors": int(first.width) if _is_given(first) else None,  # type: ignore[arg-type]
            "hidden": [layer.out_features for layer in head][:-1],
            "channel": None if self._mechanism is None else named(self._mechanism),
            "noise": {"key": self._noise.key.hex(), "source": self._noise.source},
            "score_rows": self.score_rows,
        }
        trained = TrainedModel(reader.model, reader.vocabulary, self.module)
        save_model(folder / _FILE, trained, partial(_save_network, reader.model), content)

    @staticmethod
    def load(folder: Path) -> ClassifierRelease:
        """The release that `save` wrote, on the CPU.

        Raises:
            InputError: if there is none in the folder.
        """
        from uedp_bench.models.module_set import load_modules
        from uedp_bench.registry import mechanisms

        model, vocabulary, content = load_model(folder / _FILE, "classifier")
        classes = tuple(content["classes"])
        module = load_modules(folder, partial(_load_network, model, vocabulary, content))
        reader = InputReader(
            model, vocabulary, content["preprocessing"], content["max_tokens"], "cpu"
        )
        release = ClassifierRelease(reader, module, classes, score_rows=content["score_rows"])
        # Neither stands in releases that were saved before there were such.
        release.target = content.get("target", "label")
        release.takes_vectors = content.get("takes_vectors", False)
        if content["channel"] is None:
            return release
        if (saved_noise := content.get("noise")) is None:
            noise = Stream.root(content["seed"], "", "seed")
        else:
            noise = Stream(bytes.fromhex(saved_noise["key"]), saved_noise["source"])
        return release.through(mechanisms.create(**content["channel"]), noise)

    def _each(self, corpus: Corpus, last: _Last, size: int) -> FloatArray:
        """(rows, size) of the last step on each row's representation, as released."""
        import torch

        rngs = self._rngs(corpus)
        rows = self._read(corpus, rngs)
        network: Any = self.module
        device = next(network.parameters()).device
        out = np.empty((len(rows), size))
        with torch.no_grad():
            for chosen in batches_by_length(rows.lengths, lambda _: self.score_rows):
                inputs = rows.batch(chosen, self.reader.padding)
                batch: Batch = {name: value.to(device) for name, value in inputs.items()}
                z: Tensor = network.represent(batch)
                if self._mechanism is not None:
                    z = self._mechanism.channel().perturb(z, [rngs[row] for row in chosen])
                out[chosen] = last(network, z).double().cpu().numpy()
        if np.isnan(out).any():
            raise UedpBenchError("the released classifier gives NaN: its weights are not finite")
        return out

    def _read(self, corpus: Corpus, rngs: list[np.random.Generator]) -> Rows:
        self._check_inputs(corpus)
        rate = 0.0 if self._mechanism is None else self._mechanism.channel().word_dropout
        return self.reader.masked(corpus, rate, rngs) if rate > 0 else self.reader.read(corpus)

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


_Last = Callable[["nn.Module", "Tensor"], "Tensor"]
"""Last step: takes the network and representations of rows."""


def _class_logprobs(network: Any, z: Tensor) -> Tensor:
    import torch

    return torch.log_softmax(network.classify(z).double(), dim=-1)


def _represented(network: nn.Module, z: Tensor) -> Tensor:
    return z


def _save_network(model: TextEncoder[Any], module: nn.Module, folder: Path) -> None:
    if not _is_given(module):
        model.save_encoder(module.encoder, folder / "encoder")  # type: ignore[arg-type]
    save_weights(module.head, folder / "head.pt")  # type: ignore[arg-type]


def _load_network(
    model: TextEncoder[Any], vocabulary: Vocabulary | None, content: Mapping[str, Any], folder: Path
) -> nn.Module:
    from uedp_bench.models.networks.classifier import ClassifierNetwork, Given

    width = content["vectors"]
    encoder = Given(width) if width else model.load_encoder(vocabulary, folder / "encoder")
    classes = len(content["classes"])
    module = ClassifierNetwork(encoder, classes, content["hidden"], 0.0, seed=0)
    load_weights(module.head, folder / "head.pt")
    return module


def _is_given(module: nn.Module) -> bool:
    from uedp_bench.models.networks.classifier import Given

    return isinstance(module.encoder, Given)
