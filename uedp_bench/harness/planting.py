"""The corpus of a run: loaded, its public sizes, and what attacks plant in it or hold out."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from uedp_bench import registry
from uedp_bench.attack import Attack, Planted
from uedp_bench.corpus import BoolArray, Corpus
from uedp_bench.harness.spec import fingerprint_of, second_source
from uedp_bench.mechanism import CorpusStats
from uedp_bench.results import ComponentSpec, RunSpec
from uedp_bench.run import Run


@lru_cache(maxsize=2)
def load_corpus(source: str) -> Corpus:
    """The corpus of a source given as the JSON of its `ComponentSpec` (kept for the next run)."""
    ref = ComponentSpec.model_validate_json(source)
    corpus: Corpus = registry.sources.create(ref.name, ref.params).load()
    return corpus


class Data(NamedTuple):
    """What a run reads.

    Attributes:
        corpus: of its source.
        downstream: of the task's second source; None for most tasks.
    """

    corpus: Corpus
    downstream: Corpus | None = None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of both corpora."""
        return fingerprint_of(self.corpus, self.downstream)

    @property
    def visible_downstream(self) -> Corpus | None:
        """What a task may see of its second source: no test rows."""
        second = self.downstream
        return None if second is None else second.only("train", "valid", "public")

    def scored(self, planted: Corpus) -> Corpus:
        """The corpus whose test rows are scored: the second source's, where there is one."""
        return planted if self.downstream is None else self.downstream


def load_data(spec: RunSpec) -> Data:
    """The data of a run.

    Raises:
        InputError: if a source cannot be read.
    """
    second = second_source(spec.task)
    return Data(
        load_corpus(spec.source.model_dump_json()),
        None if second is None else load_corpus(second.model_dump_json()),
    )


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


def public_sizes(spec: RunSpec, corpus: Corpus, downstream: Corpus | None = None) -> CorpusStats:
    """Sizes of the training split: documented by the source, else counted (and not public).

    Users held out are a public choice of the experiment and are taken off. A number that a
    mechanism declares is used as it is: it is that of the users who are left after every cut.
    """
    sizes, second = _sizes(spec.source, corpus), second_source(spec.task)
    if second is None or downstream is None:
        return sizes
    return replace(sizes, downstream=_sizes(second, downstream))


def _sizes(ref: ComponentSpec, corpus: Corpus) -> CorpusStats:
    source = registry.sources.create(ref.name, ref.params)
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
