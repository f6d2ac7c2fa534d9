"""A saved release is loaded and asked once: what cannot be asked again was not saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.errors import PluginError
from uedp_bench.release import (
    Classifier,
    Completer,
    Encoder,
    Generator,
    PublishedOnly,
    Release,
    Scorer,
    capabilities,
)

if TYPE_CHECKING:
    from pathlib import Path

    from uedp_bench.corpus import Corpus, FloatArray
    from uedp_bench.task import Task

ROWS = 3
"""Rows that both are asked about."""

RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""Tolerances: what was trained on a GPU is loaded on the CPU."""

_MADE_BY_THE_RUN = ("Published", "Channel", "Updates")
"""Capabilities that nobody saves, for any run makes them again."""


def check_saved(task: Task[Any], folder: Path, release: Release, corpus: Corpus) -> None:
    """Loads what was saved, and compares its answers with those of the release.

    Args:
        task: whose `load` reads the folder.
        folder: that `Release.save` wrote into.
        release: that was saved.
        corpus: the original corpus, of which a few rows are asked about.

    Raises:
        PluginError: if it does not load, offers less, or answers something else.
    """
    if isinstance(release, PublishedOnly):
        return
    try:
        again = task.load(folder)
        lost = set(capabilities(release)) - set(capabilities(again)) - {*_MADE_BY_THE_RUN}
        if lost:
            raise ValueError(f"it is no {' and no '.join(sorted(lost))} any more")
        rows = _rows(release, corpus)
        for what, ask in _questions(release, rows):
            _compare(what, ask(release), ask(again))
    except Exception as error:
        raise PluginError(
            f"the release was saved, and what the task {task.name} loads is not that release: "
            f"{type(error).__name__}: {error}"
        ) from error


def _rows(release: Release, corpus: Corpus) -> Corpus:
    """A few rows as the release takes them."""
    if getattr(release, "takes_vectors", False):
        corpus = getattr(release, "published", getattr(release, "inputs", corpus))
    elif corpus.where("test").any():
        corpus = corpus.only("test")
    return corpus.take(np.arange(min(ROWS, len(corpus))))


Question = Callable[[Any], "FloatArray"]


def _questions(release: Release, rows: Corpus) -> list[tuple[str, Question]]:
    """One for each of its capabilities."""
    texts = list(rows.texts)
    asked: list[tuple[type, str, Question]] = [
        (Scorer, "token_logprobs", lambda r: np.concatenate(
            [scores.logp for scores in r.token_logprobs(texts)])),
        (Classifier, "class_logprobs", lambda r: r.class_logprobs(rows)),
        (Encoder, "representations", lambda r: r.representations(rows)),
        (Generator, "next_logprobs", lambda r: r.next_logprobs([r.encode(texts[0])[:1]])),
        (Completer, "filler_losses", lambda r: r.filler_losses("", "", texts)),
    ]  # fmt: skip
    return [(what, ask) for kind, what, ask in asked if isinstance(release, kind)]


def _compare(what: str, before: FloatArray, after: FloatArray) -> None:
    if before.shape != after.shape:
        raise ValueError(f"{what} has shape {after.shape}, and had {before.shape}")
    if not np.allclose(before, after, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True):
        gap = float(np.abs(before - after).max())
        raise ValueError(f"answers of {what} differ by up to {gap:.3g}")
