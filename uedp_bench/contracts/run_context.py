"""Context of a run: its seed, its device, its diary; passed down instead of globals."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from uedp_bench.accounting.guarantee import NoiseSource
from uedp_bench.contracts.checkpoints import Checkpoints
from uedp_bench.contracts.saved_state import AttributeState
from uedp_bench.contracts.transcript import Message, MessageLog, Sent
from uedp_bench.corpus import SPLITS
from uedp_bench.randomness import Name, Stream, shared_stream

if TYPE_CHECKING:
    from uedp_bench.contracts.checkpoints import PublicStages
    from uedp_bench.contracts.release import Release
    from uedp_bench.contracts.source import CorpusStats
    from uedp_bench.corpus import BoolArray, Corpus

Progress = Callable[[str, int, int], None]
"""Callback with (phase, steps done, steps in all)."""

Points = Callable[[str, int, float], None]
"""Callback for each point (name, step, value) that a run adds to a series."""

Retrain = Callable[..., "Release"]
"""Function that trains again on the rows of some users; called as `Run.retrain` is."""


_ONLY = "simulation_only"


def no_progress(phase: str, done: int, total: int) -> None:
    """Show nothing."""


def no_points(name: str, step: int, value: float) -> None:
    """Show nothing."""


class Speed(BaseModel):
    """Settings of speed alone, which do not enter the identity of a run.

    Attributes:
        chunk: most users (or records) whose updates are held at once. Where units are clipped
            without updates (`training.ghost`), the size of the cache decides alone.
        threads: torch threads of a process; 0 leaves torch's own choice.
        score_rows: rows scored at once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    chunk: int = Field(default=32, ge=1)
    threads: int = Field(default=0, ge=0)
    score_rows: int = Field(default=512, ge=1)


@dataclass
class Diary(AttributeState):
    """Records of a run on its way, written through the methods of `Run`.

    Attributes:
        series: metrics by round.
        diagnostics: simulation-only facts.
        counts: counters that the cost reports.
        ways: ways of computing, where there are several; the cost reports them.
        messages: messages between parties.
        calls: numbers of calls of `Run.fresh`, by the key of their stream.
    """

    changing: ClassVar[tuple[str, ...]] = ("series", "diagnostics", "counts", "ways", "calls")
    series: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    diagnostics: dict[str, Any] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)
    ways: dict[str, str] = field(default_factory=dict)
    messages: MessageLog = field(default_factory=MessageLog)
    calls: dict[bytes, int] = field(default_factory=dict)

    def state_dict(self) -> dict[str, Any]:
        """State of all records."""
        return super().state_dict() | {"messages": self.messages.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Go on after the records of earlier attempts."""
        super().load_state_dict(state)
        self.messages.load_state_dict(state["messages"])


@dataclass(eq=False)
class Run:
    """The run around a mechanism or an attack, as far as these may know it.

    A mechanism draws from `rng`, or from `stream` where draws are keyed; attacks, tasks and all
    that must be equal in the rows of one seed draw from `shared`. See `randomness` for the law.
    Nobody sets an attribute of it: `log`, `note`, `count`, `computed`, `send` and `dealt` record
    things.

    Attributes:
        seed: the run's seed; never draw from it directly.
        stats: public sizes of the training split, which mechanisms may use.
        device: torch device name ("cpu", "cuda").
        injected: users whose updates an audit replaces (empty outside audits).
        delta: delta of the run's guarantees.
        retrainer: trainer of models that attacks ask for (`retrain`); None before the attacks.
        base: the model before any private row, which everybody may have, for attacks to compare
            with; None before the attacks, and where it saw no public text.
        private_seed: seed of secret streams and of the order of rows, where it is another one.
        downstream: rows of the task's second source, in the splits train, valid and public.
        scope: digest of network and data (`randomness.scope_of`), which keys secret streams.
        noise_source: source of secret streams.
        public_stages: store of models after training on public text, for other runs.
        diary: records so far.
        checkpoints: checkpoints of its trainings (`checkpointed`).
        points: callback for every point of a series when it is logged.
    """

    seed: int
    stats: CorpusStats
    device: str = "cpu"
    speed: Speed = field(default_factory=Speed)
    injected: tuple[int, ...] = ()
    delta: float = 1e-5
    progress: Progress = no_progress
    retrainer: Retrain | None = None
    base: Release | None = None
    private_seed: int | None = None
    scope: str = ""
    noise_source: NoiseSource = "seed"
    public_stages: PublicStages | None = None
    downstream: Corpus | None = None
    diary: Diary = field(default_factory=Diary)
    checkpoints: Checkpoints = field(default_factory=Checkpoints)
    points: Points = no_points

    def __post_init__(self) -> None:
        secret = self.seed if self.private_seed is None else self.private_seed
        drawn = Stream.root(secret, self.scope, self.noise_source)
        self._secret = self.checkpoints.root(drawn)
        self._number = 1
        self._whole = True

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse attributes after construction.

        Raises:
            AttributeError: naming the methods that are meant for it.
        """
        if "_whole" in self.__dict__:
            raise AttributeError(
                f"{name!r} of a run cannot be set, for a run is the same for all who see it: "
                "run.log, run.note, run.count, run.computed and run.send take what there is to say"
            )
        object.__setattr__(self, name, value)

    @property
    def series(self) -> Mapping[str, list[tuple[int, float]]]:
        """Metrics by round, filled by `log`."""
        return MappingProxyType(self.diary.series)

    @property
    def diagnostics(self) -> Mapping[str, Any]:
        """Simulation-only facts, filled by `note`.

        They look at values without noise, so a real deployment could not print them.
        """
        return MappingProxyType(self.diary.diagnostics)

    @property
    def counts(self) -> Mapping[str, float]:
        """Counters that the cost reports, filled by `count`."""
        return MappingProxyType(self.diary.counts)

    @property
    def number(self) -> int:
        """Number of the stage among those of its role, from 1."""
        return self._number

    def within(
        self,
        stage: str,
        *,
        number: int = 1,
        stats: CorpusStats | None = None,
        injected: tuple[int, ...] | None = None,
    ) -> Run:
        """Copy for one stage of the run: with secret streams of its own, all else the same.

        Args:
            stage: name of the stage.
            number: number of the stage among those of its role. From the second on it is appended
                to the names of series and diagnostics, so that the first keep theirs.
            stats: public sizes of its rows, where they are others.
            injected: users whose updates are replaced in it, where they are others.
        """
        return self._with(
            _secret=self._secret.child("stage", stage),
            _number=number,
            stats=self.stats if stats is None else stats,
            injected=self.injected if injected is None else injected,
        )

    def retraining(self, retrainer: Retrain | None, base: Release | None = None) -> Run:
        """Copy for attacks, which may ask it for models of chosen users, and for `base`."""
        return self._with(retrainer=retrainer, base=base)

    def _with(self, **changes: Any) -> Run:
        other = copy.copy(self)
        other.__dict__.update(changes)
        return other

    def rng(self, *names: Name) -> np.random.Generator:
        """Secret generator, a new one at each call: calls of the same names are numbered."""
        return self.fresh(*names).rng()

    def fresh(self, *names: Name) -> Stream:
        """Secret streams, new ones at each call: for draws that are keyed by round or by unit."""
        place = self._secret.child("fresh", *names)
        calls = self.diary.calls
        number = calls[place.key] = calls.get(place.key, -1) + 1
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
        """Add one point to a series."""
        name = self._name_in_stage(name)
        self.diary.series.setdefault(name, []).append((step, float(value)))
        self.points(name, step, float(value))

    def note(self, **values: Any) -> None:
        """Add diagnostics; those that `simulation_only` names are joined to those named before."""
        named = values.pop(_ONLY, None)
        self.diary.diagnostics.update(
            {self._name_in_stage(name): value for name, value in values.items()}
        )
        if named is not None:
            if self._number > 1:  # a name of all stages, or of this one's series or diagnostics
                named = [each for name in named for each in (name, self._name_in_stage(name))]
            self.diary.diagnostics[_ONLY] = list(
                dict.fromkeys([*self.diagnostics.get(_ONLY, []), *named])
            )

    def noted(self, name: str, default: Any = None) -> Any:
        """Value that `note` gave to a name in this stage."""
        return self.diagnostics.get(self._name_in_stage(name), default)

    def _name_in_stage(self, name: str) -> str:
        return name if self._number == 1 else f"{name}_{self._number}"

    def checkpointed(self, name: str, steps: int, /, **parts: Any) -> Iterator[int]:
        """Yield the steps of a training that are still to do, from 0; all, unless it was killed.

        Between two steps the state of the parts is written from time to time (`Pace`), with what
        the run noted so far. When the same run starts again, the parts are what they were after
        the last step that was written, and the steps after it follow. Draw from streams that are
        keyed by the step, or name the generators among the parts.

        Args:
            name: name of the training, for progress.
            steps: number of steps.
            parts: everything that changes from step to step: modules, optimisers, tensors,
                generators of NumPy, and objects of your own with `state_dict` (tensors, plain
                values, lists and dictionaries of them) and `load_state_dict`. A plain value, or a
                corpus, must be the same again. With any other part no checkpoint is written.
        """
        return self.checkpoints.steps(name, self, steps, parts)

    def count(self, values: Mapping[str, float | None]) -> None:
        """Add to the counters that the cost reports (users, rows, tokens trained on).

        None is a number that nobody knows: its counter does not change.
        """
        for name, value in values.items():
            if value is None:
                continue
            self.diary.counts[name] = self.diary.counts.get(name, 0.0) + value

    def computed(self, what: str, way: str) -> None:
        """Record a way of computing something ("clipping"); the cost reports all of them."""
        text = self.diary.ways.get(what)
        ways = [] if text is None else text.split("; ")
        self.diary.ways[what] = "; ".join(dict.fromkeys([*ways, way]))

    def send(
        self,
        name: str,
        payload: Sent,
        *,
        sender: str,
        receiver: str,
        round: int,  # noqa: A002
        noisy: bool = False,
    ) -> None:
        """Record that a party sends something to another, while it does so.

        Sizes go into the cost; the payload is kept where an attack of the run needs it
        (`keeps_payload`), as a copy.

        Args:
            name: name of the message ("weights", "update").
            payload: an array (NumPy or torch); a `Size` where no single array is sent.
            sender: a party ("server"); parties of one role are numbered ("client 3").
            receiver: another party.
            round: round of the protocol, from 0.
            noisy: True if the sender's noise hides the payload, so that proofs of the release hold
                for the message too (`Message`).
        """
        shape = tuple(int(size) for size in payload.shape)
        size = int(payload.nbytes)
        message = Message(sender, receiver, round, name, shape, size, noisy=noisy)
        self.diary.messages.add(message, payload)

    def dealt(self, description: str) -> None:
        """Record that rows were dealt anew among the parties that send messages.

        Attacks that compare what a party sent with its rows in the corpus are skipped then, with
        this reason (`Messages.dealt`).

        Args:
            description: parameter that dealt them, and parties; one sentence without a full stop.
        """
        self.diary.messages.deal(description)

    def keeps_payload(self, round: int) -> bool:  # noqa: A002
        """True if an attack needs the payloads of this round's messages.

        Where it is False, a sender may give a `Size` and need not make the array.
        """
        return self.diary.messages.keeps_payload(round)

    def retrain(
        self,
        users: BoolArray,
        *,
        mechanism: Literal["same", "none"],
        seed: int,
        public_seed: int | None = None,
        splits: tuple[str, ...] = SPLITS,
    ) -> Release:
        """Train a release on the rows of some users only (cached, counted in the cost).

        Args:
            users: (user ids,) True for users whose rows become the training split.
            mechanism: "none" trains without noise on the original text.
            seed: seed of that training.
            public_seed: seed of everything public about it: initial weights and their training on
                public text; the run's own simulates an attacker who has the base model and not the
                secret seed. `seed` by default.
            splits: rows of these splits only; all by default.
        """
        if self.retrainer is None:
            raise RuntimeError("this run cannot retrain: no trainer was given")
        return self.retrainer(
            users, mechanism=mechanism, seed=seed, public_seed=public_seed, splits=splits
        )
