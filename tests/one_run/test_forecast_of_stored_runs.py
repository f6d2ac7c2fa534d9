"""Times of a dry run are those that stored runs took, up to a factor."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from statistics import median

import pytest

from uedp_bench.contracts.results import Result
from uedp_bench.leaderboard.loading import load_results
from uedp_bench.one_run.rehearsal import rehearse

RESULTS = Path(__file__).parents[2] / "leaderboard" / "results"
FACTOR = 4.0


@pytest.mark.long
def test_forecasts_differ_from_stored_times_by_less_than_a_factor(tmp_path: Path) -> None:
    settings = defaultdict[str, list[Result]](list)
    for result in load_results([RESULTS / "quickstart"]):
        settings["+".join(part.name for part in result.spec.mechanism)].append(result)
    ratios = {}
    for name, stored in settings.items():
        forecast = rehearse(stored[0].spec, tmp_path, "cpu", attacks=True)
        assert not forecast.failures
        if not forecast.why_not:  # otherwise its time is a lower limit, and said to be one
            took = median(each.cost.cpu_seconds for each in stored)
            ratios[name] = sum(forecast.cpu_seconds.values()) / took
    assert len(ratios) >= len(settings) - 1
    machine = median(ratios.values())  # this one may be slower than the one of the stored runs
    assert all(1 / FACTOR < ratio / machine < FACTOR for ratio in ratios.values()), ratios
