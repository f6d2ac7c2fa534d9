"""Units that a guarantee is about, and units that train: noise is planned for the former."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from uedp_bench.contracts.clients import CLIENT, NO_CLIENTS, clients_of
from uedp_bench.corpus import distinct
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.contracts.mechanism import Mechanism
    from uedp_bench.contracts.results import Result
    from uedp_bench.contracts.run_context import Run
    from uedp_bench.contracts.source import CorpusStats
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
