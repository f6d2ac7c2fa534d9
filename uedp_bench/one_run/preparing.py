"""Preparation of runs: counts of their rows before any starts, and a run that is ready to start.

Counts are made once for all runs of the same rows. A run that is ready has its components, its
planted corpus, its seed and its streams.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from uedp_bench.contracts.checkpoints import PublicStages
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.run_context import Diary, Run
from uedp_bench.contracts.source import CorpusStats, second_source
from uedp_bench.contracts.transcript import MessageLog
from uedp_bench.errors import InputError
from uedp_bench.one_run.components import Components, Sources, build
from uedp_bench.one_run.execution import Execution, Meter
from uedp_bench.one_run.planted_elsewhere import planted_for
from uedp_bench.one_run.planting import Data, PlantedCorpus, load_data
from uedp_bench.one_run.public_sizes import TrainingUnits, check_units
from uedp_bench.one_run.publishing import check_there
from uedp_bench.randomness.streams import scope_of
from uedp_bench.spec.identity import Identity
from uedp_bench.store.checkpointing import checkpoints_beside, checkpoints_in


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


def check_read(parts: Components, data: Data) -> None:
    """Refuse a run some part of which reads what its sources do not fill.

    Raises:
        CapabilityError: naming the part and the column that it reads.
    """
    check_there(parts.pipeline.parts, data.corpus)
    check_there([parts.task], data.scored(data.corpus))


def prepare(
    spec: RunSpec,
    execution: Execution,
    source: tuple[Sources, Data],
    identity: Identity,
    meter: Meter,
) -> Prepared:
    """Build the components of a run and let its attacks plant.

    Args:
        spec: spec of the run.
        execution: settings of its execution.
        source: sources of the run, and the data as they made it.
        identity: identity of the run.
        meter: meter of the run.

    Raises:
        InputError: for any mistake that shows before training.
    """
    from uedp_bench.training.device import choose_device

    parts, (_, data) = build(spec, source[0]), source
    check_read(parts, data)
    meter.begin(device := choose_device(execution.device, execution.speed.threads))
    with meter("plant"):
        planted_corpus = planted_for(parts, data, spec)
    cache = execution.state_folder / "cache"
    folder = execution.state_folder / identity.id
    checkpoints = checkpoints_in(folder, identity.id, device, execution.speed, execution.pace)
    for message in checkpoints.messages:
        execution.progress(message, 0, 1)
    beside = partial(checkpoints_beside, checkpoints, device=device, speed=execution.speed)
    # They depend on task and model.
    shared = [identity.parts["task"], identity.parts["model"]]
    stages = PublicStages(cache, json.dumps(shared, sort_keys=True), beside)
    run = Run(
        spec.seed,
        planted_corpus.stats,
        device,
        execution.speed,
        planted_corpus.injected,
        spec.delta,
        progress=execution.progress,
        scope=scope_of(identity.parts, planted_corpus.corpus.fingerprint, planted_corpus.injected),
        noise_source=spec.noise_source,
        public_stages=stages,
        downstream=planted_corpus.data.visible_downstream,
        diary=Diary(messages=MessageLog(parts.keeps_messages, parts.payload_rounds)),
        checkpoints=checkpoints,
        points=execution.points,
    )
    check_units(parts.pipeline, planted_corpus.corpus, run)
    return Prepared(spec, identity, parts, planted_corpus, run, stages, cache)
