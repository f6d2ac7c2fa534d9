"""Fillers of a gap as questions about hidden tokens, each question asked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from uedp_bench.corpus import FloatArray, IntArray
from uedp_bench.errors import InputError

Tokens = Sequence[int]


class Questions(NamedTuple):
    """What a masked language model is asked, and which answers are wanted.

    Attributes:
        rows: token ids of each question, without begin and end, masks in the gap.
        places: (questions,) position of the token that is asked for.
        question: (answers,) of each answer.
        tokens: (answers,) whose log-probabilities are wanted.
        fillers: (answers,) which filler's loss the answer is part of.
    """

    rows: list[list[int]]
    places: IntArray
    question: IntArray
    tokens: IntArray
    fillers: IntArray


@dataclass(frozen=True)
class Gap:
    """A gap in a text and what may fill it, as tokens.

    Attributes:
        before: on the left of the gap.
        after: on the right of it.
        fillers: none is empty.
    """

    before: Tokens
    after: Tokens
    fillers: Sequence[Tokens]

    @staticmethod
    def of(before: Tokens, after: Tokens, full: Sequence[Tokens]) -> Gap:
        """The gap of texts that begin and end alike.

        Where a filler changes how the texts beside it are split into tokens, the gap is that much
        wider, for all fillers.

        Args:
            before: tokens of what stands on the left.
            after: tokens of what stands on the right.
            full: tokens of the texts with each filler, one at least.

        Raises:
            InputError: for a filler that has no token.
        """
        left = min(_alike(before, row) for row in full)
        right = min(_alike(after[::-1], row[left:][::-1]) for row in full)
        fillers = [row[left : len(row) - right] for row in full]
        if not all(len(filler) for filler in fillers):
            raise InputError("filler: a filler without any token cannot be ranked")
        return Gap(before[:left], after[len(after) - right :], fillers)

    def within(self, room: int) -> Gap:
        """The same gap in a text of at most so many tokens, those nearest to it."""
        left = max(0, room - max(map(len, self.fillers)))
        after = min(len(self.after), max(left // 2, left - len(self.before)))
        before = min(len(self.before), left - after)
        return replace(
            self, before=self.before[len(self.before) - before :], after=self.after[:after]
        )

    def questions(self, mask: int, room: int) -> Questions:
        """Each token of a filler, given those to its left; those to its right are hidden.

        Args:
            mask: that stands for hidden tokens.
            room: tokens of a question, at most. Longer fillers are cut into parts, and each part
                is asked by itself.
        """
        known: dict[tuple[int, tuple[int, ...]], int] = {}
        rows: list[list[int]] = []
        places: list[int] = []
        answers: list[tuple[int, int, int]] = []
        parts = (
            (number, filler[start : start + room])
            for number, filler in enumerate(self.fillers)
            for start in range(0, len(filler), room)
        )
        for number, filler in parts:
            for at, token in enumerate(filler):
                key = len(filler), tuple(filler[:at])
                if key not in known:
                    known[key] = len(rows)
                    hidden = [mask] * (len(filler) - at)
                    rows.append([*self.before, *filler[:at], *hidden, *self.after])
                    places.append(len(self.before) + at)
                answers.append((known[key], token, number))
        table = np.array(answers, dtype=np.int64).reshape(-1, 3)
        return Questions(rows, np.array(places, dtype=np.int64), *table.T)


def sums_of(questions: Questions, nats: FloatArray, fillers: int) -> FloatArray:
    """(fillers,) losses, of those of the answers (answers,)."""
    return np.bincount(questions.fillers, nats, minlength=fillers).astype(np.float64)


def _alike(one: Tokens, other: Tokens) -> int:
    """Length of the longest beginning that two sequences share."""
    most = min(len(one), len(other))
    return next((at for at in range(most) if one[at] != other[at]), most)
