from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from masked_rows import STATS, WORDS, learner_of, release_of, rows_of_words, task_with

from uedp_bench.contracts.capabilities import Completer, RowScorer, Scorer
from uedp_bench.contracts.learner import Schedule
from uedp_bench.contracts.masked_model import MaskFiller
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.tasks.tokens.rows import IGNORED
from uedp_bench.training.plain import train_plain

# ------------------------------------------------------------------------------ rows and masks


def test_losses_and_gradients_of_a_row_do_not_see_other_rows() -> None:
    learner = learner_of(task_with(), rows_of_words())
    seeds = np.arange(5) + 40

    def row_gradients(chosen: list[int]) -> tuple[Any, list[torch.Tensor]]:
        batch = learner.batch([2 * row for row in chosen], seeds[chosen])
        losses = learner.losses(learner.module.train(), batch)
        at = chosen.index(3)
        weights = list(learner.module.parameters())
        return losses.nats[at], list(torch.autograd.grad(losses.nats[at], weights))

    alone, gradients = row_gradients([3])
    for beside in ([0, 3, 1], [4, 2, 3, 0, 1]):
        nats, other = row_gradients(beside)
        torch.testing.assert_close(alone, nats, atol=1e-5, rtol=1e-5)
        for one, two in zip(gradients, other, strict=True):
            torch.testing.assert_close(one, two, atol=1e-6, rtol=1e-4)


def test_a_row_without_a_token_has_no_loss_and_no_gradient() -> None:
    corpus = Corpus(
        ("the nurse", "", "a doctor"),
        {"user": np.arange(3)},
        np.array([0, 0, SPLITS.index("public")]),
    )
    learner = learner_of(task_with(), corpus)
    for rows in ([1], [0, 1]):
        losses = learner.losses(learner.module, learner.batch(rows, np.arange(len(rows))))
        assert losses.targets[-1] == 0 == losses.nats[-1]
        (gradient,) = torch.autograd.grad(losses.nats[-1], [learner.module.head.bias])  # type: ignore[union-attr]
        assert not gradient.any()


def test_special_tokens_that_somebody_typed_are_letters(tmp_path: Path) -> None:
    """Else a row could hide its own words, ask for the mask, or pad itself."""
    typed = "[MASK] nurse [PAD] [CLS] [SEP]"
    corpus = Corpus(
        (typed, "the nurse", "[ mask ] nurse"), {"user": np.arange(3)}, np.zeros(3, int)
    )
    task = task_with(vocabulary="private")
    learner = learner_of(task, corpus)
    special = set(learner.vocabulary.special)
    for seed in range(30):
        batch = learner.batch([0], np.array([seed]))
        targets = batch["targets"][0].tolist()
        assert not special & {t for t in targets if t not in (IGNORED, learner.vocabulary.unknown)}
    inside = learner.rows.held.columns["tokens"].flat[1 : learner.row_lengths[0] - 1]
    assert not (special - {learner.vocabulary.unknown}) & set(inside.tolist())
    release = learner.release(learner.module)
    release.save(tmp_path)
    assert task.load(tmp_path).encode(typed) == release.encode(typed) == inside.tolist()


# -------------------------------------------------------------------------- what a release says


def test_it_offers_what_attacks_ask() -> None:
    release = release_of(task_with(), rows_of_words(40))
    for kind in (MaskFiller, Scorer, Completer, RowScorer):
        assert isinstance(release, kind)


def test_hidden_tokens_are_scored_as_the_logits_say() -> None:
    """Batched, padded and sorted by length, against one row at a time from the definition."""
    release = release_of(task_with(), rows_of_words())
    v = release.vocabulary
    rows = [v.encode([text])[0] for text in ("the nurse saw a doctor", "home", "an unseen zebra")]
    hidden = [np.array([3, 1]), np.array([0]), np.arange(len(rows[2]))]
    for row, at, scores in zip(rows, hidden, release.masked_logprobs(rows, hidden), strict=True):
        shown = np.array(row)
        shown[at] = v.mask
        read = torch.tensor([[v.begin, *shown.tolist(), v.end]])
        with torch.no_grad():
            places = torch.from_numpy(at[None] + 1)
            logits = release.module(read, torch.tensor([len(row) + 2]), places)
        logs = logits[0].double().log_softmax(dim=1).numpy()
        np.testing.assert_allclose(scores.logp, logs[range(len(at)), np.array(row)[at]], atol=1e-5)
        np.testing.assert_allclose(scores.mean, (np.exp(logs) * logs).sum(axis=1), atol=1e-5)
        assert scores.correct.tolist() == (logs.argmax(axis=1) == np.array(row)[at]).tolist()


def test_the_score_of_a_text_hides_one_token_at_a_time_of_every_kth() -> None:
    corpus = rows_of_words()
    texts = [*corpus.texts[:6], ""]
    every = release_of(task_with(scored_tokens=None), corpus)
    capped = release_of(task_with(scored_tokens=4), corpus)
    for text, all_of, some in zip(
        texts, every.token_logprobs(texts), capped.token_logprobs(texts), strict=True
    ):
        ids = every.encode(text) or [every.vocabulary.end]
        at = np.arange(len(ids))
        alone = every.masked_logprobs([ids] * len(ids), list(at[:, None]))
        np.testing.assert_allclose(all_of.logp, [each.logp[0] for each in alone], atol=1e-5)
        step = -(-len(ids) // 4)
        np.testing.assert_allclose(some.logp, all_of.logp[::step], atol=1e-5)
        assert len(some.logp) <= 4


def test_fillers_are_ranked_by_the_softmax_at_the_gap() -> None:
    release = release_of(task_with(), rows_of_words())
    v, fillers = release.vocabulary, ["nurse", "doctor", "clinic", "doctor"]
    losses = release.filler_losses("the old ", " went home", fillers)
    ids = [v.encode([word])[0] for word in fillers]
    assert all(len(word) == 1 for word in ids)
    row = [*v.encode(["the old"])[0], v.mask, *v.encode(["went home"])[0]]
    (scores,) = release.masked_logprobs([[*row[:2], ids[0][0], *row[3:]]], [np.array([2])])
    assert losses[0] == pytest.approx(-scores.logp[0], abs=1e-5)
    assert losses[1] == losses[3] != losses[0]
    assert np.exp(-release.filler_losses("the old ", " went home", WORDS)).sum() < 1.0


def test_pieces_of_a_filler_do_not_give_each_other_away() -> None:
    """Each is asked for given those to its left alone: the losses of two pieces add up."""
    release = release_of(task_with(), rows_of_words())
    v = release.vocabulary
    left, right = v.encode(["the"])[0], v.encode(["rest"])[0]
    (x, y), z = v.encode(["old clinic"])[0], v.encode(["home"])[0][0]
    losses = release.filler_losses("the ", " rest", ["old clinic", "home"])
    both, second, one = release.masked_logprobs(
        [[*left, x, y, *right], [*left, x, y, *right], [*left, z, *right]],
        [np.array([1, 2]), np.array([2]), np.array([1])],
    )
    expected = [-both.logp[0] - second.logp[0], -one.logp[0]]
    np.testing.assert_allclose(losses, expected, atol=1e-5)


def test_long_contexts_lose_what_is_farthest_from_the_gap() -> None:
    release = release_of(task_with(), rows_of_words())
    far = " ".join(["the"] * 100)
    near = " ".join(["the"] * 20)
    with_all = release.filler_losses(f"{far} ", f" {far}", ["nurse", "home"])
    some = release.filler_losses(f"{near} ", f" {near}", ["nurse", "home"])
    np.testing.assert_allclose(with_all, some, atol=1e-5)
    parts = [" ".join(["nurse"] * n) for n in (38, 12, 50)]
    (first,), (second,), (whole,) = (release.filler_losses("", "", [part]) for part in parts)
    assert release.filler_losses("the ", " home", parts[2:])[0] == pytest.approx(whole, abs=1e-4)
    assert whole == pytest.approx(first + second, abs=1e-4)
    with pytest.raises(InputError, match=r"filler.*token"):
        release.filler_losses("a ", " b", ["nurse", ""])


def test_a_saved_release_answers_alike(tmp_path: Path) -> None:
    task, corpus = task_with(), rows_of_words()
    learner = learner_of(task, corpus)
    plan = Schedule(epochs=1, batch_size=16, learning_rate=1e-2)
    release = learner.release(train_plain(plan, learner, Run(1, STATS)))
    release.save(tmp_path / "release")
    again = task.load(tmp_path / "release")
    assert task.score(again, corpus).metrics == task.score(release, corpus).metrics
    test = corpus.only("test")
    np.testing.assert_array_equal(again.row_losses(test), release.row_losses(test))


def test_row_losses_are_those_of_fixed_masks() -> None:
    corpus = rows_of_words()
    learner = learner_of(task_with(), corpus)
    release, test = learner.release(learner.module), corpus.only("test")
    losses = release.row_losses(test)
    backwards = np.arange(len(test))[::-1].copy()
    np.testing.assert_allclose(release.row_losses(test.take(backwards))[::-1], losses, atol=1e-5)
    assert (learner.batch([0], np.array([5]))["targets"] != IGNORED).any()
