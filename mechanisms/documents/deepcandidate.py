"""DeepCandidate: a document is published as a public one that is deep among its sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import Field

from uedp_bench.accounting.events import Claim
from uedp_bench.accounting.published_systems import DeepCandidate as System
from uedp_bench.errors import InputError
from uedp_bench.files.array_cache import load_arrays, save_arrays
from uedp_bench.files.cache_folder import cache_folder
from uedp_bench.mechanism import CorpusStats, Events
from uedp_bench.mechanisms.documents.candidates import (
    PROJECTIONS,
    Candidates,
    best_projections,
    directions,
)
from uedp_bench.mechanisms.documents.recoder import (
    Recoder,
    Trained,
    Training,
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
from uedp_bench.mechanisms.documents.tukey_depth import Depth, TukeyDepth

if TYPE_CHECKING:
    from uedp_bench.corpus import FloatArray
    from uedp_bench.run_context import Run

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
        """The same."""
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
        for least, found, what, parameter in (
            (p.candidates, able, f"of at least {p.candidate_sentences} sentences ", "candidates"),
            (p.clusters, rest, "", "clusters"),
        ):
            if found < least:
                raise InputError(
                    f"{self.name}.{parameter} is {least}, and of {public} public documents "
                    f"(of at least {p.min_sentences} sentences) {found} {what}are there to make "
                    "them from; make more of the source public (source.public_share=0.4, say) or "
                    f"lower {self.name}.{parameter}"
                )

    def _trained(self, train: Documents, held_out: Documents, run: Run) -> Trained:
        """The recoder: from disk if these documents gave one before."""
        p = self.params
        seed = run.shared_seed(self.name, "recoder")
        training = Training(p.epochs, p.learning_rate, p.batch_size)
        where = run.device.split(":")[0]
        made = digest(train, held_out, what=(p.clusters, training, seed, where))
        file = cache_folder() / "recoders" / f"{made}.npz"
        found = load_arrays(file, _read)
        if found is None:
            found = train_recoder(
                *cluster(train, held_out, p.clusters, seed), training, seed, run.device
            )
            save_arrays(
                file,
                "weights of recoders",
                weights=found.recoder.weights,
                biases=found.recoder.biases,
                epochs=found.epochs,
                accuracy=found.accuracy,
            )
        return found

    def _system(self, epsilon: float) -> System:
        system: System = System.create({"epsilon": epsilon})
        return system


def _read(data: Mapping[str, Any]) -> Trained:
    recoder = Recoder(data["weights"], data["biases"])
    return Trained(recoder, int(data["epochs"]), float(data["accuracy"]))
