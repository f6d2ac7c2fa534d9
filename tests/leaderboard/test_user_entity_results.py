"""User-entity privacy at the price of user-level privacy: what the reference results must show."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from uedp_bench.harness.grid import expand
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.leaderboard.rows import Row, aggregate

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "leaderboard" / "results" / "user-entity"
EPSILONS = (8.0, 2.0)
USER_NOISE = {"embedded": (0.46036, 0.69744), "conll2003": (0.69415, 1.33913)}

Find = Callable[..., Row]


@cache
def _rows(source: str) -> list[Row]:
    return [row for row in aggregate(load_results([RESULTS])) if row.spec.source.name == source]


@pytest.fixture(scope="module", params=["embedded", "conll2003"])
def source(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def find(source: str) -> Find:
    """The row of a mechanism with these parameters."""
    rows = _rows(source)

    def find(name: str, **params: object) -> Row:
        (row,) = [
            row
            for row in rows
            if row.label == name
            and all(row.spec.mechanism[0].params[key] == value for key, value in params.items())
        ]
        return row

    return find


def _perplexity(row: Row) -> float:
    return row.utility["perplexity"].value


def test_every_run_of_the_packaged_spec_is_there(source: str) -> None:
    spec = "user-entity" if source == "embedded" else "user-entity-conll2003"
    data = read_spec(spec)
    # Parameters that came later have defaults that keep what the run did.
    again = [expand(parse_spec(row.spec.model_dump(mode="json"))) for row in _rows(source)]
    rows = [run.model_copy(update={"seed": 1}) for (run,) in again]
    if source == "conll2003":
        data["source"] = {"name": "conll2003", "params": {"path": "data/conll2003"}}
    wanted = expand(parse_spec({**data, "seeds": [1]}))
    assert len(rows) == len(wanted)
    assert all(run in rows for run in wanted)


@pytest.mark.parametrize("which", [0, 1])
def test_all_are_proven_at_the_same_epsilon(find: Find, source: str, which: int) -> None:
    epsilon = EPSILONS[which]
    user = find("user-dp", noise_multiplier=USER_NOISE[source][which])
    rows = [(user, "user", None)]
    for sentences in (0, 1, 3, 10):
        row = find("uedp-group", epsilon=epsilon, protected_sentences=sentences)
        rows.append((row, "user-entity", sentences))
    for clipping in ("one-level", "two-level"):
        for spread in (1, 3, 10):
            row = find("uedp-spread", epsilon=epsilon, clipping=clipping, protected_spread=spread)
            rows.append((row, "user-entity", spread))
    for row, unit, point in rows:
        (proven,) = [g for g in row.guarantees if (g.kind, g.unit) == ("proven", unit)]
        assert proven.epsilon == pytest.approx(epsilon, rel=1e-3)
        assert proven.status == "given"
        assert point is None or (proven.protected is not None and proven.protected.spread == point)


def test_the_price_of_user_level_privacy(find: Find, source: str) -> None:
    user = _perplexity(find("user-dp", noise_multiplier=USER_NOISE[source][0]))
    group = {
        sentences: _perplexity(find("uedp-group", epsilon=8.0, protected_sentences=sentences))
        for sentences in (0, 1, 3, 10)
    }
    assert group[3] <= 1.1 * user
    assert group[10] <= 1.5 * user
    assert group[0] < group[3] < group[10]
    for clipping in ("one-level", "two-level"):
        spread = _perplexity(
            find("uedp-spread", epsilon=8.0, clipping=clipping, protected_spread=10)
        )
        assert group[10] < spread


def test_the_published_noise_learns_nothing(find: Find) -> None:
    row = find("uedp")
    assert _perplexity(row) > row.utility["unigram_perplexity"].value
    assert row.diagnostics["signal_to_noise"].value < 0.01


def test_canaries_are_exposed_without_protection_only(find: Find, source: str) -> None:
    wide = "exposure_entity_spread_30"
    plain = find("noiseless").leakage["secret-sharer"]
    assert plain[wide].value > 5.0
    for sentences in (0, 1, 3, 10):
        row = find("uedp-group", epsilon=8.0, protected_sentences=sentences)
        assert row.leakage["secret-sharer"][wide].value < plain[wide].value / 2


@pytest.mark.long
def test_the_page_shows_what_the_results_hold(
    source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runpy.run_path(str(ROOT / "benchmarks" / "user_entity_table.py"))["main"](RESULTS / source)
    page = (ROOT / "docs" / "user-entity.md").read_text(encoding="utf-8")
    assert capsys.readouterr().out.strip() in page
