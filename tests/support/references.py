"""The results that the checkout publishes, read once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.sources import SUFFIX, Line, read_lines

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
def bundle_results(name: str) -> tuple[Result, ...]:
    """Results of one bundle; they are frozen, so that tests share them."""
    return tuple(load_results([REFERENCE / name]))


@cache
def reference_results() -> tuple[Result, ...]:
    """All of them."""
    return tuple(result for name in bundle_names() for result in bundle_results(name))


@cache
def first_results() -> dict[tuple[str, str], Result]:
    """The first result of each bundle and mechanism."""
    results: dict[tuple[str, str], Result] = {}
    for name in bundle_names():
        for result in bundle_results(name):
            results.setdefault((name, result.label), result)
    return results


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
    return tuple(result for name in _SHOWN for result in bundle_results(name))
