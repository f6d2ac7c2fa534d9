"""Membership scores by models that an adversary trains or has: shadow, base and reference models.

A shadow model saw half of the judged users. It is trained on what the release was trained on, but
with other users in the place of the members: all other training users, and a random half of members
and non-members together. So it has as many users as the release, and its mechanism draws and adds
noise at the same rates. It starts from the release's own base model, which everybody has, and its
secret seed is another one.

Scores of a language model against the model before private training are high for members.
`ratio_base`: mean log-likelihood ratio (Carlini et al. 2021, with the weights before training as
reference). `ez`: "EZ-MIA", arXiv 2601.12104, where the release errs, with both sums smoothed.
`wbc`: windows of tokens, arXiv 2601.02751.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from uedp_bench.api import InputError
from uedp_bench.api.capabilities import Scorer
from uedp_bench.api.statistics import auc
from uedp_bench.attacks.membership.questions import score_texts
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
from uedp_bench.corpus import distinct

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, FloatArray, IntArray, Release, Run
    from uedp_bench.api.capabilities import TokenScores
    from uedp_bench.attacks.membership.questions import Confidences, Question, TokensQuestion
    from uedp_bench.attacks.membership.records import PlantedMembership, Records

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


WIDTHS = (2, 3, 4, 6, 9, 13, 18, 25, 32, 40)
"""Tokens of the windows of `wbc`."""

SMOOTHING = 1e-3
"""Nats added to both sums of `ez`: a text without falls is the strongest evidence, not none."""


def base_scores(
    records: Records, scores: Sequence[TokenScores], base: Sequence[TokenScores]
) -> dict[str, Score]:
    """Scores by name.

    Args:
        records: records that were scored.
        scores: scores of each record under the release that is attacked.
        base: scores of each record under the model before private training.

    Raises:
        InputError: if the two do not have the same tokens.
    """
    for at, (one, other) in enumerate(zip(scores, base, strict=True)):
        if len(one.logp) != len(other.logp):
            raise InputError(
                f"membership: text {at} has {len(one.logp)} tokens under the release and "
                f"{len(other.logp)} under the base model: they do not tokenize alike"
            )
    gains = [one.logp - other.logp for one, other in zip(scores, base, strict=True)]
    sizes = np.array([len(gain) for gain in gains], dtype=np.float64)
    errors = [gain[~one.correct] for gain, one in zip(gains, scores, strict=True)]
    rises = np.array([np.maximum(error, 0.0).sum() for error in errors])
    falls = np.array([np.maximum(-error, 0.0).sum() for error in errors])
    return {
        "ratio_base": records.mean(np.array([gain.mean() for gain in gains]), sizes),
        "ez": Score(ez(rises, falls), ez(records.by_user(rises), records.by_user(falls))),
        "wbc": records.mean(np.array([wbc(gain) for gain in gains]), sizes),
    }


def ez(rises: FloatArray, falls: FloatArray) -> FloatArray:
    """(units,) log of rises over falls.

    Args:
        rises: (units,) sum of what tokens that the release gets wrong gained in log-probability.
        falls: (units,) sum of what such tokens lost.
    """
    return np.asarray(np.log((rises + SMOOTHING) / (falls + SMOOTHING)))


def wbc(gains: FloatArray, widths: Sequence[int] = WIDTHS) -> float:
    """Share of windows whose gain is above 0, as the mean over widths.

    Args:
        gains: (tokens,) log-probability under the release less that under the base model.
        widths: widths of windows, in tokens; those of more than there are, count as so many.
    """
    sums = np.concatenate([[0.0], np.cumsum(gains)])
    fits = [min(width, len(gains)) for width in widths]
    return float(np.mean([np.mean(sums[width:] - sums[:-width] > 0.0) for width in fits]))


class HowCompared(NamedTuple):
    """Parameters of `membership` that language models need: see `MembershipParams`."""

    min_k: float
    reference_rows: int
    shadow_models: int


def language_scores(
    questions: TokensQuestion,
    mine: Confidences,
    records: Records,
    comparison: HowCompared,
    run: Run,
) -> tuple[dict[str, Score], dict[str, Any]]:
    """Scores by name, high for members; and details of the model compared with.

    That is the model before private training, which everybody has; where there is none, and no
    shadow models either, one that is trained as the release was, on users who are neither members
    nor non-members.

    Args:
        questions: the question about tokens.
        mine: answers of the release about these records.
        records: to score.
        comparison: parameters of the attack.
        run: run of the release.
    """
    reference: Sequence[TokenScores] | None = None
    base = run.base
    compared = isinstance(base, Scorer)
    details: dict[str, Any] = {"base": compared, "reference": None, "notes": []}
    if not compared and not comparison.shadow_models:
        reference, details = _reference(questions, records, comparison.reference_rows, details, run)
    low = score_texts(records.texts, mine.tokens, reference, comparison.min_k)
    # These are low for members; statistics take what is high for them.
    scores = {name: records.mean(-values, mine.sizes) for name, values in low.items()}
    if compared:
        scores |= base_scores(
            records, mine.tokens, questions.confidences(base, records.rows).tokens
        )
    return scores, details


def _reference(
    questions: TokensQuestion, records: Records, least: int, details: dict[str, Any], run: Run
) -> tuple[Sequence[TokenScores] | None, dict[str, Any]]:
    """Scores under the reference model, or None; and what details say about it."""
    reference_users = _reference_users(questions.corpus, least, run)
    if reference_users is None or run.retrainer is None:
        why = "no users outside training" if reference_users is None else "this run cannot retrain"
        return None, {**details, "notes": [f"no reference model: {why}"]}
    run.progress("membership: reference", 0, 1)
    split, users = reference_users
    mask = np.zeros(questions.corpus.user_count, dtype=bool)
    mask[users] = True
    # As the release was trained: one that is trained for longer tells difficulty apart less well.
    model = run.retrain(mask, mechanism="same", seed=run.seed)
    rows = int(mask[questions.corpus.users[questions.corpus.users >= 0]].sum())
    about = {"users_of": split, "users": len(users), "rows": rows, "seed": run.seed}
    return questions.confidences(model, records.rows).tokens, {**details, "reference": about}


def _reference_users(corpus: Corpus, reference_rows: int, run: Run) -> tuple[str, IntArray] | None:
    """The split that the reference's users are from, and at most as many as train."""
    private = distinct(corpus.users[corpus.where("train", "held_out")])
    for split, least in (("public", reference_rows), ("valid", 1)):
        usable = corpus.where(split) & (corpus.users >= 0) & ~np.isin(corpus.users, private)
        if usable.sum() >= least:
            users, most = distinct(corpus.users[usable]), max(1, len(private))
            return split, np.sort(run.shared("membership", "reference").permutation(users)[:most])
    return None
