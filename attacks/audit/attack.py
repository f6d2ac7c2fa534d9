"""The audit: canary users with a fair coin each, and the epsilon that telling them apart refutes.

One training run suffices (Steinke, Nasr, Jagielski 2023); retrainings sharpen the bound. What may
be concluded from which canaries is in `docs/audits.md`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import Attack, InputError, Leakage, Metric, Params, Run, equals
from uedp_bench.api.capabilities import Completer, RowScorer, Updates
from uedp_bench.attacks._planting import person_type
from uedp_bench.attacks.audit.canaries import (
    AuditCanary,
    CanaryRows,
    Design,
    PlantedAudit,
    Sizes,
    draw_rows,
    draw_texts,
    draw_users,
    plant_texts,
    word_pool,
)
from uedp_bench.attacks.audit.scores import (
    RetrainedScores,
    StoredAudit,
    TextProbe,
    canary_rows,
    compare,
    early_decision,
    retrained_scores,
    row_scores,
    target_of,
    text_scores,
    update_scores,
    with_texts_in,
)
from uedp_bench.attacks.audit.trials import Sides, Target, Trials, headline, lower_bounds

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, FloatArray, LowerBound, Release, StoredLeakage
    from uedp_bench.api.events import PrivacyEvent, PrivacyUnit

NOT_INJECTED = (
    "no update was replaced: the mechanism does not train in rounds of clipped updates, or no "
    "canary took part"
)


CLIENTS_SEND = (
    "audit.canary is 'update': whole clients take part (unit is 'client'), and no update is a "
    "single user's, which a canary's could replace; take canary='user' (a bound for users), or "
    "audit a run with unit='user'"
)

FEWEST_CANARIES, MOST_CANARIES = 100, 1_000
"""Canaries by default: at 100 the bound is far below what the scores tell, at 1,000 near it."""

NO_UPDATE = "update canaries need a release that is Updates"


def _sure(bound: LowerBound) -> bool:
    """True if a bound rests on coins alone."""
    return not bound.assumptions


class _Question(NamedTuple):
    """Inputs of the scores beside the release, the same for all trainings."""

    planted: PlantedAudit
    corpus: Corpus
    run: Run


class AuditParams(Params):
    """Parameters of `audit`."""

    canary: Literal["user", "entity", "update"] = Field(
        default="user",
        description="user: all text of a user is one canary; entity: `spread` other users mention "
        "it too; update: a user sends a random direction (federated mechanisms)",
    )
    canaries: int | None = Field(
        default=None,
        ge=20,
        description="canary users; each is in by a fair coin of its own. Default: 100; of update "
        "canaries half of the training users, 1,000 at most and 100 at least",
    )
    spread: int | None = Field(
        default=None, ge=0, description="other users that mention an entity canary"
    )
    sentences: int = Field(
        default=1, ge=1, description="rows in which each of them mentions it (entity)"
    )
    adjacency: Literal["add-or-remove", "replace-one"] = Field(
        default="add-or-remove",
        description="what excluded means: the user has no text, or keeps its own text",
    )
    user_rows: int | None = Field(
        default=None,
        ge=1,
        description="rows of a canary user; default: all that it had. With 1, the audit speaks of "
        "the unit record too",
    )
    retrainings: int = Field(
        default=0,
        ge=0,
        description="trainings, half of them with one more canary, for a bound from independent "
        "trials (user, update)",
    )
    stop: Literal["never", "early"] = Field(
        default="never",
        exclude_if=equals("never"),
        description="early: a coin decides each retraining, and they end as soon as what is proven "
        "is refuted for certain; the bound holds after each of them, and progress says it",
    )
    target_epsilon: float | None = Field(
        default=None,
        ge=0,
        exclude_if=equals(None),
        description="with stop 'early': the epsilon, at delta, that ends retrainings when it is "
        "refuted; default: what the events of the release are worth",
    )
    delta: float | None = Field(
        default=None, ge=0, lt=1, description="delta of the bounds; default: the run's"
    )
    text: Design = Field(
        default="random-words",
        exclude_if=equals("random-words"),
        description="random-words: frequent public words; rare-suffix: a second part of the rarest "
        "of them; own-word: a second part of one word that no other canary has; real-prefix: a "
        "first part of real text; sampled: from a bigram model of public text at temperature 2",
    )
    canary_words: int = Field(default=5, ge=2, le=8, description="words of a canary")
    prefix_words: int = Field(default=2, ge=1, description="words of it that are given")
    named: bool = Field(
        default=False,
        exclude_if=equals(False),
        description="user canaries: the words that are not given are annotated as a name, as those "
        "of entity canaries are; taggers learn what is annotated",
    )
    word_pool: int = Field(
        default=500, ge=2, description="canaries are made of this many most frequent words"
    )
    references: int = Field(
        default=32,
        ge=0,
        description="random suffixes that a canary's loss is compared with; 0: its loss alone, for "
        "retrainings, which ask about one canary each time",
    )

    @model_validator(mode="after")
    def _fits_the_canary(self) -> AuditParams:
        if self.prefix_words >= self.canary_words:
            raise ValueError(f"prefix_words is {self.prefix_words}: it must be below canary_words")
        entity = self.canary == "entity"
        if entity and self.spread is None:
            raise ValueError("canary is 'entity': give spread, the other users that mention it")
        if not entity and (self.spread is not None or self.sentences != 1):
            raise ValueError(f"spread and sentences are of entity canaries, not of {self.canary!r}")
        if self.named and self.canary != "user":
            raise ValueError(f"named is of user canaries, not of {self.canary!r}")
        if entity and self.adjacency == "replace-one":
            raise ValueError("adjacency 'replace-one' is for user and update canaries only")
        if self.retrainings and (entity or self.adjacency == "replace-one"):
            raise ValueError("retrainings add or remove a canary of kind 'user' or 'update' only")
        if self.text == "own-word" and self.canary_words - self.prefix_words != 1:
            raise ValueError("text is 'own-word': canary_words must be prefix_words + 1")
        if self.references == 1:
            raise ValueError("references is 1: two at least, or 0 for the loss alone")
        if self.stop == "early" and not self.retrainings:
            raise ValueError("stop is 'early': give retrainings, the number of them at most")
        if self.target_epsilon is not None and self.stop != "early":
            raise ValueError("target_epsilon ends retrainings: give stop='early' with it")
        if self.retrainings == 1:
            raise ValueError("retrainings is 1: two at least, one with the canary and one without")
        return self

    @property
    def named_after(self) -> int | None:
        """Words of a canary before those that are annotated as a name; None where none are."""
        return self.prefix_words if self.named or self.canary == "entity" else None


class Audit(Attack[AuditParams]):
    """Plants canary users by fair coins and bounds epsilon from below by telling who is in.

    Everything that the mechanism sees beside the canaries is the same whatever the coins: words,
    texts, users and rows are drawn without them, and public sizes are those of all canaries.
    """

    name = "audit"
    version = 2
    source = (
        "Steinke, Nasr, Jagielski 2023 (one training run); Andrew et al. 2024 (random updates); "
        "Carlini et al. 2019 (canaries)"
    )
    Params = AuditParams
    metrics = (
        Metric.share("auc_retrainings", "AUC over retrainings", "of telling trainings with the "
                     "canary from those without", "lower", no_leak=0.5),
        Metric.share("auc", "member AUC", "of telling canaries that are in from those that are "
                     "out; 0.5 where nothing leaks", "lower", no_leak=0.5, main=True),
        Metric("epsilon_of_auc*", "epsilon of the AUC", "of the Gaussian mechanism whose best "
               "attack has this AUC: far above a bound, the bound is weak; low too, the scores are",
               "lower", low=0.0),
        Metric("epsilon_*", "epsilon", "refuted from below by this audit", "lower", low=0.0),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Completer, RowScorer, Updates)
    replaces_users = True
    planted_type = PlantedAudit

    def retrainings(self, offers: tuple[type, ...]) -> Mapping[str, int]:
        """See `Attack`."""
        return {"retrainings": self.params.retrainings}

    def refuses_events(self, events: Sequence[PrivacyEvent]) -> str | None:
        """Refuse update canaries where clients take part: no update is of a single user."""
        if self.params.canary == "update" and any(event.unit == "client" for event in events):
            return CLIENTS_SEND
        return None

    def contradictions(self, stored: StoredLeakage) -> Iterator[tuple[str, str]]:
        """See `Attack`. An audit without scores (no canary could be scored) has nothing else."""
        p, details = self.params, StoredAudit.model_validate(stored.details)
        yield from details.faults(
            delta=stored.delta if p.delta is None else p.delta, early=p.stop == "early"
        )
        if isinstance(stored.planted, PlantedAudit):
            coins = [canary.included for canary in stored.planted.canaries]
            if (len(coins), sum(coins)) != (details.canaries, details.included):
                stated = f"{details.included} of {details.canaries} canaries are in"
                yield "details.included", f"{stated}; by the coins, {sum(coins)} of {len(coins)}"
        # The run alone knows if each canary is one row; a bound for records follows it.
        of_records = any(bound.unit == "record" for bound in stored.lower_bounds.values())
        targets, one_run = self._targets(of_records=of_records), details.scores.sides()
        trials = None if details.retrainings is None else details.retrainings.trials()
        bounds = lower_bounds(one_run, trials, targets, details.delta, normal=p.canary == "update")
        metrics = headline(one_run, trials, bounds, details.delta, np.random.default_rng(0))
        if stored.version != self.version:  # the first gave these alone, and no evidence
            bounds = tuple(b.model_copy(update={"evidence": None}) for b in bounds if _sure(b))
            metrics = {name: metrics[name] for name in ("epsilon_lower_bound", "auc")}
            sure = {n: bound for n, bound in stored.lower_bounds.items() if _sure(bound)}
            stored = replace(stored, lower_bounds=sure)
        yield from compare(stored, metrics, bounds)

    def plant(self, corpus: Corpus, rng: np.random.Generator) -> tuple[Corpus, PlantedAudit]:
        """Puts all canaries in; the rows of excluded ones are withdrawn by the runner.

        Raises:
            InputError: if there are too few users or words, or no entity types for entity canaries.
        """
        p = self.params
        setting = "named is true" if p.named else f"canary is {p.canary!r}"
        if p.named_after is not None and person_type(corpus) is None:
            raise InputError(f"audit.{setting}, but the source declares no entity types")
        if p.named_after is not None and corpus.detector is not None:
            raise InputError(
                f"audit.{setting}, but {corpus.detector.detector} says what an entity is, "
                "and does not find names of random words: use canary=user, or labelled entities"
            )
        canaries = self._canaries(corpus)
        count = canaries + (1 if p.retrainings else 0)
        pool = word_pool(corpus, p.word_pool, p.text, count)
        words = pool.suffix_words
        if p.references >= (space := len(words) ** (p.canary_words - p.prefix_words)):
            raise InputError(
                f"audit.references is {p.references}: {len(words)} words make only {space} suffixes"
            )
        sizes = Sizes(count, p.spread or 0, p.sentences, p.user_rows)
        users, others = draw_users(corpus, sizes, rng)
        lengths = (p.prefix_words, p.canary_words - p.prefix_words)
        texts = draw_texts(corpus, pool, p.text, count, lengths, rng)
        rows = [draw_rows(corpus, u, o, sizes, rng) for u, o in zip(users, others, strict=True)]
        coins = rng.random(count) < 0.5
        coins[canaries:] = True
        drawn = tuple(
            AuditCanary(user=user, text=text, others=tuple(more), included=coin, rows=len(part.own))
            for user, text, more, coin, part in zip(
                users, texts, others, coins.tolist(), rows, strict=True
            )
        )
        # A user that is replaced keeps its own text where the coin says so.
        holds = coins if p.adjacency == "replace-one" else np.ones(count, dtype=bool)
        chosen = np.flatnonzero(holds).tolist()
        planted = PlantedAudit(
            canaries=drawn[:canaries],
            subject=drawn[-1] if p.retrainings else None,
            words=words,
            notes=pool.notes,
            withdrawn=self._withdrawn(rows, coins),
            injected=tuple(c.user for c in drawn if c.included) if p.canary == "update" else (),
        )
        return plant_texts(
            corpus, [rows[i] for i in chosen], [texts[i] for i in chosen], p.named_after
        ), planted

    def run(self, release: Release, planted: PlantedAudit, corpus: Corpus, run: Run) -> Leakage:
        """Scores every canary, and bounds epsilon from the scores of both sides."""
        notes, p = list(planted.notes), self.params
        if (reason := self._unscorable(release, planted, corpus)) is not None:
            return Leakage({}, {"notes": [*notes, reason]})
        question = _Question(planted, corpus, run)
        scores, details = self._scores(release, planted.canaries, question, run)
        included = np.array([canary.included for canary in planted.canaries])
        one_run = Sides(scores[included], scores[~included])
        if p.canary == "update" and not run.diagnostics.get("injected_updates"):
            notes.append(NOT_INJECTED)
        targets = self._targets(of_records=planted.of_records)
        delta = run.delta if p.delta is None else p.delta
        early, retrained = p.stop == "early", self._retrained(release, question, targets[0], delta)
        trials = None if retrained is None else Trials.in_order(*retrained, early=early)
        bounds = lower_bounds(one_run, trials, targets, delta, normal=p.canary == "update")
        metrics = headline(one_run, trials, bounds, delta, run.shared("audit", "bootstrap"))
        details |= {
            "canaries": len(included),
            "included": int(included.sum()),
            "delta": delta,
            "scores": {name: side.tolist() for name, side in one_run._asdict().items()},
            "notes": notes,
        }
        if retrained is not None and trials is not None:
            scores_by_side = {name: side.tolist() for name, side in trials.sides._asdict().items()}
            if early:
                scores_by_side["included"] = retrained.included.tolist()
            details["retrainings"] = scores_by_side
        return Leakage(metrics, details, bounds)

    def _canaries(self, corpus: Corpus) -> int:
        """The number of canaries: the parameter, or what the number of training users allows.

        An update canary costs as many random numbers a round as there are weights, and no training
        of its own; and other users must be left to train.
        """
        if self.params.canaries is not None:
            return self.params.canaries
        if self.params.canary != "update":
            return FEWEST_CANARIES
        users = corpus.users[corpus.where("train")]
        return min(max(len(np.unique(users[users >= 0])) // 2, FEWEST_CANARIES), MOST_CANARIES)

    def _withdrawn(self, rows: list[CanaryRows], coins: BoolArray) -> tuple[int, ...]:
        """Rows that nobody trains on: spare ones of all canaries, all of excluded ones."""
        out = [part.spare for part in rows]
        if self.params.adjacency == "add-or-remove":
            for part, coin in zip(rows, coins.tolist(), strict=True):
                out += [] if coin else [part.own, part.others]
        return tuple(np.sort(np.concatenate(out)).tolist())

    def _targets(self, *, of_records: bool) -> tuple[Target, ...]:
        """The guarantees that the canaries speak of, the main one first."""
        p = self.params
        if p.canary == "entity":
            spread = p.spread or 0
            return (Target("user-entity", "add-or-remove", spread, spread * p.sentences),)
        units: tuple[PrivacyUnit, ...] = ("user", "record") if of_records else ("user",)
        return tuple(Target(unit, p.adjacency) for unit in units)

    def _unscorable(self, release: Release, planted: PlantedAudit, corpus: Corpus) -> str | None:
        """Reason why a release cannot score the canaries; None where it can."""
        kind = self.params.canary
        if kind == "update":
            return None if isinstance(release, Updates) else NO_UPDATE
        if isinstance(release, Completer):
            return None
        if not isinstance(release, RowScorer):
            return f"{kind} canaries need a release that is a Completer or a RowScorer"
        if release.takes_vectors:
            return f"{kind} canaries are text, and the release takes vectors"
        for canary in planted.canaries:
            rows = canary_rows(corpus, canary)
            probed = with_texts_in(corpus, rows, [canary.text], self.params.named_after)
            if not len(rows) or not release.scorable(probed).all():
                return f"{kind} canaries: their rows have nothing that the release predicts"
        return None

    def _scores(
        self, release: Any, canaries: tuple[AuditCanary, ...], question: _Question, training: Run
    ) -> tuple[FloatArray, dict[str, Any]]:
        """(canaries,) scores, high for included ones; `training` has the seed of the release."""
        p = self.params
        if p.canary == "update":
            scores, norm = update_scores(release, canaries, training)
            return scores, {"update_norm": norm, "weights": len(release.update)}
        probe = TextProbe(question.planted.words, p.prefix_words, p.references, p.named_after)
        if isinstance(release, Completer):
            return text_scores(release, canaries, probe, question.run), {}
        scores = row_scores(release, canaries, probe, question.corpus, question.run)
        return scores, {"scored_by": "losses of rows"}

    def _retrained(
        self, release: Release, question: _Question, target: Target, delta: float
    ) -> RetrainedScores | None:
        """Scores of the subject over trainings with and without it; None where there are none."""
        subject, p, run = question.planted.subject, self.params, question.run
        if subject is None:
            return None
        decided = None
        if p.stop == "early":
            fair_coin = target_of(release.events, target, p.target_epsilon, delta)
            decided = early_decision(run, p.retrainings, delta, fair_coin)

        def score(trained: Release, training: Run) -> float:
            return float(self._scores(trained, (subject,), question, training)[0][0])

        return retrained_scores(subject, question.corpus, run, p.retrainings, score, decided)
