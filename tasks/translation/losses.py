"""Loss of whole sentences, a token of the translation, beside what word frequencies alone reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.corpus import Corpus, FloatArray, IntArray
from uedp_bench.results import Estimate
from uedp_bench.statistics.intervals import ratio_estimate
from uedp_bench.tasks.translation.scores import clusters_of

if TYPE_CHECKING:
    from uedp_bench.model import PairVocabulary
    from uedp_bench.release import PairScorer

_BOOTSTRAP_SEED = 2021


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """Nats a token of test targets, their ends included, with intervals over users.

    Attributes:
        vocabulary: what a token is; losses of two vocabularies do not compare.
        most: tokens of a target past this many are left out, as the release leaves them out.
        test: rows with a text and a target.
    """

    vocabulary: PairVocabulary
    most: int
    test: Corpus

    def of(self, release: PairScorer) -> dict[str, Estimate]:
        """`loss`, and `other_text_loss`: of each target given the text of another row.

        The second is left out of a single row. A translator that looks at its text has a lower
        `loss`; one that only learnt how targets are written has twice the same.
        """
        texts, targets = self.test.texts, self.test.targets or ()
        found = {"loss": self._mean(release.pair_losses(texts, targets))}
        if len(texts) > 1:
            half = len(texts) // 2
            others = (*texts[half:], *texts[:half])
            found["other_text_loss"] = self._mean(release.pair_losses(others, targets))
        return found

    def unigram(self, targets: Sequence[str]) -> Estimate:
        """The loss of who knows how often each token is in some targets, and nothing else.

        Every entry of the vocabulary is counted once more than it occurs.
        """
        counts = np.ones(self.vocabulary.size)
        for ids in self._ids(targets):
            np.add.at(counts, ids, 1.0)
        nats = -np.log(counts / counts.sum())
        rows = self._ids(self.test.targets or ())
        return self._mean(np.array([nats[ids].sum() for ids in rows]))

    def _mean(self, nats: FloatArray) -> Estimate:
        """The mean a token of sums over the tokens of each row (rows,)."""
        sizes = [len(ids) for ids in self._ids(self.test.targets or ())]
        rng = np.random.default_rng(_BOOTSTRAP_SEED)
        return ratio_estimate(nats, np.array(sizes, dtype=float), rng, clusters_of(self.test))

    def _ids(self, targets: Sequence[str]) -> list[IntArray]:
        end = self.vocabulary.end
        rows = self.vocabulary.encode_targets(targets)
        return [np.array([*ids, end][: self.most], dtype=np.int64) for ids in rows]
