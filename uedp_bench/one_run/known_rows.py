"""What is counted of the rows of runs before any starts, once for all runs of the same rows."""

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
from uedp_bench.one_run.public_sizes import UnitsThere


@dataclass(frozen=True)
class KnownRows:
    """What is known of the rows of a run before it starts.

    Attributes:
        fingerprint: of its data.
        stats: public sizes.
        columns: of the data, without rows.
        units: that train.
        downstream: the same of the task's second source.
        unplanted: why attacks could not plant.
    """

    fingerprint: str
    stats: CorpusStats
    columns: Data
    units: UnitsThere
    downstream: UnitsThere | None
    unplanted: tuple[str, ...]


class Planting:
    """Plants once for all runs of the same sources and attacks, and keeps what is counted there.

    The seed decides who is held out, not how many.
    """

    def __init__(self) -> None:
        self._known: dict[str, KnownRows | InputError] = {}

    def of(self, spec: RunSpec, parts: Components) -> KnownRows:
        """What is known of the rows of a run.

        Raises:
            InputError: if a source cannot be read, or an attack cannot plant.
        """
        refs = (spec.source, second_source(spec.task), spec.clients, *spec.attacks)
        made = str(parts.pipeline.elsewhere)
        key = json.dumps([made, *(ref and ref.model_dump(mode="json") for ref in refs)])
        if key not in self._known:
            try:
                self._known[key] = _known_rows(spec, parts)
            except InputError as error:  # said once, and not looked for again
                self._known[key] = error
        found = self._known[key]
        if isinstance(found, InputError):
            raise found
        return found


def _known_rows(spec: RunSpec, parts: Components) -> KnownRows:
    data = load_data(parts.sources)
    there = planted_for(parts, data, spec)
    second = data.visible_downstream
    return KnownRows(
        data.fingerprint,
        there.stats,
        data.columns(),
        UnitsThere.of(there.corpus),
        None if second is None else UnitsThere.of(second),
        tuple(there.unplanted.values()),
    )
