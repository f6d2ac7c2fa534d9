"""Word alignments of both directions, and their symmetrisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from uedp_bench.text.word_alignment import DirectedModel, Words

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
            for near in _near(link):
                free = near[0] not in sources or near[1] not in targets
                if near in either and near not in links and free:
                    join(near)
                    grown = True
    for direction in (forward, backward):
        for link in sorted(direction):
            if link[0] not in sources and link[1] not in targets:
                join(link)
    return frozenset(links)


def _near(link: Link) -> Iterator[Link]:
    for down, right in _NEIGHBOURS:
        yield link[0] + down, link[1] + right


SYMMETRISED: dict[Symmetrisation, Callable[[frozenset[Link], frozenset[Link]], frozenset[Link]]] = {
    "union": frozenset.union,
    "intersect": frozenset.intersection,
    "grow-diag-final-and": grow_diag_final_and,
}
"""Functions that make one set of links of the forward and the backward model."""
