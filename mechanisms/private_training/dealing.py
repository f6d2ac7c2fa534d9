"""Training rows dealt anew among users: data that are identically distributed over them."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from uedp_bench.api import Run
    from uedp_bench.api.networks import Learner


def dealt_anew(learner: Learner, run: Run, name: str) -> Learner:
    """The learner with its training rows dealt anew; all mechanisms of a seed deal alike.

    Args:
        learner: not changed.
        run: gives the numbers, and is told that rows have changed hands.
        name: name of the mechanism.
    """
    run.dealt(f"{name}.iid=true dealt the training rows anew among the users")
    return with_rows_dealt(learner, run.shared("fedavg", "iid"))


def with_rows_dealt(learner: Learner, rng: np.random.Generator) -> Learner:
    """The learner with its training rows dealt among their users, each with as many as before.

    Which rows train is the same. It is for studies of data that are identically distributed over
    users; no guarantee speaks of users whose rows are others'.

    Args:
        learner: not changed.
        rng: draws who gets which row.
    """
    corpus = learner.corpus
    train, users = corpus.where("train"), corpus.users.copy()
    users[train] = rng.permutation(users[train])
    other = copy.copy(learner)
    other.corpus = replace(corpus, groups={**corpus.groups, "user": users})
    return other
