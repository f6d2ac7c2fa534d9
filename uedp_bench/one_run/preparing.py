"""Preparation of runs: settings of an execution, public sizes and counts of rows, a ready run."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from uedp_bench.contracts.checkpoints import Checkpoints, Pace, PublicStages
from uedp_bench.contracts.clients import CLIENT, NO_CLIENTS, clients_of
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.run_context import (
    Diary,
    Points,
    Progress,
    Run,
    Speed,
    no_points,
    no_progress,
)
from uedp_bench.contracts.source import CorpusStats, second_source
from uedp_bench.contracts.transcript import MessageLog, Transcript
from uedp_bench.corpus import distinct
from uedp_bench.errors import InputError
from uedp_bench.io.folders import CHECKPOINT
from uedp_bench.one_run.components import Components, Sources, build
from uedp_bench.one_run.planted_elsewhere import planted_before
from uedp_bench.one_run.planting import Data, PlantedCorpus, load_data, plant
from uedp_bench.one_run.publishing import check_read
from uedp_bench.one_run.stored_run import made_by
from uedp_bench.randomness import scope_of
from uedp_bench.spec.identity import Identity

if TYPE_CHECKING:
    from uedp_bench.contracts.mechanism import Mechanism
    from uedp_bench.contracts.results import Result
    from uedp_bench.corpus import Corpus
    from uedp_bench.one_run.pipeline import Pipeline

NOTE = "public_sizes"
"""Name of the diagnostics that hold what `check_units` found."""


class PublicSizes(BaseModel):
    """Units declared and training.

    Attributes:
        planned_per_round: units of a round if all that are declared trained; None where rounds draw
            something else.
        expected_per_round: expected number in a round of those that train.
    """

    model_config = ConfigDict(frozen=True)
    unit: Literal["users", "clients", "records"]
    declared: int
    training: int
    planned_per_round: float | None = None
    expected_per_round: float | None = None


def check_units(pipeline: Pipeline, corpus: Corpus, run: Run) -> None:
    """Note declared units, training units and units in a round, before the run trains.

    The number of units that train is private: only a simulation may look at it.

    Args:
        pipeline: pipeline with the private stages.
        corpus: training corpus: users of the splits valid, test, public and held out have left.
        run: run that takes the notes.

    Raises:
        InputError: if fewer units are declared than train, and the guarantee needs them all.
    """
    second = None if run.downstream is None else TrainingUnits.in_corpus(run.downstream)
    sizes = unit_sizes(pipeline, TrainingUnits.in_corpus(corpus), second, run.stats)
    for number, (stage, units) in enumerate(zip(pipeline.training, sizes, strict=True), start=1):
        if units is not None:
            # Attacks see diagnostics, and are not to know which mechanism they face.
            note = {NOTE: units.model_dump(exclude_none=True)}
            run.within(stage.name, number=number).note(**note, simulation_only=[NOTE])


class TrainingUnits(NamedTuple):
    """Units of the train split of a corpus, which are private."""

    users: int
    clients: int | None
    records: int

    @staticmethod
    def in_corpus(corpus: Corpus) -> TrainingUnits:
        """Count the units of a corpus."""
        train = corpus.where("train")
        users = len(distinct(corpus.users[train]))
        dealt = CLIENT in corpus.groups
        clients = len(np.unique(clients_of(corpus)[train])) if dealt else None
        return TrainingUnits(users, clients, int(train.sum()))


def unit_sizes(
    pipeline: Pipeline,
    training_units: TrainingUnits,
    downstream: TrainingUnits | None,
    stats: CorpusStats,
) -> tuple[PublicSizes | None, ...]:
    """Units of each private stage; None where a guarantee depends on no such number.

    Args:
        pipeline: pipeline with the private stages.
        training_units: units that train.
        downstream: units of the task's second source that train.
        stats: public sizes.

    Raises:
        InputError: see `check_units`.
    """
    return tuple(
        _sizes_of(
            stage.trainer,
            training_units if stage.rows == "source" or downstream is None else downstream,
            stage.sizes(stats),
        )
        for stage in pipeline.training
    )


def _sizes_of(
    mechanism: Mechanism[Any], training_units: TrainingUnits, stats: CorpusStats
) -> PublicSizes | None:
    units = mechanism.units(stats)
    if units is None:
        return None
    training: int | None = getattr(training_units, units.unit)
    if training is None:
        raise InputError(NO_CLIENTS, mends=("clients.count=10",))
    if units.at_least_all and training > units.declared:
        parameter = "users" if units.unit == "clients" else units.unit
        raise InputError(
            f"{mechanism.name}.{parameter} is {units.declared:,}, and more train: the guarantee "
            f"would leave some {units.unit} out; declare a public number that is not below the "
            "real one",
            mends=(f"mechanism.{mechanism.name}.{parameter}={enough(training)}",),
        )
    return PublicSizes(
        unit=units.unit,
        declared=units.declared,
        training=training,
        planned_per_round=units.sampled,
        expected_per_round=units.expected(training),
    )


def enough(private_count: int) -> int:
    """A round number that is not below a private one, and tells two digits of it."""
    unit = int(10 ** max(len(str(private_count)) - 2, 0))
    return -(-private_count // unit) * unit


def shortfall(result: Result) -> str | None:
    """A line that says that fewer units trained than were declared; None where all did."""
    names = [NOTE, *sorted(name for name in result.diagnostics if name.startswith(f"{NOTE}_"))]
    lines = (_shortfall(result, name) for name in names)
    return next((line for line in lines if line is not None), None)


def _shortfall(result: Result, name: str) -> str | None:
    try:
        units = PublicSizes.model_validate(result.diagnostics.get(name))
    except ValidationError:  # a result without them, or of somebody else
        return None
    if units.training >= units.declared:
        return None
    line = (
        f"{result.label}: {units.declared:,} {units.unit} are declared and {units.training:,} train"
    )
    if units.expected_per_round is not None and units.planned_per_round is not None:
        line += (
            f": {units.expected_per_round:,.4g} a round are expected in place of "
            f"{units.planned_per_round:,.4g}"
        )
    return f"{line}, and the noise is as large as if all were there"


@dataclass(frozen=True)
class Execution:
    """Settings of an execution; none of them enters a run's identity.

    Attributes:
        out: folder of results; a run writes into `out/<id>/`.
        device: "auto", "cpu", "cuda" or any torch device.
        failures: number of earlier failures of the run, other than on bad input.
        keep_release: True to keep the release beside the result, and checkpoints of a run that
            failed.
        state: folder of checkpoints and of models that runs share, where they are kept whatever
            `keep_release` says; None: `out`.
        pace: interval between checkpoints of a training.
        points: receiver of the series of a run while it trains.
    """

    out: Path
    device: str = "auto"
    speed: Speed = field(default_factory=Speed)
    progress: Progress = no_progress
    failures: int = 0
    keep_release: bool = True
    state: Path | None = None
    pace: Pace = field(default_factory=Pace)
    points: Points = no_points

    @property
    def state_folder(self) -> Path:
        """Folder of checkpoints, by run, and of models that runs share."""
        return self.out if self.state is None else self.state

    @property
    def keeps_checkpoints(self) -> bool:
        """True if checkpoints of a run that failed are kept."""
        return self.keep_release or self.state is not None


@dataclass(frozen=True)
class RowCounts:
    """Counts of the rows of a run, known before it starts.

    Attributes:
        fingerprint: fingerprint of its data.
        stats: public sizes.
        columns: columns of the data, without rows.
        units: numbers of units that train.
        downstream: numbers of units that train, of the task's second source.
        unplanted: reasons why attacks could not plant.
    """

    fingerprint: str
    stats: CorpusStats
    columns: Data
    units: TrainingUnits
    downstream: TrainingUnits | None
    unplanted: tuple[str, ...]


class PlantedCounts:
    """Counts of planted corpora, made once for all runs of equal sources and attacks.

    The seed decides who is held out, not how many.
    """

    def __init__(self) -> None:
        self._rows: dict[str, RowCounts | InputError] = {}

    def counts_of(self, spec: RunSpec, parts: Components) -> RowCounts:
        """Counts of the rows of a run.

        Raises:
            InputError: if a source cannot be read, or an attack cannot plant.
        """
        refs = (spec.source, second_source(spec.task), spec.clients, *spec.attacks)
        training_elsewhere = str(parts.pipeline.elsewhere)
        key = json.dumps(
            [training_elsewhere, *(ref and ref.model_dump(mode="json") for ref in refs)]
        )
        if key not in self._rows:
            try:
                self._rows[key] = _row_counts(spec, parts)
            except InputError as error:  # said once, and not looked for again
                self._rows[key] = error
        rows = self._rows[key]
        if isinstance(rows, InputError):
            raise rows
        return rows


def _row_counts(spec: RunSpec, parts: Components) -> RowCounts:
    data = load_data(parts.sources)
    planted_corpus = planted_for(parts, data, spec)
    second = data.visible_downstream
    return RowCounts(
        data.fingerprint,
        planted_corpus.stats,
        data.columns(),
        TrainingUnits.in_corpus(planted_corpus.corpus),
        None if second is None else TrainingUnits.in_corpus(second),
        tuple(planted_corpus.unplanted.values()),
    )


# ------------------------------------------------------------------------------ a run that is ready


@dataclass(frozen=True)
class Prepared:
    """Prepared run: everything that its steps need, built once.

    Attributes:
        spec: spec of the run.
        identity: identity of the run on its corpus.
        parts: components of the run.
        planted_corpus: corpus of the run, with everything planted.
        run: context of the run.
        public_stages: store of models after training on public text, kept for other runs.
        cache: folder of models that runs share.
    """

    spec: RunSpec
    identity: Identity
    parts: Components
    planted_corpus: PlantedCorpus
    run: Run
    public_stages: PublicStages
    cache: Path


def planted_for(parts: Components, data: Data, spec: RunSpec) -> PlantedCorpus:
    """The corpus that a run protects and attacks: planted now, or before somebody trained.

    Raises:
        InputError: for whatever can be known to be wrong before training.
    """
    if (elsewhere := parts.pipeline.elsewhere) is not None:
        return planted_before(parts, data, spec, elsewhere.coins)
    return plant(parts.attacks, parts.sources, data, spec.seed, spec.clients)


def _checkpoints_beside(
    around: Checkpoints, folder: Path, device: str, speed: Speed
) -> Checkpoints:
    """Checkpoints of a model in a folder of its own, that a run trains for others too."""
    if around.folder is None:
        return Checkpoints()
    identity = partial(made_by, folder.name, device, speed)
    return Checkpoints(folder / CHECKPOINT, identity, around.pace, around)


def prepare(
    spec: RunSpec,
    execution: Execution,
    source: tuple[Sources, Data],
    identity: Identity,
    planting: Callable[[str], AbstractContextManager[object]] = nullcontext,
) -> Prepared:
    """Build the components of a run and let its attacks plant.

    Args:
        spec: spec of the run.
        execution: settings of its execution.
        source: sources of the run, and the data as they made it.
        identity: identity of the run.
        planting: context in which attacks plant, made of the device of the run.

    Raises:
        InputError: for any mistake that shows before training.
    """
    from uedp_bench.training.device import choose_device

    parts, (_, data) = build(spec, source[0]), source
    check_read(parts, data)
    device = choose_device(execution.device, execution.speed.threads)
    with planting(device):
        planted_corpus = planted_for(parts, data, spec)
    injected = planted_corpus.injected
    cache = execution.state_folder / "cache"
    checkpoints = Checkpoints(
        execution.state_folder / identity.id / CHECKPOINT,
        partial(made_by, identity.id, device, execution.speed),
        execution.pace,
    )
    for message in checkpoints.messages:
        execution.progress(message, 0, 1)
    beside = partial(_checkpoints_beside, checkpoints, device=device, speed=execution.speed)
    # They depend on task and model.
    shared = [identity.parts["task"], identity.parts["model"]]
    stages = PublicStages(cache, json.dumps(shared, sort_keys=True), beside)
    payload_rounds = max((attack.payload_rounds() for attack in parts.attacks), default=0)
    keeps_messages = payload_rounds > 0 or any(Transcript in one.needs for one in parts.attacks)
    run = Run(
        spec.seed,
        planted_corpus.stats,
        device,
        execution.speed,
        injected,
        spec.delta,
        progress=execution.progress,
        scope=scope_of(identity.parts, planted_corpus.corpus.fingerprint, injected),
        noise_source=spec.noise_source,
        public_stages=stages,
        downstream=planted_corpus.data.visible_downstream,
        diary=Diary(messages=MessageLog(keeps_messages, payload_rounds)),
        checkpoints=checkpoints,
        points=execution.points,
    )
    check_units(parts.pipeline, planted_corpus.corpus, run)
    return Prepared(spec, identity, parts, planted_corpus, run, stages, cache)
