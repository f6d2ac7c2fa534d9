"""Shows results of anybody: one that cannot be shown is named in one line, and the others are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from uedp_bench.contracts.results import Result
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.io.messages import plain
from uedp_bench.leaderboard.loading import Loaded
from uedp_bench.leaderboard.sources import Copy

_Shown = TypeVar("_Shown")


def without_culprits(
    loaded: Loaded, show: Callable[[Sequence[Result]], _Shown]
) -> tuple[_Shown, list[str]]:
    """Show all results that can be shown, with a line for each of the others.

    A file may have the form of a result and hold, where anything may stand, what no table expects.
    Each result is tried alone only where all of them together have failed.

    Args:
        loaded: the results.
        show: makes a table or pages of results; whatever it has done of some, it does again of
            fewer.

    Raises:
        InputError: if each of them can be shown alone, and all of them together cannot.
    """
    try:
        return show(loaded.results), []
    except UedpBenchError:
        raise
    except Exception as reason:
        trouble_of = {copy.result.id: trouble(copy) for copy in loaded.copies.values()}
        kept = [result for result in loaded.results if not trouble_of[result.id]]
        if len(kept) == len(trouble_of):
            raise InputError(
                f"these results cannot be shown together: {reason_line(reason)}"
            ) from None
    try:
        return show(kept), [line for line in trouble_of.values() if line]
    except UedpBenchError:
        raise
    except Exception as reason:
        raise InputError(f"these results cannot be shown together: {reason_line(reason)}") from None


def trouble(copy: Copy) -> str:
    """Why a result cannot be shown; empty where it can."""
    from uedp_bench.leaderboard.site_files import render_alone
    from uedp_bench.leaderboard.table import aggregate, to_text

    try:
        render_alone(copy.result)
        to_text(aggregate([copy.result]))
    except Exception as reason:
        return f"{plain(copy.place)}: cannot be shown: {reason_line(reason)}"
    return ""


def reason_line(reason: Exception) -> str:
    """The reason in one line."""
    return plain(f"{type(reason).__name__}: {' '.join(str(reason).split())}", 200)
