"""Who is held out, that leaks are seen, and that nothing is seen where nothing leaks."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from uedp_bench.attacks.membership.attack import Membership, PlantedMembership
from uedp_bench.attacks.membership.records import (
    WIDER,
    auc_of_words,
    loss_gap,
    out_of_fold_scores,
    records_of,
)
from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.contracts.capabilities import TokenScores
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Retrain, Run
from uedp_bench.corpus import BoolArray, Corpus
from uedp_bench.errors import InputError
from uedp_bench.statistics.intervals import Scores, auc, auc_estimate

RunMaker = Callable[..., Run]


class FakeScorer(Release):
    """Token log-probabilities: noise, the difficulty of the text, and what it remembers of some."""

    def __init__(
        self, texts: Sequence[str] = (), gain: float = 0.0, spread: float = 0.0, seed: int = 0
    ) -> None:
        self.texts, self.gain, self.spread, self.seed = set(texts), gain, spread, seed

    def token_logprobs(self, texts: Sequence[str]) -> list[TokenScores]:
        rng = np.random.default_rng(self.seed)
        out = []
        for text in texts:
            hard = zlib.crc32(text.encode()) / 2**32 * self.spread
            logp = rng.normal(-30, 1, 1 + len(text.split())) - hard
            logp += self.gain * (text in self.texts)
            out.append(TokenScores(logp, np.full_like(logp, -30), np.ones_like(logp), logp > -30))
        return out


def planted(
    corpus: Corpus, seed: int = 1, **params: object
) -> tuple[Membership, Corpus, PlantedMembership]:
    attack = Membership.create(params)
    changed, what = attack.plant(corpus, np.random.default_rng(seed))
    return attack, changed, what


def train_texts(corpus: Corpus) -> list[str]:
    return [corpus.texts[row] for row in np.flatnonzero(corpus.where("train"))]


def retrainer_of(release: Release, calls: list[tuple[BoolArray, str, int]]) -> Retrain:
    def retrain(users: BoolArray, *, mechanism: str, seed: int, **_: object) -> Release:
        calls.append((users, mechanism, seed))
        return release

    return retrain


def test_whole_users_are_held_out_and_members_are_others(development_corpus: Corpus) -> None:
    _, after, what = planted(development_corpus)
    assert len(what.members) == len(what.non_members) == 200
    out = set(after.users[after.where("held_out")].tolist())
    assert out == set(what.non_members)
    assert not out & set(after.users[after.where("train", "valid")].tolist())
    assert set(what.members) <= set(after.users[after.where("train")].tolist())
    assert not set(what.members) & out
    before = development_corpus
    assert (before.where("test") == after.where("test")).all()
    assert (before.where("public") == after.where("public")).all()


def test_rows_of_held_out_users_in_valid_are_withdrawn_and_not_scored(
    development_corpus: Corpus,
) -> None:
    some = (np.arange(len(development_corpus)) % 6 == 0) & development_corpus.where("train")
    mixed = development_corpus.with_split(some, "valid")
    _, after, what = planted(mixed)
    theirs = np.isin(after.users, what.non_members)  # shadow models see no withdrawn row
    assert what.withdrawn == (*np.flatnonzero(mixed.where("valid") & theirs).tolist(),)
    assert mixed.where("train")[list(what.rows)].all()
    assert after.where("held_out").sum() == (mixed.where("train") & theirs).sum()


def test_a_tenth_is_held_out_of_many_users(make_corpus: Callable[..., Corpus]) -> None:
    _, _, what = planted(make_corpus(users=3000, rows=2))
    assert len(what.members) == len(what.non_members)
    assert len(what.members) == pytest.approx(300, abs=80)  # binomial: 5 deviations


def test_a_user_who_leaves_moves_no_other_into_or_out_of_the_held_out(
    make_corpus: Callable[..., Corpus],
) -> None:
    corpus = make_corpus(users=3000, rows=2)
    out = {*planted(corpus)[2].non_members}
    for user in (0, 17, min(out)):
        fewer = corpus.take(np.flatnonzero(corpus.users != user))
        assert {*planted(fewer)[2].non_members} == out - {user}


def test_too_few_users_are_refused_with_the_numbers(make_corpus: Callable[..., Corpus]) -> None:
    with pytest.raises(InputError, match=r"has 399 users; .*200.* needs 400"):
        planted(make_corpus(users=399))


def test_planting_is_deterministic_and_survives_json(development_corpus: Corpus) -> None:
    one, two = planted(development_corpus)[2], planted(development_corpus)[2]
    assert one == two
    assert PlantedMembership.model_validate_json(one.model_dump_json()) == one
    assert planted(development_corpus, seed=2)[2].members != one.members


def test_a_release_that_remembers_is_caught(development_corpus: Corpus, make_run: RunMaker) -> None:
    attack, after, what = planted(development_corpus)
    leakage = attack.run(FakeScorer(train_texts(after), gain=5.0), what, after, make_run(1))
    for name in ("auc", "auc_user", "tpr_at_1pct_fpr", "tpr_at_0.1pct_fpr"):
        assert leakage.metrics[name].value > 0.99
    words = leakage.metrics["auc_bag_of_words"]
    assert words.low <= 0.5 <= words.high
    assert leakage.details["main_score"] == "loss"
    assert set(leakage.details["scores"]) == {"loss", "zlib", "min_k", "min_k_plus_plus"}


def test_the_reference_removes_difficulty_and_never_saw_either_side(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus, shadow_models=0)
    calls: list[tuple[BoolArray, str, int]] = []
    run = make_run(7, retrainer_of(FakeScorer(spread=20.0, seed=9), calls))
    target = FakeScorer(train_texts(after), gain=0.5, spread=20.0)
    leakage = attack.run(target, what, after, run)
    assert leakage.details["main_score"] == leakage.details["strongest_score"] == "ratio"
    assert leakage.metrics["auc"].low > leakage.details["scores"]["loss"]["auc"]["high"]
    [(users, mechanism, seed)] = calls
    assert (mechanism, seed) == ("same", 7)
    assert leakage.details["reference"]["users_of"] == "public"
    private = np.unique(after.users[after.where("train", "held_out", "valid", "test")])
    assert not users[private].any()
    assert users.any()


def test_the_reference_falls_back_to_valid_users(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus, shadow_models=0)
    little = after.take(np.flatnonzero(~after.where("public") | (np.arange(len(after)) % 2 == 0)))
    calls: list[tuple[BoolArray, str, int]] = []
    run = make_run(1, retrainer_of(FakeScorer(seed=3), calls))
    leakage = attack.run(FakeScorer(), what, little, run)
    assert leakage.details["reference"]["users_of"] == "valid"
    assert calls[0][0][little.users[little.where("valid")]].all()
    nobody = little.take(np.flatnonzero(~little.where("public", "valid")))
    leakage = attack.run(FakeScorer(), what, nobody, run)
    assert leakage.details["main_score"] == "loss"
    assert len(calls) == 1


@pytest.mark.parametrize("split", ["public", "valid"])
def test_the_reference_never_trains_on_who_trained_or_was_held_out(
    development_corpus: Corpus, make_run: RunMaker, split: str
) -> None:
    # Half of the rows outside are by users who are members, held out, or train: as where rows of
    # every user were cut, or where users wrote public text too.
    _, corpus, what = planted(development_corpus)
    trained = np.unique(corpus.users[corpus.where("train", "held_out")])
    users = corpus.users.copy()
    outside = np.flatnonzero(corpus.where(split))
    mixed = outside[::2]
    users[mixed] = trained[np.arange(len(mixed)) % len(trained)]
    if split == "valid":
        users[corpus.where("public")] = -1
    corpus = replace(corpus, groups={"user": users})
    calls: list[tuple[BoolArray, str, int]] = []
    run = make_run(1, retrainer_of(FakeScorer(seed=3), calls))
    # One row is enough, so that no threshold decides for another split.
    attack = Membership.create({"reference_rows": 1, "shadow_models": 0})
    leakage = attack.run(FakeScorer(seed=4), what, corpus, run)
    assert leakage.details["reference"]["users_of"] == split
    ((reference_users, mechanism, _),) = calls
    assert mechanism == "same"
    assert reference_users.any()
    assert not reference_users[trained].any()
    assert not reference_users[list(what.members)].any()
    assert not reference_users[list(what.non_members)].any()


def test_intervals_contain_one_half_where_nothing_leaks(
    make_corpus: Callable[..., Corpus], make_run: RunMaker
) -> None:
    corpus = make_corpus(rows=3)
    hits = {"auc": 0, "auc_user": 0, "auc_bag_of_words": 0}
    for seed in range(10):
        attack, after, what = planted(corpus, seed, shadow_models=0)
        run = make_run(seed, retrainer_of(FakeScorer(spread=20.0, seed=1000 + seed), []))
        leakage = attack.run(FakeScorer(spread=20.0, seed=seed), what, after, run)
        for name in hits:
            hits[name] += leakage.metrics[name].low <= 0.5 <= leakage.metrics[name].high
        assert leakage.metrics["tpr_at_1pct_fpr"].low < 0.02
    # Of 10 intervals at 95 %, fewer than 8 hold with probability 0.01.
    assert min(hits.values()) >= 8


def test_the_loss_gap_counts_tokens_alike_and_has_an_interval(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus, shadow_models=0)
    release = FakeScorer(train_texts(after), gain=0.5)
    gap = attack.run(release, what, after, make_run(1)).metrics["loss_gap"]
    assert gap.low < gap.value < gap.high
    assert gap.value == pytest.approx(0.5, abs=0.1)
    users, rows = after.users[list(what.rows)], list(what.rows)
    scores = release.token_logprobs([after.texts[row] for row in rows])
    out, inside = (
        np.concatenate([one.logp for one, user in zip(scores, users, strict=True) if user in side])
        for side in (what.non_members, what.members)
    )
    assert gap.value == pytest.approx(inside.mean() - out.mean())


def test_the_loss_gap_is_0_where_nothing_leaks(
    make_corpus: Callable[..., Corpus], make_run: RunMaker
) -> None:
    corpus, holds = make_corpus(rows=3), 0
    for seed in range(20):
        _, after, what = planted(corpus, seed)
        records, _ = records_of(what, after)
        scores = FakeScorer(seed=seed).token_logprobs(records.texts)
        sizes = np.array([float(len(one.logp)) for one in scores])
        means = np.array([one.logp.mean() for one in scores])
        gap = loss_gap(means, sizes, records, make_run(seed))
        holds += gap.low <= 0.0 <= gap.high
    assert holds >= 16


def test_judged_users_are_those_with_scores(development_corpus: Corpus, make_run: RunMaker) -> None:
    attack, after, what = planted(development_corpus, shadow_models=0)
    judged = attack.run(FakeScorer(), what, after, make_run(1)).details["judged"]
    counts = np.bincount(after.users[list(what.rows)])
    assert judged == {"members": 200, "non_members": 200, "most_records": counts.max()}
    gone = np.isin(after.users, what.members[:5]) & after.where("train")
    texts = [f"{text} and more" if lost else text
             for text, lost in zip(after.texts, gone, strict=True)]  # fmt: skip
    leakage = attack.run(FakeScorer(), what, replace(after, texts=tuple(texts)), make_run(1))
    assert leakage.details["judged"] == judged | {"members": 195}


def test_canaries_of_another_attack_are_left_out(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack, after, what = planted(development_corpus)
    sharer = SecretSharer.create({"p_u": (0.05,), "references": 256, "word_pool": 60})
    both, canaries = sharer.plant(after, np.random.default_rng(2))
    texts = [c.text for c in canaries.canaries]
    leakage = attack.run(FakeScorer(texts, gain=20.0), what, both, make_run(1))
    assert leakage.details["records_replaced_by_other_attacks"] > 20
    # What the release knows of canaries changes nothing.
    assert leakage == attack.run(FakeScorer(), what, both, make_run(1))


def test_bag_of_words_finds_a_shift_in_vocabulary(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    _, after, what = planted(development_corpus)
    texts = list(after.texts)
    for row in np.flatnonzero(np.isin(after.users, what.members)).tolist():
        texts[row] += " zebra" if row % 2 else ""
    rows = np.array(what.rows)
    users, member = after.users[rows], np.isin(after.users[rows], what.members)
    scores = out_of_fold_scores([texts[r] for r in rows], member, users, np.random.default_rng(0))
    area = auc(scores[member], scores[~member])
    assert 0.68 < area < 0.82  # half of the members' rows show it: 0.75
    sides = Scores(scores[member], users[member]), Scores(scores[~member], users[~member])
    assert auc_estimate(*sides, np.random.default_rng(0)).low > 0.6


@pytest.mark.parametrize("users", [2, 3, 4, 6])
def test_bag_of_words_is_never_certain_of_few_users(users: int) -> None:
    """Fewer users than folds leave some folds empty; perfect scores of a few are luck, perhaps."""
    member, owner = np.arange(2 * users) < users, np.arange(2 * users)
    texts = ["zebra" if inside else "horse" for inside in member.tolist()]
    scores = out_of_fold_scores(texts, member, owner, np.random.default_rng(0))
    sides = (Scores(scores[side], owner[side]) for side in (member, ~member))
    estimate = auc_of_words(*sides, np.random.default_rng(0))
    assert estimate.value == 1.0
    assert estimate.low is not None
    assert (
        estimate.low <= 1.0 - WIDER * (1.0 - 0.025 ** (1.0 / users)) + 1e-9 or estimate.low == 0.0
    )


def test_low_limits_say_that_they_are_the_zero_false_positive_rate(
    make_corpus: Callable[..., Corpus], make_run: RunMaker
) -> None:
    attack, after, what = planted(make_corpus(users=400, rows=2))
    leakage = attack.run(FakeScorer(), what, after, make_run(1))
    assert any("tpr_at_0.1pct_fpr: 400 records" in note for note in leakage.details["notes"])
    assert not any(note.startswith("tpr_at_1pct") for note in leakage.details["notes"])
