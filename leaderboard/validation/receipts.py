"""Parts of a result that anybody, or its owner alone, can compute again, and revealed coins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from uedp_bench.components import registry
from uedp_bench.contracts.recorded_identity import unreviewed_of_result
from uedp_bench.contracts.results import Result
from uedp_bench.errors import UedpBenchError
from uedp_bench.leaderboard.boards import is_generated
from uedp_bench.leaderboard.validation.components import check_backing
from uedp_bench.leaderboard.validation.report import Problem, error, note, plain, shown

COINS = "provenance.coins"
"""Place of the commitment in a result."""


def receipt(result: Result) -> str:
    """Sentences on who can compute which part of a finished result again, and what is stated."""
    coins = "coins" in result.provenance
    parts = (
        ("guarantees, from events", bool(result.events)),
        ("lower bounds, from scores", bool(result.lower_bounds)),
        ("planting, once the coins are revealed", coins),
        ("the run, from its spec", is_generated(result.spec) and not coins),
    )
    anybody = "; ".join(text for text, holds in parts if holds) or "nothing"
    rest = "the data and the model" if coins else "the data"
    owner = "" if parts[-1][1] else f" The rest: whoever has {rest}."
    strangers = ", ".join(unreviewed_of_result(result))
    stated = f"; what {strangers} says of itself, which nobody reviewed" if strangers else ""
    return f"Anybody can compute again: {anybody}.{owner} Stated: that events happened{stated}."


def check_coins(path: Path, result: Result) -> Iterator[Problem]:
    """Problems where a result is not what revealed coins say.

    Planting is computed again from the key, on the source that the spec of the result names, and
    the sides of all scores from the coins; bounds follow from the sides. No model is asked.

    Args:
        path: coins of `uedp-bench plant`.
        result: result of an attack on a model that was trained elsewhere.
    """
    from uedp_bench.one_run.components import build_sources
    from uedp_bench.one_run.planted_elsewhere import planted_by, read_coins
    from uedp_bench.one_run.planting import load_data

    coins, commitment = read_coins(path), result.provenance.get("coins")
    if commitment != coins.commitment:
        what = f"{shown(commitment)} is not the commitment of the revealed coins"
        yield error(COINS, f"{what}, {coins.commitment}")
        return
    corpus = result.provenance.get("corpus")
    stored = corpus.get("planted_fingerprint") if isinstance(corpus, dict) else None
    if stored != coins.corpus:
        what = f"{shown(stored)} is not that of the revealed coins, {coins.corpus}"
        yield error("provenance.corpus.planted_fingerprint", what)
    planted = {
        name: registry.attacks.get(name).planted_type.model_validate(value)
        for name, value in coins.planted.items()
    }
    yield from check_backing(result, planted)
    try:
        sources = build_sources(result.spec)
        data = load_data(sources)
    except UedpBenchError as reason:
        yield note(COINS, f"planting was not computed again: {plain(str(reason), 200)}")
        return
    try:
        planted_by(coins, sources, data, path)
    except UedpBenchError as reason:
        yield error(COINS, plain(str(reason), 300))
        return
    yield note(COINS, "opens to the revealed coins: planting, sides of scores and bounds agree")
