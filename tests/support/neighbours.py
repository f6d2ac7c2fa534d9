"""Comparing two corpora of neighbouring files: what became of everybody whom both have."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from uedp_bench.contracts.clients import Clients, clients_of, users_of
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import Corpus
from uedp_bench.mechanisms.private_training.dp_ftrl import DPFTRL
from uedp_bench.mechanisms.private_training.federated_dp_sgd import FederatedDPSGD
from uedp_bench.mechanisms.private_training.users import capped_units

USERS = 120
STATS = CorpusStats(users=USERS, rows=USERS * 4, sensitive_rows=0, entities=0, public=True)


class Choices:
    """Public choices about the rows of a corpus, by content: the other file is searched for it."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        gold = corpus.layers.get("gold")
        self._marks: list[list[str]] = [[] for _ in range(len(corpus))]
        for row, kind in () if gold is None else zip(gold.spans.row, gold.spans.type, strict=True):
            self._marks[row].append(gold.types[kind])
        self._contents = [self._content(row) for row in range(len(corpus))]

    def _content(self, row: int) -> tuple[Any, ...]:
        corpus = self._corpus
        label = None if corpus.labels is None else corpus.label_names[corpus.labels[row]]
        tokens = "gold" in corpus.layers
        user = "" if tokens else corpus.user_names.array[corpus.users[row]].tobytes()
        return corpus.texts[row], label, *self._marks[row], user

    @cache  # noqa: B019 - a test has few of them
    def by_content(self, choose: Callable[[Corpus], Any]) -> dict[tuple[Any, ...], list[Any]]:
        """A choice about all rows of each content."""
        choices: dict[tuple[Any, ...], list[Any]] = {}
        for content, value in zip(self._contents, choose(self._corpus).tolist(), strict=True):
            choices.setdefault(content, []).append(value)
        return {key: sorted(values) for key, values in choices.items()}


def assert_others_stay(before: Choices, after: Choices, *choices: Callable[[Corpus], Any]) -> None:
    """Every row that both files have met the same choices."""
    for choose in choices:
        old, new = before.by_content(choose), after.by_content(choose)
        assert set(new) <= set(old)
        for key, values in new.items():
            left = [*old[key]]
            for value in values:
                assert value in left, (key, old[key], values)
                left.remove(value)


def split(corpus: Corpus) -> Any:
    return corpus.split


def dealt(**params: Any) -> Callable[[Corpus], Any]:
    return lambda corpus: clients_of(Clients(count=7, **params).deal(corpus))


def used_round(corpus: Corpus) -> Any:
    mechanism = FederatedDPSGD.create({"rounds": 8, "data_per_round": 0.1, "noise_multiplier": 1})
    return mechanism._round_of_row(corpus, Run(1, STATS))


def cohort_of(corpus: Corpus) -> Any:
    mechanism = DPFTRL.create({"rounds": 9, "users_per_round": 12, "users": USERS})
    units, schedule = users_of(corpus), mechanism._schedule(USERS)
    sampler = mechanism._sampler(corpus, units, schedule, Run(1, STATS))
    cohort = np.full(len(corpus), -1)
    for number in range(schedule.separation):
        for unit in np.asarray(sampler.draw(np.random.default_rng(0)).units).tolist():
            cohort[units[unit]] = number
    return cohort


def kept_by_cap(corpus: Corpus) -> Any:
    kept = np.zeros(len(corpus), dtype=bool)
    kept[capped_units(users_of(corpus), 2, corpus).rows] = True
    return kept


CHOICES: dict[str, Callable[[Corpus], Any]] = {
    "split": split,
    "client by user": dealt(by="user"),
    "client by row": dealt(by="random"),
    "client by label": dealt(by="dirichlet", alpha=1.0),
    "round": used_round,
    "cohort": cohort_of,
}
