"""Scores of canaries, by what a release says of them: high for those that it was trained on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.attacks._planting import replace_rows
from uedp_bench.attacks.audit.canaries import name_mentions
from uedp_bench.attacks.secret_sharer.canary import random_suffixes, split_canary
from uedp_bench.statistics.intervals import checked

if TYPE_CHECKING:
    from uedp_bench.api import Run
    from uedp_bench.api.capabilities import Completer, RowScorer, Updates
    from uedp_bench.attacks.audit.canaries import AuditCanary
    from uedp_bench.corpus import Corpus, FloatArray, IntArray

LARGEST_LOSS = 1e6
"""Infinite losses count as this many nats, so that they still compare."""

CANARY_ROWS = 4
"""Rows of a canary that its loss is the mean of, at most: they may differ in their labels."""


MOST_DEVIATIONS = 3.0
"""Cap of a weight's change: at 3 deviations normal noise loses 0.5 % of what it tells."""


class TextProbe(NamedTuple):
    """The way in which texts are asked for.

    Attributes:
        words: words that references are made of.
        prefix_words: words of a canary that are given.
        references: random suffixes that its own is compared with; 0 for none.
        named_after: words before those that are annotated as a name; None where none are.
    """

    words: tuple[str, ...]
    prefix_words: int
    references: int
    named_after: int | None = None


def text_scores(
    release: Completer, canaries: Sequence[AuditCanary], probe: TextProbe, run: Run
) -> FloatArray:
    """(canaries,) how far the suffix's loss is below that of random ones, in their deviations.

    A canary's references do not depend on the release, so that trainings compare.
    """

    def score(canary: AuditCanary, rng: np.random.Generator) -> float:
        before, suffixes = _suffixes(canary, probe, rng)
        return _gap(release.filler_losses(f"{before} ", "", suffixes))

    return _scores(score, canaries, run)


def row_scores(
    release: RowScorer, canaries: Sequence[AuditCanary], probe: TextProbe, corpus: Corpus, run: Run
) -> FloatArray:
    """(canaries,) how far the loss of a canary's rows is below that of random texts in their place.

    The texts differ in the words after the prefix alone, and stand in the same rows, beside the
    same label; what is annotated of the canary is annotated of each. `text_scores` asks language
    models, and sees more.

    Args:
        release: release that is audited.
        canaries: to score.
        probe: questions about texts.
        corpus: the planted corpus.
        run: run of the audit.
    """

    def score(canary: AuditCanary, rng: np.random.Generator) -> float:
        before, suffixes = _suffixes(canary, probe, rng)
        texts = [f"{before} {suffix}" for suffix in suffixes]
        rows = canary_rows(corpus, canary)
        every = with_texts_in(corpus, rows, texts, probe.named_after)
        losses = np.asarray(release.row_losses(every)).reshape(len(texts), len(rows))
        return _gap(losses.mean(axis=1))

    return _scores(score, canaries, run)


def _suffixes(
    canary: AuditCanary, probe: TextProbe, rng: np.random.Generator
) -> tuple[str, list[str]]:
    """The words that are given, and the canary's suffix followed by random ones."""
    before, suffix = split_canary(canary.text, probe.prefix_words)
    return before, [suffix, *random_suffixes(probe.words, suffix, probe.references, rng)]


def _scores(
    score: Callable[[AuditCanary, np.random.Generator], float],
    canaries: Sequence[AuditCanary],
    run: Run,
) -> FloatArray:
    """(canaries,) the score of each, whose references are drawn from the generator."""
    scores = np.empty(len(canaries))
    for index, canary in enumerate(canaries):
        run.progress("audit: scores", index, len(canaries))
        scores[index] = score(canary, run.shared("audit", "references", canary.user))
    return scores


def canary_rows(corpus: Corpus, canary: AuditCanary) -> IntArray:
    """Rows of a canary's user that stand for it: those that hold its text where some do."""
    mine = corpus.rows_of_user[canary.user]
    holds = np.array([corpus.texts[row] == canary.text for row in mine.tolist()], dtype=bool)
    # An excluded user of the adjacency replace-one keeps its own text.
    rows = mine[holds] if holds.any() else mine[corpus.where("train")[mine]]
    return rows[:CANARY_ROWS]


def with_texts_in(
    corpus: Corpus, rows: IntArray, texts: Sequence[str], named_after: int | None = None
) -> Corpus:
    """Every text in every one of these rows, text by text.

    Args:
        corpus: corpus of the rows.
        rows: rows that hold each text.
        texts: to hold.
        named_after: words of each text before those that are annotated as a name; None annotates
            nothing.
    """
    every = replace(corpus.take(np.tile(rows, len(texts))), detector=None)
    held = [text for text in texts for _ in range(len(rows))]
    mentions = name_mentions(every, range(len(every)), held, named_after)
    return replace_rows(every, np.arange(len(every)), held, mentions)


def _gap(losses_read: FloatArray) -> float:
    """Distance of the first loss below the mean of the others, in their standard deviations.

    Without others it is the loss itself, below zero.
    """
    losses = np.minimum(checked(losses_read, "losses of canaries"), LARGEST_LOSS)
    if len(losses) == 1:
        return -float(losses[0])
    gap, deviation = losses[1:].mean() - losses[0], losses[1:].std()
    return float(gap / deviation if deviation > 0.0 else gap)


def update_scores(
    release: Updates, canaries: Sequence[AuditCanary], run: Run
) -> tuple[FloatArray, float]:
    """(canaries,) the part of the weights' change along each canary's direction, and its norm.

    Score over norm is the cosine of Andrew et al. 2024, which is N(0, 1/d) for a direction that
    was not injected. A canary moves all weights alike and other users move few, so each weight's
    change is capped first: what others did to their few would drown the canaries.

    Args:
        release: release of the training that `run` describes.
        canaries: their users' directions are drawn again.
        run: with the seed of that training.
    """
    import torch

    from uedp_bench.training.injection import direction

    update = torch.from_numpy(_capped(np.asarray(release.update, dtype=np.float64)))
    scores = [
        float(update @ direction(run, canary.user, len(update)).double()) for canary in canaries
    ]
    return checked(scores, "scores of canaries"), float(torch.linalg.vector_norm(update))


def _capped(update: FloatArray) -> FloatArray:
    """The update with no weight further than `MOST_DEVIATIONS` of the bulk of weights."""
    # The median of a normal variable's distance to 0 is 0.6745 deviations.
    most = MOST_DEVIATIONS * float(np.median(np.abs(update))) / 0.6745
    return np.clip(update, -most, most) if most > 0.0 else np.ascontiguousarray(update)
