"""A share of a grid: several commands, each in a folder of its own, run one spec together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from uedp_bench.errors import InputError, shown

One = TypeVar("One")

_FORM = re.compile(r"(\d{1,6})/(\d{1,6})", re.ASCII)


@dataclass(frozen=True)
class Share:
    """One of several parts of a grid, of which each run is in exactly one.

    Attributes:
        number: number of the part, from 1.
        parts: number of parts.
    """

    number: int
    parts: int

    @staticmethod
    def parse(text: str) -> Share:
        """Read the share that a text such as `2/8` names.

        Raises:
            InputError: if it names none.
        """
        match = _FORM.fullmatch(text)
        if match is None:
            raise InputError(f"--share {shown(text)}: give two numbers, as 2/8 for part 2 of 8")
        share = Share(int(match[1]), int(match[2]))
        if not 1 <= share.number <= share.parts:
            hint = " (a job array of Slurm counts from 1 with --array=1-N)"
            raise InputError(
                f"--share {text}: parts are counted from 1 to {share.parts}"
                + (hint if share.number == 0 else "")
            )
        return share

    def select(self, runs: Sequence[One]) -> list[One]:
        """Select the runs of this part.

        Runs that follow each other stay together, those of a seed for instance: they share models
        that are trained once. The sizes of two parts differ by one at most.
        """
        first, end = ((at * len(runs)) // self.parts for at in (self.number - 1, self.number))
        return list(runs[first:end])
