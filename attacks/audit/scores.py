"""How much a release looks as if a canary had been in its training data: high for included."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.attacks.secret_sharer.canary import random_suffixes
from uedp_bench.statistics.resampling import checked

if TYPE_CHECKING:
    from uedp_bench.attacks.audit.canaries import AuditCanary
    from uedp_bench.corpus import FloatArray
    from uedp_bench.release import Completer, Updates
    from uedp_bench.run import Run

LARGEST_LOSS = 1e6
"""Infinite losses count as this many nats, so that they still compare."""


class TextProbe(NamedTuple):
    """How texts are asked for.

    Attributes:
        words: that references are made of.
        prefix_words: words of a canary that are given.
        references: random suffixes that its own is compared with.
    """

    words: tuple[str, ...]
    prefix_words: int
    references: int


def text_scores(
    release: Completer, canaries: Sequence[AuditCanary], probe: TextProbe, run: Run
) -> FloatArray:
    """(canaries,) how far the suffix's loss is below that of random ones, in their deviations.

    A canary's references do not depend on the release, so that trainings compare.
    """
    scores = np.empty(len(canaries))
    for i, canary in enumerate(canaries):
        run.progress("audit: scores", i, len(canaries))
        words = canary.text.split()
        before, suffix = (" ".join(part) for part in
                          (words[: probe.prefix_words], words[probe.prefix_words :]))  # fmt: skip
        rng = run.shared("audit", "references", canary.user)
        others = random_suffixes(probe.words, suffix, probe.references, rng)
        found = release.filler_losses(f"{before} ", "", [suffix, *others])
        losses = np.minimum(checked(found, "losses of canaries"), LARGEST_LOSS)
        gap, deviation = losses[1:].mean() - losses[0], losses[1:].std()
        scores[i] = gap / deviation if deviation > 0.0 else gap
    return scores


def update_scores(
    release: Updates, canaries: Sequence[AuditCanary], run: Run
) -> tuple[FloatArray, float]:
    """(canaries,) the part of the weights' change along each canary's direction, and its norm.

    Score over norm is the cosine of Andrew et al. 2024, which is N(0, 1/d) for a direction that
    was not injected.

    Args:
        release: of the training that `run` describes.
        canaries: their users' directions are drawn again.
        run: with the seed of that training.
    """
    import torch

    from uedp_bench.training.injection import direction

    update = torch.from_numpy(np.ascontiguousarray(release.update())).double()
    scores = [
        float(update @ direction(run, canary.user, len(update)).double()) for canary in canaries
    ]
    return checked(scores, "scores of canaries"), float(torch.linalg.vector_norm(update))
