"""Input that nobody means well, from a seed: values, damaged files, and what an answer must be."""

from __future__ import annotations

import copy
import gc
import json
import os
import random
import resource
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from typing import Any

from uedp_bench.cli.main import run_cli
from uedp_bench.errors import plain

INPUTS = int(os.environ.get("UEDP_BENCH_FUZZ", "40"))
"""Inputs of each fuzzer."""

SEED = int(os.environ.get("UEDP_BENCH_FUZZ_SEED", "1"))
"""Another seed makes other inputs."""

MOST_SECONDS, MOST_MEMORY, MOST_SAID = 10.0, 2**20, 2_500
"""For one input: seconds, growth of memory in KiB, characters of all that is complained of."""

NAMES = (
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\u202egnp.exe",
    "\x9b1m",
    "a\rb",
    "[bold]x[/]",
    "[/x]",
    "<b>",
    "{x}",
    "%s",
    "../..",
    "-",
    "--",
    "~",
    "$HOME",
    "x" * 300,
    "é" * 200,
    "a/" * 3000,
    "",
    " ",
    ".",
    "\u2028",
    "0x10",
    "１",
    "1e999",
    "null",
    "none",
    "all",
    "\N{PILE OF POO}",
    "/dev/zero",
    "/dev/null",
    "/proc/self/mem",
    "/",
    "uedp",
    "user-dp",
    "embedded",
)
"""Texts: what terminals obey, markup, paths, numbers that are none."""

VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    0.5,
    -0.0,
    1e308,
    -1e308,
    5e-324,
    2**31,
    2**63,
    10**30,
    -(10**30),
    float("inf"),
    float("-inf"),
    float("nan"),
    [],
    {},
    [[]],
    [[[1]]],
    [None],
    [1, 2, 3],
    [1, "a"],
    {"name": "user-dp"},
    {"name": "noiseless", "params": {}},
    {"name": None},
    {"x": {"y": 1}},
    ["a", ["b"]],
    [0] * 200,
    *NAMES,
)

TOKENS = (
    b"",
    b"\0",
    b"\xff",
    b"\xfe\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\x1b[2J",
    b"\r",
    b"\n\n",
    b'"',
    b"'",
    b"{",
    b"[",
    b"]",
    b"}",
    b",",
    b":",
    b"&a ",
    b"*a",
    b"!!int ",
    b"!!python/none ",
    b"<<: ",
    b"|",
    b">",
    b"#",
    b"- ",
    b"? ",
    b"\t",
    b"9" * 4400,
    b"[" * 1500,
    b"{a: " * 200,
    b"2001-13-45",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"\\ud800",
    b"\\u0000",
    b"null",
    b"\x85",
)


def rounds(name: str, part: int = 1) -> Iterator[tuple[int, random.Random]]:
    """The number of each input of a fuzzer and its generator; `part` fuzzers share the inputs."""
    for at in range(max(1, INPUTS // part)):
        yield at, random.Random(f"{name}/{SEED}/{at}")  # noqa: S311


def mutated(value: Any, rng: random.Random, most: int = 3) -> Any:
    """A JSON value with up to `most` parts replaced, removed, renamed or repeated."""
    out = copy.deepcopy(value)
    for _ in range(rng.randint(1, most)):
        out = _change(out, rng)
    return out


def _change(value: Any, rng: random.Random) -> Any:
    parts = list(_places(value))
    if not parts:
        return rng.choice(VALUES)
    holder, key = rng.choice(parts)
    what = rng.random()
    if what < 0.7:
        holder[key] = copy.deepcopy(rng.choice(VALUES))
    elif what < 0.8:
        del holder[key]
    elif what < 0.9 and isinstance(holder, dict):
        holder[rng.choice(NAMES)] = holder.pop(key)
    elif isinstance(holder, list):
        holder.extend(copy.deepcopy([holder[key]] * rng.choice((1, 2, 50))))
    else:
        _, other = rng.choice(parts)
        holder[str(other)] = copy.deepcopy(holder[key])
    return value


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    todo = [value]
    while todo:
        one = todo.pop()
        if isinstance(one, dict | list):
            for key in one if isinstance(one, dict) else range(len(one)):
                yield one, key
                todo.append(one[key])


def damaged(content: bytes, rng: random.Random) -> bytes:
    """A file with up to four pieces removed, repeated, put in, overwritten, or its end cut off."""
    out = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        start = rng.randint(0, len(out))
        end = min(len(out), start + rng.choice((1, 1, 4, 50)))
        what = rng.randrange(6)
        if what == 0:
            del out[start:end]
        elif what == 1:
            out[start:start] = out[start:end] * rng.choice((1, 2, 100))
        elif what == 2 and out:
            out[min(start, len(out) - 1)] = rng.randrange(256)
        elif what == 3 and rng.random() < 0.3:
            del out[start:]
        else:
            out[start:start] = rng.choice(TOKENS)
    return bytes(out)


def as_yaml(value: Any) -> bytes:
    """JSON is YAML, but for numbers that JSON does not have."""
    text = json.dumps(value, ensure_ascii=False)
    for theirs, ours in (("NaN", ".nan"), ("-Infinity", "-.inf"), ("Infinity", ".inf")):
        text = text.replace(theirs, ours)
    return text.encode("utf-8", "surrogatepass")


def answer(
    arguments: Sequence[str], codes: Sequence[int] = (0, 1, 2), seconds: float = MOST_SECONDS
) -> tuple[int, str, str]:
    """What a command line comes to; fails unless it is an answer that a user can read.

    Args:
        arguments: of the command.
        codes: exit codes that are right.
        seconds: of the processor, at most.

    Returns:
        Exit code, standard output, standard error.
    """
    out, err = StringIO(), StringIO()
    already = gc.get_freeze_count()
    if (
        not already
    ):  # what other tests have left would be looked through within the time of this one
        gc.freeze()
    memory, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_cli(arguments)
    took = time.process_time() - begun
    if not already:
        gc.unfreeze()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    output, complaint = out.getvalue(), err.getvalue()
    assert code in codes, (code, complaint)
    assert took < seconds, f"{took:.1f} s for {arguments}"
    assert grown < MOST_MEMORY, f"{grown} KiB for {arguments}"
    for text in (output, complaint):
        assert plain(text, lines=True) == text, "something that a terminal obeys"
        assert "Traceback" not in text
    assert len(complaint) <= MOST_SAID, len(complaint)
    if code == 2:
        *notes, last = complaint.splitlines()
        assert last.startswith("error: "), complaint
        note_heads = ("left out: ", "note: ", "error: ")
        assert all(line.startswith(note_heads) for line in notes), complaint
    return code, output, complaint
