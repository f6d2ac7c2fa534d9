"""Word alignment in both directions by IBM model 1 with a prior that favours the diagonal.

The model of fast_align (Dyer, Chahuneau and Smith 2013, "A Simple, Fast, and Effective
Reparameterization of IBM Model 2"): target word j of m is aligned to the NULL word with
probability p0, else to source word i of n with a probability proportional to
exp(-lambda |i/n - j/m|), and words are translated independently of their positions.
Expectation-maximisation runs over all cells (pair, i, j) at once, in NumPy; lambda follows by
Newton's method (the paper's section 3.2 steps uphill).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.corpus.keys import FloatArray, IntArray
from uedp_bench.errors import InputError

Words = Sequence[str]
"""The words of one side of a pair."""

NULL_SHARE = 0.08
"""p0: probability that a word is aligned to NULL (fast_align's default)."""

FIRST_TENSION = 4.0
"""Lambda before training (fast_align's default)."""

ROUNDS = 5
"""Rounds of expectation-maximisation (fast_align's default)."""

UNSEEN = 1e-9
"""Probability of two words that no pair of the training text has (fast_align's default)."""

_PRIOR = 0.01  # of variational Bayes: pseudo-counts of each translation (fast_align -v)
_TENSIONS = (0.1, 14.0)  # fast_align keeps lambda between them
_NEWTON_STEPS = 8
_CELLS = 2_000_000  # held at once
_NULL = 0  # id of the NULL word


@dataclass(frozen=True, eq=False)
class DirectedModel:
    """Model of words of the second side given words of the first.

    Attributes:
        sources, targets: ids of words; 0 is the NULL word.
        keys: (seen,) source id times the number of targets plus target id, ascending.
        probabilities: (seen,) probability of the target given the source.
        tension: lambda.
    """

    sources: dict[str, int]
    targets: dict[str, int]
    keys: IntArray
    probabilities: FloatArray
    tension: float

    @classmethod
    def train(
        cls, pairs: Sequence[tuple[Words, Words]], weights: IntArray | None = None
    ) -> DirectedModel:
        """Train a model on pairs.

        Args:
            pairs: words of both sides; pairs with an empty side teach nothing, and neither do those
                of more than two million pairs of words (1,400 words on both sides).
            weights: (pairs,) number of times that each occurs; once by default.

        Raises:
            InputError: if no pair has words on both sides.
        """
        weight = np.ones(len(pairs)) if weights is None else weights.astype(np.float64)
        some = [at for at, pair in enumerate(pairs) if 0 < _cells(pair) <= _CELLS]
        if not some:
            raise InputError("no pair to learn an alignment from has words on both sides")
        alignable = [pairs[at] for at in some]
        sources = _ids(source for source, _ in alignable)
        targets = _ids(target for _, target in alignable)
        cells = _Cells.from_pairs(alignable, weight[some], sources, targets)
        keys, cell_key = np.unique(cells.keys, return_inverse=True)
        learnt = _Learnt(keys // len(targets), cell_key.astype(np.int32))
        table, tension = np.full(len(keys), UNSEEN), FIRST_TENSION
        # As fast_align: the last round only aligns, so there is one step less than rounds.
        for round_ in range(ROUNDS - 1):
            counts, masses, distance = _expected(cells, learnt, table, tension)
            table = learnt.table(counts)
            if round_ > 0:
                tension = _better_tension(cells, masses, distance, tension)
        return cls(sources, targets, keys, table, tension)

    def align(self, pairs: Sequence[tuple[Words, Words]]) -> list[IntArray]:
        """Find the most probable source word of each target word.

        Args:
            pairs: words of both sides; they may be unknown. Pairs that are too long to learn from
                get no links.

        Returns:
            For each pair (target words,) positions of source words, -1 for NULL.
        """
        links = [np.full(len(target), -1, dtype=np.int64) for _, target in pairs]
        some = [at for at, pair in enumerate(pairs) if 0 < _cells(pair) <= _CELLS]
        for batch in _batches([pairs[at] for at in some]):
            batch_pairs = [pairs[some[at]] for at in batch]
            cells = _Cells.from_pairs(
                batch_pairs, np.ones(len(batch_pairs)), self.sources, self.targets
            )
            scores = self._probabilities(cells.keys) * cells.prior(self.tension)
            best = _first_best(scores, cells)
            for at, words in zip(batch, np.split(best, cells.ends[:-1]), strict=True):
                links[some[at]] = words - 1
        return links

    def _probabilities(self, keys: IntArray) -> FloatArray:
        at = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[at] == keys, self.probabilities[at], UNSEEN)


class _Cells(NamedTuple):
    """Every (pair, target word, source word or NULL), pair after pair, word after word.

    A row is a target word; its first cell is NULL, then come the source words.

    Attributes:
        keys: (cells,) source id times the number of targets plus target id; -1 if one is unknown.
        distance: (cells,) |i/n - j/m|; 0 for NULL.
        starts: (rows,) the first cell of each row.
        widths: (rows,) cells of each row.
        weight: (rows,) number of times that the pair occurs.
        group: (rows,) number of (j, m, n), for those rows have one prior.
        ends: (pairs,) the row after the last of each pair.
    """

    keys: IntArray
    distance: FloatArray
    starts: IntArray
    widths: IntArray
    weight: FloatArray
    group: IntArray
    ends: IntArray

    @classmethod
    def from_pairs(
        cls,
        pairs: Sequence[tuple[Words, Words]],
        weights: FloatArray,
        sources: dict[str, int],
        targets: dict[str, int],
    ) -> _Cells:
        """Make the cells of pairs whose sides have words."""
        n = np.array([len(source) for source, _ in pairs])
        m = np.array([len(target) for _, target in pairs])
        words = np.array([sources.get(word, -1) for source, _ in pairs for word in source])
        row_word = np.array([targets.get(word, -1) for _, target in pairs for word in target])
        pair_of_row = np.repeat(np.arange(len(pairs)), m)
        j = np.arange(len(row_word)) - np.repeat(np.cumsum(m) - m, m)
        widths = n[pair_of_row] + 1
        starts = np.cumsum(widths) - widths
        row = np.repeat(np.arange(len(row_word)), widths)
        i = np.arange(len(row)) - starts[row]
        pair = pair_of_row[row]
        source = np.where(i > 0, words[np.maximum((np.cumsum(n) - n)[pair] + i - 1, 0)], _NULL)
        target = row_word[row]
        keys = np.where((source < 0) | (target < 0), -1, source * len(targets) + target)
        distance = np.abs(i / n[pair] - ((j + 1) / m[pair_of_row])[row])
        distance[starts] = 0.0
        shape = np.stack([j, m[pair_of_row], n[pair_of_row]], axis=1)
        _, group = np.unique(shape, axis=0, return_inverse=True)
        return cls(
            keys, distance, starts, widths, weights[pair_of_row], group.ravel(), np.cumsum(m)
        )

    def prior(self, tension: float) -> FloatArray:
        """(cells,) probability of each source position and of NULL, whatever the words are."""
        out = np.exp(-tension * self.distance)
        out[self.starts] = 0.0  # NULL has no part in the law of positions
        out *= np.repeat((1.0 - NULL_SHARE) / np.add.reduceat(out, self.starts), self.widths)
        out[self.starts] = NULL_SHARE
        return out


class _Learnt(NamedTuple):
    """Pairs of words of which a translation probability is learnt.

    Attributes:
        source: (keys,) id of the source word.
        of_cell: (cells,) number of the key.
    """

    source: IntArray
    of_cell: NDArray[np.int32]

    def table(self, counts: FloatArray) -> FloatArray:
        """The M-step: (keys,) probabilities under a sparse Dirichlet prior (variational Bayes)."""
        from scipy.special import digamma

        totals = np.bincount(self.source, weights=counts) + _PRIOR * np.bincount(self.source)
        return np.asarray(np.exp(digamma(counts + _PRIOR) - digamma(totals)[self.source]))


def _expected(
    cells: _Cells, learnt: _Learnt, table: FloatArray, tension: float
) -> tuple[FloatArray, FloatArray, float]:
    """The E-step.

    Returns:
        Expected counts (keys,); expected number of words not aligned to NULL, (groups,); and the
        expected sum of their distances.
    """
    posterior: FloatArray = table[learnt.of_cell] * cells.prior(tension)
    posterior /= np.repeat(np.add.reduceat(posterior, cells.starts), cells.widths)
    posterior *= np.repeat(cells.weight, cells.widths)
    counts = _sums(learnt.of_cell, posterior, len(table))
    posterior[cells.starts] = 0.0
    rows = np.add.reduceat(posterior, cells.starts)
    masses = _sums(cells.group, rows, int(cells.group.max()) + 1)
    return counts, masses, float(posterior @ cells.distance)


def _sums(group: NDArray[Any], values: FloatArray, groups: int) -> FloatArray:
    return np.asarray(np.bincount(group, weights=values, minlength=groups), dtype=np.float64)


def _better_tension(cells: _Cells, masses: FloatArray, distance: float, tension: float) -> float:
    """Lambda after Newton's steps on the expected log-likelihood, which is concave in it.

    Its slope is the expected distance under the prior minus `distance`; its second derivative is
    minus the variance of the distance under the prior.
    """
    _, first = np.unique(cells.group, return_index=True)
    widths = cells.widths[first]
    at = np.repeat(cells.starts[first] - (np.cumsum(widths) - widths), widths)
    away = cells.distance[at + np.arange(len(at))]
    starts = np.cumsum(widths) - widths
    for _ in range(_NEWTON_STEPS):
        weight = np.exp(-tension * away)
        weight[starts] = 0.0
        weight /= np.repeat(np.add.reduceat(weight, starts), widths)
        mean = np.add.reduceat(weight * away, starts)
        variance = np.add.reduceat(weight * away**2, starts) - mean**2
        curvature = float(masses @ variance)
        if curvature <= 0.0:
            return tension
        tension += (float(masses @ mean) - distance) / curvature
        tension = float(np.clip(tension, *_TENSIONS))
    return tension


def _first_best(scores: FloatArray, cells: _Cells) -> IntArray:
    """(rows,) position in its row of the largest score, the first of several."""
    largest = np.repeat(np.maximum.reduceat(scores, cells.starts), cells.widths)
    at = np.flatnonzero(scores == largest)
    row = np.searchsorted(cells.starts, at, side="right") - 1
    _, first = np.unique(row, return_index=True)
    return at[first] - cells.starts


def _ids(sides: Iterable[Words]) -> dict[str, int]:
    ids = {"\0": _NULL}
    for words in sides:
        for word in words:
            ids.setdefault(word, len(ids))
    return ids


def _cells(pair: tuple[Words, Words]) -> int:
    """Cells of a pair of sentences; 0 where a side is empty."""
    source, target = pair
    return (len(source) + 1) * len(target) if source else 0


def _batches(pairs: Sequence[tuple[Words, Words]]) -> Iterator[range]:
    """Ranges of pairs with a bounded number of cells, one pair at least."""
    start, size = 0, 0
    for at, pair in enumerate(pairs):
        more = _cells(pair)
        if at > start and size + more > _CELLS:
            yield range(start, at)
            start, size = at, 0
        size += more
    if start < len(pairs):
        yield range(start, len(pairs))


Symmetrisation = Literal["union", "intersect", "grow-diag-final-and"]
"""Way in which links of both directions become one set."""

Link = tuple[int, int]
"""(position of a word on the first side, position of a word on the second)."""

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


@dataclass(frozen=True, eq=False)
class Aligner:
    """Models of both directions.

    Attributes:
        forward: model of the second side given the first.
        backward: model of the first side given the second.
    """

    forward: DirectedModel
    backward: DirectedModel

    @classmethod
    def train(cls, pairs: Sequence[tuple[Words, Words]]) -> Aligner:
        """Train both models on pairs of sentences.

        Pairs that occur several times are aligned once, with their number as a weight.

        Raises:
            InputError: if no pair has words on both sides.
        """
        counts = Counter((tuple(source), tuple(target)) for source, target in pairs)
        distinct = list(counts)
        weights = np.array(list(counts.values()), dtype=np.int64)
        return cls(
            DirectedModel.train(distinct, weights),
            DirectedModel.train([(target, source) for source, target in distinct], weights),
        )

    def links(
        self, pairs: Sequence[tuple[Words, Words]], symmetrisation: Symmetrisation
    ) -> list[frozenset[Link]]:
        """Link the words of every pair; its links depend on it and the models alone."""
        forward = self.forward.align(pairs)
        backward = self.backward.align([(target, source) for source, target in pairs])
        symmetrise = SYMMETRISED[symmetrisation]
        return [
            symmetrise(
                frozenset((i, j) for j, i in enumerate(one.tolist()) if i >= 0),
                frozenset((i, j) for i, j in enumerate(other.tolist()) if j >= 0),
            )
            for one, other in zip(forward, backward, strict=True)
        ]


def grow_diag_final_and(forward: frozenset[Link], backward: frozenset[Link]) -> frozenset[Link]:
    """Links of both, then neighbours of links, then links of words that still have none.

    Koehn, Och and Marcu 2003; Moses (symal) with the options `grow`, `diagonal`, `final`, `both`:
    a neighbour (diagonal ones included) of a link joins if one direction has it and one of its two
    words has no link yet; at the end links of either direction whose words both have none join.
    """
    either = forward | backward
    links = set(forward & backward)
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def join(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    grown = True
    while grown:
        grown = False
        for link in sorted(links):
            for down, right in _NEIGHBOURS:
                near = link[0] + down, link[1] + right
                free = near[0] not in sources or near[1] not in targets
                if near in either and near not in links and free:
                    join(near)
                    grown = True
    for direction in (forward, backward):
        for link in sorted(direction):
            if link[0] not in sources and link[1] not in targets:
                join(link)
    return frozenset(links)


SYMMETRISED: dict[Symmetrisation, Callable[[frozenset[Link], frozenset[Link]], frozenset[Link]]] = {
    "union": frozenset.union,
    "intersect": frozenset.intersection,
    "grow-diag-final-and": grow_diag_final_and,
}
"""Functions that make one set of links of the forward and the backward model."""
