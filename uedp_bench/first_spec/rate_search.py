"""Search for learning rates of private rows, on users of the split `valid` alone.

No user who trains is read, so that the choice costs the guarantees nothing. The unprotected row
compares the same rates on rows of the same split, in its own run.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from uedp_bench.components import registry
from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError
from uedp_bench.first_spec.suggestion import FACTORS, RATES, Part, Suggestion

SCORED = 0.3
"""Share of the users of `valid` who are scored; the others train."""

LEAST_USERS = 20
"""Users who train, and users who are scored, at least."""

RATE = {"dp-sgd": "learning_rate", "user-dp": "server_learning_rate"}
SIZES = {"dp-sgd": ("records", "batch_size"), "user-dp": ("users", "users_per_round")}
"""Names of the learning rate, and of the numbers of all units and of those of a round."""


def at_each_epsilon(suggestion: Suggestion) -> Suggestion:
    """The suggestion, with a part of its own for each epsilon of a private mechanism."""
    parts: list[Part] = []
    for part in suggestion.mechanisms:
        targets = part.params.get("epsilon")
        if isinstance(targets, list):
            for at, one in enumerate(targets):
                params = {**part.params, "epsilon": one}
                parts.append(replace(part, params=params, says=() if at else part.says))
        else:
            parts.append(part)
    return replace(suggestion, mechanisms=tuple(parts))


class RateSearch:
    """Search for the learning rates of private parts.

    Args:
        data: spec of the ladder.
        suggestion: its parts, one for each epsilon.

    Raises:
        InputError: if too few users are in the split `valid`, or nothing has noise.
    """

    def __init__(self, data: Mapping[str, Any], suggestion: Suggestion) -> None:
        if not any(part.name in RATE for part in suggestion.mechanisms):
            raise InputError("no row has noise")
        source = data["source"]
        source = {**source, "params": {**source["params"], "tune_on_valid": SCORED}}
        corpus = registry.sources.create(source["name"], source["params"]).load()
        train, test = corpus.only("train"), corpus.only("test")
        users = [len({*one.users.tolist()}) for one in (train, test)]
        if min(users) < LEAST_USERS:
            raise InputError(
                f"{users[0]} users of the split valid would train and {users[1]} be scored, and "
                f"{LEAST_USERS} of each are needed"
            )
        counts = {"dp-sgd": len(train), "user-dp": users[0]}
        self._suggestion, parts = suggestion, suggestion.mechanisms
        self._tried = {
            at: _smaller(part, counts[part.name], suggestion)
            for at, part in enumerate(parts)
            if part.name in RATE
        }
        rates = [round(RATES[suggestion.task.name] * factor, 6) for factor in FACTORS]
        self.spec: dict[str, Any] = {
            **data,
            "description": "Search for learning rates on users of the split valid",
            "source": source,
            "mechanisms": [
                {"name": parts[at].name, "params": {**params, RATE[parts[at].name]: rates}}
                for at, params in self._tried.items()
            ],
            "attacks": [],
            "seeds": data["seeds"][:1],
        }  # fmt: skip

    def choose(self, results: Sequence[Result]) -> Suggestion:
        """Suggestion with the best rate of each part; as it was where no run has a number."""
        parts = list(self._suggestion.mechanisms)
        for at, params in self._tried.items():
            part, rate = parts[at], RATE[parts[at].name]
            scores = {
                ref.params[rate]: score
                for result in results
                for ref in result.spec.mechanism
                if ref.name == part.name
                and ref.params.get("noise_multiplier") == params["noise_multiplier"]
                and (score := _score(result)) is not None
            }
            if scores:
                best = max(scores, key=lambda each: scores[each])
                why = f"{rate}: of {', '.join(map(str, scores))} the best on users of valid"
                params = {**part.params, rate: best}
                parts[at] = replace(part, params=params, says=(*part.says, why))
        return replace(self._suggestion, mechanisms=tuple(parts))


def _smaller(part: Part, count: int, suggestion: Suggestion) -> dict[str, Any]:
    """Parameters for fewer units, with the sampling rate and the noise on the mean of the part."""
    params = dict(part.params)
    mechanism = registry.mechanisms.create(part.name, {**params, "delta": suggestion.delta})
    all_units, of_round = SIZES[part.name]
    fewer = max(1, round(params[of_round] * count / params[all_units]))
    noise = mechanism.noise(suggestion.sizes) * fewer / params[of_round]
    del params["epsilon"]
    return {**params, all_units: count, of_round: fewer, "noise_multiplier": float(f"{noise:.4g}")}


def _score(result: Result) -> float | None:
    """The metric that ranks a result, larger being better; None for a run without a number."""
    ranked_by = result.headline
    if ranked_by is None or ranked_by.metric not in result.utility:
        return None
    score = result.utility[ranked_by.metric].value
    if not math.isfinite(score):  # it diverged
        return None
    return score if ranked_by.larger_is_better else -score
