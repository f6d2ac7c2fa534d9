"""How many units a guarantee is about, and how many train: noise is planned for the former."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from uedp_bench.clients import clients_of
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus
    from uedp_bench.harness.pipeline import Pipeline
    from uedp_bench.mechanism import Mechanism, PublicUnits
    from uedp_bench.results import Result
    from uedp_bench.run_context import Run

NOTE = "public_sizes"
"""Name of the diagnostics that hold what `check_units` found."""


class PublicSizes(BaseModel):
    """Units declared and training.

    Attributes:
        planned_per_round: units of a round if all that are declared trained; None where rounds draw
            something else.
        expected_per_round: the same of those that train.
    """

    model_config = ConfigDict(frozen=True)
    unit: Literal["users", "clients", "records"]
    declared: int
    training: int
    planned_per_round: float | None = None
    expected_per_round: float | None = None


def check_units(pipeline: Pipeline, corpus: Corpus, run: Run) -> None:
    """Notes declared and training units and how many take part in a round, before it trains.

    The number of units that train is private: only a simulation may look at it.

    Args:
        pipeline: each of its private stages is looked at.
        corpus: what is trained on: users of the splits valid, test, public and held out have left.
        run: takes the notes.

    Raises:
        InputError: if fewer units are declared than train, and the guarantee needs them all.
    """
    for number, stage in enumerate(pipeline.training, start=1):
        rows = corpus if stage.rows == "source" or run.downstream is None else run.downstream
        inner = run.within(stage.name, number=number, stats=stage.sizes(run.stats))
        _check_units(stage.trainer, rows, inner)


def _check_units(mechanism: Mechanism[Any], corpus: Corpus, run: Run) -> None:
    units = mechanism.units(run.stats)
    if units is None:
        return
    there = _training(units, corpus)
    if units.at_least_all and there > units.declared:
        parameter = "users" if units.unit == "clients" else units.unit
        raise InputError(
            f"{mechanism.name}.{parameter} is {units.declared:,}, and more train: the guarantee "
            f"would leave some {units.unit} out; declare a public number that is not below the "
            "real one"
        )
    # Attacks see diagnostics, and are not to know which mechanism they face.
    found = PublicSizes(
        unit=units.unit,
        declared=units.declared,
        training=there,
        planned_per_round=units.sampled,
        expected_per_round=units.expected(there),
    )
    run.note(**{NOTE: found.model_dump(exclude_none=True)}, simulation_only=[NOTE])


def shortfall(result: Result) -> str | None:
    """A line that says that fewer units trained than were declared; None where all did."""
    names = [NOTE, *sorted(name for name in result.diagnostics if name.startswith(f"{NOTE}_"))]
    lines = (_shortfall(result, name) for name in names)
    return next((line for line in lines if line is not None), None)


def _shortfall(result: Result, name: str) -> str | None:
    try:
        found = PublicSizes.model_validate(result.diagnostics.get(name))
    except ValidationError:  # a result without them, or of somebody else
        return None
    if found.training >= found.declared:
        return None
    line = (
        f"{result.label}: {found.declared:,} {found.unit} are declared and {found.training:,} train"
    )
    if found.expected_per_round is not None and found.planned_per_round is not None:
        line += (
            f": {found.expected_per_round:,.4g} a round are expected in place of "
            f"{found.planned_per_round:,.4g}"
        )
    return f"{line}, and the noise is as large as if all were there"


def _training(units: PublicUnits, corpus: Corpus) -> int:
    train = corpus.where("train")
    if units.unit == "records":
        return int(train.sum())
    of = corpus.users if units.unit == "users" else clients_of(corpus)
    return len(np.unique(of[train]))
