"""Comparing two corpora of neighbouring files: what became of everybody whom both have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from uedp_bench.clients import Clients, clients_of
from uedp_bench.corpus import Corpus
from uedp_bench.mechanism import CorpusStats
from uedp_bench.mechanisms.private_training.dp_ftrl import DPFTRL
from uedp_bench.mechanisms.private_training.federated_dp_sgd import FederatedDPSGD
from uedp_bench.mechanisms.private_training.users import capped_units, users_of
from uedp_bench.run_context import Run

USERS = 120
STATS = CorpusStats(users=USERS, rows=USERS * 4, sensitive_rows=0, entities=0, public=True)


def content(corpus: Corpus, row: int) -> tuple[Any, ...]:
    """Content of a row, by which the other file is searched for it."""
    label = None if corpus.labels is None else corpus.label_names[corpus.labels[row]]
    gold = corpus.layers.get("gold")
    marks = [] if gold is None else [
        gold.types[kind] for at, kind in zip(gold.spans.row, gold.spans.type, strict=True)
        if at == row
    ]  # fmt: skip
    user = "" if gold is not None else corpus.user_names.array[corpus.users[row]].tobytes()
    return corpus.texts[row], label, *marks, user


def by_content(corpus: Corpus, values: Any) -> dict[tuple[Any, ...], list[Any]]:
    """Public choices about all rows of each content."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row, value in enumerate(values.tolist()):
        found.setdefault(content(corpus, row), []).append(value)
    return {key: sorted(of) for key, of in found.items()}


def assert_others_stay(before: Corpus, after: Corpus, choose: Callable[[Corpus], Any]) -> None:
    """Every row that both files have met the same choice."""
    old, new = by_content(before, choose(before)), by_content(after, choose(after))
    assert set(new) <= set(old)
    for key, values in new.items():
        left = [*old[key]]
        for value in values:
            assert value in left, (key, old[key], values)
            left.remove(value)


def split(corpus: Corpus) -> Any:
    return corpus.split


def dealt(**how: Any) -> Callable[[Corpus], Any]:
    return lambda corpus: clients_of(Clients(count=7, **how).deal(corpus))


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
