"""The context of a run: its seed, its device, its diary; passed down instead of globals."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.accounting.assumptions import NoiseSource
from uedp_bench.corpus import SPLITS
from uedp_bench.randomness.streams import Name, Stream, shared_stream

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus
    from uedp_bench.mechanism import CorpusStats
    from uedp_bench.release import Release
    from uedp_bench.results import TrainedStage
    from uedp_bench.training.public_stage import PublicStages

Progress = Callable[[str, int, int], None]
"""Called with (phase, steps done, steps in all)."""

Retrain = Callable[..., "Release"]
"""Trains again on the rows of some users; called as `Run.retrain` is."""


_ONLY = "simulation_only"


def no_progress(phase: str, done: int, total: int) -> None:
    """Shows nothing."""


class Speed(BaseModel):
    """How fast, never what: these settings do not enter the identity of a run.

    Attributes:
        chunk: users (or records) whose updates are computed at once, at most.
        threads: torch threads of a process; 0 leaves torch's own choice.
        processes: that compute updates side by side in federated training; 1 computes them where
            the run is.
        score_rows: rows scored at once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    chunk: int = Field(default=32, ge=1)
    threads: int = Field(default=0, ge=0)
    processes: int = Field(default=1, ge=1)
    score_rows: int = Field(default=512, ge=1)


@dataclass(eq=False)
class Run:
    """What a mechanism or an attack may know of the run around it.

    A mechanism draws from `rng`, or from `stream` where draws are keyed; attacks, tasks and all
    that must be equal in the rows of one seed draw from `shared`. See `randomness` for the law.

    Attributes:
        seed: the run's seed; never draw from it directly.
        stats: public sizes of the training split, that mechanisms may use.
        device: torch device name ("cpu", "cuda").
        injected: users whose updates an audit replaces (empty outside audits).
        delta: at which the run's guarantees are stated.
        series: metrics by round, filled by `log`.
        pretraining: what public text the module saw before, and how it was trained on it.
        public_only: the model that no private row has touched, until it is scored; None where it
            saw no other text either.
        stages: what a result says of the training stages, where there is more to say than that.
        downstream: rows of the task's second source, in the splits train, valid and public.
        diagnostics: simulation-only facts, filled by `note` (they look at un-noised values, so a
            real deployment could not print them).
        scope: what is trained and on what (`randomness.scope_of`): secret streams are keyed by it.
        noise_source: where they come from.
        public_stages: where models after training on public text are kept for other runs.
    """

    seed: int
    stats: CorpusStats
    device: str = "cpu"
    speed: Speed = field(default_factory=Speed)
    injected: tuple[int, ...] = ()
    delta: float = 1e-5
    progress: Progress = no_progress
    retrainer: Retrain | None = None
    series: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    pretraining: dict[str, Any] = field(default_factory=dict)
    public_only: Release | None = None
    scope: str = ""
    noise_source: NoiseSource = "seed"
    public_stages: PublicStages | None = None
    stages: tuple[TrainedStage, ...] | None = None
    downstream: Corpus | None = None

    def __post_init__(self) -> None:
        self._secret = Stream.root(self.seed, self.scope, self.noise_source)
        self._calls: dict[bytes, int] = {}
        self._number = 1

    def within(
        self,
        stage: str,
        *,
        number: int = 1,
        stats: CorpusStats | None = None,
        injected: tuple[int, ...] | None = None,
    ) -> Run:
        """The run as one stage of it sees it: with secret streams of its own, all else the same.

        Args:
            stage: its name.
            number: of the stage among those of its role. From the second on it is appended to the
                names of series and diagnostics, so that the first keep theirs.
            stats: public sizes of what it trains on, where they are others.
            injected: users whose updates are replaced in it, where they are others.
        """
        inner = copy.copy(self)
        inner._secret = self._secret.child("stage", stage)
        inner._number = number
        inner.stats = self.stats if stats is None else stats
        inner.injected = self.injected if injected is None else injected
        return inner

    def rng(self, *names: Name) -> np.random.Generator:
        """A secret generator, another one at each call: calls of the same names are numbered."""
        return self.fresh(*names).rng()

    def fresh(self, *names: Name) -> Stream:
        """Secret streams, others at each call: for draws that are keyed by round or by unit."""
        place = self._secret.child("fresh", *names)
        number = self._calls[place.key] = self._calls.get(place.key, -1) + 1
        return place.child(number)

    def stream(self, *names: Name) -> Stream:
        """Secret streams that are the same at each call of the same names.

        Where they hide a text, the text must be among the names: the same noise on two texts would
        tell their difference.
        """
        return self._secret.child("keyed", *names)

    def shared(self, *names: Name) -> np.random.Generator:
        """A generator that is keyed by the seed and the names alone; it hides nothing."""
        return np.random.Generator(np.random.PCG64(shared_stream(self.seed, *names)))

    def shared_seed(self, *names: Name) -> int:
        """A 63-bit seed of initial weights, or of another shared use."""
        return int(self.shared(*names).integers(2**63 - 1))

    def log(self, name: str, step: int, value: float) -> None:
        """Adds one point to a series."""
        self.series.setdefault(self._told_as(name), []).append((step, float(value)))

    def note(self, **values: Any) -> None:
        """Adds diagnostics; those that `simulation_only` names are joined to those named before."""
        named = values.pop(_ONLY, None)
        self.diagnostics.update({self._told_as(name): value for name, value in values.items()})
        if named is not None:
            if self._number > 1:  # a name of all stages, or of this one's series or diagnostics
                named = [each for name in named for each in (name, self._told_as(name))]
            self.diagnostics[_ONLY] = list(
                dict.fromkeys([*self.diagnostics.get(_ONLY, []), *named])
            )

    def noted(self, name: str, default: Any = None) -> Any:
        """What `note` said of a name in this stage."""
        return self.diagnostics.get(self._told_as(name), default)

    def _told_as(self, name: str) -> str:
        return name if self._number == 1 else f"{name}_{self._number}"

    def count(self, values: Mapping[str, float]) -> None:
        """Adds to the counters that the cost reports (users, rows, tokens trained on)."""
        for name, value in values.items():
            self.counts[name] = self.counts.get(name, 0.0) + value

    def retrain(
        self,
        users: BoolArray,
        *,
        mechanism: Literal["same", "none"],
        seed: int,
        splits: tuple[str, ...] = SPLITS,
    ) -> Release:
        """A release trained on the rows of the given users only (cached, counted in the cost).

        Args:
            users: (user ids,) which users; their rows become the training split.
            mechanism: "none" trains without noise on the original text.
            seed: of that training.
            splits: rows of these splits only; all by default.
        """
        if self.retrainer is None:
            raise RuntimeError("this run cannot retrain: no trainer was given")
        return self.retrainer(users, mechanism=mechanism, seed=seed, splits=splits)
