"""How many units a guarantee is about, and how many train: noise is planned for the former."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus
    from uedp_bench.mechanism import Mechanism, PublicUnits
    from uedp_bench.run import Run

NOTE = "public_sizes"
"""Of the diagnostics that hold what `check_units` found."""


def check_units(mechanism: Mechanism[Any], corpus: Corpus, run: Run) -> None:
    """Notes declared and training units and how many take part in a round, before it trains.

    `corpus` is what is trained on: users of the splits valid, test, public and held out have left.
    The number of units that train is private: only a simulation may look at it.

    Raises:
        InputError: if fewer units are declared than train, and the guarantee needs them all.
    """
    units = mechanism.units(run.stats)
    if units is None:
        return
    there = _training(units, corpus)
    if units.at_least_all and there > units.declared:
        raise InputError(
            f"{mechanism.name}.{units.unit} is {units.declared:,}, and more train: the guarantee "
            f"would leave some {units.unit} out; declare a public number that is not below the "
            "real one"
        )
    found: dict[str, Any] = {
        "mechanism": mechanism.name, "unit": units.unit, "declared": units.declared,
        "training": there,
    }  # fmt: skip
    if units.sampled is not None:
        found |= {"planned_per_round": units.sampled, "expected_per_round": units.expected(there)}
    run.note(**{NOTE: found}, simulation_only=[NOTE])


def shortfall(diagnostics: Mapping[str, Any]) -> str | None:
    """A line that says that fewer units train than were declared; None where all do."""
    found = diagnostics.get(NOTE)
    if not isinstance(found, Mapping) or found["training"] >= found["declared"]:
        return None
    line = (
        f"{found['mechanism']}: {found['declared']:,} {found['unit']} are declared and "
        f"{found['training']:,} train"
    )
    if "expected_per_round" in found:
        line += (
            f": {found['expected_per_round']:,.4g} a round are expected in place of "
            f"{found['planned_per_round']:,.4g}"
        )
    return f"{line}, and the noise is as large as if all were there"


def _training(units: PublicUnits, corpus: Corpus) -> int:
    train = corpus.where("train")
    return int(train.sum()) if units.unit == "records" else len(np.unique(corpus.users[train]))
