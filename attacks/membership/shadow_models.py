"""Membership scores by shadow models, which saw half of the judged users each.

A shadow model is trained on what the release was trained on, but with other users in the place of
the members: all other training users, and a random half of members and non-members together. So it
has as many users as the release, and its mechanism draws and adds noise at the same rates. It
starts from the release's own base model, which everybody has, and its secret seed is another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from uedp_bench.api.statistics import auc
from uedp_bench.attacks.membership.records import Score
from uedp_bench.attacks.membership.shadow_scores import (
    Confidence,
    calibrated,
    lira,
    lira_offline,
    lira_shrunk,
    offline_slope,
    rmia,
    without_ties,
)

if TYPE_CHECKING:
    from uedp_bench.api import Release, Run
    from uedp_bench.attacks.membership.questions import Confidences, Question
    from uedp_bench.attacks.membership.records import PlantedMembership, Records
    from uedp_bench.corpus import BoolArray, FloatArray, IntArray

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
        records: records of each model.
        population: (models, rows) probabilities of the truth about the population.
    """

    inside: BoolArray
    records: list[Confidences]
    population: FloatArray


def shadow_scores(
    release: Release,
    mine: Confidences,
    judged: tuple[Records, PlantedMembership],
    questions: Question,
    shadows: Shadows,
    run: Run,
) -> tuple[dict[str, Score], dict[str, Any]]:
    """Scores beside shadow models by name, high for members; and details.

    `lira_shrunk` is of records and, from the means of their records, of users.

    Args:
        release: release that is attacked.
        mine: its answers, of the records.
        judged: the records, and who is in and out.
        questions: questions that releases of this kind answer.
        shadows: models to ask for.
        run: run of the release.
    """
    records, _ = judged
    if not shadows.models or run.retrainer is None:
        why = "attack.membership.shadow_models is 0" if run.retrainer else "this run cannot retrain"
        return {}, {"shadows": None, "notes": [f"no shadow models: {why}"]}
    population = _population(questions, run)
    answers = _trained(judged, questions, population, shadows, run)
    inside, odds = answers.inside, np.stack([each.odds for each in answers.records])
    logp = np.stack([each.logp for each in answers.records])
    values = {
        "calibrated": calibrated(mine.logp, logp, ~inside),
        "lira": lira(mine.odds, odds, inside),
        "lira_offline": lira_offline(mine.odds, odds, ~inside),
    }
    about: dict[str, Any] = {**shadows._asdict(), "public_seed": run.seed}
    about["population_rows"] = len(population)
    notes = []
    if len(population):
        values["rmia"], about["rmia_a"] = _rmia(release, mine, questions, population, answers)
    else:
        notes.append(f"no rmia: no test row has a {questions.truth}")
    scores = {name: records.mean(each, mine.sizes) for name, each in values.items()}
    scores["lira_shrunk"] = shrunk(records, mine, odds, inside)
    if shadows.models >= 4:
        half = shadows.models // 4 * 2
        few = shrunk(records, mine, odds[:half], inside[:half])
        about["auc_user_of_half"] = auc(*(side.values for side in records.user_sides(few.users)))
    return scores, {"shadows": about, "notes": notes}


def shrunk(records: Records, mine: Confidences, odds: FloatArray, inside: BoolArray) -> Score:
    """`lira_shrunk` of records, and of users from the mean of what their records consist of.

    Args:
        records: records that were asked about.
        mine: answers of the release.
        odds: (models, records) of the shadow models.
        inside: (models, records) True where a model was trained on the record.
    """
    sizes, first = mine.sizes, np.unique(records.users, return_index=True)[1]
    of_users = np.stack([records.mean(each, sizes).users for each in (mine.odds, *odds)])
    return Score(
        lira_shrunk(mine.odds, odds, inside, np.ones(len(sizes))),
        lira_shrunk(of_users[0], of_users[1:], inside[:, first], records.by_user(sizes)),
    )


def _rmia(
    release: Release,
    mine: Confidences,
    questions: Question,
    population: IntArray,
    answers: _Answers,
) -> tuple[FloatArray, float]:
    """(records,) scores of RMIA, and its parameter `a`."""
    inside, sure = answers.inside, np.exp([each.logp for each in answers.records])
    means = [np.where(side, sure, 0.0).sum(axis=0) / side.sum(axis=0) for side in (inside, ~inside)]
    slope = offline_slope(*means)
    target = np.exp(questions.confidences(release, population).logp)
    of_mine = Confidence(np.exp(mine.logp), means[1])
    shares = rmia(of_mine, Confidence(target, answers.population.mean(axis=0)), slope)
    return without_ties(shares, of_mine.ratio(slope), len(target)), slope


def _population(questions: Question, run: Run) -> IntArray:
    """Test rows with a truth to ask about: nobody trains on them."""
    rows = np.flatnonzero(questions.corpus.where("test") & questions.has_truth)
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
    questions: Question,
    population: IntArray,
    shadows: Shadows,
    run: Run,
) -> _Answers:
    """Trains the shadow models and asks them about the records and the population."""
    (records, planted), corpus = judged, questions.corpus
    users = np.array([*planted.members, *planted.non_members])
    chosen = halves(len(users), shadows.models, run.shared("membership", "shadows"))
    mask = np.zeros(corpus.user_count, dtype=bool)
    mask[corpus.users[corpus.where("train") & (corpus.users >= 0)]] = True
    inside, shown, outer = [], [], []
    for model in range(shadows.models):
        run.progress("membership: shadow models", model, shadows.models)
        mask[users] = chosen[model]
        seed = int(run.shared("membership", "shadow", model).integers(2**31))
        shadow = run.retrain(
            mask, mechanism=shadows.mechanism, seed=seed, public_seed=run.seed, splits=TRAINED_ON
        )
        shown.append(questions.confidences(shadow, records.rows))
        outer.append(np.exp(questions.confidences(shadow, population).logp))
        inside.append(mask[records.users])
    return _Answers(np.array(inside), shown, np.array(outer))
