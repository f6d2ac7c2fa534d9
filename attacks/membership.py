"""Membership inference from likelihoods: was this record, or this user, in the training data?

Scores are those of the literature (`_scores`); users are judged by the mean of their records. An
AUC means little without the one that words alone reach, which is measured beside it.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.attack import Attack, Leakage, Planted
from uedp_bench.attacks._bag_of_words import out_of_fold_scores
from uedp_bench.attacks._scores import score_texts
from uedp_bench.component import Params
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.release import Scorer
from uedp_bench.statistics import (
    Scores,
    auc,
    auc_estimate,
    fraction_estimate,
    roc_points,
    tpr_at_fpr,
)

if TYPE_CHECKING:
    from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray
    from uedp_bench.release import Release, TokenScores
    from uedp_bench.run import Run

LIMITS = {"tpr_at_1pct_fpr": 0.01, "tpr_at_0.1pct_fpr": 0.001}


class MembershipParams(Params):
    """Parameters of `membership`."""

    held_out_fraction: float = Field(
        default=0.1, gt=0.0, le=0.5, description="training users that are held out as non-members"
    )
    held_out_users: int = Field(
        default=200, ge=10, description="hold out at least this many users, or refuse"
    )
    min_k: float = Field(
        default=0.2, gt=0.0, le=1.0, description="tokens that Min-K% and Min-K%++ look at"
    )
    reference_rows: int = Field(
        default=1000,
        ge=1,
        description="the reference model is trained on public users if they have this many rows, "
        "else on the users of the valid split",
    )


class PlantedMembership(Planted):
    """Who is in and who is out.

    Attributes:
        members, non_members: user ids, equally many.
        rows: the records that are scored: training rows of members, and what were training rows
            of non-members.
        digests: CRC-32 of the text of each, to recognise records that were replaced afterwards.
    """

    members: tuple[int, ...]
    non_members: tuple[int, ...]
    rows: tuple[int, ...]
    digests: tuple[int, ...]


class Records(NamedTuple):
    """What is scored: `texts`, with `users` and `member` (records,) of each."""

    texts: list[str]
    users: IntArray
    member: BoolArray

    def sides(self, values: FloatArray) -> tuple[Scores, Scores]:
        """Scores of members and of non-members; `values` are high for members."""
        inside, outside = self.member, ~self.member
        return (
            Scores(values[inside], self.users[inside]),
            Scores(values[outside], self.users[outside]),
        )

    def by_user(self, values: FloatArray) -> tuple[Scores, Scores]:
        """The same of users, each with the mean of its records."""
        users, first, of_record = np.unique(self.users, return_index=True, return_inverse=True)
        means = np.bincount(of_record, weights=values) / np.bincount(of_record)
        return Records([], users, self.member[first]).sides(means)


class Membership(Attack[MembershipParams]):
    """Tells training records and users from held-out ones by the likelihood of their text.

    `auc` is of a score that is fixed in advance: the loss relative to a reference model that
    saw neither side, or the loss where there is nobody to train a reference on.
    """

    name = "membership"
    source = (
        "Yeom et al. 2018 (loss); Carlini et al. 2021 (zlib, ratio); Shi et al. 2024 (Min-K%); "
        "Zhang et al. 2025 (Min-K%++)"
    )
    Params = MembershipParams
    needs: ClassVar[tuple[type, ...]] = (Scorer,)
    holds_out = True
    planted_type = PlantedMembership

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedMembership]:
        """Holds out whole users, uniformly, and draws equally many members from the rest.

        Rows of the held-out users in `valid` are held out too; their test rows stay.

        Raises:
            InputError: if the train split has too few users.
        """
        p, train = self.params, corpus.where("train")
        users = np.unique(corpus.users[train & (corpus.users >= 0)])
        size = max(p.held_out_users, int(p.held_out_fraction * len(users)))
        if len(users) < 2 * size:
            raise InputError(
                f"membership: the train split has {len(users)} users; holding out {size} (at "
                f"least held_out_users = {p.held_out_users}) and as many members needs {2 * size}"
            )
        drawn = rng.permutation(users)[: 2 * size]
        out, members = np.sort(drawn[:size]), np.sort(drawn[size:])
        rows = np.flatnonzero(train & np.isin(corpus.users, drawn)).tolist()
        planted = PlantedMembership(
            members=tuple(members.tolist()),
            non_members=tuple(out.tolist()),
            rows=tuple(rows),
            digests=tuple(_digest(corpus.texts[row]) for row in rows),
        )
        moved = corpus.where("train", "valid") & np.isin(corpus.users, out)
        return corpus.with_split(moved, "held_out"), planted

    def run(
        self, release: Release, planted: PlantedMembership, corpus: Corpus, run: Run
    ) -> Leakage:
        """Scores all members and non-members, and how well each score tells them apart."""
        if not isinstance(release, Scorer):
            raise CapabilityError(f"membership needs a Scorer, not {type(release).__name__}")
        records, left_out = _records(planted, corpus)
        run.progress("membership: reference", 0, 3)
        reference, details = self._reference(records, planted, corpus, run)
        run.progress("membership: scores", 1, 3)
        scored = score_texts(
            records.texts, release.token_logprobs(records.texts), reference, self.params.min_k
        )
        run.progress("membership: statistics", 2, 3)
        rng = run.rng("membership", "bootstrap")
        # Scores are low for members; statistics take what is high for them.
        high = {name: -values for name, values in scored.items()}
        words = out_of_fold_scores(
            records.texts, records.member, records.users, run.rng("membership", "folds")
        )
        main = "ratio" if "ratio" in high else "loss"
        best = max(high, key=lambda name: auc(*_values(records.sides(high[name]))))
        metrics = {
            "auc": auc_estimate(*records.sides(high[main]), rng),
            "auc_user": auc_estimate(*records.by_user(high[main]), rng),
            "auc_bag_of_words": auc_estimate(*records.sides(words), rng),
        }
        inside, outside = _values(records.sides(high[best]))
        for name, limit in LIMITS.items():
            rate = tpr_at_fpr(inside, outside, limit)
            metrics[name] = fraction_estimate(rate.hits, rate.positives)
            if rate.zero_false_positives:
                details["notes"].append(
                    f"{name}: {len(outside)} non-member records cannot resolve this limit; it is "
                    "the rate at zero false positives"
                )
        details["notes"].append(
            "the strongest score is chosen on the records that it is reported on; auc is not"
        )
        details |= {
            "main_score": main,
            "strongest_score": best,
            "scores": {name: _table(records, values, rng) for name, values in high.items()},
            "roc_user": roc_points(*_values(records.by_user(high[main]))),
            "users": {"members": len(planted.members), "non_members": len(planted.non_members)},
            "records": {"members": len(inside), "non_members": len(outside)},
            "records_replaced_by_other_attacks": left_out,
        }
        return Leakage(metrics, details)

    def _reference(
        self, records: Records, planted: PlantedMembership, corpus: Corpus, run: Run
    ) -> tuple[list[TokenScores] | None, dict[str, Any]]:
        """Scores under the reference model, or None; and what details say about it."""
        found = self._reference_users(corpus, run)
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

    def _reference_users(self, corpus: Corpus, run: Run) -> tuple[str, IntArray] | None:
        """The split that the reference's users are from, and at most as many as train."""
        private = np.unique(corpus.users[corpus.where("train", "held_out")])
        for split, least in (("public", self.params.reference_rows), ("valid", 1)):
            usable = corpus.where(split) & (corpus.users >= 0) & ~np.isin(corpus.users, private)
            if usable.sum() >= least:
                users, most = np.unique(corpus.users[usable]), max(1, len(private))
                rng = run.rng("membership", "reference")
                return split, np.sort(rng.permutation(users)[:most])
        return None


def _values(sides: tuple[Scores, Scores]) -> tuple[FloatArray, FloatArray]:
    return sides[0].values, sides[1].values


def _digest(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


def _records(planted: PlantedMembership, corpus: Corpus) -> tuple[Records, int]:
    """The records to score, and how many other attacks have replaced since.

    Replaced records (canaries) differ from held-out ones by what was planted, not by training.

    Raises:
        InputError: if nothing is left on one side.
    """
    same = np.array(
        [
            _digest(corpus.texts[row]) == digest
            for row, digest in zip(planted.rows, planted.digests, strict=True)
        ]
    )
    # Members whom an audit withdrew were not trained on.
    every = np.array(planted.rows, dtype=np.int64)
    same &= corpus.where("train")[every] | np.isin(corpus.users[every], planted.non_members)
    rows = every[same]
    users = corpus.users[rows]
    member = np.isin(users, planted.members)
    if not member.any() or member.all():
        raise InputError("membership: other attacks replaced every record of one side")
    return Records([corpus.texts[row] for row in rows.tolist()], users, member), int((~same).sum())


def _table(records: Records, values: FloatArray, rng: np.random.Generator) -> dict[str, Any]:
    """All numbers of one score, as JSON values."""
    inside, outside = _values(records.sides(values))
    return {
        "auc": auc_estimate(*records.sides(values), rng).model_dump(mode="json"),
        "auc_user": auc_estimate(*records.by_user(values), rng).model_dump(mode="json"),
        **{name: tpr_at_fpr(inside, outside, limit).value for name, limit in LIMITS.items()},
        "roc": roc_points(inside, outside),
    }
