"""Measures what a training does beside its rounds' products: draws, noise, accounts, files.

Each function runs in a fork of its own and gives CPU seconds for one unit of what it does.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from cost_counting import Counting
from cost_measuring import Found
from cost_workloads import Work, learner_of, parameters_of

from uedp_bench.cli.main import run_cli
from uedp_bench.corpus import Index
from uedp_bench.mechanism import CorpusStats
from uedp_bench.models.gpt2 import GPT2
from uedp_bench.randomness.streams import Stream
from uedp_bench.row_losses import row_losses
from uedp_bench.run_context import Run
from uedp_bench.saved_state import digest_of
from uedp_bench.tasks.tokens.rows import TextRows, encode_targets
from uedp_bench.training.cohort import draw_cohort
from uedp_bench.training.device import choose_device
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.messages import Sending, send_updates, send_weights
from uedp_bench.training.noise import GaussianNoise
from uedp_bench.training.sampling import PoissonSampler

ROUNDS = 2_000
"""Rounds that are accounted for."""


def _took(work: Callable[[], object], units: float) -> Found:
    start = time.process_time()
    work()
    return {"seconds": (time.process_time() - start) / units}


def _rng(source: str) -> np.random.Generator:
    return Stream.root(1, "cost", "os" if source == "os" else "seed").rng("noise")


def noise(source: str, quick: bool) -> Found:
    """Seconds a number of noise in float64, drawn, scaled and added."""
    numbers = 2**16 if quick else 2**22
    vector, rng = torch.zeros(numbers), _rng(source)
    GaussianNoise().add(vector[:1000], 1.0, rng)
    return _took(lambda: GaussianNoise().add(vector, 1.0, rng), numbers)


def sampling(source: str, quick: bool) -> Found:
    """Seconds a user of the population, whose coin is thrown in each round."""
    users = 10**4 if quick else 10**6
    rng = _rng(source)
    return _took(lambda: PoissonSampler(users, 0.001).draw(rng), users)


def drawing(source: str, quick: bool) -> Found:
    """Seconds a user of a round: its rows, their order and seeds, and its messages.

    A user has 16 rows and takes 4 steps. Rank 0 does all of it.
    """
    users, rows = (100 if quick else 2_000), 16
    at = np.arange(users * rows)
    how: Any = SimpleNamespace(
        units=Index(np.arange(users + 1) * rows, at), row_weights=None, round_of_row=None,
        rows_per_unit=None, own_draws=False, unit_weights=None,
        local=LocalTraining(batch_size=rows // 4),
    )  # fmt: skip
    run = Run(1, CorpusStats(users, len(at), 0, 0, public=True))
    stream = Stream.root(1, "cost", "os" if source == "os" else "seed")
    everybody, theta = np.arange(users), torch.zeros(1)

    def do() -> None:
        draw_cohort(how, everybody, stream)
        send_weights(run, 0, theta, everybody)
        send_updates(run, 0, Sending(theta, everybody, None))

    return _took(do, users)


def accounting(_: str, quick: bool) -> Found:
    """Seconds of `uedp-bench account user-dp` for all rounds, once in a run."""
    given = {"users": 10**6, "users_per_round": 10**4, "noise_multiplier": 1,
             "rounds": 20 if quick else ROUNDS}  # fmt: skip
    command = ["account", "user-dp"]
    for name, value in given.items():
        command += ["--set", f"{name}={value}"]
    with contextlib.redirect_stdout(io.StringIO()):
        return _took(lambda: run_cli(command), 1.0)


def checkpoint(_: str, quick: bool) -> Found:
    """Seconds a weight that a checkpoint writes."""
    numbers = 2**16 if quick else 2**24
    weights = torch.zeros(numbers).normal_()
    with tempfile.TemporaryDirectory(prefix="uedp-bench-") as folder:
        return _took(lambda: torch.save({"theta": weights}, Path(folder) / "train.pt"), numbers)


def digest(_: str, quick: bool) -> Found:
    """Seconds a weight of the digest of the state before the first round, once in a run."""
    numbers = 2**16 if quick else 2**22
    weights = torch.zeros(numbers).normal_()
    return _took(lambda: digest_of({"theta": weights}), numbers)


def reading(_: str, quick: bool) -> Found:
    """Seconds a token of a text that is cut into byte pairs, once in a run; by rank 0."""
    rng = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlu"))
    words = ["".join(rng.choice(letters, size=size)) for size in rng.integers(2, 9, size=3_000)]
    rows = 50 if quick else 2_000
    texts = [" ".join(rng.choice(words, size=60)) for _ in range(rows)]
    vocabulary = GPT2.create({"vocabulary_size": 2_000}).vocabulary(
        texts[:200], origin="random words", private=False
    )
    start = time.process_time()
    encoded = TextRows.build(encode_targets(texts, vocabulary, "none"), vocabulary)
    return {"seconds": (time.process_time() - start) / len(encoded.flat)}


def scoring(_: str, quick: bool) -> Found:
    """Seconds, FLOPs and weights of a token whose loss is computed (scores, membership)."""
    choose_device("cpu", threads=1)
    network = {"layers": 2, "width": 64} if quick else {"layers": 6, "width": 256}
    work = Work("next-word gpt2", network, 2_000 if quick else 8_000, 10, 2, 4, 64)
    learner = learner_of(work)
    tokens = work.users * work.steps * work.rows * work.tokens
    row_losses(learner, len(learner.corpus))
    found = _took(lambda: row_losses(learner, len(learner.corpus)), tokens)
    with Counting() as counting:
        row_losses(learner, len(learner.corpus))
    return {
        **found, "flops": counting.counts.flops / tokens, "parameters": parameters_of(learner)
    }  # fmt: skip


PHASES: dict[str, tuple[Callable[[str, bool], Found], str]] = {
    "noise, seed": (noise, "seed"),
    "noise, os": (noise, "os"),
    "sampling, seed": (sampling, "seed"),
    "sampling, os": (sampling, "os"),
    "drawing, seed": (drawing, "seed"),
    "drawing, os": (drawing, "os"),
    "accounting": (accounting, ""),
    "checkpoint": (checkpoint, ""),
    "digest": (digest, ""),
    "reading": (reading, ""),
    "scoring": (scoring, ""),
}
"""Functions by phase, and the source of random numbers that they are given."""


def phase(name: str, quick: bool) -> Found:
    """One measurement of a phase."""
    function, source = PHASES[name]
    return function(source, quick)


# --------------------------------------------------------------------------------- rates of devices


def rates(device: str, quick: bool) -> Found:
    """The best that the device does: FLOPs a second, bytes a second, and seconds of a call.

    Products are of float32 (1,024 x 1,024 on a CPU, 8,192 elsewhere). Bytes are those of a sum of
    two vectors that no cache holds. A call adds two short vectors.
    """
    name = choose_device(device, threads=1)
    cpu = name.startswith("cpu")
    size = 256 if quick else 1_024 if cpu else 8_192
    long = 2**20 if quick else 2**25 if cpu else 2**28
    a, b = torch.randn(size, size, device=name), torch.randn(size, size, device=name)
    x, y = torch.randn(long, device=name), torch.randn(long, device=name)
    out, few = torch.empty_like(x), x[:100].clone()
    return {
        "flops": 2 * size**3 / _each(name, lambda: _product(a, b), 10),
        "bytes": 12 * long / _each(name, lambda: torch.add(x, y, out=out), 5),
        "call": _each(name, lambda: torch.add(few, few), 2_000),
    }


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """By the library that the engine multiplies with."""
    from uedp_bench.models.networks.products import product

    return product(a, b)


def _each(device: str, work: Callable[[], object], times: int) -> float:
    from cost_measuring import Clock

    clock = Clock(device)
    work()
    start = clock()
    for _ in range(times):
        work()
    return (clock() - start) / times
