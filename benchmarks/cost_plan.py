"""Predicts a whole run on other machines from the fits, the phases, and what a device does at best.

A term of the fit on this CPU over what the CPU does at best is how much longer than necessary the
engine takes (`excess`). The prediction takes the same excess for another device. So it holds as
far as the engine uses that device as well as it uses this CPU, which one command checks there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from cost_families import families, phase, rate
from cost_model import Floats, interval_of

FAMILY = "next-word gpt2"

SCORED = 2 * 10**6
"""Tokens that scores and attacks compute the losses of, once in a run."""


@dataclass(frozen=True)
class Machine:
    """GPUs and what joins them.

    Attributes:
        flops, bytes: FLOPs in float32 and bytes of memory a second of one GPU, sustained.
        host: bytes a second between a GPU and its host.
        near, far: bytes a second between GPUs of one machine, and between machines.
        per_machine: GPUs of one machine.
    """

    flops: float = 50e12
    bytes: float = 2.7e12
    host: float = 50e9
    near: float = 360e9
    far: float = 40e9
    per_machine: int = 8


@dataclass(frozen=True)
class Plan:
    """A run.

    Attributes:
        users: of the population.
        cohort: users of a round.
        rounds: how many.
        source: of random numbers, "seed" or "os".
    """

    users: int = 10**6
    cohort: int = 10**4
    rounds: int = 2_000
    source: str = "seed"


@dataclass(frozen=True)
class Prediction:
    """Seconds of a run.

    Attributes:
        parts: by what takes them, for the whole run.
        low, high: of the whole, by the interval of the fit.
    """

    parts: Mapping[str, float]
    low: float
    high: float

    @property
    def seconds(self) -> float:
        """The whole run."""
        return sum(self.parts.values())

    @property
    def largest(self) -> str:
        """The part that takes most."""
        return max(self.parts, key=lambda name: self.parts[name])


class Planner:
    """Predictions from one file of measurements.

    Args:
        stored: measurements (`cost_store.both`): the law of the one CPU, and the other as the host.
        plan: counts of a round and of a user (`cost_store.plan`).
    """

    def __init__(self, stored: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
        self._stored, self._plan = stored, plan
        self.parameters = int(plan["parameters"])
        work = plan["work"]
        self.tokens = work["steps"] * work["rows"] * work["tokens"]
        (self._fit,) = [each.fit for each in families(stored) if each.name == FAMILY]
        at_best = [rate(stored, name) for name in ("flops", "bytes")]
        self._best = np.array([1.0, *(1 / each for each in at_best)])
        self.excess = self._fit.terms[1:3] / self._best[1:]

    def user(self, machine: Machine) -> tuple[float, Floats]:
        """Seconds of a user on a GPU, and (2,) their interval."""
        counts = self._counts(self._plan["user"], machine)
        rng = np.random.default_rng(1)
        many = self._fit.resampled[:, :3] @ counts
        around = many * rng.choice(self._fit.spread, size=len(many))
        return float(self._fit.terms[:3] @ counts), interval_of(around)

    def predict(self, plan: Plan, gpus: int, machine: Machine) -> Prediction:
        """Seconds of a run by what takes them."""
        share = -(-plan.cohort // gpus)
        one, ends = self.user(machine)
        parts = self._round(plan, gpus, machine)
        whole = {name: plan.rounds * seconds for name, seconds in parts.items()}
        whole = {"users' training": plan.rounds * share * one, **whole}
        whole["reading the text"] = plan.users * self.tokens * self._phase("reading")
        whole["scores and attacks"] = self._scoring(machine) / gpus
        whole["accounting"] = self._phase("accounting")
        whole["the first digest"] = self.parameters * self._phase("digest")
        before = sum(whole.values())
        written = self.parameters * self._phase("checkpoint")
        # One a minute, and never more than a twentieth of the time (`checkpoints.Pace`).
        whole["checkpoints"] = min(before / 60 * written, before / 20)
        rest = sum(whole.values()) - whole["users' training"]
        low, high = (plan.rounds * share * end + rest for end in ends)
        return Prediction(whole, low, high)

    def alike(self, plan: Plan, gpus: int, machine: Machine) -> float:
        """Users of a round whose training takes as long as what does not depend on them."""
        one, _ = self.user(machine)
        fixed = self._round(Plan(plan.users, 0, plan.rounds, plan.source), gpus, machine)
        return sum(fixed.values()) * gpus / one

    def _round(self, plan: Plan, gpus: int, machine: Machine) -> dict[str, float]:
        """Seconds of a round beside its users' training."""
        size = self.parameters
        counts = self._counts(self._plan["round"], machine)
        link = machine.near if gpus <= machine.per_machine else machine.far
        share = -(-plan.cohort // gpus)
        return {
            "noise": size * self._phase(f"noise, {plan.source}"),
            "the sum to the host and back": 2 * 4 * size / machine.host,
            "the server's step": float(self._fit.terms[:3] @ counts),
            "weights and sums among ranks": 0.0 if gpus == 1 else (4 + 8) * size / link,
            "sums in float64": 0.0 if gpus == 1 else 20 * size * share / machine.bytes,
            "coins of the population": plan.users * self._phase(f"sampling, {plan.source}"),
            "draws and messages of the round": plan.cohort * self._phase(f"drawing, {plan.source}"),
        }

    def _counts(self, counts: Mapping[str, float], machine: Machine) -> Floats:
        """(3,) counts as this CPU would need them to take what the machine takes."""
        there = [1.0, 1 / machine.flops, 1 / machine.bytes]
        found = [counts["calls"], max(counts["flops"], 0.0), max(counts["bytes"], 0.0)]
        return np.array(found) * np.array(there) / self._best

    def _scoring(self, machine: Machine) -> float:
        each = self._stored["other"]["phases"]["scoring"][0]
        flops = each["flops"] / each["parameters"] * self.parameters
        return SCORED * flops * float(self.excess[0]) / machine.flops

    def _phase(self, name: str) -> float:
        return phase(self._stored["other"], name)[0]
