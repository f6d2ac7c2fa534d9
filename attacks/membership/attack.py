"""Membership inference: was this record, or this user, in the training data?

Releases are judged by how sure they are of the truth about a row: the likelihood of its tokens, its
class or its loss, beside shadow models and, for language models, beside the model before private
training (`shadow_models`). Users are judged by all their records together. An AUC means little
without the one that words alone reach, which is measured beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from uedp_bench.api import Attack, CapabilityError, Estimate, InputError, Leakage, Params, equals
from uedp_bench.api.capabilities import Classifier, LabelOnly, RowScorer, Scorer, published_of
from uedp_bench.api.text import user_numbers
from uedp_bench.attacks.membership.groups import (
    LEAST_USERS,
    UserScores,
    auc_of_most_records,
    user_groups,
)
from uedp_bench.attacks.membership.questions import (
    ClassesQuestion,
    LabelsQuestion,
    LossesQuestion,
    Question,
    TokensQuestion,
)
from uedp_bench.attacks.membership.records import (
    METRICS,
    PlantedMembership,
    digest,
    judged_users,
    loss_gap,
    records_of,
    report,
)
from uedp_bench.attacks.membership.shadow_models import (
    HowCompared,
    Shadows,
    language_scores,
    shadow_scores,
)
from uedp_bench.corpus import distinct
from uedp_bench.errors import shown
from uedp_bench.statistics.intervals import areas

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, IntArray, Release, Run, StoredLeakage
    from uedp_bench.attacks.membership.questions import Confidences
    from uedp_bench.attacks.membership.records import Records, Score

Points = list[tuple[float, float]]

SLACK = 1e-9
"""Difference that sums of floats may make."""


class _Loose(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Score(_Loose):
    auc: Estimate
    auc_user: Estimate
    roc: Points


class _Group(_Loose):
    name: str
    members: int = Field(ge=LEAST_USERS)
    non_members: int = Field(ge=LEAST_USERS)
    p_value: float | None = Field(ge=0.0, le=1.0)


class _Membership(_Loose):
    main_score: str
    strongest_score: str
    scores: dict[str, _Score]
    roc_user: Points
    groups: tuple[_Group, ...] = ()


def contradictions(
    metrics: Mapping[str, Estimate], stored: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Metrics that are not those of the main score; see `Attack.contradictions`."""
    details = _Membership.model_validate(stored)
    for name in ("main_score", "strongest_score"):
        if getattr(details, name) not in details.scores:
            what = f"{shown(getattr(details, name))} is none of its scores"
            yield f"details.{name}", what
            return
    if len({group.name for group in details.groups}) < len(details.groups):
        yield "details.groups", "has several groups of one name"
    main = details.scores[details.main_score]
    for name, value in (("auc", main.auc.value), ("auc_user", main.auc_user.value)):
        if name in metrics and not _close(metrics[name].value, value):
            of = f"the score {shown(details.main_score)}"
            what = f"{shown(metrics[name].value)} is not the {shown(value)} of {of}"
            yield f"leakage.{name}.value", what
    if "auc_user" in metrics and details.roc_user:
        least, most = areas(details.roc_user)
        if not least - SLACK <= metrics["auc_user"].value <= most + SLACK:
            what = f"is not the area between {least:.9g} and {most:.9g} below the curve of users"
            yield "leakage.auc_user.value", what
    best = details.scores[details.strongest_score]
    curves = (
        ("tpr", (main.roc, best.roc), "no ROC curve of the main and the strongest score"),
        ("tpr_user", (details.roc_user,), "no ROC curve of users"),
    )
    for rate, rocs, of in curves:
        for name, limit in ((f"{rate}_at_1pct_fpr", 0.01), (f"{rate}_at_0.1pct_fpr", 0.001)):
            if name not in metrics:
                continue
            value = metrics[name].value
            if not any(_on(roc, limit, value) for roc in rocs):
                yield f"leakage.{name}.value", f"{shown(value)} is on {of}"


def _on(roc: Sequence[tuple[float, float]], limit: float, value: float) -> bool:
    """True if a rate may be that at a limit: curves grow between the points that are kept."""
    least = max((y for x, y in roc if x <= limit + SLACK), default=0.0)
    most = min((y for x, y in roc if x > limit + SLACK), default=1.0)
    return least - SLACK <= value <= most + SLACK


def _close(value: float, expected: float) -> bool:
    return math.isclose(value, expected, rel_tol=1e-6, abs_tol=SLACK)


MAIN = ("lira_shrunk", "ez", "ratio")
"""Scores of the metrics, from the strongest: the first that can be computed, whatever it finds."""


VECTORS = (
    "the classifier takes published vectors, and nobody but the mechanism can make those of "
    "records that were held out"
)
"""Note."""


NOTHING = "no record has a {} that the release predicts"
"""Note."""


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
        description="without shadow models and base model: the reference model is trained on "
        "public users if they have this many rows, else on the users of the valid split",
    )
    shadow_models: int = Field(
        default=4,
        ge=0,
        exclude_if=equals(4),
        description="models trained on a random half of members and non-members each, and on all "
        "other training users, from the base model of the run and with secret seeds of their own; "
        "even, and 0 leaves what needs no training, or one reference model",
    )
    shadow_mechanism: Literal["same", "none"] = Field(
        default="same",
        exclude_if=equals("same"),
        description="how they are trained. same: by the run's mechanism; none: without noise on "
        "the original text, once for all mechanisms of a seed",
    )

    @model_validator(mode="after")
    def _halves(self) -> MembershipParams:
        if self.shadow_models % 2:
            raise ValueError(
                f"shadow_models is {self.shadow_models}: give an even number, for each record is "
                "in half of them"
            )
        return self


class Membership(Attack[MembershipParams]):
    """Tells training records and users from held-out ones by what a model says of them.

    All metrics are of one score that is fixed in advance: LiRA for few shadow models
    (`lira_shrunk`); without shadow models, of language models, what the tokens that a release gets
    wrong gained on the model before private training (`ez`), or the loss relative to a reference
    model that saw neither side (`ratio`); else the loss, or for releases that tell labels alone
    whether the label is right (`gap`).
    """

    name = "membership"
    version = 5
    source = (
        "Yeom et al. 2018 (loss); Carlini et al. 2021 (zlib, ratio); Shi et al. 2024 (Min-K%); "
        "Zhang et al. 2025 (Min-K%++); Watson et al. 2022 (calibrated); Carlini et al. 2022 "
        "(LiRA); Zarifzadeh et al. 2024 (RMIA); arXiv 2601.12104 (EZ); arXiv 2601.02751 (WBC)"
    )
    Params = MembershipParams
    metrics = METRICS
    needs: ClassVar[tuple[type, ...]] = (Scorer, Classifier, RowScorer, LabelOnly)
    holds_out = True
    planted_type = PlantedMembership
    judges_users_since = 5

    def contradictions(self, stored: StoredLeakage) -> Iterator[tuple[str, str]]:
        """See `Attack`."""
        return contradictions(stored.metrics, stored.details)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedMembership]:
        """Holds out whole users, by public numbers of theirs, and draws equally many members.

        The share holds on average; `held_out_users` is a quota, which guarantees assume. Rows of
        the held-out users in `valid` are withdrawn, so that shadow models train on rows of one
        split on either side; their test rows stay.

        Raises:
            InputError: if the train split has too few users.
        """
        p, train = self.params, corpus.where("train")
        users = distinct(corpus.users[train & (corpus.users >= 0)])
        # Who is held out must not depend on who else is there: numbers of their own decide.
        numbers = user_numbers(corpus, int(rng.integers(2**63)), self.name)[users]
        size = max(p.held_out_users, int((numbers < p.held_out_fraction).sum()))
        if len(users) < 2 * size:
            raise InputError(
                f"membership: the train split has {len(users)} users; holding out {size} (at "
                f"least held_out_users = {p.held_out_users}) and as many members needs {2 * size}"
            )
        drawn = users[np.argsort(numbers)][: 2 * size]
        out, members = np.sort(drawn[:size]), np.sort(drawn[size:])
        planted, is_out = _judged(corpus, (members, out), train), np.isin(corpus.users, out)
        checked = np.flatnonzero(corpus.where("valid") & is_out)
        planted = planted.model_copy(update={"withdrawn": tuple(checked.tolist())})
        return corpus.with_split(train & is_out, "held_out"), planted

    def planted_in(self, corpus: Corpus) -> PlantedMembership:
        """Users with rows in `train` are members, users with rows in `held_out` alone are not.

        Raises:
            InputError: if there are none on one side.
        """
        train, out = corpus.where("train"), corpus.where("held_out")
        members = distinct(corpus.users[train & (corpus.users >= 0)])
        others = np.setdiff1d(corpus.users[out & (corpus.users >= 0)], members)
        for split, users in (("train", members), ("held_out", others)):
            if not len(users):
                raise InputError(
                    f"membership: no user has rows in the split {split}, or none has rows there "
                    "alone; rows of members are in train, those of non-members in held_out"
                )
        return _judged(corpus, (members, others), train | out, by_splits=True)

    def retrainings(self, offers: tuple[type, ...]) -> Mapping[str, int]:
        """Shadow models; a language model may need a reference model where there are none."""
        if Scorer in offers and not self.params.shadow_models:
            return {"": 1}
        return {"shadow_models": self.params.shadow_models} if offers else {}

    def run(
        self, release: Release, planted: PlantedMembership, corpus: Corpus, run: Run
    ) -> Leakage:
        """Scores all members and non-members, and how well each score tells them apart."""
        shown = published_of(release)
        if release.takes_vectors or (shown is not None and shown.vectors is not None):
            return Leakage({}, {"notes": [VECTORS]})
        before, replaced = records_of(planted, corpus)
        questions = _questions(release, corpus)
        has_truth = questions.has_truth[before.rows]
        if not has_truth.any():
            return Leakage({}, {"notes": [NOTHING.format(questions.truth)]})
        records = before.only(has_truth, f"with a {questions.truth} that the release predicts")
        run.progress("membership: scores", 1, 3)
        mine = questions.confidences(release, records.rows)
        scores, details = self._without_shadows(questions, mine, records, run)
        shadows = Shadows(self.params.shadow_models, self.params.shadow_mechanism)
        more, about = shadow_scores(release, mine, (records, planted), questions, shadows, run)
        scores |= more
        main = next(name for name in (*MAIN, questions.own) if name in scores)
        run.progress("membership: statistics", 2, 3)
        metrics, score_details = report(records, scores, main, run)
        if not isinstance(questions, LabelsQuestion):
            metrics["loss_gap"] = loss_gap(mine.logp, mine.sizes, records, run)
        if not isinstance(release, Scorer):
            details[f"records_without_{questions.truth}"] = int((~has_truth).sum())
        rng = run.shared("membership", "groups")
        judged = UserScores.from_records(records, scores[main].users)
        if (most := auc_of_most_records(judged, rng)) is not None:
            metrics["auc_user_most_records"] = most
        notes = [*details["notes"], *about["notes"], *score_details["notes"]]
        return Leakage(
            metrics,
            {
                **details,
                **about,
                **score_details,
                "notes": notes,
                "users": {"members": len(planted.members), "non_members": len(planted.non_members)},
                "groups": user_groups(judged, records, corpus, planted, rng),
                "judged": judged_users(records, planted, corpus).model_dump(),
                "records_replaced_by_other_attacks": replaced,
            },
        )

    def _without_shadows(
        self, questions: Question, mine: Confidences, records: Records, run: Run
    ) -> tuple[dict[str, Score], dict[str, Any]]:
        """Scores that no shadow model is needed for, by name; and details."""
        if not isinstance(questions, TokensQuestion):
            return {questions.own: records.mean(mine.logp, mine.sizes)}, {"notes": []}
        p = self.params
        shadows = p.shadow_models if run.retrainer is not None else 0
        comparison = HowCompared(p.min_k, p.reference_rows, shadows)
        return language_scores(questions, mine, records, comparison, run)


def _judged(
    corpus: Corpus,
    sides: tuple[IntArray, IntArray],
    records: BoolArray,
    *,
    by_splits: bool = False,
) -> PlantedMembership:
    """Members and non-members (user ids), judged by their rows among the records (rows,)."""
    rows = np.flatnonzero(records & np.isin(corpus.users, np.concatenate(sides))).tolist()
    members, others = sides
    return PlantedMembership(
        members=tuple(members.tolist()),
        non_members=tuple(others.tolist()),
        rows=tuple(rows),
        digests=tuple(digest(corpus.texts[row]) for row in rows),
        by_splits=by_splits,
    )


def _questions(release: Release, corpus: Corpus) -> Question:
    """The question for releases of this kind; classes say more than losses."""
    if isinstance(release, Scorer):
        return TokensQuestion(corpus)
    if isinstance(release, Classifier):
        return ClassesQuestion(release, corpus)
    if isinstance(release, RowScorer):
        return LossesQuestion(release, corpus)
    if isinstance(release, LabelOnly):
        return LabelsQuestion(release, corpus)
    raise CapabilityError(
        "membership needs a Scorer, a Classifier, a RowScorer or a LabelOnly, not "
        f"{type(release).__name__}"
    )
