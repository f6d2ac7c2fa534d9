"""What a guarantee for records, or for users, leaves of a secret that many of them hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus
from uedp_bench.statistics.exposure import exposure_ceiling

EPSILON, HELD = 1.0, 60


class NoisyCounts(Release):
    """How many units say each text, with Laplace noise: epsilon-DP of a unit for every gap.

    Adding or removing a unit moves the counts of one gap by 1 in l1: secrets replace rows here, so
    that a row fills a gap once, and a user is counted once.
    """

    def __init__(self, corpus: Corpus, unit: str) -> None:
        train = corpus.only("train")
        ids = train.users if unit == "user" else np.arange(len(train))
        self.pairs = {(text, unit) for text, unit in zip(train.texts, ids.tolist(), strict=True)}
        self.rng = np.random.default_rng(11)

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> np.ndarray:
        wanted = {f"{before}{filler}{after}": at for at, filler in enumerate(fillers)}
        counts = self.rng.laplace(scale=1.0 / EPSILON, size=len(fillers))
        units = {(wanted[text], unit) for text, unit in self.pairs if text in wanted}
        np.add.at(counts, [at for at, _ in units], 1.0)
        return -counts


@pytest.mark.parametrize(
    ("unit", "sharers", "bounded"),
    [("record", 0, False), ("record", 1, False), ("user", 0, False), ("user", 1, True)],
)
def test_a_guarantee_bounds_what_one_unit_holds(
    unit: str,
    sharers: int,
    bounded: bool,
    make_corpus: Callable[..., Corpus],
    make_run: Callable[..., Run],
) -> None:
    corpus = make_corpus(users=40, rows=160)
    params = {
        "layout": "HSH", "occurrences": [1, HELD], "canaries": 40, "word_pool": 80,
        "planting": "rows", "sharers": sharers,
    }  # fmt: skip
    attack = SecretSharer.create(params)
    after, planted = attack.plant(corpus, np.random.default_rng(3))
    leakage = attack.run(NoisyCounts(after, unit), planted, after, make_run(1))
    limit = leakage.metrics["exposure_limit"].value
    one, many = (row for row in leakage.details["by_occurrences"])
    assert (one["rows"], many["rows"]) == (1, HELD)
    # Forty secrets: the mean strays by half a bit at most, almost always.
    assert one["exposure"] < exposure_ceiling(EPSILON, 0.0, limit) + 0.5
    units = many["users"] if unit == "user" else many["rows"]
    ceiling = exposure_ceiling(EPSILON * units, 0.0, limit)
    assert (ceiling < limit) == bounded
    if bounded:
        assert many["exposure"] < ceiling + 0.5
        assert many["extracted"] < 0.3
    else:  # epsilon is that of one unit: it says nothing of so many
        assert many["exposure"] == pytest.approx(limit)
        assert many["extracted"] == 1.0
