"""Counts of the rows of runs before any starts, made once for all runs of the same rows."""

from __future__ import annotations

import json
from dataclasses import dataclass

from uedp_bench.contracts.mechanism import CorpusStats
from uedp_bench.contracts.results import RunSpec
from uedp_bench.contracts.second_source import second_source
from uedp_bench.errors import InputError
from uedp_bench.one_run.components import Components
from uedp_bench.one_run.planted_elsewhere import planted_for
from uedp_bench.one_run.planting import Data, load_data
from uedp_bench.one_run.public_sizes import TrainingUnits


@dataclass(frozen=True)
class KnownRows:
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


class Planting:
    """Counts of planted corpora, made once for all runs of equal sources and attacks.

    The seed decides who is held out, not how many.
    """

    def __init__(self) -> None:
        self._rows: dict[str, KnownRows | InputError] = {}

    def rows_of(self, spec: RunSpec, parts: Components) -> KnownRows:
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
                self._rows[key] = _known_rows(spec, parts)
            except InputError as error:  # said once, and not looked for again
                self._rows[key] = error
        rows = self._rows[key]
        if isinstance(rows, InputError):
            raise rows
        return rows


def _known_rows(spec: RunSpec, parts: Components) -> KnownRows:
    data = load_data(parts.sources)
    planted_corpus = planted_for(parts, data, spec)
    second = data.visible_downstream
    return KnownRows(
        data.fingerprint,
        planted_corpus.stats,
        data.columns(),
        TrainingUnits.in_corpus(planted_corpus.corpus),
        None if second is None else TrainingUnits.in_corpus(second),
        tuple(planted_corpus.unplanted.values()),
    )
