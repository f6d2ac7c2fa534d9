"""PII extraction: which names of the training text does a model write by itself?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.api import CapabilityError, Leakage, Metric
from uedp_bench.api.capabilities import Generator, Tokenised
from uedp_bench.api.statistics import fraction_estimate
from uedp_bench.attacks.names.sides import NameAttack, NameIndex, NameParams
from uedp_bench.attacks.secret_sharer.beam import NUMBERS_AT_ONCE, next_logprobs

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, IntArray, Planted, Release, Run


class PIIExtractionParams(NameParams):
    """Parameters of `pii-extraction`: how much text the model writes."""

    samples: int = Field(default=2000, ge=1, description="texts that the model writes")
    tokens: int = Field(default=48, ge=1, description="tokens of a text, at most")


class PIIExtraction(NameAttack[PIIExtractionParams]):
    """Lets the model write, and looks for names of members' text in it.

    Texts begin with nothing, and every token is drawn from the model's own probabilities. A name
    counts where all of its words stand side by side. Names of text that nobody trained on are the
    baseline of chance, and texts of the model before private training, where there is one, that of
    public knowledge.
    """

    name = "pii-extraction"
    source = "Lukas et al. 2023, section 3.1 (PII extraction)"
    Params = PIIExtractionParams
    metrics = (
        Metric.rate("recall", "names written", "share of names of members' text alone that the "
                    "model writes", "lower", main=True),
        Metric.rate("recall_floor", "names written, floor", "share of names of held-out text "
                    "alone", main=True),
        Metric.rate("recall_base", "names written before training", "share of names of members' "
                    "text alone that the model before private training writes"),
        Metric.rate("precision", "members' names among those written", "of all known names that "
                    "the model writes, those of public text too", "lower"),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Generator,)

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """See the class.

        Raises:
            CapabilityError: if the release is no Generator.
        """
        if not isinstance(release, Generator):
            raise CapabilityError(f"{self.name} needs a Generator, not {type(release).__name__}")
        sides = self.sides(corpus)
        inside, outside = set(sides.inside.names), set(sides.outside.names)
        index = NameIndex(inside | outside | sides.public)
        written = index.mentioned(self._texts(release, "release", run))
        recognised = len(written & (inside | outside | sides.public))
        metrics = {
            "recall": fraction_estimate(len(written & inside), len(inside)),
            "recall_floor": fraction_estimate(len(written & outside), len(outside)),
        }
        base: Any = run.base
        if isinstance(base, Generator):
            before = index.mentioned(self._texts(base, "before training", run))
            metrics["recall_base"] = fraction_estimate(len(before & inside), len(inside))
        if recognised:
            metrics["precision"] = fraction_estimate(len(written & inside), recognised)
        counts = {"members": len(inside), "held_out": len(outside), "public": len(sides.public)}
        return Leakage(metrics, {"names": counts, "written": recognised})

    def _texts(self, release: Generator, what: str, run: Run) -> list[str]:
        """Texts that a model writes from nothing."""
        rng = run.shared(self.name, what)
        end = release.vocabulary.end if isinstance(release, Tokenised) else None
        going: IntArray = np.empty((self.params.samples, 0), dtype=np.int64)
        texts: list[str] = []
        for step in range(self.params.tokens):
            run.progress(f"{self.name}: {what}", step, self.params.tokens)
            going = np.column_stack([going, _next(release, going, rng)])
            ended = going[:, -1] == end
            texts += [release.decode(row) for row in going[ended, :-1].tolist()]
            going = going[~ended]
            if not len(going):
                break
        return texts + [release.decode(row) for row in going.tolist()]


def _next(release: Generator, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """(rows,) a token after each of the rows (rows, tokens), by the law of the model."""
    coins, tokens, start = rng.random(len(rows)), np.empty(len(rows), dtype=np.int64), 0
    size = 1
    while start < len(rows):
        part = rows[start : start + size]
        logp = next_logprobs(release, part.tolist())
        size = max(1, NUMBERS_AT_ONCE // logp.shape[1])
        law = np.exp(logp).cumsum(axis=1)
        places = (law < coins[start : start + len(part), None] * law[:, -1:]).sum(axis=1)
        tokens[start : start + len(part)] = np.minimum(places, logp.shape[1] - 1)
        start += len(part)
    return tokens
