"""PII inference: which of several names stood in a gap of the training text?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import CapabilityError, InputError, Leakage, Metric
from uedp_bench.api.capabilities import Completer
from uedp_bench.api.statistics import Scores, auc_estimate, mean_estimate
from uedp_bench.attacks.names.sides import NameAttack, NameParams
from uedp_bench.statistics.intervals import checked

if TYPE_CHECKING:
    from uedp_bench.api import Corpus, Estimate, FloatArray, IntArray, Planted, Release, Run
    from uedp_bench.attacks.names.sides import NameSides, Side


_WORD = re.compile(r"\S+")


class PIIInferenceParams(NameParams):
    """Parameters of `pii-inference`: how many mentions, and among how many names."""

    candidates: int = Field(
        default=50,
        ge=2,
        multiple_of=2,
        description="names for a gap, at most, half of them of each side",
    )
    mentions: int = Field(default=200, ge=2, description="gaps of each side, at most")
    context: int = Field(default=64, ge=1, description="words kept on each side of a gap")


class Gap(NamedTuple):
    """A mention with its name taken out.

    Attributes:
        before, after: text on both sides.
        candidates: names for it; the first is the right one.
        name: number of the right one among the names of its side.
    """

    before: str
    after: str
    candidates: tuple[str, ...]
    name: int


class PIIInference(NameAttack[PIIInferenceParams]):
    """Ranks the names that could stand in a gap of a text that the adversary knows otherwise.

    The score of a name is the loss of it with what follows, less the loss of the model before
    private training where there is one. Gaps of text that nobody trained on are the baseline: there
    the context alone tells.
    """

    name = "pii-inference"
    source = "Lukas et al. 2023, section 3.3 (PII inference)"
    Params = PIIInferenceParams
    metrics = (
        Metric.rate("accuracy", "names inferred", "share of gaps of members' text whose name "
                    "comes first", "lower", main=True),
        Metric.rate("accuracy_floor", "names inferred, floor", "share of gaps of text that nobody "
                    "trained on", main=True),
        Metric.rate("accuracy_base", "names inferred before training", "share of gaps of members' "
                    "text whose name the model before private training puts first"),
        Metric("exposure", "exposure of names", "log2 of the candidates less log2 of the rank, "
               "mean over gaps of members' text", "lower", unit="bits", low=0.0),
        Metric("exposure_floor", "exposure of names, floor", "the same of text that nobody "
               "trained on", unit="bits", low=0.0),
        Metric.share("auc", "names AUC", "of telling gaps of members' text from others by their "
                     "exposure", "lower", no_leak=0.5),
    )  # fmt: skip
    needs: ClassVar[tuple[type, ...]] = (Completer,)

    def sides(self, corpus: Corpus) -> NameSides:
        """See `NameAttack`.

        Raises:
            InputError: if no type of names is on both sides.
        """
        sides = super().sides(corpus)
        if not np.intersect1d(sides.inside.types, sides.outside.types).size:
            raise InputError(
                f"{self.name} compares names of one type, and no type has names on both sides"
            )
        return sides

    def run(self, release: Release, planted: Planted, corpus: Corpus, run: Run) -> Leakage:
        """See the class.

        Raises:
            CapabilityError: if the release is no Completer.
        """
        if not isinstance(release, Completer):
            raise CapabilityError(f"{self.name} needs a Completer, not {type(release).__name__}")
        gaps = self._gaps(corpus, run.shared("attack", self.name))
        base: Any = run.base if isinstance(run.base, Completer) else None
        rng = run.shared(self.name, "bootstrap")
        metrics: dict[str, Estimate] = {}
        exposures, tied = {}, {}
        for side, suffix in (("inside", ""), ("outside", "_floor")):
            mine = self._losses(release, gaps[side], side, run)
            names = np.array([gap.name for gap in gaps[side]])
            if base is not None:
                before = self._losses(base, gaps[side], f"{side}, before training", run)
                if not suffix:
                    metrics["accuracy_base"] = mean_estimate(
                        (ranks(before) == 1).astype(np.float64), rng, names
                    )
                mine = mine - before
            rank = ranks(mine)
            tied[side] = float((mine[:, 1:] == mine[:, :1]).any(axis=1).mean())
            bits = np.log2(mine.shape[1]) - np.log2(rank)
            exposures[side] = Scores(bits, names)
            metrics[f"accuracy{suffix}"] = mean_estimate((rank == 1).astype(np.float64), rng, names)
            metrics[f"exposure{suffix}"] = mean_estimate(bits, rng, names)
        metrics["auc"] = auc_estimate(exposures["inside"], exposures["outside"], rng)
        counts = {side: len(each) for side, each in gaps.items()}
        candidates = len(gaps["inside"][0].candidates)
        return Leakage(metrics, {
            "gaps": counts, "candidates": candidates, "tied": tied, "base": base is not None,
        })  # fmt: skip

    def _gaps(self, corpus: Corpus, rng: np.random.Generator) -> dict[str, list[Gap]]:
        """Gaps of both sides, drawn among the mentions whose type has names enough."""
        sides = self.sides(corpus)
        pools: dict[int, tuple[IntArray, IntArray]] = {
            kind: (
                np.flatnonzero(sides.inside.types == kind),
                np.flatnonzero(sides.outside.types == kind),
            )
            for kind in np.unique(sides.inside.types).tolist()
        }
        half = min(self.params.candidates // 2, max(min(map(len, pool)) for pool in pools.values()))
        enough = {kind: pool for kind, pool in pools.items() if min(map(len, pool)) >= half}
        return {
            "inside": self._of_side(corpus, (sides.inside, sides.outside), enough, half, rng),
            "outside": self._of_side(
                corpus,
                (sides.outside, sides.inside),
                {kind: (other, own) for kind, (own, other) in enough.items()},
                half,
                rng,
            ),
        }

    def _of_side(
        self,
        corpus: Corpus,
        sides: tuple[Side, Side],
        pools: dict[int, tuple[IntArray, IntArray]],
        half: int,
        rng: np.random.Generator,
    ) -> list[Gap]:
        """Gaps of the first of two sides, with as many names of either."""
        (mine, other), spans = sides, corpus.entities
        fits = np.flatnonzero(np.isin(mine.types[mine.name_of], list(pools)))
        drawn = np.sort(rng.permutation(fits)[: self.params.mentions])
        gaps = []
        for at in drawn.tolist():
            mention, name = int(mine.mentions[at]), int(mine.name_of[at])
            alike, unlike = pools[int(mine.types[name])]
            decoys = rng.choice(alike[alike != name], half - 1, replace=False).tolist()
            others = rng.choice(unlike, half, replace=False).tolist()
            row, start, end = (int(c[mention]) for c in (spans.row, spans.start, spans.end))
            text = corpus.texts[row]
            gaps.append(
                Gap(
                    _last(text[:start], self.params.context),
                    _first(text[end:], self.params.context),
                    (
                        text[start:end],
                        *(mine.surfaces[decoy] for decoy in decoys),
                        *(other.surfaces[decoy] for decoy in others),
                    ),
                    name,
                )
            )
        return gaps

    def _losses(self, release: Completer, gaps: list[Gap], what: str, run: Run) -> FloatArray:
        """(gaps, candidates) losses in nats."""
        rows = []
        for number, gap in enumerate(gaps):
            run.progress(f"{self.name}: {what}", number, len(gaps))
            rows.append(release.filler_losses(gap.before, gap.after, gap.candidates))
        return checked(np.array(rows), "losses of names").reshape(len(gaps), -1)


def ranks(losses: FloatArray) -> IntArray:
    """(gaps,) rank of the first of each row's candidates, 1 for the best.

    Ties count against it, and so do differences of two infinite losses.
    """
    rank: IntArray = 1 + (~(losses[:, 1:] > losses[:, :1])).sum(axis=1)
    return rank


def _last(text: str, words: int) -> str:
    """The end of a text, with so many words at most."""
    starts = [match.start() for match in _WORD.finditer(text)]
    return text if len(starts) <= words else text[starts[-words] :]


def _first(text: str, words: int) -> str:
    """The beginning of a text, with so many words at most."""
    ends = [match.end() for match in _WORD.finditer(text)]
    return text if len(ends) <= words else text[: ends[words - 1]]
