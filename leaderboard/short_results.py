"""Results without what only the page of a run shows: many of them fit into memory, and an index."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from uedp_bench.harness.public_sizes import NOTE
from uedp_bench.leaderboard.older_code import versions_of
from uedp_bench.results import CHECKED, ComponentSpec, Result

LEFT_OUT: dict[str, Any] = {
    "details": {}, "series": {}, "events": (), "stages": None, "pretraining": {}, "stored": {},
}  # fmt: skip
"""Fields that no table shows, and what stands in their place."""

_MADE = ("corpus", "downstream", "vocabulary")


def short(result: Result) -> Result:
    """The result as tables, plots and rows of the leaderboard read it.

    Of its provenance there remain the date, fingerprints, and versions of components; of its
    diagnostics the numbers, and what stands in a table.
    """
    came, told = result.provenance, result.diagnostics
    provenance: dict[str, Any] = {
        name: {"fingerprint": part["fingerprint"]}
        for name in _MADE
        if isinstance(part := came.get(name), dict) and isinstance(part.get("fingerprint"), str)
    }
    if "created" in came:
        provenance["created"] = str(came["created"])
    if "identity" in came:
        provenance["identity"] = versions_of(came["identity"])
    diagnostics = {
        name: value
        for name, value in told.items()
        if name in ("epsilon_at", NOTE) or isinstance(value, int | float | str)
    }
    return result.model_copy(
        update={**LEFT_OUT, "provenance": provenance, "diagnostics": diagnostics}
    )


class Shared:
    """Parts of specs that several results have in common, each kept once."""

    def __init__(self) -> None:
        self._known: dict[str, ComponentSpec] = {}

    def shared(self, result: Result) -> Result:
        """The same result; components of its spec that were there before are those of before."""
        spec = result.spec
        parts = {name: self._one(getattr(spec, name)) for name in ("task", "source", "model")}
        several = {
            name: tuple(map(self._one, getattr(spec, name))) for name in ("mechanism", "attacks")
        }
        return result.model_copy(update={"spec": spec.model_copy(update={**parts, **several})})

    def _one(self, part: ComponentSpec) -> ComponentSpec:
        return self._known.setdefault(repr((part.name, part.params)), part)


def as_text(result: Result) -> str:
    """A short result as an index keeps it."""
    return result.model_dump_json(exclude_defaults=True)


def of_text(text: str | None) -> Result | None:
    """The result that `as_text` gave; None where there is no such text."""
    try:
        return None if text is None else Result.model_validate_json(text, context=CHECKED)
    except ValidationError:
        return None
