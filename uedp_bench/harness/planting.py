"""The corpus of a run: loaded, its public sizes, and what attacks plant in it or hold out."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from uedp_bench import registry
from uedp_bench.attack import Attack, Planted
from uedp_bench.corpus import BoolArray, Corpus
from uedp_bench.mechanism import CorpusStats
from uedp_bench.results import ComponentSpec, RunSpec
from uedp_bench.run import Run


@lru_cache(maxsize=2)
def load_corpus(source: str) -> Corpus:
    """The corpus of a source given as the JSON of its `ComponentSpec` (kept for the next run)."""
    ref = ComponentSpec.model_validate_json(source)
    corpus: Corpus = registry.sources.create(ref.name, ref.params).load()
    return corpus


def plant(
    attacks: tuple[Attack[Any], ...], corpus: Corpus, seed: int, stats: CorpusStats
) -> tuple[Corpus, dict[str, Planted]]:
    """The corpus with everything planted, nothing withdrawn yet.

    Attacks that hold users out come first, then those that replace users.
    """
    planted: dict[str, Planted] = {}
    for attack in sorted(attacks, key=lambda a: (not a.holds_out, not a.replaces_users)):
        rng = Run(seed, stats).shared("plant", attack.name)
        corpus, planted[attack.name] = attack.plant(corpus, rng)
    return corpus, planted


def withdrawn(planted: dict[str, Planted], rows: int) -> BoolArray:
    """(rows,) what audits withdraw once public sizes are counted."""
    out = np.zeros(rows, dtype=bool)
    for value in planted.values():
        out[list(value.withdrawn)] = True
    return out


def public_sizes(spec: RunSpec, corpus: Corpus) -> CorpusStats:
    """Sizes of the training split: documented by the source, else counted (and not public).

    Users held out are a public choice of the experiment and are taken off. A number that a
    mechanism declares is used as it is: it is that of the users who are left after every cut.
    """
    source = registry.sources.create(spec.source.name, spec.source.params)
    documented: CorpusStats | None = None if source.params.selects else source.documented()
    held_out = len(np.unique(corpus.users[corpus.where("held_out")]))
    if documented is not None:
        return CorpusStats(
            documented.users - held_out, documented.rows, documented.sensitive_rows,
            documented.entities, documented.public,
        )  # fmt: skip
    train = corpus.where("train")
    mentioned = corpus.entities.entity[train[corpus.entities.row]]
    return CorpusStats(
        users=len(np.unique(corpus.users[train])),
        rows=int(train.sum()),
        sensitive_rows=int((train & corpus.sensitive).sum()),
        entities=len(np.unique(mentioned)),
        public=False,
    )
