"""Membership scores by shadow models, which saw half of the judged users each.

A shadow model is trained on what the release was trained on, but with other users in the place of
the members: all other training users, and a random half of members and non-members together. So it
has as many users as the release, and its mechanism draws and adds noise at the same rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from uedp_bench.attacks.membership.shadow_scores import (
    Confidence,
    lira,
    lira_offline,
    offline_slope,
    rmia,
    without_ties,
)

if TYPE_CHECKING:
    from uedp_bench.attacks.membership.asked_rows import Asked, Confidences
    from uedp_bench.attacks.membership.records import PlantedMembership, Records
    from uedp_bench.corpus import BoolArray, FloatArray, IntArray
    from uedp_bench.release import Release
    from uedp_bench.run_context import Run

POPULATION = 2000
"""Test rows that RMIA compares with, at most: its score is a multiple of 1 / so many."""

TRAINED_ON = ("train", "held_out")
"""Splits of the rows that shadow models are trained on: never test rows of these users."""


class Shadows(NamedTuple):
    """Number of shadow models, and the mechanism that trains them ("same": that of the run)."""

    models: int
    mechanism: Literal["same", "none"]


class _Answers(NamedTuple):
    """Answers of the shadow models.

    Attributes:
        inside: (models, records) True where a model was trained on a record.
        records: of each model.
        population: (models, rows) probabilities of the truth about the population.
    """

    inside: BoolArray
    records: list[Confidences]
    population: FloatArray


def shadow_scores(
    release: Release,
    judged: tuple[Records, PlantedMembership],
    asked: Asked,
    shadows: Shadows,
    run: Run,
) -> tuple[Records, dict[str, FloatArray], str, dict[str, Any]]:
    """The records with a truth to ask about, their scores by name, and the name of the main one.

    Scores are high for members. The main one is the first that can be computed: `rmia`, which needs
    shadow models and test rows; `lira`, which needs shadow models; `Asked.own`.

    Args:
        release: that is attacked.
        judged: the records, and who is in and out.
        asked: what releases of its kind are asked.
        shadows: models to ask for.
        run: of the release.

    Returns:
        Records, scores, name of the main score, details.
    """
    before, planted = judged
    known = asked.known[before.rows]
    records = before.only(known, f"rows without a {asked.truth} are")
    mine = asked.of(release, records.rows)
    high = {asked.own: mine.logp}
    details: dict[str, Any] = {f"records_without_{asked.truth}": int((~known).sum()), "notes": []}
    if not shadows.models or run.retrainer is None:
        why = "attack.membership.shadow_models is 0" if run.retrainer else "this run cannot retrain"
        details |= {"shadows": None, "notes": [f"no shadow models: {why}; auc is of {asked.own}"]}
        return records, high, asked.own, details
    population = _population(asked, run)
    found = _trained((records, planted), asked, population, shadows, run)
    inside, odds = found.inside, np.stack([each.odds for each in found.records])
    high |= {
        "lira": lira(mine.odds, odds, inside),
        "lira_offline": lira_offline(mine.odds, odds, ~inside),
    }
    details["shadows"] = {**shadows._asdict(), "population_rows": len(population)}
    if not len(population):
        details["notes"].append(f"no rmia: no test row has a {asked.truth}; auc is of lira")
        return records, high, "lira", details
    sure = np.exp([each.logp for each in found.records])
    means = [np.where(side, sure, 0.0).sum(axis=0) / side.sum(axis=0) for side in (inside, ~inside)]
    slope = offline_slope(*means)
    there = np.exp(asked.of(release, population).logp)
    mine_sure, others = Confidence(np.exp(high[asked.own]), means[1]), found.population.mean(axis=0)
    shares = rmia(mine_sure, Confidence(there, others), slope)
    high["rmia"] = without_ties(shares, mine_sure.ratio(slope), len(there))
    details["shadows"]["rmia_a"] = slope
    return records, high, "rmia", details


def _population(asked: Asked, run: Run) -> IntArray:
    """Test rows with a truth to ask about: nobody trains on them."""
    rows = np.flatnonzero(asked.corpus.where("test") & asked.known)
    return np.sort(run.shared("membership", "population").permutation(rows)[:POPULATION])


def halves(users: int, models: int, rng: np.random.Generator) -> BoolArray:
    """(models, users) who trains which model: every user exactly half of them, in random halves."""
    out = np.zeros((models, users), dtype=bool)
    for pair in range(0, models, 2):
        out[pair, rng.permutation(users)[: users // 2]] = True
        out[pair + 1] = ~out[pair]
    return out


def _trained(
    judged: tuple[Records, PlantedMembership],
    asked: Asked,
    population: IntArray,
    shadows: Shadows,
    run: Run,
) -> _Answers:
    """Trains the shadow models and asks them about the records and the population."""
    (records, planted), corpus = judged, asked.corpus
    users = np.array([*planted.members, *planted.non_members])
    chosen = halves(len(users), shadows.models, run.shared("membership", "shadows"))
    mask = np.zeros(corpus.user_count, dtype=bool)
    mask[corpus.users[corpus.where("train") & (corpus.users >= 0)]] = True
    inside, shown, outer = [], [], []
    for model in range(shadows.models):
        run.progress("membership: shadow models", model, shadows.models)
        mask[users] = chosen[model]
        seed = int(run.shared("membership", "shadow", model).integers(2**31))
        shadow = run.retrain(mask, mechanism=shadows.mechanism, seed=seed, splits=TRAINED_ON)
        shown.append(asked.of(shadow, records.rows))
        outer.append(np.exp(asked.of(shadow, population).logp))
        inside.append(mask[records.users])
    return _Answers(np.array(inside), shown, np.array(outer))
