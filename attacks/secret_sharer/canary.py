"""Canaries of the secret sharer: the numbers of each, and metrics of a stored result from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from uedp_bench.api import Planted
from uedp_bench.errors import shown
from uedp_bench.statistics.exposure import NULL_MEAN, extrapolated_exposure, texts_of
from uedp_bench.statistics.intervals import percentiles

if TYPE_CHECKING:
    from uedp_bench.api import Estimate, FloatArray, IntArray, Run
    from uedp_bench.api.networks import Vocabulary

BINS = 30
"""Bins of the histogram of reference losses."""

OF_SPLITS = ("public split", "train split")
"""Origins of vocabularies that tasks make of the most frequent words of a split."""

KEPT = 2**16
"""Losses of references that are kept for the fit and the histogram: the first that were drawn."""


class Canary(BaseModel):
    """A planted secret.

    Attributes:
        kind: "word", or "entity": its suffix is labelled as a name.
        text: words joined by single spaces.
        p_u, p_e: probabilities that a user shares it, and that it replaces a sharer's example;
            None where its spread was chosen.
        expected_sharers, expected_occurrences: in the training split, by the probabilities.
        sharers, occurrences: drawn numbers.
        spread: other users that mention it, seen from one that does; None unless it was chosen.
        sentences: rows of those other users that mention it; None with `spread`.
        detected: True if the run's detector finds its whole name; None where the source's own
            labels say what an entity is, where it was drawn into no row, and of word canaries.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Literal["word", "entity"]
    text: str
    p_u: float | None
    p_e: float | None
    expected_sharers: float
    expected_occurrences: float
    sharers: int
    occurrences: int
    spread: int | None = None
    sentences: int | None = None
    detected: bool | None = None


class WantedCanary(NamedTuple):
    """A canary that is to be planted: by probabilities, or by the spread that is chosen.

    Attributes:
        kind: kind of the canary.
        rate: share of the training rows that it is expected to replace; the rarest are planted
            first.
        spread: p_u and p_e, or the spread that is chosen.
    """

    kind: Literal["word", "entity"]
    rate: float
    spread: tuple[float, float] | int


class PlantedSecret(BaseModel):
    """One secret word among generic ones (Hoory et al. 2021, section 5.2).

    Attributes:
        layout: "HS", "HSH" or "HHSHH".
        before, after: the generic words around the secret, joined by single spaces.
        secret: one word.
        copies: how often it was to be planted: a number of rows, or a share of them below 1.
        occurrences: rows that hold it, once each.
        sharers: users who have these rows; a row without a user counts as one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    layout: str
    before: str
    secret: str
    after: str
    copies: int | float
    occurrences: int
    sharers: int

    @property
    def text(self) -> str:
        """Planted text."""
        return " ".join(part for part in (self.before, self.secret, self.after) if part)


class PlantedCanaries(Planted):
    """All canaries, the words that they and their references are made of, and remarks.

    Attributes:
        canaries: with secrets that end them; none where `secrets` are planted.
        words: words of the canaries, of the references and of the secrets.
        notes: remarks.
        secrets: words that stand in a gap.
    """

    canaries: tuple[Canary, ...]
    words: tuple[str, ...]
    notes: tuple[str, ...] = ()
    secrets: tuple[PlantedSecret, ...] = ()


class Ranking(NamedTuple):
    """Rank of one canary among others.

    Attributes:
        loss: loss of the canary, in nats.
        references: losses of random suffixes, at most `KEPT` of them.
        rank: 1 + the suffixes with a lower or equal loss among those that it is ranked with.
        among: references that it is ranked with, or all suffixes that there are.
    """

    loss: float
    references: FloatArray
    rank: int
    among: int

    @property
    def bits(self) -> float:
        """Exposure by rank."""
        return float(math.log2(self.among) - np.log2(self.rank))


def split_canary(text: str, prefix_words: int) -> tuple[str, str]:
    """The words of a canary that are given, and the others, which are the secret."""
    words = text.split()
    return " ".join(words[:prefix_words]), " ".join(words[prefix_words:])


def unknown_words(vocabulary: Vocabulary, planted: PlantedCanaries, prefix_words: int) -> list[str]:
    """A note on words of the pool that a vocabulary does not know; none where it knows all.

    A model reads them as one word: canaries that differ in these alone are equal to it. Of a
    vocabulary of the corpus' own splits nothing is said: its size alone decides what it knows.
    """
    if vocabulary.unknown is None or vocabulary.origin in OF_SPLITS:
        return []
    read = vocabulary.encode(planted.words)
    unknown = {w for w, ids in zip(planted.words, read, strict=True) if vocabulary.unknown in ids}
    if not unknown:
        return []
    secrets = (split_canary(canary.text, prefix_words)[1] for canary in planted.canaries)
    held = sum(not unknown.isdisjoint(secret.split()) for secret in secrets)
    return [
        f"{len(unknown)} of {len(planted.words)} words of the pool are unknown to the release's "
        f"vocabulary, and {held} of {len(planted.canaries)} canaries hold one behind their prefix: "
        "a model cannot tell these words apart, so that a small exposure says nothing of them"
    ]


def word_numbers(words: Sequence[str], text: str) -> IntArray:
    """Places in the pool of the words of a text that is made of them."""
    places = {word: i for i, word in enumerate(words)}
    return np.array([places[word] for word in text.split()], dtype=np.int64)


def random_suffixes(
    words: tuple[str, ...], suffix: str, count: int, rng: np.random.Generator
) -> list[str]:
    """`count` different suffixes of as many words, uniform among all but the canary's own."""
    own = word_numbers(words, suffix)
    return texts_of(words, random_suffix_words(len(words), own, count, rng))


def random_suffix_words(pool: int, own: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """(count, words) `random_suffixes` as places in a pool of so many words."""
    if pool ** len(own) > np.iinfo(np.int64).max:
        return _drawn_by_word(pool, own, count, rng)
    powers = pool ** np.arange(len(own), dtype=np.int64)
    mine = int(np.dot(own, powers))
    codes = rng.choice(pool ** len(powers) - 1, size=count, replace=False)
    codes = codes + (codes >= mine)
    return np.asarray(codes[:, None] // powers % pool)


def _drawn_by_word(pool: int, own: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw distinct suffixes where they are too many to number; draw repeated ones anew."""
    suffixes = np.empty((0, len(own)), dtype=np.int64)
    while len(suffixes) < count:
        more = rng.integers(pool, size=(count - len(suffixes), len(own)))
        suffixes = np.concatenate([suffixes, more[(more != own).any(axis=1)]])
        _, first = np.unique(suffixes, axis=0, return_index=True)
        suffixes = suffixes[np.sort(first)]
    return suffixes


def canary_details(
    canaries: tuple[Canary, ...],
    rankings: list[Ranking],
    beamed: list[bool | None],
    notes: list[str],
) -> dict[str, Any]:
    """The table of canaries, and the losses around the most exposed one, as JSON values.

    The skew-normal is fitted to the references that were kept.
    """
    table = []
    for canary, ranking, in_beam in zip(canaries, rankings, beamed, strict=True):
        row = canary.model_dump() | {
            "loss": ranking.loss if math.isfinite(ranking.loss) else None,
            "rank": ranking.rank,
            "exposure": ranking.bits,
            "beam_search": in_beam,
            "extrapolated_exposure": None,
            "ks_pvalue": None,
        }
        losses = np.append(ranking.references, ranking.loss)
        if np.isfinite(losses).all() and np.ptp(ranking.references) > 0.0:
            fit = extrapolated_exposure([ranking.loss], ranking.references)
            row["extrapolated_exposure"] = float(fit.exposure[0])
            row["ks_pvalue"] = fit.ks_pvalue
        table.append(row)
    details: dict[str, Any] = {"null_exposure": NULL_MEAN, "canaries": table, "notes": notes}
    at = int(np.argmax([row["extrapolated_exposure"] or row["exposure"] for row in table]))
    finite = rankings[at].references[np.isfinite(rankings[at].references)]
    if len(finite):
        counts, edges = np.histogram(finite, bins=BINS)
        details["reference_losses"] = {
            "canary": canaries[at].text,
            "loss": table[at]["loss"],
            "edges": edges.tolist(),
            "counts": counts.tolist(),
        }
    return details


def worst_decile(bits: FloatArray, run: Run) -> Estimate:
    """Mean of the largest tenth of exposures (canaries,), with a bootstrap interval in bits."""
    tail, rng = len(bits) // 10, run.shared("secret-sharer", "worst decile")
    draws = np.sort(bits[rng.integers(len(bits), size=(1000, len(bits)))], axis=1)
    return percentiles(float(np.sort(bits)[-tail:].mean()), draws[:, -tail:].mean(axis=1))


SLACK = 1e-9
"""Difference that sums of floats may make."""


class _Loose(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Canary(_Loose):
    kind: str
    rank: int
    exposure: float
    spread: int | None = None
    beam_search: bool | None = None
    layout: str | None = None
    copies: int | float | None = None
    occurrences: int = 0


class _Canaries(_Loose):
    canaries: tuple[_Canary, ...]


def contradictions(
    metrics: Mapping[str, Estimate], stored: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Metrics and exposures that are not those of the canaries; see `Attack.contradictions`."""
    details = _Canaries.model_validate(stored)
    limit = metrics.get("exposure_limit")
    if limit is not None:
        for at, canary in enumerate(details.canaries):
            bits = limit.value - math.log2(canary.rank) if canary.rank >= 1 else math.nan
            if not abs(canary.exposure - bits) <= SLACK:
                what = f"{shown(canary.exposure)} does not follow from rank {canary.rank}"
                yield f"details.canaries.{at}.exposure", what
    ordered = sorted(canary.exposure for canary in details.canaries)
    if "exposure_worst_decile" in metrics and len(ordered) < 10:
        yield "leakage.exposure_worst_decile", f"is of {len(ordered)} canaries, fewer than ten"
    words = [canary for canary in details.canaries if canary.kind == "word"]
    names = [canary for canary in details.canaries if canary.kind != "word"]
    expected = {
        "exposure_mean": _mean(canary.exposure for canary in details.canaries),
        "exposure_entity": _mean(canary.exposure for canary in names),
        "exposure_worst_decile": _mean(ordered[-max(1, len(ordered) // 10) :]),
        "extracted_random_sampling": _mean(canary.rank == 1 for canary in words),
        "extracted_beam_search": _mean(canary.beam_search is True for canary in words),
    }
    for spread in {canary.spread for canary in details.canaries} - {None}:
        these = (canary.exposure for canary in details.canaries if canary.spread == spread)
        expected[f"exposure_entity_spread_{spread}"] = _mean(these)
    gaps = [canary for canary in details.canaries if canary.layout is not None]
    expected["extracted_filling"] = _mean(each.rank == 1 for each in gaps if each.occurrences)
    for layout, copies in {(each.layout, each.copies) for each in gaps}:
        these = (each.exposure for each in gaps if (each.layout, each.copies) == (layout, copies))
        expected[f"exposure_{layout}_{copies}"] = _mean(these)
    for name, value in expected.items():
        if name not in metrics or value is None:
            continue
        if not math.isclose(metrics[name].value, value, rel_tol=1e-6, abs_tol=SLACK):
            what = f"{shown(metrics[name].value)} is not the {shown(value)} of its canaries"
            yield f"leakage.{name}.value", what


def _mean(values: Iterator[float] | Any) -> float | None:
    numbers = [float(value) for value in values]
    return math.fsum(numbers) / len(numbers) if numbers else None
