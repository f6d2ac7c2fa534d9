"""Published systems as accountants see them: parameters in, events and claims out.

Each says what its paper claims and what happens in truth; nothing is trained here. A mechanism of
the same name takes `plan` and `claims` from its system, so that both are written once.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from uedp_bench.accounting.event_contract import PrivacyUnit
from uedp_bench.accounting.events import (
    Claim,
    FixedSizeSampled,
    Gaussian,
    LaplaceVector,
    MetricPrivacy,
    PoissonSampled,
    PrivacyEvent,
    PureDP,
    Repeated,
)
from uedp_bench.components.component import Component, P, Params

Events = tuple[PrivacyEvent, ...]
Reading = tuple[str, float]
"""Epsilon at one more point: a description of the point and the epsilon."""


class System(Component[P]):
    """A published system whose guarantee follows from its parameters alone.

    Attributes:
        unit: the unit of its guarantee.
        reason: reason why claim and proof differ, if they do.
    """

    unit: ClassVar[PrivacyUnit]
    reason: ClassVar[str] = ""

    @abstractmethod
    def plan(self) -> Events:
        """Events of one run."""

    @abstractmethod
    def claims(self) -> tuple[Claim, ...]:
        """Claims of the paper."""

    def readings(self) -> tuple[Reading, ...]:
        """Epsilon at further points that make it comparable; none by default."""
        return ()


class DPNRParams(Params):
    """Parameters of DPNR."""

    epsilon: float = Field(gt=0, description="1/b: Laplace noise of scale b on every coordinate")
    dimension: int = Field(default=768, ge=1, description="k: coordinates of the representation")
    word_dropout: float = Field(
        default=0.0, ge=0, le=1, description="mu: probability that a word is dropped beforehand"
    )


class DPNR(System[DPNRParams]):
    """Laplace noise on a representation that was scaled to [0, 1], after word dropout."""

    name = "dpnr"
    unit = "word"
    source = "Lyu, He, Li 2020, Theorems 1 and 2"
    reason = (
        "the sensitivity is taken as 1, that of one coordinate, but one word may move all k "
        "coordinates: k epsilon (Lai et al. 2022, Appendix D)"
    )
    Params = DPNRParams

    def plan(self) -> Events:
        """One noisy vector: neighbours in [0, 1]^k are up to k apart in l1."""
        return (
            PrivacyEvent(
                unit=self.unit,
                adjacency="replace-one",
                event=self._laplace(float(self.params.dimension), self.params.dimension),
                assumptions=(
                    "every coordinate is scaled to [0, 1] by functions of the row alone",
                    "noise is independent, once a row; words are dropped with independent coins",
                    "the feature extractor does not depend on private text",
                ),
            ),
        )

    def claims(self) -> tuple[Claim, ...]:
        """Sensitivity 1."""
        return (
            Claim(
                unit=self.unit,
                adjacency="replace-one",
                event=self._laplace(1.0, 1),
                accountant="basic",
                source=self.source,
                note=self.reason,
            ),
        )

    def _laplace(self, sensitivity: float, coordinates: int) -> LaplaceVector:
        p = self.params
        return LaplaceVector(
            scale=1.0 / p.epsilon, sensitivity=sensitivity, dropout=p.word_dropout,
            coordinates=coordinates,
        )  # fmt: skip


class DeepCandidateParams(Params):
    """Parameters of DeepCandidate."""

    epsilon: float = Field(gt=0, description="epsilon of the exponential mechanism")


class DeepCandidate(System[DeepCandidateParams]):
    """SentDP: the exponential mechanism chooses a public candidate by its depth."""

    name = "deepcandidate"
    unit = "sentence"
    source = "Meehan, Mrini, Chaudhuri 2022, Theorem 4.1"
    Params = DeepCandidateParams

    def plan(self) -> Events:
        """One choice a document."""
        return (
            PrivacyEvent(
                unit=self.unit,
                adjacency="replace-one",
                event=PureDP(epsilon=self.params.epsilon),
                assumptions=(
                    "candidates, projections and the sentence encoder are public",
                    "replacing a sentence changes a candidate's depth by at most 1",
                ),
            ),
        )

    def claims(self) -> tuple[Claim, ...]:
        """Pure DP, as it happens."""
        return (
            Claim(
                unit=self.unit,
                adjacency="replace-one",
                event=PureDP(epsilon=self.params.epsilon),
                accountant="basic",
                source=self.source,
            ),
        )


class MetricDPParams(Params):
    """Parameters of word-level metric DP."""

    epsilon: float = Field(gt=0, description="per unit of distance between embeddings")
    metric: str = Field(default="euclidean", description="distance of the embedding space")
    words: int = Field(default=1, ge=1, description="words of a row, each perturbed by itself")
    distances: tuple[Annotated[float, Field(ge=0)], ...] = Field(
        default=(), description="distances at which epsilon is also given"
    )


class MetricDP(System[MetricDPParams]):
    """Noise on a word's embedding, then the nearest word."""

    name = "metric-dp"
    unit = "word"
    source = "Feyisetan et al. 2020; Xu et al. 2021, Theorem 1"
    reason = (
        "they agree, per unit of distance: multiply by the distance of two words to compare with "
        "other guarantees"
    )
    Params = MetricDPParams

    def plan(self) -> Events:
        """Neighbours differ in one word, and every word is perturbed by itself."""
        return (
            PrivacyEvent(
                unit=self.unit,
                adjacency="replace-one",
                event=self._event(),
                assumptions=("embeddings are public; every word has noise of its own",),
            ),
        )

    def claims(self) -> tuple[Claim, ...]:
        """Metric privacy, as it happens."""
        return (
            Claim(
                unit=self.unit,
                adjacency="replace-one",
                event=self._event(),
                accountant="basic",
                source=self.source,
                note=self.reason,
            ),
        )

    def readings(self) -> tuple[Reading, ...]:
        """Epsilon of two words at every distance in the parameters, and of two rows."""
        p = self.params
        words = [(f"two words at distance {d:g}", d * p.epsilon) for d in p.distances]
        if p.words == 1:
            return tuple(words)
        rows = [
            (f"two rows of {p.words} words, each at distance {d:g}", p.words * d * p.epsilon)
            for d in p.distances
        ]
        return (*words, *rows)

    def _event(self) -> MetricPrivacy:
        return MetricPrivacy(epsilon=self.params.epsilon, metric=self.params.metric)


class FederatedNERParams(Params):
    """Parameters of DP-SGD at the clients of a federation."""

    records: int = Field(ge=1, description="n: public number of records of all clients")
    clients: int = Field(ge=1, description="clients, among whom records are divided equally")
    batch_size: int = Field(default=32, ge=1, description="records of a client's step")
    epochs: int = Field(default=10, ge=1, description="passes of every client over its records")
    noise_multiplier: float = Field(default=1.0, ge=0, description="noise over the clip bound")
    sampling: Literal["poisson", "fixed"] = Field(
        default="poisson", description="independent coins, or exactly batch_size records"
    )

    @model_validator(mode="after")
    def _shards(self) -> FederatedNERParams:
        if self.clients > self.records:
            raise ValueError(f"{self.clients} clients cannot share {self.records} records")
        return self


class FederatedNER(System[FederatedNERParams]):
    """Every client trains with DP-SGD on its own shard; a server averages the weights."""

    name = "federated-ner"
    unit = "record"
    source = "Jana, Biemann 2021, Tables 2, 5 and 6"
    reason = (
        "the printed epsilons are those of batches of one record, drawn from the records of all "
        "clients; a client samples batch_size of its own records / clients"
    )
    Params = FederatedNERParams

    def plan(self) -> Events:
        """A record is in one shard: its client's steps are all that see it."""
        return (
            PrivacyEvent(
                unit=self.unit,
                adjacency="add-or-remove" if self.params.sampling == "poisson" else "replace-one",
                event=self._steps(),
                assumptions=(
                    "a record is held by one client, in a shard of public size",
                    "per-example gradients are clipped; batches are drawn as declared, not by "
                    "shuffling",
                ),
            ),
        )

    def claims(self) -> tuple[Claim, ...]:
        """The claim: batches of one record of all, for every batch size and number of clients."""
        p = self.params
        return (federated_ner_claim(p.records, p.epochs, p.noise_multiplier),)

    def _steps(self) -> Repeated:
        """The steps of one client; where shards differ by a record, the worse of each number."""
        p = self.params
        once = Gaussian(noise_multiplier=p.noise_multiplier)
        smallest, largest = p.records // p.clients, math.ceil(p.records / p.clients)
        steps = p.epochs * math.ceil(largest / p.batch_size)
        sample = min(p.batch_size, smallest)
        if p.sampling == "poisson":
            rate = sample / smallest
            return Repeated(count=steps, event=PoissonSampled(rate=rate, event=once))
        fixed = FixedSizeSampled(population=smallest, sample=sample, event=once)
        return Repeated(count=steps, event=fixed)


def federated_ner_claim(records: int, epochs: int, noise_multiplier: float) -> Claim:
    """Claim that Jana and Biemann 2021 print for `epochs` epochs, at any batch size.

    Their table 2 is reproduced to its digits (but for its 0.022, which is 0.0226) by
    `records * epochs` steps at a sampling rate of 1 / records, with the accountant of that time's
    TensorFlow Privacy.

    Args:
        records: public number of records of all clients together; 14,987 in the paper.
        epochs: passes over them; 10 in the paper.
        noise_multiplier: noise over the clip bound.
    """
    once = PoissonSampled(rate=1.0 / records, event=Gaussian(noise_multiplier=noise_multiplier))
    return Claim(
        unit=FederatedNER.unit,
        event=Repeated(count=records * epochs, event=once),
        accountant="tf-privacy-rdp",
        source=FederatedNER.source,
        note=FederatedNER.reason,
    )


SYSTEMS: Mapping[str, type[System[Any]]] = MappingProxyType({FederatedNER.name: FederatedNER})
"""Systems by name that are accounted for only: no mechanism of this package has their names."""

ALIASES: Mapping[str, tuple[str, Mapping[str, Any]]] = MappingProxyType(
    {"federated-secret-sharer": ("user-dp", MappingProxyType({"sampling": "fixed"}))}
)
"""Papers whose system is a mechanism at these parameters."""
