"""The results that the checkout publishes, read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from uedp_bench.leaderboard.bundles import SUFFIX, Line, read_lines
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.results import Result

REFERENCE = Path(__file__).parents[2] / "leaderboard" / "results"


@cache
def bundle_lines(name: str) -> tuple[Line, ...]:
    """Lines of one bundle, such as "tagging/embedded"."""
    return tuple(read_lines(REFERENCE / f"{name}{SUFFIX}"))


def bundle_names() -> list[str]:
    """Names of all bundles, such as "tagging/embedded"."""
    paths = sorted(REFERENCE.rglob(f"*{SUFFIX}"))
    return [str(path.relative_to(REFERENCE)).removesuffix(SUFFIX) for path in paths]


@cache
def reference_results() -> tuple[Result, ...]:
    """All of them."""
    return tuple(load_results([REFERENCE]))


_SHOWN = (
    "quickstart",
    "conll2003",
    "user-entity/embedded",
    "classification",
    "tagging/embedded",
    "tagging/gradient-inversion",
    "translation",
    "reproductions/deepcandidate-imdb",
    "reproductions/dpnr-ag",
    "reproductions/vickrey-imdb",
    "reproductions/vickrey-product-reviews",
)


@cache
def shown_results() -> tuple[Result, ...]:
    """Those whose pages tests open in a browser: fewer than half of all."""
    return tuple(load_results([REFERENCE / name for name in _SHOWN]))
