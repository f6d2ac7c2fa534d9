"""Costs of a large corpus: CPU seconds and memory by phase, from a parquet file to its scores.

A file of so many rows and users is generated, the same one at every call. One process describes it
(`uedp-bench data describe`); another loads it, plants canaries, makes a vocabulary of public text,
trains two rounds of user-dp in which one user in a hundred takes part, and scores the test rows.

Memory has two figures: `rss` is the peak of the process with the pages of files that are mapped
into it, and `own` is the peak without them. The system takes pages of files back whenever
others need them, and leaves them where nobody does.

    OMP_NUM_THREADS=1 python benchmarks/large_corpus.py [--rows 1000000] [--users 100000] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

WORDS, SHORTEST, LONGEST = 6_000, 6, 20
PUBLIC_ROWS, SHARE, AT_ONCE = 20_000, 0.01, 100_000
STEPS = ("describe", "run")
FILE, PUBLIC = "mail.parquet", "public.txt"


def generate(folder: Path, rows: int, users: int) -> None:
    """Write the parquet file and the public text, with little memory.

    Rows stand in the order in which they were sent: those of a user are all over the file.

    Args:
        folder: to write into.
        rows: of the parquet file.
        users: of whom each has one row at least, and most have about `rows / users`.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(18)
    words = _words(rng)
    (folder / PUBLIC).write_text(
        "\n".join(_texts(rng, words, PUBLIC_ROWS).to_pylist()) + "\n", encoding="utf-8"
    )
    activity = rng.gamma(2.0, size=users)
    activity = np.cumsum(activity / activity.sum())
    names = ("text", "author", "subject", "half")  # the run reads the first two
    schema = pa.schema([(name, pa.string()) for name in names])
    with pq.ParquetWriter(folder / FILE, schema) as file:
        for first in range(0, rows, AT_ONCE):
            size = min(AT_ONCE, rows - first)
            drawn = np.searchsorted(activity, rng.random(size)).clip(max=users - 1)
            everyone = np.arange(first, first + size)
            drawn = np.where(everyone < users, everyone, drawn)
            authors = pa.array([f"author-{user:07d}" for user in drawn.tolist()])
            halves = pa.array([("first", "second")[row % 2] for row in range(size)])
            columns = [_texts(rng, words, size), authors, _texts(rng, words, size), halves]
            file.write_table(pa.Table.from_arrays(columns, schema=schema))


def _words(rng: np.random.Generator) -> Any:
    """(words,) invented ones, the frequent ones short."""
    import pyarrow as pa

    letters = "etaoinshrdlucmwfgypbvk"
    words: dict[str, None] = {}
    while len(words) < WORDS:
        length = 2 + len(words) // 1000 + int(rng.integers(0, 4))
        words["".join(letters[i] for i in rng.integers(0, len(letters), size=length))] = None
    return pa.array([*words])


def _texts(rng: np.random.Generator, words: Any, rows: int) -> Any:
    """(rows,) texts of words whose frequencies fall as in English."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = rng.integers(SHORTEST, LONGEST + 1, size=rows)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    weights = np.cumsum(1.0 / (np.arange(WORDS) + 2.7))
    drawn = np.searchsorted(weights, rng.random(offsets[-1]) * weights[-1]).clip(max=WORDS - 1)
    flat = words.take(pa.array(drawn))
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), flat), " ")


class Phases:
    """CPU seconds and memory of what happens between two marks."""

    def __init__(self) -> None:
        self.costs: dict[str, dict[str, float]] = {}
        self._own, self._stop = 0, threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self._note("imports", usage.ru_utime + usage.ru_stime)

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Measure what is inside."""
        self._own = 0
        Path("/proc/self/clear_refs").write_text(
            "5", encoding="ascii"
        )  # the kernel begins anew to look for the peak
        start = time.process_time()
        yield
        self._note(name, time.process_time() - start)

    def _note(self, name: str, seconds: float) -> None:
        self._own = max(self._own, _status("RssAnon"))
        before = self.costs.get(name, {"cpu": 0.0, "rss": 0.0, "own": 0.0})
        self.costs[name] = {
            "cpu": round(before["cpu"] + seconds, 2),
            "rss": max(before["rss"], round(_status("VmHWM") / 1000)),
            "own": max(before["own"], round(self._own / 1000)),
        }

    def _look(self) -> None:
        while not self._stop.wait(0.02):
            self._own = max(self._own, _status("RssAnon"))


def _status(field: str) -> int:
    """Kilobytes (1,024 bytes, as the kernel counts), as thousands of bytes."""
    with Path("/proc/self/status").open(encoding="ascii") as lines:
        for line in lines:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024 // 1000
    raise RuntimeError(f"the kernel does not tell {field}")


def spec_of(folder: Path, users: int) -> dict[str, Any]:
    """The run."""
    source = {
        "path": str(folder / FILE), "user_column": "author", "valid": SHARE, "test": SHARE,
        "public": [str(folder / PUBLIC)],
    }  # fmt: skip
    trained = {"rounds": 2, "users": users, "users_per_round": max(users // 100, 1)}
    attacks = {
        "secret-sharer": {"entity_canaries": 0},
        "membership": {"held_out_fraction": 0.001, "held_out_users": 20},
    }
    return {
        "task": {"name": "next-word"},
        "source": {"name": "text", "params": source},
        "mechanisms": [[{"name": "user-dp", "params": trained}]],
        "attacks": [{"name": name, "params": params} for name, params in attacks.items()],
        "seeds": [1],
    }


def step(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One step, in this process."""
    import torch

    import uedp_bench.training.federated as engine
    from uedp_bench.data import table_columns
    from uedp_bench.one_run.components import build_sources
    from uedp_bench.one_run.evaluation import score
    from uedp_bench.one_run.planting import load_data
    from uedp_bench.one_run.preparing import Execution, prepare
    from uedp_bench.one_run.protecting import protect
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.identity import Identity
    from uedp_bench.spec.spec import parse_spec
    from uedp_bench.text.describe_data import describe

    torch.set_num_threads(1)
    if options.held:
        table_columns.MOST_ROWS_HELD = table_columns.MOST_BYTES_HELD = 2**62
    phase = Phases()
    (spec,) = expand(parse_spec(spec_of(folder, options.users)))
    sources = build_sources(spec)
    with phase("load"):
        data = load_data(sources)
    with phase("fingerprint"):
        fingerprint = data.fingerprint
    if name == "describe":
        with phase("describe"):
            description = describe(data.corpus, "text").to_dict()
        return {"phases": phase.costs, "fingerprint": fingerprint, "rows": description["rows"]}
    execution = Execution(folder / "out", device="cpu")
    with phase("plant"):
        identity = Identity.from_spec(spec, fingerprint)
        ready = prepare(spec, execution, (sources, data), identity)
    with phase("vocabulary"):
        parts, whole = ready.parts, ready.planted_corpus.corpus
        vocabulary = parts.task.vocabulary(whole.only("public"))
    train = engine.train_federated

    def rounds(*arguments: Any) -> Any:
        before.__exit__(None, None, None)
        with phase("two rounds"):
            return train(*arguments)

    engine.train_federated = rounds
    before = phase("before the rounds")
    before.__enter__()
    protected = protect(parts, whole, ready.run, vocabulary)
    with phase("score"):
        scored = score(ready, protected)
    perplexity = scored.utility["perplexity"].value
    return {"phases": phase.costs, "fingerprint": fingerprint, "perplexity": round(perplexity, 6)}


def run(name: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """One step in a process of its own, with a cache of its own."""
    command = [sys.executable, __file__, "--step", name, "--keep", str(folder)]
    command += ["--users", str(options.users), *(["--held"] if options.held else [])]
    environment = os.environ | {"UEDP_BENCH_CACHE": str(folder / "cache")}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def measure(folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """All steps, in their order."""
    if not (folder / FILE).is_file():
        generate(folder, options.rows, options.users)
    answers: dict[str, Any] = {"rows": options.rows, "users": options.users}
    answers["file megabytes"] = round((folder / FILE).stat().st_size / 1e6, 1)
    for name in options.steps:
        answers[name] = run(name, folder, options)
    return answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--held", action="store_true", help="all in memory, as of a small file")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder to work in, which is kept")
    parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(json.dumps(step(options.step, options.keep, options)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        answers = measure(folder, options)
    if options.json:
        print(json.dumps(answers))
        return
    print(
        f"{options.rows:,} rows, {options.users:,} users, {answers['file megabytes']} MB of parquet"
    )
    for name in options.steps:
        print(f"{name}:")
        for phase, values in answers[name]["phases"].items():
            print(f"  {phase:20} {values['cpu']:8.2f} CPU s {values['rss']:7,.0f} MB at most, "
                  f"{values['own']:7,.0f} MB its own")  # fmt: skip
        print("  " + ", ".join(f"{k} {v}" for k, v in answers[name].items() if k != "phases"))


if __name__ == "__main__":
    main()
