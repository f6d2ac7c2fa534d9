"""DeepCandidate: a document is published as a public one that is deep among its sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from uedp_bench.accounting.published_systems import DeepCandidate as System
from uedp_bench.api import CorpusStats, Events, InputError
from uedp_bench.api.events import Claim
from uedp_bench.io.folders import cache_folder
from uedp_bench.io.sealed_files import load_arrays, save_arrays
from uedp_bench.mechanisms._noise import choose_by_score
from uedp_bench.mechanisms.documents.recoder import (
    Depth,
    Recoder,
    Trained,
    Training,
    TukeyDepth,
    cluster,
    digest,
    train_recoder,
)
from uedp_bench.mechanisms.documents.sentence_mechanism import (
    ASSUMPTIONS,
    DocumentMechanism,
    DocumentParams,
    Documents,
)

if TYPE_CHECKING:
    from uedp_bench.api import FloatArray, IntArray, Run

PROJECTIONS = tuple(range(10, 101, 10))
"""Numbers of projections among which one is chosen."""


@dataclass(frozen=True, eq=False)
class Candidates:
    """Published forms of documents, all made from public documents.

    Attributes:
        recoder: recoder of sentence vectors.
        vectors: (m, d) means of the recoded sentence vectors of public documents.
        depth: depth of the candidates in recoded documents.
    """

    recoder: Recoder
    vectors: FloatArray
    depth: TukeyDepth

    def choose(
        self, documents: Documents, epsilon: float, rngs: Sequence[np.random.Generator]
    ) -> tuple[IntArray, float]:
        """(documents,) candidates drawn by the exponential mechanism, and its epsilon.

        A candidate of depth u has odds e^(epsilon u / 2); a sentence changes its depth by 1.
        """
        recoded = self.recoder(documents)
        chosen = np.empty(len(documents), dtype=np.int64)
        at, worth = 0, 0.0
        for block in self.depth.blocks(recoded.vectors, recoded.lengths):
            part = slice(at, at + len(block))
            chosen[part], block_worth = choose_by_score(block, epsilon / 2, 1.0, rngs[part])
            at, worth = at + len(block), max(worth, block_worth)
        return chosen, worth


def directions(count: int, size: int, rng: np.random.Generator) -> FloatArray:
    """(count, size) uniform on the unit sphere; fewer of them are the first of more."""
    vectors = rng.normal(size=(count, size))
    unit: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def expected_errors(
    documents: Documents, vectors: FloatArray, depth: TukeyDepth, epsilon: float
) -> Iterator[FloatArray]:
    """Expected squared distance between a document's mean and the candidate that it gets.

    Over the exponential mechanism's choice, so that nothing is drawn and no label is needed.

    Args:
        documents: recoded ones.
        vectors: (m, d) candidates.
        depth: depth of the candidates.
        epsilon: epsilon of the mechanism.

    Yields:
        (documents,) of the next block of documents.
    """
    means = documents.means()
    lengths = np.einsum("md,md->m", vectors, vectors)
    at = 0
    for block in depth.blocks(documents.vectors, documents.lengths):
        mean = means[at : at + len(block)]
        at += len(block)
        odds = np.exp(epsilon / 2 * (block - block.max(axis=1, keepdims=True)))
        odds /= odds.sum(axis=1, keepdims=True)
        distance = lengths - 2 * mean @ vectors.T + np.einsum("nd,nd->n", mean, mean)[:, None]
        yield np.einsum("nm,nm->n", odds, distance)


def best_projections(
    documents: Documents,
    vectors: FloatArray,
    all_directions: FloatArray,
    epsilon: float,
    depth: Depth,
) -> tuple[int, Mapping[int, float]]:
    """The number of projections at which candidates come closest to held-out public documents.

    Returns:
        the number, the smaller of equals, and the mean of `expected_errors` at each.
    """
    errors = {
        p: float(np.concatenate([
            *expected_errors(documents, vectors, TukeyDepth(vectors, all_directions[:p], depth),
                             epsilon)]).mean())
        for p in PROJECTIONS
    }  # fmt: skip
    return min(errors, key=lambda p: (errors[p], p)), errors


_JUDGES = 500  # held-out public documents, at most, that choose the number of projections


class DeepCandidateParams(DocumentParams):
    """Parameters of DeepCandidate."""

    candidates: int = Field(default=5000, ge=1, description="m: public documents to choose from")
    candidate_sentences: int = Field(
        default=8, ge=1, description="sentences that a candidate has at least"
    )
    clusters: int = Field(
        default=50, ge=2, description="clusters of public documents, for the recoder"
    )
    depth: Depth = Field(
        default="lowest",
        description="over the projections: lowest as in the paper's text, highest as in the "
        "pseudo-code of its appendix",
    )
    projections: int | None = Field(
        default=None,
        ge=1,
        description="p; none chooses one of 10, 20, ..., 100 on held-out public documents",
    )
    held_out: float = Field(
        default=0.1, gt=0, lt=1, description="share of the public documents that choose"
    )
    epochs: int = Field(default=20, ge=1, description="epochs of the recoder's training, at most")
    learning_rate: float = Field(
        default=1e-3, gt=0, description="learning rate of the recoder's Adam"
    )
    batch_size: int = Field(default=64, ge=1, description="public documents of a recoder's step")


class DeepCandidate(DocumentMechanism[DeepCandidateParams, Candidates]):
    """The exponential mechanism chooses a public document by its depth among the sentences.

    Everything but the choice (recoder, candidates, projections, how many of them) is made from the
    documents of the split `public`.
    """

    name = "deepcandidate"
    version = 2
    source = "Meehan, Mrini, Chaudhuri 2022, Algorithm 1, Theorem 4.1"
    Params = DeepCandidateParams

    def events(self, epsilon: float) -> Events:
        """One choice a document, whichever depth."""
        (event,) = self._system(epsilon).plan()
        return (event.model_copy(update={"assumptions": (*event.assumptions, *ASSUMPTIONS)}),)

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """See `DocumentMechanism`."""
        return self._system(self.params.epsilon).claims()

    def fit(self, public: Documents, run: Run) -> Candidates:
        """Recoder, candidates and projections; held-out documents choose epoch and projections."""
        p = self.params
        shuffled = run.shared(self.name, "held out").permutation(len(public))
        aside = max(1, round(p.held_out * len(public)))
        held_out, rest = shuffled[:aside], shuffled[aside:]
        able = rest[public.lengths[rest] >= p.candidate_sentences]
        self._check(len(public), len(rest), len(able))
        trained = self._trained(public.take(rest), public.take(held_out), run)
        chosen = run.shared(self.name, "candidates").permutation(able)[: p.candidates]
        vectors = trained.recoder(public.take(chosen)).means()
        rng = run.shared(self.name, "projections")
        lines = directions(p.projections or PROJECTIONS[-1], vectors.shape[1], rng)
        if p.projections is None:
            judges = trained.recoder(public.take(held_out[:_JUDGES]))
            best, errors = best_projections(judges, vectors, lines, p.epsilon, p.depth)
            lines = lines[:best]
            run.note(projections=best, projection_errors={str(k): v for k, v in errors.items()})
        run.note(recoder_epochs=trained.epochs, recoder_accuracy=trained.accuracy)
        return Candidates(trained.recoder, vectors, TukeyDepth(vectors, lines, p.depth))

    def protect(
        self, documents: Documents, fitted: Candidates, rngs: Sequence[np.random.Generator]
    ) -> tuple[FloatArray, float]:
        """(documents, d) the candidate drawn for each."""
        chosen, worth = fitted.choose(documents, self.params.epsilon, rngs)
        return fitted.vectors[chosen], worth

    def _check(self, public: int, rest: int, able: int) -> None:
        p = self.params
        for least, available, what, parameter in (
            (p.candidates, able, f"of at least {p.candidate_sentences} sentences ", "candidates"),
            (p.clusters, rest, "", "clusters"),
        ):
            if available < least:
                raise InputError(
                    f"{self.name}.{parameter} is {least}, and of {public} public documents "
                    f"(of at least {p.min_sentences} sentences) {available} {what}are there to "
                    "make them from; make more of the source public "
                    f"(source.public_share=0.4, say) or lower {self.name}.{parameter}"
                )

    def _trained(self, train: Documents, held_out: Documents, run: Run) -> Trained:
        """The recoder: from disk if these documents gave one before."""
        p = self.params
        seed = run.shared_seed(self.name, "recoder")
        training = Training(p.epochs, p.learning_rate, p.batch_size)
        name = digest(train, held_out, what=(p.clusters, training, seed, run.device.split(":")[0]))
        file = cache_folder() / "recoders" / f"{name}.npz"
        trained = load_arrays(file, _read)
        if trained is None:
            trained = train_recoder(
                *cluster(train, held_out, p.clusters, seed), training, seed, run.device
            )
            save_arrays(
                file,
                "weights of recoders",
                weights=trained.recoder.weights,
                biases=trained.recoder.biases,
                epochs=trained.epochs,
                accuracy=trained.accuracy,
            )
        return trained

    def _system(self, epsilon: float) -> System:
        system: System = System.create({"epsilon": epsilon})
        return system


def _read(data: Mapping[str, Any]) -> Trained:
    recoder = Recoder(data["weights"], data["biases"])
    return Trained(recoder, int(data["epochs"]), float(data["accuracy"]))
