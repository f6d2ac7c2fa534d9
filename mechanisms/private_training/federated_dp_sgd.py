"""DP-SGD inside of clients, averaged by a server (Jana and Biemann 2021, section 3)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.accounting.published_systems import federated_ner_claim
from uedp_bench.api import CorpusStats, Events, Index, InputError, IntArray, PublicUnits
from uedp_bench.api.events import (
    AnyEvent,
    Claim,
    Gaussian,
    Parallel,
    PoissonSampled,
    PrivacyEvent,
    Repeated,
)
from uedp_bench.api.text import clients_of, owner_numbers, row_numbers
from uedp_bench.contracts.clients import MOST_CLIENTS
from uedp_bench.mechanisms.private_training.parameters import CLIPPED, ServerParams
from uedp_bench.mechanisms.private_training.target import TargetMechanism, TargetParams

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.api import Corpus, Run
    from uedp_bench.api.networks import Learner
    from uedp_bench.api.training import Bound
    from uedp_bench.training.federated import PrivateSteps

ASSUMPTIONS = (
    "every record lies with one client, which is fixed by public draws of the record's own (or of "
    "its user's), whoever else is there",
    "shares of clients, number of records, sampling rates, steps, clip bound and noise are public "
    "constants",
    "a client draws each of its records with an independent coin, clips per-example gradients, and "
    "adds noise before it sends anything",
    "vocabulary and initial weights do not depend on private text",
)

MOST_PARTS = 100_000
"""Clients times rounds, at most, where every round has records of its own: as many events."""

INCREMENTAL = ("a record is used in one round alone, which is fixed by a public draw of its own",)


class FederatedDPSGDParams(ServerParams, TargetParams):
    """Parameters of DP-SGD inside of clients."""

    records: int | None = Field(
        default=None, ge=1,
        description="public number of records of all clients together; default: documented",
    )  # fmt: skip
    clients: int | None = Field(
        default=None, ge=1, le=MOST_CLIENTS,
        description="clients of equal shares, for account and calibrate; a run has the clients of "
        "its spec",
    )  # fmt: skip
    rounds: int = Field(
        default=10, ge=1, description="rounds: a client trains, the server averages"
    )
    local_epochs: int = Field(
        default=1, ge=1,
        description="passes of a client in each round over its public share of the records, "
        "counted in steps of batch_size records",
    )  # fmt: skip
    local_steps: int | None = Field(
        default=None, ge=1, description="steps of a client in each round, instead of local_epochs"
    )
    batch_size: int = Field(default=32, ge=1, description="expected records of a client's step")
    data_per_round: float | None = Field(
        default=None, gt=0, le=1,
        description="fraction of a client's records that a round uses, every record in one round "
        "alone; default: every round uses all of them",
    )  # fmt: skip
    noise_multiplier: float | None = Field(
        default=1.0, ge=0, description="noise of every step over the clip bound, at each client"
    )
    clip: float = Field(default=1.0, gt=0, description="l2 bound on a record's gradient")
    clip_policy: Literal["flat", "per-layer"] = Field(
        default="flat",
        description="flat: a gradient is clipped as a whole; per-layer: every layer to clip / "
        "sqrt(layers)",
    )
    learning_rate: float = Field(
        default=0.1, gt=0, description="step size of the clients' optimiser"
    )
    optimizer: Literal["sgd", "adam"] = Field(
        default="sgd", description="what clients step with; it starts anew in every round"
    )
    weighting: Literal["clients", "shares"] = Field(
        default="clients",
        description="in the server's mean every client counts alike, or by its public share",
    )

    @model_validator(mode="after")
    def _rounds_have_records_of_their_own(self) -> FederatedDPSGDParams:
        share = self.data_per_round
        if share is not None and share * self.rounds > 1.0 + 1e-9:
            raise ValueError(
                f"data_per_round is {share:g} in {self.rounds} rounds, and a record is used in one "
                f"round alone: choose at most {1 / self.rounds:g}, or fewer rounds"
            )
        if self.local_steps is not None and self.local_epochs != 1:
            raise ValueError(
                f"local_steps is {self.local_steps} and local_epochs {self.local_epochs}: give one"
            )
        return self

    def bound(self) -> Bound:
        """Clip bound on one record's gradient."""
        from uedp_bench.api.training import FlatBound, PerLayerBound

        return FlatBound(self.clip) if self.clip_policy == "flat" else PerLayerBound(self.clip)


class FederatedDPSGD(TargetMechanism[FederatedDPSGDParams]):
    """Clients run DP-SGD on their own rows, with noise of their own; the server averages.

    No record lies with two clients, so that clients compose in parallel and the worst of them
    counts; the steps of one client compose one after the other (`docs/proofs.md`, section 15).
    """

    name = "federated-dp-sgd"
    version = 2
    unit = "record"
    fresh_noise = True
    source = "Jana, Biemann 2021, section 3"
    Params = FederatedDPSGDParams

    def plan(self, stats: CorpusStats) -> Events:
        """All clients as one event of disjoint parts."""
        return self.planned(stats, self.noise(stats))

    def planned(self, stats: CorpusStats, noise: float) -> Events:
        """See `TargetMechanism`."""
        p = self.params
        gaussian = Gaussian(noise_multiplier=noise)
        # Without rows of their own, rounds repeat each other.
        rounds, times = (1, p.rounds) if p.data_per_round is None else (p.rounds, 1)
        clients: list[tuple[AnyEvent, ...]] = [
            (Repeated(count=times * count, event=PoissonSampled(rate=rate, event=gaussian)),)
            for rate, count in self._steps(stats)
        ]
        if rounds > (most := MOST_PARTS // len(clients)):
            raise InputError(
                f"{self.name}.rounds is {rounds}, and with data_per_round each of {len(clients)} "
                f"clients has records of its own in each; choose at most {most}"
            )
        return self._event([clients] * rounds)

    def claims(self, stats: CorpusStats) -> tuple[Claim, ...]:
        """Claim of Jana and Biemann 2021: the same epsilon for every number of clients."""
        p = self.params
        if p.local_steps is not None:
            return ()
        passes = p.local_epochs * (p.rounds if p.data_per_round is None else 1)
        return (federated_ner_claim(self._records(stats), passes, self.noise(stats)),)

    def units(self, stats: CorpusStats) -> PublicUnits:
        """Records of all clients; coins fall at their rate whoever is there."""
        sampled = float(self.params.batch_size * len(self._shares(stats)))
        return PublicUnits("records", self._records(stats), sampled, at_least_all=False)

    def refusals(self, stats: CorpusStats) -> tuple[str, ...]:
        """The number of records must be public."""
        if stats.public or self.params.records is not None:
            return ()
        return (
            "the number of records was counted from private data; declare a public one with --set "
            "mechanism.federated-dp-sgd.records=N, where N is not below the real number",
        )

    def train(self, learner: Learner, corpus: Corpus, run: Run) -> tuple[nn.Module, Events]:
        """Train by federated averaging of clients who run DP-SGD locally."""
        from uedp_bench.api.sampling import PoissonSampler
        from uedp_bench.api.training import (
            Federation,
            IndependentGaussian,
            Unbounded,
            train_federated,
        )

        p, shares = self.params, np.array(self._shares(run.stats))
        dealt = clients_of(corpus)
        rows = np.flatnonzero(corpus.where("train"))
        weights = None if p.weighting == "clients" else shares / shares.max()
        trained = train_federated(
            Federation(
                rounds=p.rounds,
                units=Index.build(dealt[rows], rows, len(shares)),
                sampler=PoissonSampler(len(shares), 1.0),  # all of them
                local=self._local(run),
                # What clients send is private already.
                bound=Unbounded(),
                noise=IndependentGaussian(0.0),
                denominator=float(len(shares) if weights is None else weights.sum()),
                server=p.server(),
                unit_weights=weights,
                clients=True,
                group="client",
                own_draws=True,
                round_of_row=None if p.data_per_round is None else self._round_of_row(corpus, run),
            ),
            learner,
            run,
        )
        return trained.module, self._event(_by_round(trained.unit_events, len(shares), p.rounds))

    def _local(self, run: Run) -> PrivateSteps:
        from uedp_bench.api.training import AdamServer, SgdServer
        from uedp_bench.training.federated import PrivateSteps

        p, steps = self.params, self._steps(run.stats)
        return PrivateSteps(
            rates=tuple(rate for rate, _ in steps),
            steps=tuple(count for _, count in steps),
            bound=p.bound(),
            noise_multiplier=self.noise(run.stats),
            denominator=float(p.batch_size),
            server=partial(AdamServer if p.optimizer == "adam" else SgdServer, p.learning_rate),
            seed=run.seed,
            injected=run.injected,
            most=run.speed.chunk,
        )

    def _round_of_row(self, corpus: Corpus, run: Run) -> IntArray:
        """(rows,) the only round that uses a row, by a number that the row draws; -1 for none.

        What an attack planted goes by the number of its user.
        """
        p = self.params
        drawn = np.where(
            corpus.origin >= 0,
            row_numbers(corpus, run.seed, self.name, "rounds"),
            owner_numbers(corpus, run.seed, self.name, "rounds of users"),
        )
        round_of_row: IntArray = np.floor(drawn / (p.data_per_round or 1.0)).astype(np.int64)
        return np.where(round_of_row < p.rounds, round_of_row, -1)

    def _records(self, stats: CorpusStats) -> int:
        return stats.rows if self.params.records is None else self.params.records

    def _shares(self, stats: CorpusStats) -> tuple[float, ...]:
        """The public share of each client."""
        count, shares = self.params.clients, stats.clients
        if shares and count is not None and count != len(shares):
            raise InputError(
                f"{self.name}.clients is {count}, and the spec has {len(shares)} clients; leave "
                "the parameter out"
            )
        if shares:
            return shares
        if count is None:
            raise InputError(
                f"{self.name} needs clients: in a run 'clients: {{count: 10}}' of the spec (--set "
                "clients.count=10), in account and calibrate --set clients=10"
            )
        return (1.0 / count,) * count

    def _steps(self, stats: CorpusStats) -> list[tuple[float, int]]:
        """The sampling rate and the steps a round of each client, from public sizes."""
        p, rates_and_steps = self.params, []
        records = self._records(stats) * (p.data_per_round or 1.0)
        for client, share in enumerate(self._shares(stats)):
            held = share * records
            if p.batch_size > held * (1.0 + 1e-9):
                about = f"about {held:,.0f}" if stats.public or p.records is not None else "fewer"
                raise InputError(
                    f"{self.name}.batch_size is {p.batch_size}, but client {client} has {about} "
                    "records for a round by its public share; choose fewer"
                )
            steps = p.local_steps or math.ceil(p.local_epochs * held / p.batch_size - 1e-9)
            rates_and_steps.append((min(p.batch_size / held, 1.0), steps))
        return rates_and_steps

    def _event(self, rounds: Sequence[Sequence[tuple[AnyEvent, ...]]]) -> Events:
        """Event of all rounds and clients; each part is a sequence that a record may meet."""
        if self.params.data_per_round is None:
            parts = [_in_a_row(client) for client in zip(*rounds, strict=True)]
        else:
            parts = [part for each in rounds for part in each]
        assumptions = (*ASSUMPTIONS, *CLIPPED[self.params.clip_policy])
        if self.params.data_per_round is not None:
            assumptions += INCREMENTAL
        event = Parallel(parts=tuple(parts))
        return (PrivacyEvent(unit="record", event=event, assumptions=assumptions),)


def _by_round(
    reports: Iterable[tuple[int, tuple[AnyEvent, ...]]], clients: int, rounds: int
) -> list[list[tuple[AnyEvent, ...]]]:
    """Reported events by round and client; a client without a report used no row."""
    by_client: Mapping[int, list[tuple[AnyEvent, ...]]] = {client: [] for client in range(clients)}
    for client, events in reports:
        by_client[client].append(events)
    return [[by_client[client][step] for client in range(clients)] for step in range(rounds)]


def _in_a_row(events: Iterable[tuple[AnyEvent, ...]]) -> tuple[AnyEvent, ...]:
    """Events of all rounds, with equal successive ones merged."""
    merged: list[AnyEvent] = []
    for event in (each for one in events for each in one):
        last = merged[-1] if merged else None
        if isinstance(event, Repeated) and isinstance(last, Repeated) and last.event == event.event:
            merged[-1] = Repeated(count=last.count + event.count, event=event.event)
        else:
            merged.append(event)
    return tuple(merged)
