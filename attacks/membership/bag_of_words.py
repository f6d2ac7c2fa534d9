"""Telling two sets of texts apart by their words alone: the baseline of membership inference.

If words alone tell members from non-members, the two differ before any model is trained, and an
attack on the model must do better than that to show a leak.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.api import Estimate
from uedp_bench.api.statistics import auc_estimate
from uedp_bench.corpus import normal_surface

if TYPE_CHECKING:
    from uedp_bench.api.statistics import Scores
    from uedp_bench.corpus import BoolArray, FloatArray, IntArray

FEATURES = 2**14
FOLDS = 5
WIDER = math.sqrt(1.0 + FOLDS / (FOLDS - 1.0))
"""Standard error of a mean over folds, over that of independent folds: they share training texts
(Nadeau and Bengio 2003, section 4, with a test part of 1 / (FOLDS - 1) of the training part)."""


def auc_of_words(member: Scores, other: Scores, rng: np.random.Generator) -> Estimate:
    """AUC of out-of-fold scores, with a bootstrap interval whose sides are `WIDER` times as long.

    The resampled users keep the scores of classifiers that were trained on one another, so the
    plain interval is too short.
    """
    plain = auc_estimate(member, other, rng)
    if plain.low is None or plain.high is None:
        return plain
    low = plain.value - WIDER * (plain.value - plain.low)
    high = plain.value + WIDER * (plain.high - plain.value)
    return Estimate(value=plain.value, low=max(0.0, low), high=min(1.0, high))


def out_of_fold_scores(
    texts: Sequence[str], member: BoolArray, users: IntArray, rng: np.random.Generator
) -> FloatArray:
    """(texts,) how much each text looks like a member's, by a classifier that did not see it.

    A logistic regression on hashed word counts, cross-validated over users: no user is in the
    training and the test part of a fold.

    Args:
        texts: texts of members and non-members.
        member: (texts,) which is which; no user is both.
        users: (texts,) whose they are; at least two on either side.
        rng: deals users into folds, equally many of both kinds in each.
    """
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import LogisticRegression

    vectorizer = HashingVectorizer(
        n_features=FEATURES, alternate_sign=False, preprocessor=normal_surface, tokenizer=str.split
    )
    counts = vectorizer.transform(texts)
    fold = np.empty(len(texts), dtype=np.int64)
    for side in (member, ~member):
        owners, of_text = np.unique(users[side], return_inverse=True)
        fold[side] = (rng.permutation(len(owners)) % FOLDS)[of_text]
    scores = np.empty(len(texts))
    for k in np.unique(fold):  # fewer users than folds leave some of these empty
        test = fold == k
        model = LogisticRegression(max_iter=1000).fit(counts[~test], member[~test])
        scores[test] = model.decision_function(counts[test])
    return scores
