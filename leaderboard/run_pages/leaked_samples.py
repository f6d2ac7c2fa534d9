"""Samples of what leaked: planted texts that a release gives back, and text that attacks read.

Attacks invent what they plant from public words, so those samples show nobody's text. Text that
they read is in a result only where it is generated, or where its owner lets it be shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, TypeAdapter

from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.run_pages.detail_shapes import shaped
from uedp_bench.leaderboard.run_pages.detail_tables import Table, table
from uedp_bench.results import Result, Sample

MOST = 5
"""Samples of an attack; all canaries stand in its section."""


class _Planted(BaseModel):
    text: str
    rank: int
    exposure: float
    kind: str = "canary"
    occurrences: int | None = None
    beam_search: bool | None = None


_PLANTED = TypeAdapter(list[_Planted])


@dataclass(frozen=True)
class Samples:
    """Tables of samples.

    Attributes:
        planted: texts that attacks planted and the release gives back.
        read: texts beside what attacks read of them.
    """

    planted: tuple[Table, ...]
    read: tuple[Table, ...]


def samples(result: Result) -> Samples:
    """Samples of all attacks of a run."""
    return Samples(tuple(_planted(result.details)), tuple(_read(result.samples)))


def _read(found: Mapping[str, Sequence[Sample]]) -> Iterator[Table]:
    """A table for every attack that read something."""
    head = ("private text", "what the attacker saw", "what it read, and rightly")
    for attack, read in found.items():
        if read:
            yield table(attack, head, [(one.private, one.seen, one.read) for one in read])


def _planted(details: Mapping[str, Any]) -> Iterator[Table]:
    """A table for every attack whose planted texts the release gives back, the rarest first."""
    for attack, told in details.items():
        planted = shaped(_PLANTED, told.get("canaries")) if isinstance(told, Mapping) else None
        # First among all references, or said by the model itself.
        back = [one for one in planted or () if one.rank == 1 or one.beam_search]
        back.sort(key=lambda one: (not one.beam_search, one.occurrences or 0, one.text))
        rows = [
            (
                one.text, one.kind, "–" if one.occurrences is None else one.occurrences,
                "says it when asked for what follows its beginning" if one.beam_search
                else "prefers it to all references",
                f"{number(one.exposure)} bits",
            )
            for one in back[:MOST]
        ]  # fmt: skip
        if rows:
            head = ("planted text", "kind", "times in training", "the model", "exposure")
            caption = f"{attack}: {len(back)} of {len(planted or ())} planted texts come back"
            yield table(caption, head, rows, numbers=(2, 4))
