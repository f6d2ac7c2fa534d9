"""Candidates of DeepCandidate: their recoded vectors, and their Tukey depth in many documents.

The recoder H moves sentence vectors so that clusters of documents come apart.

On a projection, h is the number of a document's k sentences at or above the candidate, and the
depth there is min(h, k - h). The depth over all projections is their least, as the text of the
paper and Tukey's definition have it, or their greatest, as the pseudo-code in its appendix has it.

Source: Meehan, Mrini, Chaudhuri 2022, Sections 4.3 and 4.4, and Appendices A.3 and A.1 (whose
utility -|h - k/2| is the same number minus k/2, and k is not protected).
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from uedp_bench.api import InputError
from uedp_bench.mechanisms.documents.sentence_mechanism import Documents

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.api import FloatArray, IntArray

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
    recode, predict = _networks(train.documents.vectors.shape[1], clusters, seed, device)
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
    scores = predict(torch.segment_reduce(recoded, "mean", lengths=lengths, axis=0))
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


Depth = Literal["lowest", "highest"]

_CELLS = 1 << 24  # of the largest array of a block: some 16 MB
_DOCUMENTS = 32  # of a block: numpy copies rows of 32 bytes fastest


class TukeyDepth:
    """Depths of a fixed set of candidates on fixed projections, prepared for many documents.

    Args:
        candidates: (m, d).
        directions: (p, d) of the projections.
        depth: which one over the projections counts.
    """

    def __init__(self, candidates: NDArray[Any], directions: FloatArray, depth: Depth) -> None:
        self.depth = depth
        self._directions = np.asarray(directions, dtype=np.float64)
        values = self._directions @ np.asarray(candidates, dtype=np.float64).T
        order = np.argsort(values, axis=1)
        self._sorted = np.take_along_axis(values, order, axis=1)
        self._rank = np.empty_like(order)
        np.put_along_axis(self._rank, order, np.arange(values.shape[1])[None], axis=1)

    def blocks(self, points: NDArray[Any], lengths: IntArray) -> Iterator[NDArray[np.int64]]:
        """Depths, a block of documents after the other.

        Args:
            points: (sentences, d) of all documents, one document after the other.
            lengths: (documents,) sentences of each, at least one.

        Yields:
            (documents of the block, m) depths, from 0 to half of a document's sentences.
        """
        size = int(np.clip(_CELLS // self._rank.size, 1, _DOCUMENTS))
        ends = np.concatenate([[0], np.cumsum(lengths)])
        for first in range(0, len(lengths), size):
            part = lengths[first : first + size]
            yield self._block(points[ends[first] : ends[first + len(part)]], part)

    def __call__(self, points: NDArray[Any], lengths: IntArray) -> NDArray[np.int64]:
        """(documents, m) depths; arguments as for `blocks`."""
        none = np.empty((0, self._rank.shape[1]), dtype=np.int64)
        return np.concatenate([none, *self.blocks(points, lengths)])

    def _block(self, points: NDArray[Any], lengths: IntArray) -> NDArray[np.int64]:
        below, start = self._among_candidates(points)
        table = _depth_by_start(below, start, lengths)
        (p, cells, documents), m = table.shape, self._rank.shape[1]
        # Candidates between the same two sentences have the same depths in every document, so that
        # their rows of the table are copied, all documents at once.
        at = np.take_along_axis(start, self._rank + 1, axis=1) + cells * np.arange(p)[:, None]
        rows = table.reshape(p * cells, documents).take(at.ravel(), axis=0, mode="clip")
        over = np.minimum if self.depth == "lowest" else np.maximum
        deepest = over.reduce(rows.reshape(p, m * documents), axis=0)
        depths: NDArray[np.int64] = deepest.reshape(m, documents).T.astype(np.int64)
        return depths

    def _among_candidates(self, points: NDArray[Any]) -> tuple[IntArray, IntArray]:
        """Ranks of sentences and candidates among each other, on every projection.

        Returns:
            (p, sentences) how many candidates are at or below each sentence, and (p, m + 2) how
            many sentences have fewer than t candidates at or below them: they are below the
            candidate of rank t - 1.
        """
        import torch

        values = self._directions @ np.asarray(points, dtype=np.float64).T
        ranks = torch.searchsorted(
            torch.from_numpy(self._sorted), torch.from_numpy(values), right=True
        )
        below: IntArray = ranks.numpy()
        p, width = len(below), self._rank.shape[1] + 1
        flat = below + width * np.arange(p)[:, None]
        counts = np.bincount(flat.ravel(), minlength=p * width).reshape(p, width)
        return below, np.concatenate([np.zeros((p, 1), np.int64), np.cumsum(counts, axis=1)], 1)


def _depth_by_start(below: IntArray, start: IntArray, lengths: IntArray) -> NDArray[Any]:
    """(p, sentences + 1, documents) depth of a candidate that so many sentences are below."""
    p, sentences = below.shape
    documents = len(lengths)
    # A sentence is below a candidate if more sentences are below the candidate than are below the
    # lowest candidate that this sentence does not reach; one below all candidates always is.
    first = np.where(below > 0, np.take_along_axis(start, below, axis=1) + 1, 0)
    owner = np.repeat(np.arange(documents), lengths)
    cell = (np.arange(p)[:, None] * (sentences + 1) + first) * documents + owner
    kind = np.int8 if lengths.max() <= np.iinfo(np.int8).max else np.int32
    table = np.zeros(p * (sentences + 1) * documents, dtype=kind)
    np.add.at(table, cell.ravel(), kind(1))
    cells = table.reshape(p, sentences + 1, documents)
    lower: NDArray[Any] = np.add.accumulate(cells, axis=1, dtype=kind)
    np.minimum(lower, lengths.astype(kind) - lower, out=lower)
    return lower
