"""How often a reader of one run changes rooms, from `execute` to the written result.

A walk follows the calls of a small run through the modules of the harness. Each line that calls
into another module is followed once, as one reads it once. Components, training and accounting are
one room each; what happens inside them is not followed. A stay is a time in one room; a return is a
stay in a room that was left before.

    python benchmarks/run_walk.py
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import uedp_bench
from uedp_bench.harness.execution import Execution
from uedp_bench.harness.grid import expand
from uedp_bench.harness.runner import execute
from uedp_bench.harness.spec import parse_spec

ROOT = Path(uedp_bench.__file__).parent
CLOSED = ("accounting", "attacks", "mechanisms", "tasks", "training")
SPEC = {
    "source": {"name": "embedded", "params": {"users": 60, "public_users": 20, "test_users": 10}},
    "model": {"name": "lstm-small", "params": {"vocabulary_size": 200, "units": 8}},
    "mechanisms": [
        ["deidentify", {"name": "user-dp", "params": {"rounds": 2, "users_per_round": 10}}]
    ],
    "attacks": [{"name": "secret-sharer", "params": {"canaries": 2, "entity_canaries": 0}}],
}


def room_of(frame: FrameType) -> str | None:
    """The room of a frame; None for furniture (contracts, files, libraries, values of records)."""
    owner = getattr(type(frame.f_locals.get("self")), frame.f_code.co_name, None)
    if isinstance(owner, property):
        return None
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT):
        return None
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] == "harness":
        return parts[-1]
    return parts[0] if parts[0] in CLOSED else None


class Walk:
    """Rooms in the order in which they are entered and come back to."""

    def __init__(self) -> None:
        self.rooms: list[str] = []
        self._open: list[FrameType] = []
        self._hidden: FrameType | None = None
        self._followed: set[tuple[str, int]] = set()

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        """Profiler of `sys.setprofile`."""
        if event == "call" and self._hidden is None:
            self._enter(frame)
        elif event == "return" and frame is self._hidden:
            self._hidden = None
            self._stay(self._open[-1])
        elif event == "return" and self._open and frame is self._open[-1]:
            self._open.pop()
            if self._open:
                self._stay(self._open[-1])

    def _enter(self, frame: FrameType) -> None:
        room = room_of(frame)
        if room is None:
            return
        if self._open and room != room_of(self._open[-1]):
            line = (self._open[-1].f_code.co_filename, self._open[-1].f_lineno)
            if line in self._followed:
                self._hidden = frame
                return
            self._followed.add(line)
        self._stay(frame)
        if room in CLOSED:
            self._hidden = frame
        else:
            self._open.append(frame)

    def _stay(self, frame: FrameType) -> None:
        room = room_of(frame)
        if room is not None and (not self.rooms or self.rooms[-1] != room):
            self.rooms.append(room)


def main() -> None:
    """Walks one run, and prints the counts."""
    (spec,) = expand(parse_spec(SPEC))
    walk = Walk()
    with tempfile.TemporaryDirectory() as folder:
        execute(spec, Execution(Path(folder) / "warm", "cpu"))  # imports are no part of the walk
        sys.setprofile(walk)
        result = execute(spec, Execution(Path(folder) / "walked", "cpu"))
        sys.setprofile(None)
    if result.error is not None:
        raise RuntimeError(result.error.message)
    print(report(walk.rooms))


def report(rooms: list[str]) -> str:
    """Stays, returns, and the rooms that were entered most often."""
    returns = len(rooms) - len(set(rooms))
    often = ", ".join(f"{room} {n}" for room, n in Counter(rooms).most_common(8))
    return f"{len(rooms)} stays in {len(set(rooms))} rooms, {returns} returns; most often: {often}"


if __name__ == "__main__":
    main()
