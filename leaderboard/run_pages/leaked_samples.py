"""Samples of what leaked: planted texts that a release gives back.

Attacks invent what they plant from public words, so these samples show nobody's text. What they
read of private text is no sample here, and results do not keep it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter

from uedp_bench.leaderboard.cell_text import number
from uedp_bench.leaderboard.run_pages.detail_shapes import shaped
from uedp_bench.leaderboard.run_pages.detail_tables import Table, table

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


def samples(details: Mapping[str, Any]) -> tuple[Table, ...]:
    """A table for every attack whose planted texts the release gives back, the rarest first.

    Args:
        details: of the attacks, by name.
    """
    found = []
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
            found.append(table(caption, head, rows, numbers=(2, 4)))
    return tuple(found)
