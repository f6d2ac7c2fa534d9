"""Membership scores of language models: alone, against the base model, or against a reference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.api.capabilities import Scorer
from uedp_bench.attacks.membership.base_scores import base_scores
from uedp_bench.attacks.membership.token_scores import score_texts
from uedp_bench.corpus import distinct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from uedp_bench.api import Run
    from uedp_bench.api.capabilities import TokenScores
    from uedp_bench.attacks.membership.questions import Confidences, TokensQuestion
    from uedp_bench.attacks.membership.records import Records, Score
    from uedp_bench.corpus import Corpus, IntArray


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
            rng = run.shared("membership", "reference")
            return split, np.sort(rng.permutation(users)[:most])
    return None
