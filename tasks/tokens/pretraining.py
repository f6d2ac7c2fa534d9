"""Rows of each stage: public text before private training, and the private rows themselves."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.learner import Role, Schedule


class Pretraining(Protocol):
    """Parameters of a task that say how to train on public text."""

    @property
    def pretraining_epochs(self) -> int:
        """Passes; 0 for no such stage."""
        ...

    @property
    def pretraining_batch_size(self) -> int:
        """Rows a step."""
        ...

    @property
    def pretraining_learning_rate(self) -> float:
        """Learning rate of Adam."""
        ...


def roles_of(params: Pretraining) -> tuple[Role, ...]:
    """Roles of the stages of a task with these parameters: public pre-training comes first."""
    return ("public", "private") if params.pretraining_epochs else ("private",)


def public_stage(
    params: Pretraining, corpus: Corpus, missing: str
) -> tuple[Corpus, Schedule] | None:
    """Public rows as training rows, and how to train on them; None where it is not asked for.

    Args:
        params: of the task.
        corpus: whose split `public` it is.
        missing: what to say, and to do, where there is no such row.

    Raises:
        InputError: if there is none.
    """
    if not params.pretraining_epochs:
        return None
    public = corpus.only("public")
    if not len(public):
        raise InputError(f"task.pretraining_epochs is {params.pretraining_epochs}, but {missing}")
    schedule = Schedule(
        epochs=params.pretraining_epochs,
        batch_size=params.pretraining_batch_size,
        learning_rate=params.pretraining_learning_rate,
    )
    return public.with_split(np.ones(len(public), dtype=bool), "train"), schedule


def private_rows(corpus: Corpus) -> Corpus:
    """Rows of the split `train`, then those of `valid`, by which mechanisms may choose a network.

    Raises:
        InputError: if there is nothing to train on.
    """
    train, valid = (np.flatnonzero(corpus.where(split)) for split in ("train", "valid"))
    if not len(train):
        raise InputError("the corpus has no row in the split 'train'")
    return corpus.take(np.concatenate([train, valid]))
