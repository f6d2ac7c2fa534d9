"""One result in Python: plain words in a terminal, and words with tables in a notebook."""

from __future__ import annotations

from uedp_bench.contracts.results import Result as Recorded
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.run_pages.in_words import result_lines
from uedp_bench.leaderboard.run_pages.summary import in_short
from uedp_bench.python_api.html import short_html


class Result(Recorded):
    """One run, with everything that was measured; `docs/results.md` has every field.

    It shows itself: what it promises, what it is worth, what attacks found, and what it cost.
    """

    @staticmethod
    def from_recorded(recorded: Recorded) -> Result:
        """Build a result that shows itself."""
        if isinstance(recorded, Result):
            return recorded
        # Every field was validated before.
        return Result.model_construct(recorded.model_fields_set, **dict(recorded))

    def __eq__(self, other: object) -> bool:
        """True for an equal result, also where it does not show itself."""
        if not isinstance(other, Recorded):
            return NotImplemented
        return dict(self) == dict(other)

    __hash__ = Recorded.__hash__

    def __repr__(self) -> str:
        """The result as `uedp-bench show` prints it."""
        return "\n".join(result_lines(self))

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """The top of the run's page: its sentences, and its tables in short."""
        (row,) = aggregate([self])
        return short_html(in_short(self, row))
