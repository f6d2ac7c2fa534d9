"""The corpus of a run, what attacks plant in it or hold out, and attacks that cannot apply.

That an attack cannot apply is known before anything is trained, as far as a task says what it
releases (`Task.releases`), and the pipeline whether anything is published. What is left out for
other reasons shows when the release is there (`evaluation`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.components import registry
from uedp_bench.components.registry import is_reviewed
from uedp_bench.contracts.capabilities import RowScorer, Tokenised
from uedp_bench.contracts.clients import Clients
from uedp_bench.contracts.leakage import Attack, Planted
from uedp_bench.contracts.release import Channel, Published, Updates
from uedp_bench.contracts.source import CorpusStats, Source
from uedp_bench.contracts.transcript import Transcript
from uedp_bench.corpus import BoolArray, Corpus, distinct
from uedp_bench.errors import InputError, PluginError, described
from uedp_bench.one_run.components import Sources
from uedp_bench.randomness import shared_stream
from uedp_bench.spec.identity import fingerprint_of

if TYPE_CHECKING:
    from uedp_bench.accounting.events import PrivacyEvent
    from uedp_bench.contracts.results import RunSpec
    from uedp_bench.contracts.task import Task
    from uedp_bench.one_run.components import Components
    from uedp_bench.one_run.pipeline import Pipeline


@contextmanager
def before_training(attack: Attack[Any], step: str) -> Iterator[None]:
    """Refuse a run whose attack fails before anything is trained.

    What it plants decides what all mechanisms train on, so that nothing can go on without it.

    Args:
        attack: attack that may fail inside the block.
        step: its step inside the block, for the message ("plant").

    Raises:
        InputError: for any error but of memory, with the place where it was raised.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"the attack {attack.name} cannot {step}: {described(error)}; mend it, or leave the "
            "attack out"
        ) from error


MOST_KEPT = 2
"""Corpora that a process keeps for its next runs."""

_KEPT: OrderedDict[tuple[type, str], Corpus] = OrderedDict()


def load_corpus(source: Source[Any]) -> Corpus:
    """The corpus of a source, which is kept for the next run."""
    key = type(source), source.params.model_dump_json()
    corpus = _KEPT.pop(key) if key in _KEPT else source.load()
    _KEPT[key] = corpus
    while len(_KEPT) > MOST_KEPT:
        _KEPT.popitem(last=False)
    return corpus


def forget_corpora() -> None:
    """Let go of what `load_corpus` keeps."""
    _KEPT.clear()


class Data(NamedTuple):
    """The rows that a run reads.

    Attributes:
        corpus: corpus of its source.
        downstream: corpus of the task's second source; None for most tasks.
    """

    corpus: Corpus
    downstream: Corpus | None = None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of both corpora."""
        return fingerprint_of(self.corpus, self.downstream)

    @property
    def visible_downstream(self) -> Corpus | None:
        """The rows that a task may see of its second source: no test rows."""
        second = self.downstream
        return None if second is None else second.only("train", "valid", "public")

    def columns(self) -> Data:
        """The columns without any row: what there is to read."""
        none = np.empty(0, dtype=np.int64)
        second = self.downstream
        return Data(self.corpus.take(none), None if second is None else second.take(none))

    def scored(self, planted: Corpus) -> Corpus:
        """The corpus whose test rows are scored: the second source's, where there is one."""
        return planted if self.downstream is None else self.downstream


def load_data(sources: Sources) -> Data:
    """The data of a run.

    Raises:
        InputError: if a source cannot be read.
    """
    second = sources.second
    return Data(load_corpus(sources.first), None if second is None else load_corpus(second))


@dataclass(frozen=True)
class PlantedCorpus:
    """The corpus that a run protects and attacks.

    Attributes:
        data: data as the sources made it.
        corpus: corpus with everything planted, and withdrawn rows in the split `held_out`.
        planted: planted secrets of each attack, by its name.
        stats: public sizes, counted before anything was withdrawn: neither they nor what others
            plant show who is out.
        withdrawn: (rows,) of `corpus`.
        unplanted: attacks that have nothing to look for, and the reason: the model was trained
            before they could plant it.
        strangers: attacks that nobody reviewed and that changed what is protected, as
            "attack NAME": guarantees rest on them.
        commitment: hash of the coins that planted before a training elsewhere; empty otherwise.
    """

    data: Data
    corpus: Corpus
    planted: Mapping[str, Planted]
    stats: CorpusStats
    withdrawn: BoolArray
    unplanted: Mapping[str, str] = field(default_factory=dict)
    strangers: tuple[str, ...] = ()
    commitment: str = ""

    @property
    def injected(self) -> tuple[int, ...]:
        """Users whose updates an audit replaces."""
        return tuple(user for value in self.planted.values() for user in value.injected)

    @property
    def trained_on(self) -> Corpus:
        """The corpus that reference models may see: all but the withdrawn rows."""
        out = self.withdrawn
        return self.corpus.take(np.flatnonzero(~out)) if out.any() else self.corpus


def plant(
    attacks: tuple[Attack[Any], ...],
    sources: Sources,
    data: Data,
    seed: int,
    clients: Clients | None = None,
) -> PlantedCorpus:
    """Plant for attacks, deal the rows among clients, and withdraw rows for audits.

    Args:
        attacks: attacks of the run.
        sources: sources of the data.
        data: data as the sources made it.
        seed: seed of the run; mechanisms do not change what is planted.
        clients: clients that rows are dealt to; secrets planted with a user go to that user's
            client.
    """
    strangers: list[str] = []
    whole, planted = plant_all(attacks, data.corpus, seed, strangers)
    stats = public_sizes(sources, whole, data.downstream)
    if clients is not None:
        whole = clients.deal(whole)
        stats = replace(stats, clients=clients.public_shares(whole))
    out = withdrawn(planted, len(whole))
    protected = whole.with_split(out, "held_out")
    return PlantedCorpus(data, protected, planted, stats, out, strangers=tuple(strangers))


def plant_all(
    attacks: tuple[Attack[Any], ...], corpus: Corpus, seed: int, strangers: list[str] | None = None
) -> tuple[Corpus, dict[str, Planted]]:
    """The corpus with everything planted, nothing withdrawn yet.

    Attacks that hold users out come first, then those that replace users.

    Args:
        attacks: attacks that plant.
        corpus: corpus to plant in.
        seed: seed of their draws.
        strangers: gets the attacks that nobody reviewed and that changed anything.

    Raises:
        InputError: if an attack fails.
        PluginError: if an attack of a stranger changes the corpus that it was given.
    """
    planted: dict[str, Planted] = {}
    for attack in sorted(attacks, key=lambda a: (not a.holds_out, not a.replaces_users)):
        stream = shared_stream(seed, "plant", attack.name)
        rng = np.random.Generator(np.random.PCG64(stream))
        reviewed = is_reviewed(registry.attacks, attack.name)
        was = "" if reviewed else corpus.fingerprint
        with before_training(attack, "plant"):
            before, (corpus, own) = corpus, attack.plant(corpus, rng)
        planted[attack.name] = own
        if not reviewed and replace(before).fingerprint != was:
            forget_corpora()  # other runs of this process would have it
            raise PluginError(
                f"the attack {attack.name} changed the corpus that it was given: `plant` returns "
                "another one (dataclasses.replace, Corpus.with_split)"
            )
        changed = corpus is not before or own.withdrawn or own.injected
        if strangers is not None and changed and not reviewed:
            strangers.append(f"attack {attack.name}")
    return corpus, planted


def withdrawn(planted: Mapping[str, Planted], rows: int) -> BoolArray:
    """(rows,) what audits withdraw once public sizes are counted."""
    out = np.zeros(rows, dtype=bool)
    for value in planted.values():
        out[list(value.withdrawn)] = True
    return out


def public_sizes(sources: Sources, corpus: Corpus, downstream: Corpus | None = None) -> CorpusStats:
    """Sizes of the training split: documented by the source, else counted (and not public).

    Users held out are a public choice of the experiment and are taken off. A number that a
    mechanism declares is used as it is: it is that of the users who are left after every cut.
    """
    sizes, second = _sizes(sources.first, corpus), sources.second
    if second is None or downstream is None:
        return sizes
    return replace(sizes, downstream=_sizes(second, downstream))


def _sizes(source: Source[Any], corpus: Corpus) -> CorpusStats:
    documented: CorpusStats | None = None if source.params.selects else source.documented()
    held_out = len(distinct(corpus.users[corpus.where("held_out")]))
    if documented is not None:
        return CorpusStats(
            documented.users - held_out, documented.rows, documented.sensitive_rows,
            documented.entities, documented.public,
        )  # fmt: skip
    return counted_sizes(corpus)


def counted_sizes(corpus: Corpus) -> CorpusStats:
    """Sizes of the training split as they are in the corpus: not public."""
    train = corpus.where("train")
    mentioned = corpus.entities.entity[train[corpus.entities.row]]
    return CorpusStats(
        users=len(distinct(corpus.users[train])),
        rows=int(train.sum()),
        sensitive_rows=int((train & corpus.sensitive).sum()),
        entities=len(distinct(mentioned)),
        public=False,
    )


# ---------------------------------------------------------------------------------- before training


def expected(task: Task[Any]) -> tuple[type, ...]:
    """Capabilities of the model that a task trains, as far as it says; none where it trains none.

    Every trained release is taken for a `RowScorer`, and one of which nothing is said for what the
    task itself asks of it.
    """
    if not task.roles():
        return ()
    return tuple(dict.fromkeys((*(task.releases or task.needs), RowScorer)))


def _cannot_apply(attack: Attack[Any], task: Task[Any], pipeline: Pipeline) -> str | None:
    """Reason why an attack cannot apply to a run; None if it can, or that is not known yet."""
    declared = not task.roles() or bool(task.releases)
    if not declared or pipeline.servers:  # what is served may offer other capabilities
        return None
    offered = [*expected(task), Transcript]  # any mechanism may send
    if task.roles():
        offered += [Updates, Tokenised]
    if pipeline.shows_published:
        offered += [Published, Channel]
    if any(need in offered for need in attack.required_capabilities()):
        return None
    named = " or ".join(need.__name__ for need in attack.required_capabilities())
    return f"{attack.name} needs a release that is a {named}"


def left_out(parts: Components, planned: Sequence[PrivacyEvent] = ()) -> tuple[str, ...]:
    """Reasons why attacks of a run cannot apply, as far as that is known.

    Args:
        parts: parts of the run.
        planned: its events.

    Raises:
        InputError: if an attack fails.
    """
    reasons: list[str] = []
    for attack in parts.attacks:
        reason = _cannot_apply(attack, parts.task, parts.pipeline)
        with before_training(attack, "judge the planned events"):
            reason = reason or attack.refuses_events(planned)
        reasons += [reason] if reason else []
    return tuple(reasons)


def impossible_pairs(runs: Iterable[tuple[RunSpec, tuple[str, ...]]]) -> tuple[str, ...]:
    """One line for each attack that some runs leave out, with the mechanisms of these runs.

    Args:
        runs: runs to start, each with the reasons of `left_out`.
    """
    mechanisms_by_reason: dict[str, dict[str, None]] = {}
    for spec, reasons in runs:
        for reason in reasons:
            mechanisms_by_reason.setdefault(reason, {})[
                "+".join(ref.name for ref in spec.mechanism)
            ] = None
    return tuple(
        f"{reason}: left out of runs of {', '.join(mechanisms)}"
        for reason, mechanisms in mechanisms_by_reason.items()
    )
