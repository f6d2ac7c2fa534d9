"""Records by which membership is judged, and metrics and details of their scores.

The baseline tells members from non-members by their words alone: if it can, the two differ before
any model is trained, and an attack on the model must do better than that to show a leak.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import Estimate, InputError, Metric, Planted, equals
from uedp_bench.api.statistics import (
    Scores,
    auc,
    auc_estimate,
    fraction_estimate,
    sum_of_ratios_estimate,
    tpr_at_fpr,
)
from uedp_bench.api.text import normal_surface
from uedp_bench.bounds.ceilings import JudgedUsers
from uedp_bench.statistics.intervals import roc_points

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, FloatArray, IntArray, Run


class PlantedMembership(Planted):
    """Members and non-members.

    Attributes:
        members, non_members: user ids, equally many.
        rows: the records that are scored: training rows of members, and what were training rows
            of non-members.
        digests: CRC-32 of the text of each, to recognise records that were replaced afterwards.
        by_splits: True if the splits of the data say who is a member, and no draw.
    """

    members: tuple[int, ...]
    non_members: tuple[int, ...]
    rows: tuple[int, ...]
    digests: tuple[int, ...]
    by_splits: bool = Field(default=False, exclude_if=equals(False))


class Score(NamedTuple):
    """A membership score, high for members.

    Attributes:
        records: (records,).
        users: (users,) in the order of their numbers.
    """

    records: FloatArray
    users: FloatArray


class Records(NamedTuple):
    """Scored records: rows of the corpus (records,), with `users` and `member` (records,) of each.

    `texts` are theirs, in the same order.
    """

    rows: IntArray
    texts: list[str]
    users: IntArray
    member: BoolArray

    def sides(self, values: FloatArray) -> tuple[Scores, Scores]:
        """Scores of members and of non-members; `values` (records,) are high for members."""
        return _sides(values, self.users, self.member)

    def user_sides(self, values: FloatArray) -> tuple[Scores, Scores]:
        """Values of member users and of other users; `values` (users,) are in order of user id."""
        users, first = np.unique(self.users, return_index=True)
        return _sides(values, users, self.member[first])

    def by_user(self, values: FloatArray) -> FloatArray:
        """(users,) sums of values of records (records,), in the order of the users' numbers."""
        owners = np.unique(self.users, return_inverse=True)[1]
        return np.bincount(owners, weights=values).astype(np.float64)

    def mean(self, values: FloatArray, sizes: FloatArray) -> Score:
        """A score of records, and for a user the mean over whatever the records consist of.

        Args:
            values: (records,) high for members.
            sizes: (records,) how much each counts: its tokens, or 1.
        """
        return Score(values, self.by_user(values * sizes) / self.by_user(sizes))

    def only(self, keep: BoolArray, what: str) -> Records:
        """The records (records,) that `keep` marks.

        Raises:
            InputError: if fewer than two users are left on one side; `what` says what records have.
        """
        member, users = self.member[keep], self.users[keep]
        for side, on_side in (("members", member), ("non-members", ~member)):
            users_left = len(np.unique(users[on_side]))
            if users_left < 2:
                raise InputError(
                    f"membership: {users_left} user of the {side} has records {what}; "
                    "cross-validation over users needs 2 on either side: raise "
                    "membership.held_out_users, or plant fewer canaries"
                )
        texts = [self.texts[i] for i in np.flatnonzero(keep).tolist()]
        return Records(self.rows[keep], texts, users, member)


def judged_users(records: Records, planted: PlantedMembership, corpus: Corpus) -> JudgedUsers:
    """Numbers of the users that are scored, and of all records that one of them trains with."""
    users, first = np.unique(records.users, return_index=True)
    members = int(records.member[first].sum())
    counts = np.bincount(corpus.users[np.array(planted.rows, dtype=np.int64)])
    return JudgedUsers(
        members=members, non_members=len(users) - members, most_records=int(counts.max())
    )


def _sides(values: FloatArray, users: IntArray, member: BoolArray) -> tuple[Scores, Scores]:
    return Scores(values[member], users[member]), Scores(values[~member], users[~member])


def digest(text: str) -> int:
    """CRC-32 of a text."""
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def records_of(planted: PlantedMembership, corpus: Corpus) -> tuple[Records, int]:
    """The records to score, and how many other attacks have replaced since.

    Replaced records (canaries) differ from held-out ones by what was planted, not by training.

    Raises:
        InputError: if fewer than two users are left on one side.
    """
    same = np.array(
        [
            digest(corpus.texts[row]) == expected
            for row, expected in zip(planted.rows, planted.digests, strict=True)
        ]
    )
    # Members whom an audit withdrew were not trained on.
    rows = np.array(planted.rows, dtype=np.int64)
    same &= corpus.where("train")[rows] | np.isin(corpus.users[rows], planted.non_members)
    users = corpus.users[rows]
    every = Records(
        rows, [corpus.texts[row] for row in planted.rows], users, np.isin(users, planted.members)
    )
    return every.only(same, "that no other attack replaced"), int((~same).sum())


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


LIMITS = {"1pct": 0.01, "0.1pct": 0.001}

METRICS = (
    Metric.rate("tpr_user_at_1pct_fpr", "user TPR at 1 % FPR", "share of member users found at one "
                "false alarm in a hundred users", "lower", no_leak=0.01, main=True),
    Metric.share("auc_user", "user AUC", "of telling users of the training data from others; 0.5 "
                 "where nothing leaks", "lower", no_leak=0.5, floor_metric="auc_bag_of_words",
                 main=True),
    Metric.share("auc_bag_of_words", "bag of words AUC", "of a classifier that sees no model: what "
                 "membership must exceed to mean anything", main=True),
    Metric.share("auc", "member AUC", "of telling training records from others; 0.5 where nothing "
                 "leaks", "lower", no_leak=0.5, floor_metric="auc_bag_of_words", main=True),
    Metric.share("auc_user_most_records", "user AUC, most records", "of telling users apart among "
                 "the tenth with the most records", "lower", no_leak=0.5,
                 floor_metric="auc_bag_of_words"),
    Metric("loss_gap", "loss gap", "loss of held-out records less that of training records, a "
           "token of text; 0 where nothing is memorised", "lower", "nats", no_leak=0.0),
    Metric.rate("tpr_at_1pct_fpr", "TPR at 1 % FPR", "share of members found at one false alarm in "
                "a hundred", "lower", no_leak=0.01, main=True),
    Metric.rate("tpr_at_0.1pct_fpr", "TPR at 0.1 % FPR", "share of members found at one false "
                "alarm in a thousand", "lower", no_leak=0.001),
    Metric.rate("tpr_user_at_0.1pct_fpr", "user TPR at 0.1 % FPR", "share of member users found at "
                "one false alarm in a thousand users", "lower", no_leak=0.001),
)  # fmt: skip
"""Metrics, all of the main score."""


def report(
    records: Records, scores: dict[str, Score], main: str, run: Run
) -> tuple[dict[str, Estimate], dict[str, Any]]:
    """Metrics and details; `details["notes"]` says how to read them.

    Args:
        records: records that were scored.
        scores: scores by name.
        main: the score of the metrics, fixed in advance.
        run: run whose random numbers are used.
    """
    rng = run.shared("membership", "bootstrap")
    words = out_of_fold_scores(
        records.texts, records.member, records.users, run.shared("membership", "folds")
    )
    sides = records.sides(scores[main].records)
    users = records.user_sides(scores[main].users)
    metrics = {
        "auc": auc_estimate(*sides, rng),
        "auc_user": auc_estimate(*users, rng),
        "auc_bag_of_words": auc_of_words(*records.sides(words), rng),
    }
    notes: list[str] = []
    for unit, judged in (("", sides), ("user_", users)):
        for percent, limit in LIMITS.items():
            name, rate = f"tpr_{unit}at_{percent}_fpr", tpr_at_fpr(*_values(judged), limit)
            metrics[name] = fraction_estimate(rate.hits, rate.positives)
            if rate.zero_false_positives:
                kind = "users" if unit else "records"
                notes.append(
                    f"{name}: {len(judged[1].values)} {kind} held out cannot resolve this limit; "
                    "it is the rate at zero false positives"
                )
    return metrics, {
        "notes": notes,
        "main_score": main,
        "strongest_score": max(
            scores, key=lambda name: auc(*_values(records.sides(scores[name].records)))
        ),
        "scores": {name: _table(records, score, rng) for name, score in scores.items()},
        "roc_user": roc_points(*_values(users)),
        "records": {"members": len(sides[0].values), "non_members": len(sides[1].values)},
    }


def loss_gap(logp: FloatArray, sizes: FloatArray, records: Records, run: Run) -> Estimate:
    """Loss of held-out records less that of members, with a bootstrap over users, in nats.

    Args:
        logp: (records,) log-probability of the truth, a mean where it consists of parts.
        sizes: (records,) number of these parts, each of which counts alike.
        records: records that were scored.
        run: run whose random numbers are used.
    """
    sides = np.stack([~records.member, records.member])
    return sum_of_ratios_estimate(
        np.where(sides, -logp * sizes, 0.0),
        np.where(sides, sizes, 0.0),
        (1.0, -1.0),
        run.shared("membership", "loss gap"),
        records.users,
    )


def _values(sides: tuple[Scores, Scores]) -> tuple[FloatArray, FloatArray]:
    return sides[0].values, sides[1].values


def _table(records: Records, score: Score, rng: np.random.Generator) -> dict[str, Any]:
    """All numbers of one score, as JSON values."""
    out: dict[str, Any] = {}
    units = {"": records.sides(score.records), "user": records.user_sides(score.users)}
    for unit, sides in units.items():
        name = f"_{unit}" if unit else ""
        out[f"auc{name}"] = auc_estimate(*sides, rng).model_dump(mode="json")
        for percent, limit in LIMITS.items():
            out[f"tpr{name}_at_{percent}_fpr"] = tpr_at_fpr(*_values(sides), limit).value
    return {**out, "roc": roc_points(*_values(units[""]))}
