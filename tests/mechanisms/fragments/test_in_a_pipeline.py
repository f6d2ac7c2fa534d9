"""Phrases reach the task and the attack that read translations, and nobody else."""

from __future__ import annotations

import math

import pytest
from parallel_text import generated, parallel
from toy import toy_run

from uedp_bench.accounting.ledger import check_plan, proven
from uedp_bench.attacks.fragment_reassembly.attack import FragmentReassembly
from uedp_bench.errors import PrivacyError
from uedp_bench.mechanisms.fragments.phrase_union import PhraseUnion
from uedp_bench.mechanisms.noiseless import Noiseless
from uedp_bench.mechanisms.private_training.user_dp import UserDP
from uedp_bench.one_run.pipeline import Pipeline
from uedp_bench.one_run.publishing import not_carried, publish_all
from uedp_bench.tasks.language.next_word import NextWord
from uedp_bench.tasks.translation.translation import Translation

PUBLIC = [pair for document in generated(1, 200, seed=7) for pair in document]
SHARED = generated(1, 3, seed=3)[0]
CORPUS = parallel([SHARED] * 60, PUBLIC)


def union(noise: float = 0.62) -> PhraseUnion:
    mechanism: PhraseUnion = PhraseUnion.create({"noise_multiplier": noise, "most": 10})
    return mechanism


def test_training_on_a_noisy_union_only_processes_it() -> None:
    pipeline = Pipeline.build([union()], Noiseless.create())
    translation, run = Translation.create(), toy_run()
    out, published = publish_all(pipeline, CORPUS, run, translation)
    assert len(out.only("train")) and out.targets is not None and all(out.targets)
    assert not_carried(FragmentReassembly.create(), pipeline, translation) is None
    trained = Noiseless.create().plan(run.stats)
    released = pipeline.released((), published, [trained])
    check_plan(pipeline.plan(run.stats), released)
    (guarantee,) = proven(released, delta=1e-5)
    assert guarantee.unit == "user" and 7 < guarantee.epsilon < 8.5
    less = Pipeline.build([union(0.3)], Noiseless.create()).plan(run.stats)
    with pytest.raises(PrivacyError):
        check_plan(less, released)


def test_who_does_not_read_translations_is_not_given_them() -> None:
    pipeline = Pipeline.build([union()], Noiseless.create())
    out, _ = publish_all(pipeline, CORPUS, toy_run(), NextWord.create())
    assert out.targets is None
    assert "targets" in str(not_carried(FragmentReassembly.create(), pipeline, NextWord.create()))


def test_users_of_phrases_are_nobodys_to_protect() -> None:
    """Rows that many documents made belong to no user: training for users proves nothing."""
    user_dp = UserDP.create({"rounds": 1, "users_per_round": 1})
    pipeline = Pipeline.build([union(), user_dp], Noiseless.create())
    refusals = pipeline.refusals(toy_run().stats)
    assert any("phrase-union" in reason for reason in refusals)
    guarantees = proven(pipeline.plan(toy_run().stats), delta=1e-5, refusals=refusals)
    assert all(math.isinf(guarantee.epsilon) for guarantee in guarantees)
