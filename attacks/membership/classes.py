"""Membership scores of classifiers, with shadow models that saw half of the judged users each.

A shadow model is trained on what the release was trained on, but with other users in the place of
the members: all other training users, and a random half of members and non-members together. So it
has as many users as the release, and its mechanism draws and adds noise at the same rates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from uedp_bench.attacks._truth import true_classes
from uedp_bench.attacks.membership.shadow_scores import (
    Confidence,
    lira,
    lira_offline,
    logit_confidence,
    offline_slope,
    rmia,
    true_logprobs,
    without_ties,
)
from uedp_bench.errors import CapabilityError
from uedp_bench.release import Classifier

if TYPE_CHECKING:
    from uedp_bench.attacks.membership.records import PlantedMembership, Records
    from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray
    from uedp_bench.run import Run

POPULATION = 2000
"""Test rows that RMIA compares with, at most: its score is a multiple of 1 / so many."""

TRAINED_ON = ("train", "held_out")
"""Splits of the rows that shadow models are trained on: never test rows of these users."""


class Shadows(NamedTuple):
    """How many shadow models, and how they are trained ("same": by the run's mechanism)."""

    models: int
    mechanism: Literal["same", "none"]


class _Asked(NamedTuple):
    """Rows that the release and the shadow models are asked about, with their true classes."""

    corpus: Corpus
    labels: IntArray

    def logprobs(self, release: object) -> FloatArray:
        """(rows, classes) log-probabilities.

        Raises:
            CapabilityError: if the release is no classifier.
        """
        if not isinstance(release, Classifier):
            raise CapabilityError(
                f"membership: the shadow model is a {type(release).__name__}, not a Classifier"
            )
        return release.class_logprobs(self.corpus)


def class_scores(
    release: Classifier,
    judged: tuple[Records, PlantedMembership],
    corpus: Corpus,
    shadows: Shadows,
    run: Run,
) -> tuple[Records, dict[str, FloatArray], str, dict[str, Any]]:
    """The records that have a class, their scores by name (high for members), and the main one.

    The main score is the first that can be computed: `rmia`, which needs shadow models and
    labelled test rows; `lira`, which needs shadow models; `loss`.

    Args:
        release: that is attacked.
        judged: the records, and who is in and out.
        corpus: the planted corpus.
        shadows: models to ask for.
        run: of the release.

    Returns:
        Records, scores, name of the main score, details.
    """
    truth = true_classes(release, corpus, "membership")
    before, planted = judged
    labelled = truth[before.rows] >= 0
    records = before.only(labelled, "rows without a class are")
    asked = _Asked(corpus.take(records.rows), truth[records.rows])
    logprobs = asked.logprobs(release)
    high = {"loss": true_logprobs(logprobs, asked.labels)}
    details: dict[str, Any] = {"records_without_class": int((~labelled).sum()), "notes": []}
    if not shadows.models or run.retrainer is None:
        why = "attack.membership.shadow_models is 0" if run.retrainer else "this run cannot retrain"
        details |= {"shadows": None, "notes": [f"no shadow models: {why}; auc is of loss"]}
        return records, high, "loss", details
    population = _population(truth, corpus, run)
    inside, shown, outer = _trained(records, planted, (asked, population), corpus, shadows, run)
    odds = np.stack([logit_confidence(each, asked.labels) for each in shown])
    mine = logit_confidence(logprobs, asked.labels)
    high |= {"lira": lira(mine, odds, inside), "lira_offline": lira_offline(mine, odds, ~inside)}
    details["shadows"] = {**shadows._asdict(), "population_rows": len(population.labels)}
    if not len(population.labels):
        details["notes"].append("no rmia: no test row has a class; auc is of lira")
        return records, high, "lira", details
    sure = np.exp([true_logprobs(each, asked.labels) for each in shown])
    means = [np.where(side, sure, 0.0).sum(axis=0) / side.sum(axis=0) for side in (inside, ~inside)]
    slope = offline_slope(*means)
    there = np.exp(true_logprobs(population.logprobs(release), population.labels))
    mine_sure, others = Confidence(np.exp(high["loss"]), means[1]), outer.mean(axis=0)
    shares = rmia(mine_sure, Confidence(there, others), slope)
    high["rmia"] = without_ties(shares, mine_sure.ratio(slope), len(there))
    details["shadows"]["rmia_a"] = slope
    return records, high, "rmia", details


def _population(truth: IntArray, corpus: Corpus, run: Run) -> _Asked:
    """Labelled test rows: nobody trains on them."""
    rows = np.flatnonzero(corpus.where("test") & (truth >= 0))
    chosen = np.sort(run.shared("membership", "population").permutation(rows)[:POPULATION])
    return _Asked(corpus.take(chosen), truth[chosen])


def halves(users: int, models: int, rng: np.random.Generator) -> BoolArray:
    """(models, users) who trains which model: every user exactly half of them, in random halves."""
    out = np.zeros((models, users), dtype=bool)
    for pair in range(0, models, 2):
        out[pair, rng.permutation(users)[: users // 2]] = True
        out[pair + 1] = ~out[pair]
    return out


def _trained(
    records: Records,
    planted: PlantedMembership,
    asked: tuple[_Asked, _Asked],
    corpus: Corpus,
    shadows: Shadows,
    run: Run,
) -> tuple[BoolArray, list[FloatArray], FloatArray]:
    """Trains the shadow models and asks them.

    Returns:
        (models, records) whether a model was trained on a record; (records, classes)
        log-probabilities of each model; (models, rows) probabilities of the population's classes.
    """
    judged = np.array([*planted.members, *planted.non_members])
    chosen = halves(len(judged), shadows.models, run.shared("membership", "shadows"))
    mask = np.zeros(corpus.user_count, dtype=bool)
    mask[corpus.users[corpus.where("train") & (corpus.users >= 0)]] = True
    inside, shown, outer = [], [], []
    for model in range(shadows.models):
        run.progress("membership: shadow models", model, shadows.models)
        mask[judged] = chosen[model]
        seed = int(run.shared("membership", "shadow", model).integers(2**31))
        shadow = run.retrain(mask, mechanism=shadows.mechanism, seed=seed, splits=TRAINED_ON)
        shown.append(asked[0].logprobs(shadow))
        outer.append(np.exp(true_logprobs(asked[1].logprobs(shadow), asked[1].labels)))
        inside.append(mask[records.users])
    return np.array(inside), shown, np.array(outer)
