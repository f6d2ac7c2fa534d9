"""Which works are measured: sizes drawn for every family, some of them kept away from the fits.

Sizes other than those of the network are drawn evenly in their logarithms, by a fixed seed. Of
each family and way to compute, `FITTED` works are fitted, and four are not: two of the same range,
and two whose network is larger than any that is fitted. One of each two was looked at when the law
was given its form. The other is fresh: it was drawn when the law stood.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from cost_workloads import Work

FITTED = 7
"""Works of a family and way that a fit sees."""

WAYS = ("one local step", "several local steps")

ROLES = ("fitted", "same range", "larger network", "fresh, same range", "fresh, larger network")

FRESH = tuple(role for role in ROLES if role.startswith("fresh"))
"""Roles of points that no choice was made by."""


@dataclass(frozen=True)
class Range:
    """Sizes of a family.

    Attributes:
        networks: sizes of networks that are fitted.
        larger: of the one that is not.
        vocabulary: least and most.
        tokens: least and most words of a row.
    """

    networks: tuple[Mapping[str, int], ...]
    larger: Mapping[str, int]
    vocabulary: tuple[int, int] = (500, 5_000)
    tokens: tuple[int, int] = (8, 48)


@dataclass(frozen=True)
class Point:
    """A work and what it is for.

    Attributes:
        role: one of `ROLES`.
    """

    work: Work
    role: str

    @property
    def way(self) -> str:
        """One of `WAYS`."""
        return WAYS[self.work.steps > 1]


def _by(first: str, second: str, *pairs: tuple[int, int]) -> tuple[dict[str, int], ...]:
    return tuple({first: one, second: other} for one, other in pairs)


_BERTS = ({"size": 0}, {"size": 1})
_BILSTMS = _by("embedding", "units", (16, 16), (50, 32), (50, 64), (100, 96))
RANGES: dict[str, Range] = {
    "next-word gpt2": Range(
        _by("layers", "width", (2, 64), (4, 128), (4, 192), (6, 256)),
        {"layers": 8, "width": 384},
        (1_000, 12_000),
    ),
    "next-word cifg-lstm": Range(
        _by("embedding", "units", (16, 32), (32, 64), (64, 192), (96, 384)),
        {"embedding": 96, "units": 670},
        (1_000, 10_000),
    ),
    "next-word lstm": Range(
        _by("embedding", "units", (24, 32), (48, 128), (96, 256)),
        {"embedding": 128, "units": 512},
        (1_000, 10_000),
    ),
    "next-word awd-lstm": Range(
        _by("embedding", "units", (16, 32), (32, 96), (64, 192), (100, 300)),
        {"embedding": 100, "units": 512},
        (1_000, 10_000),
        (8, 24),
    ),
    "classification bert": Range(_BERTS, {"size": 2}),
    "classification bilstm": Range(_BILSTMS, {"embedding": 100, "units": 192}),
    "classification awd-lstm": Range(
        _by("embedding", "units", (16, 32), (32, 96), (64, 192)),
        {"embedding": 100, "units": 300},
        (500, 5_000),
        (8, 24),
    ),
    "classification tfidf": Range(
        ({"hidden": 16}, {"hidden": 32}, {"hidden": 64}), {"hidden": 128}, (500, 10_000)
    ),
    "classification text-cnn": Range(
        ({"filters": 16}, {"filters": 32}, {"filters": 64}), {"filters": 100}
    ),
    "tagging bilstm": Range(_BILSTMS, {"embedding": 100, "units": 192}),
    "tagging bert": Range(_BERTS, {"size": 2}),
    "masked language bert": Range(_BERTS, {"size": 2}),
    "translation transformer": Range(
        _by("layers", "width", (1, 32), (1, 64), (2, 96), (2, 128)),
        {"layers": 3, "width": 192},
        (400, 900),
        (8, 32),
    ),
}
"""Sizes by family."""

SMALL = {"layers": 12, "width": 768}
"""GPT-2 small, with its 50,257 tokens: 124,439,808 weights."""


def points(families: tuple[str, ...] = (), *, quick: bool = False) -> list[Point]:
    """All points of some families (of all by default), in order.

    Args:
        families: their names, or parts of them.
        quick: two points of each, the smallest.
    """
    found: list[Point] = []
    for number, (family, sizes) in enumerate(RANGES.items()):
        if families and not any(part in family for part in families):
            continue
        rng = np.random.default_rng([18, number])
        of_family: list[Point] = []
        for several in (False, True):
            networks = [*sizes.networks] * -(-FITTED // len(sizes.networks))
            of_family += [
                Point(_drawn(rng, family, network, several), "fitted")
                for network in networks[:FITTED]
            ]
            middle = sizes.networks[len(sizes.networks) // 2]
            of_family.append(Point(_drawn(rng, family, middle, several), "same range"))
            of_family.append(Point(_drawn(rng, family, sizes.larger, several), "larger network"))
        if family == "next-word gpt2":
            of_family += [
                Point(Work(family, SMALL, 50_257, 1, steps, 1, 64), "larger network")
                for steps in (1, 2)
            ]
        of_family += _fresh(number, family)
        found += [_least(point) for point in of_family[:2]] if quick else of_family
    return found


def _fresh(number: int, family: str) -> list[Point]:
    """Points of a seed of their own, whose networks are drawn as well."""
    rng, sizes = np.random.default_rng([19, number]), RANGES[family]
    found = []
    for several in (False, True):
        middle = sizes.networks[rng.integers(len(sizes.networks))]
        for role, network in zip(FRESH, (middle, sizes.larger), strict=True):
            found.append(Point(_drawn(rng, family, network, several), role))
    return found


def _drawn(
    rng: np.random.Generator, family: str, network: Mapping[str, int], several: bool
) -> Work:
    sizes = RANGES[family]

    def draw(least: int, most: int) -> int:
        return round(float(np.exp(rng.uniform(np.log(least), np.log(most)))))

    return Work(
        family, network, draw(*sizes.vocabulary), users=draw(3, 20),
        steps=draw(2, 4) if several else 1, rows=draw(2, 8), tokens=draw(*sizes.tokens),
    )  # fmt: skip


def _least(point: Point) -> Point:
    work = point.work
    least = {"users": 2, "rows": 2, "tokens": 6, "vocabulary": RANGES[work.family].vocabulary[0]}
    return Point(Work.of({**work.to_dict(), **least}), point.role)
