"""Losses are sums over tokens of test targets, and their floors know frequencies alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import parallel_rows
import pytest

from uedp_bench.corpus import Corpus, FloatArray
from uedp_bench.tasks.translation.translation import (
    LOSSES,
    TokenLosses,
    Translation,
    TranslationParams,
)
from uedp_bench.tasks.translation.translator import TranslatorRelease


@pytest.fixture(scope="module")
def release() -> TranslatorRelease:
    return parallel_rows.release()


def losses(release: TranslatorRelease, most: int = 64) -> TokenLosses:
    return TokenLosses(release.reader.vocabulary, most, parallel_rows.corpus().only("test"))


def test_the_loss_is_that_of_rows_weighed_by_their_tokens(release: TranslatorRelease) -> None:
    token_losses = losses(release)
    targets = token_losses.test.targets or ()
    sizes = np.array([len(ids) + 1 for ids in token_losses.vocabulary.encode_targets(targets)])
    rows = release.row_losses(token_losses.test)
    loss = token_losses.scores(release)["loss"]
    assert loss.value == pytest.approx((rows * sizes).sum() / sizes.sum(), rel=1e-5)
    assert loss.low is not None and loss.low < loss.value < (loss.high or 0.0)


def test_tokens_past_the_limit_count_on_no_side() -> None:
    short = parallel_rows.release(max_tokens=5)
    token_losses = losses(short, most=5)
    assert token_losses.scores(short)["loss"].value == pytest.approx(
        short.row_losses(token_losses.test).mean()
    )


def test_frequencies_have_the_entropy_of_what_they_counted(release: TranslatorRelease) -> None:
    vocabulary = release.reader.vocabulary
    rows = parallel_rows.corpus().only("test")
    targets = rows.targets or ()
    estimate = TokenLosses(vocabulary, 64, rows).unigram(targets)
    flat = [one for ids in vocabulary.encode_targets(targets) for one in [*ids, vocabulary.end]]
    counts = np.bincount(flat, minlength=vocabulary.size)
    nats = -np.log((counts + 1) / (len(flat) + vocabulary.size))
    assert estimate.value == pytest.approx((counts * nats).sum() / len(flat))
    # A text that others wrote in other words costs more.
    assert TokenLosses(vocabulary, 64, rows).unigram(["x"]).value > estimate.value


@dataclass(frozen=True)
class Knowing:
    """Knows the translation of each text, and finds any other one a thousand nats away."""

    corpus: Corpus

    def pair_losses(self, texts: tuple[str, ...], targets: tuple[str, ...]) -> FloatArray:
        references = dict(zip(self.corpus.texts, self.corpus.targets or (), strict=True))
        pairs = zip(texts, targets, strict=True)
        return np.array([0.0 if references[text] == target else 1e3 for text, target in pairs])


def test_who_reads_the_text_loses_more_given_another(release: TranslatorRelease) -> None:
    token_losses = losses(release)
    distinct = token_losses.test.take(
        np.unique(np.array(token_losses.test.texts), return_index=True)[1]
    )
    token_losses = replace(token_losses, test=distinct)
    scores = token_losses.scores(Knowing(distinct))
    assert scores["loss"].value == 0.0
    sizes = [len(ids) + 1 for ids in token_losses.vocabulary.encode_targets(distinct.targets or ())]
    assert scores["other_text_loss"].value == pytest.approx(1e3 * len(sizes) / sum(sizes))
    assert "other_text_loss" not in replace(token_losses, test=distinct.take(np.arange(1))).scores(
        release
    )


def test_the_task_scores_losses_of_releases_that_tell_them(release: TranslatorRelease) -> None:
    task = Translation(TranslationParams(max_tokens=64), parallel_rows.model())
    rows = parallel_rows.corpus()
    metrics = task.score(release, rows).metrics
    assert {one.name for one in LOSSES} <= {*metrics}
    assert metrics["unigram_loss"].value != metrics["train_unigram_loss"].value
    assert metrics["loss"].value == pytest.approx(losses(release).scores(release)["loss"].value)

    class Mute:
        def translate(self, texts: list[str]) -> list[str]:
            return list(texts)

    assert not {one.name for one in LOSSES} & {*task.score(Mute(), rows).metrics}  # type: ignore[arg-type]
