"""The recoder H of DeepCandidate: sentence vectors moved so that clusters of documents come apart.

Source: Meehan, Mrini, Chaudhuri 2022, Section 4.3 and Appendix A.3.
"""

from __future__ import annotations

import copy
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from uedp_bench.api import InputError
from uedp_bench.mechanisms.documents.sentence_mechanism import Documents

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.corpus import IntArray

LAYERS = 4
_FORMAT = 1  # of the cached files; raised when the same key would mean something else


@dataclass(frozen=True)
class Training:
    """Parameters of the recoder's training.

    Attributes:
        epochs: largest number of epochs; the best on held-out documents counts.
        learning_rate: learning rate of Adam.
        batch_size: number of documents in a step.
    """

    epochs: int
    learning_rate: float
    batch_size: int


@dataclass(frozen=True, eq=False)
class Recoder:
    """A perceptron of linear layers with ReLU between them, from d to d.

    Attributes:
        weights: (layers, d, d), output by input.
        biases: (layers, d).
    """

    weights: NDArray[np.float32]
    biases: NDArray[np.float32]

    def __call__(self, documents: Documents) -> Documents:
        """The documents with recoded sentence vectors."""
        values = documents.vectors
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            if at:
                values = np.maximum(values, 0)
            values = values @ weight.T + bias
        return Documents(values, documents.lengths)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Documents and the cluster of each (documents,)."""

    documents: Documents
    clusters: IntArray


@dataclass(frozen=True, eq=False)
class Trained:
    """A recoder with what held-out documents say of it.

    Attributes:
        epochs: after which it was best.
        accuracy: accuracy of the linear layer, predicting the cluster of held-out documents.
    """

    recoder: Recoder
    epochs: int
    accuracy: float


def train_recoder(
    train: Labelled, held_out: Labelled, training: Training, seed: int, device: str
) -> Trained:
    """H, trained so that a linear layer predicts the cluster from the mean of recoded sentences.

    Loss: cross-entropy. Optimiser: Adam.

    Args:
        train: documents to train on.
        held_out: documents that choose the epoch.
        training: how.
        seed: seed of initial weights and order.
        device: torch device.

    Raises:
        InputError: if the loss is no finite number.
    """
    import torch

    clusters = 1 + int(max(train.clusters.max(), held_out.clusters.max()))
    size = train.documents.vectors.shape[1]
    recode, predict = _networks(size, clusters, seed, device)
    weights = [*recode.parameters(), *predict.parameters()]
    optimizer = torch.optim.Adam(weights, lr=training.learning_rate)
    order = np.random.Generator(np.random.PCG64(seed))
    best, epochs, accuracy, kept = np.inf, 0, 0.0, copy.deepcopy(recode)
    for epoch in range(training.epochs):
        shuffled = order.permutation(len(train.documents))
        for first in range(0, len(shuffled), training.batch_size):
            rows = shuffled[first : first + training.batch_size]
            part = train.documents.take(rows)
            optimizer.zero_grad()
            loss, _ = _loss(recode, predict, Labelled(part, train.clusters[rows]), device)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        with torch.no_grad():
            loss, hits = _loss(recode, predict, held_out, device)
        if not torch.isfinite(loss):
            raise InputError(
                f"the recoder's loss is {float(loss)} after epoch {epoch + 1}; lower learning_rate "
                f"({training.learning_rate:g})"
            )
        if float(loss) < best:
            best, epochs, accuracy = float(loss), epoch + 1, hits
            kept = copy.deepcopy(recode)
    return Trained(_as_arrays(kept), epochs, accuracy)


def _networks(size: int, clusters: int, seed: int, device: str) -> tuple[nn.Sequential, nn.Linear]:
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        layers: list[nn.Module] = [nn.Linear(size, size)]
        for _ in range(LAYERS - 1):
            layers += [nn.ReLU(), nn.Linear(size, size)]
        predict = nn.Linear(size, clusters)
    return nn.Sequential(*layers).to(device), predict.to(device)


def _loss(
    recode: nn.Sequential, predict: nn.Linear, labelled: Labelled, device: str
) -> tuple[Tensor, float]:
    """Mean cross-entropy, and the share of documents whose cluster is predicted."""
    import torch

    documents = labelled.documents
    recoded = recode(torch.from_numpy(documents.vectors).to(device))
    lengths = torch.from_numpy(documents.lengths).to(device)
    means = torch.segment_reduce(recoded, "mean", lengths=lengths, axis=0)
    scores = predict(means)
    wanted = torch.from_numpy(labelled.clusters).to(device)
    hits = float((scores.argmax(1) == wanted).double().mean())
    return torch.nn.functional.cross_entropy(scores, wanted), hits


def _as_arrays(recode: nn.Sequential) -> Recoder:
    state = {name: value.detach().cpu().numpy() for name, value in recode.named_parameters()}
    weights, biases = (
        np.stack([value for name, value in state.items() if name.endswith(kind)])
        for kind in ("weight", "bias")
    )
    return Recoder(weights, biases)


def cluster(
    train: Documents, held_out: Documents, clusters: int, seed: int
) -> tuple[Labelled, Labelled]:
    """Both with the k-means cluster of each document's mean vector; `train` makes the clusters."""
    from sklearn.cluster import KMeans

    means = KMeans(clusters, random_state=seed % 2**32).fit(train.means())
    first, second = (
        Labelled(each, means.predict(each.means()).astype(np.int64)) for each in (train, held_out)
    )
    return first, second


def digest(*documents: Documents, what: object) -> str:
    """Name of a file derived from these documents in this way."""
    hashed = hashlib.sha256(repr((_FORMAT, what)).encode())
    for each in documents:
        hashed.update(np.ascontiguousarray(each.lengths).tobytes() + b"|")
        hashed.update(np.ascontiguousarray(each.vectors).tobytes())
    return hashed.hexdigest()[:32]
