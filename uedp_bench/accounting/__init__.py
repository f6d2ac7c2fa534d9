"""Guarantees: events in, epsilons out; imports neither torch nor any mechanism.

`epsilon_lower_bound` and `best_of` (of `lower_bounds`) load on first use.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uedp_bench.bounds.lower_bounds import best_of, epsilon_lower_bound

__all__ = ["best_of", "epsilon_lower_bound"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from uedp_bench.bounds import lower_bounds

    return getattr(lower_bounds, name)
