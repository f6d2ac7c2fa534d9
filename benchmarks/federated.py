"""Users per second of CPU time in a federated round, side by side (vmap) or not, as ratios.

Every configuration trains the same users of the embedded corpus on the same network and is checked
to end at the same weights. The yardstick is the loop that one would write with torch alone: copy
the weights, run the optimiser, subtract, clip, add. Each memory setting needs a process of its own;
processes and methods take turns, so that whatever else the machine does falls on all of them.

    python benchmarks/federated.py [--sizes default] [--users 128] [--chunks 8,16,32] [--json]
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from uedp_bench.corpus import Index
from uedp_bench.harness.spec import parse_spec
from uedp_bench.harness.spec_files import read_spec
from uedp_bench.learner import row_seeds
from uedp_bench.mechanism import CorpusStats
from uedp_bench.registry import models, sources, tasks
from uedp_bench.run import Run, Speed
from uedp_bench.training.bounds import FlatBound
from uedp_bench.training.device import keep_freed_memory
from uedp_bench.training.federated import Federation, train_federated
from uedp_bench.training.local import LocalTraining
from uedp_bench.training.noise import IndependentGaussian
from uedp_bench.training.sampling import PoissonSampler
from uedp_bench.training.server import SgdServer

CLIP, ROUNDS = 0.3, 2
LOCAL = {
    "one step on all rows": LocalTraining(learning_rate=1.0),
    "five epochs, full batch": LocalTraining(learning_rate=0.2, epochs=5),
}


def learner_of(users: int, sizes: str) -> Any:
    """Next-word prediction with `users` users, else in the sizes named."""
    spec = parse_spec(read_spec("quickstart"))
    source, task_params, model = (ref.params for ref in (spec.source, spec.task, spec.model))
    if sizes == "default":
        source, task_params, model = {}, {}, {}
    corpus = sources.create("embedded", {**source, "users": users}).load()
    task = tasks.create("next-word", task_params)
    task.model = models.create("lstm-small", model)
    run = Run(1, CorpusStats(users, 0, 0, 0, public=True))
    return task.stages(corpus, task.vocabulary(corpus), run)[-1]


def engine(learner: Any, local: LocalTraining, chunk: int) -> Tensor:
    """The weights after the rounds of this project's engine, without noise."""
    users, rows = learner.corpus.users, np.arange(len(learner.corpus))
    units = Index.build(users, rows, learner.corpus.user_count)
    plan = Federation(
        rounds=ROUNDS, units=units, sampler=PoissonSampler(len(units), 1.0), local=local,
        bound=FlatBound(CLIP), noise=IndependentGaussian(0.0), denominator=float(len(units)),
        server=SgdServer(),
    )  # fmt: skip
    stats = CorpusStats(len(units), 0, 0, 0, public=True)
    trained = train_federated(plan, learner, Run(1, stats, speed=Speed(chunk=chunk)))
    return torch.cat([p.detach().reshape(-1) for p in trained.module.parameters()])


def plain_loop(learner: Any, local: LocalTraining) -> Tensor:
    """The same rounds, one user after the other, with torch alone."""
    shared = copy.deepcopy(learner.module)
    rng = np.random.default_rng(0)
    units = [learner.corpus.rows_of_user[user] for user in range(learner.corpus.user_count)]
    for _ in range(ROUNDS):
        total = torch.zeros(sum(p.numel() for p in shared.parameters()))
        for rows in units:
            module = copy.deepcopy(shared).train()
            optimizer = torch.optim.SGD(module.parameters(), lr=local.learning_rate)
            for _ in range(local.epochs):
                seeds = row_seeds(rng, rows.shape)
                losses = learner.losses(module, learner.batch(rows, seeds))
                optimizer.zero_grad(set_to_none=True)
                torch.autograd.backward(losses.nats.sum() / losses.targets.sum())
                optimizer.step()
            pairs = zip(module.parameters(), shared.parameters(), strict=True)
            update = torch.cat([(new - old).detach().reshape(-1) for new, old in pairs])
            total += update * torch.clamp(CLIP / update.norm(), max=1.0)
        parts = torch.split(total / len(units), [p.numel() for p in shared.parameters()])
        with torch.no_grad():
            for parameter, part in zip(shared.parameters(), parts, strict=True):
                parameter += part.view_as(parameter)
    return torch.cat([p.detach().reshape(-1) for p in shared.parameters()])


def worker(users: int, sizes: str, chunks: list[int], keep: bool) -> dict[str, dict[str, float]]:
    """CPU seconds by local training and method, each after a first call that does not count."""
    torch.set_num_threads(1)
    if keep:
        keep_freed_memory()
    learner, out = learner_of(users, sizes), {}
    alone = copy.copy(learner)
    alone.vectorised = False
    for name, local in LOCAL.items():
        methods: dict[str, Callable[[], Tensor]] = {
            "plain loop": lambda local=local: plain_loop(learner, local),
            "engine, one by one": lambda local=local: engine(alone, local, 1),
        }
        for chunk in chunks:
            methods[f"engine, {chunk} side by side"] = lambda local=local, chunk=chunk: engine(
                learner, local, chunk
            )
        reference = plain_loop(learner, local)
        seconds = {}
        for method, call in methods.items():
            torch.testing.assert_close(call(), reference, rtol=1e-3, atol=1e-4)
            start = time.process_time()
            call()
            seconds[method] = time.process_time() - start
        out[name] = seconds
    return out


def measure(same: list[str], turns: int) -> dict[str, dict[str, dict[str, float]]]:
    """Users per CPU second over the plain loop's without kept memory: local, memory, method."""
    memories = {"default memory": "0", "kept memory": "1"}
    found: dict[str, list[dict[str, dict[str, float]]]] = {memory: [] for memory in memories}
    for _ in range(turns):
        for memory, flag in memories.items():
            command = [sys.executable, __file__, "--worker", flag, *same]
            answer = subprocess.run(command, check=True, capture_output=True, text=True)
            found[memory].append(json.loads(answer.stdout.splitlines()[-1]))
    ratios: dict[str, dict[str, dict[str, float]]] = {}
    for local in LOCAL:
        base = statistics.median(turn[local]["plain loop"] for turn in found["default memory"])
        ratios[local] = {
            memory: {
                method: round(base / statistics.median(turn[local][method] for turn in all_), 2)
                for method in all_[0][local]
            }
            for memory, all_ in found.items()
        }
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--users", type=int, default=128, help="users of a round")
    parser.add_argument("--sizes", choices=["quickstart", "default"], default="quickstart",
                        help="sizes of corpus and network")  # fmt: skip
    parser.add_argument("--turns", type=int, default=3, help="processes a memory setting")
    parser.add_argument("--chunks", default="8,16,32", help="users side by side")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--worker", choices=["0", "1"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    chunks = [int(part) for part in options.chunks.split(",")]
    if options.worker is not None:
        keep = options.worker == "1"
        print(json.dumps(worker(options.users, options.sizes, chunks, keep)))
        return
    same = ["--users", str(options.users), "--sizes", options.sizes, "--chunks", options.chunks]
    ratios = measure(same, options.turns)
    if options.json:
        print(json.dumps(ratios))
        return
    for local, by_memory in ratios.items():
        print(f"{local}: users per CPU second, plain loop with default memory = 1")
        memories = list(by_memory)
        print(f"  {'':28}" + "".join(f"{memory:>16}" for memory in memories))
        for method in by_memory[memories[0]]:
            values = "".join(f"{by_memory[memory][method]:>16.2f}" for memory in memories)
            print(f"  {method:28}{values}")


if __name__ == "__main__":
    main()
