"""Membership scores of language models, with a reference model that saw neither side."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.attacks.membership.token_scores import score_texts
from uedp_bench.corpus import distinct
from uedp_bench.errors import CapabilityError
from uedp_bench.release import Scorer

if TYPE_CHECKING:
    from uedp_bench.attacks.membership.records import Records
    from uedp_bench.corpus import Corpus, FloatArray, IntArray
    from uedp_bench.release import TokenScores
    from uedp_bench.run_context import Run


def language_scores(
    release: Scorer, records: Records, corpus: Corpus, reference_rows: int, min_k: float, run: Run
) -> tuple[dict[str, FloatArray], dict[str, Any]]:
    """(records,) scores by name, high for members; and what details say about the reference.

    Args:
        release: that is attacked.
        records: to score.
        corpus: the planted corpus.
        reference_rows: the reference is trained on public users if they have this many rows.
        min_k: share of the tokens that Min-K% and Min-K%++ look at.
        run: of the release.
    """
    run.progress("membership: reference", 0, 3)
    reference, details = _reference(records, corpus, reference_rows, run)
    run.progress("membership: scores", 1, 3)
    scored = score_texts(records.texts, release.token_logprobs(records.texts), reference, min_k)
    # Scores are low for members; statistics take what is high for them.
    return {name: -values for name, values in scored.items()}, details


def _reference(
    records: Records, corpus: Corpus, reference_rows: int, run: Run
) -> tuple[list[TokenScores] | None, dict[str, Any]]:
    """Scores under the reference model, or None; and what details say about it."""
    found = _reference_users(corpus, reference_rows, run)
    if found is None or run.retrainer is None:
        why = "no users outside training" if found is None else "this run cannot retrain"
        return None, {"reference": None, "notes": [f"no reference model: {why}"]}
    split, users = found
    mask = np.zeros(corpus.user_count, dtype=bool)
    mask[users] = True
    # The run's seed alone: all mechanisms of a seed share one reference.
    model = run.retrain(mask, mechanism="none", seed=run.seed)
    if not isinstance(model, Scorer):
        raise CapabilityError(f"the reference model is a {type(model).__name__}, not a Scorer")
    rows = int(mask[corpus.users[corpus.users >= 0]].sum())
    about = {"users_of": split, "users": len(users), "rows": rows, "seed": run.seed}
    return model.token_logprobs(records.texts), {"reference": about, "notes": []}


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
