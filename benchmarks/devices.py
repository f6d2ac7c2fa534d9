"""The same small runs on two devices: how far their weights and scores are apart.

    python benchmarks/devices.py                        # cpu beside cuda
    python benchmarks/devices.py --devices cpu,cpu      # the command itself, in a minute
    python benchmarks/devices.py --paths gpt2 --json differences.json

A path through the engine is a mechanism and a network. Noise and coins are the same on every
device, so what differs is rounding, and what becomes of it. Weights are compared as the norm of the
difference over the norm of what training changed; scores by the largest relative difference.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

ADAM = {"server_optimizer": "adam", "server_learning_rate": 0.01}
USERS = {"users": 60, "users_per_round": 20, "rounds": 4, "noise_multiplier": 0.5, "clip": 0.3}
MECHANISMS: dict[str, dict[str, Any]] = {
    "noiseless": {"epochs": 1, "learning_rate": 0.003},
    "dp-sgd": {"steps": 4, "batch_size": 60, "noise_multiplier": 0.6, "learning_rate": 0.003},
    "user-dp": {**USERS, **ADAM},
    "user-dp, several steps": {**USERS, "local_epochs": 2, "local_batch_size": 2},
    "user-dp, Adam at users": {**USERS, "local_optimizer": "adam", "local_learning_rate": 0.003},
    "user-dp, adaptive bound": {**USERS, "clip_policy": "adaptive"},
    "uedp-group": {
        "rounds": 4, "sampling_rate": 0.2, "sentences_per_user": 6, "epsilon": 8.0,
        "protected_sentences": 3, "clip": 0.1, **ADAM,
    },
    "uedp-spread": {
        **{name: USERS[name] for name in ("users", "users_per_round", "rounds", "clip")},
        "noise_multiplier": None, "epsilon": 8.0, "clipping": "two-level", "sentence_clip": 0.1,
        "sentences_per_user": 6, "protected_spread": 3,
    },
    "uedp": {"rounds": 4, "users_per_round": 20, "noise_multiplier": 0.01},
    "fedavg": {"rounds": 4, "users_per_round": 20, "local_batch_size": 2},
    "dp-ftrl": {"rounds": 4, "users_per_round": 20, "noise_multiplier": 0.5},
}  # fmt: skip
"""Parameters by the path's name; a mechanism's name ends at the comma."""

TASKS: dict[str, dict[str, Any]] = {
    "lstm-small": {"task": "next-word", "model": {"name": "lstm-small"}},
    "gpt2": {"task": "next-word", "model": {"name": "gpt2"}},
    "gpt2, LoRA": {"task": "next-word", "model": {"name": "gpt2", "params": {"lora_rank": 4}}},
    "bert": {
        "task": "text-classification",
        "model": {"name": "bert", "params": {"configuration": "tiny"}},
    },
    "bilstm": {"task": "text-classification", "model": {"name": "bilstm"}},
    "bilstm tagger": {"task": "tagging", "model": {"name": "bilstm"}},
    "masked bert": {
        "task": "masked-language-model",
        "model": {"name": "bert", "params": {"configuration": "tiny"}},
    },
}
EVERY = ("noiseless", "dp-sgd", "user-dp", "user-dp, several steps", "uedp-group")
"""Mechanisms that run with every network."""

ALONE: dict[str, tuple[str, ...]] = {
    "lstm-small": tuple(MECHANISMS),
    "gpt2": (*EVERY, "user-dp, Adam at users", "uedp-spread"),
}
"""Networks that run with others too."""

SOURCE = {"name": "embedded", "params": {"users": 60, "test_users": 20, "sentences": 4}}


@dataclass(frozen=True)
class Way:
    """A way through the engine.

    Attributes:
        network: of `TASKS`.
        mechanism: of `MECHANISMS`.
    """

    network: str
    mechanism: str

    @property
    def name(self) -> str:
        """As it is printed."""
        return f"{self.network}: {self.mechanism}"

    def spec(self) -> dict[str, Any]:
        """The spec of its run, beside that of the network before training."""
        params = MECHANISMS[self.mechanism]
        name = self.mechanism.split(",")[0]
        return {
            "source": SOURCE,
            "mechanisms": ["public-only", {"name": name, "params": params}],
            **TASKS[self.network],
        }


def paths(wanted: str | None) -> list[Way]:
    """All paths, or those whose names contain a text."""
    every = [
        Way(network, mechanism) for network in TASKS for mechanism in ALONE.get(network, EVERY)
    ]
    return [path for path in every if wanted is None or wanted in path.name]


def measured(spec: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Scores of a run, and its weights before and after."""
    import torch

    from uedp_bench.workbench.releases import load_release
    from uedp_bench.workbench.running import run

    with tempfile.TemporaryDirectory() as folder:
        results = run(spec, out=folder, device=device, workers=0, quiet=True)
        if results.failed:
            raise RuntimeError(results.failed[0].error)
        weights = []
        for result in results:
            release: Any = load_release(results.folder(result))
            flat = [each.detach().double().flatten() for each in release.module.parameters()]
            weights.append(torch.cat(flat).numpy())
    scores = {name: each.value for name, each in results[1].utility.items()}
    return {"before": weights[0], "after": weights[1], "scores": scores}


def compared(path: Way, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The differences between two devices: of weights, and the largest of scores."""
    import numpy as np

    one, other = found
    moved = np.linalg.norm(one["after"] - one["before"])
    apart = np.linalg.norm(one["after"] - other["after"])
    scores = {
        name: abs(value - other["scores"][name]) / max(abs(value), 1e-12)
        for name, value in one["scores"].items()
    }
    worst = max(scores, key=lambda name: scores[name])
    return {
        "path": path.name,
        "weights": float(apart / max(moved, 1e-12)),
        "scores": scores[worst],
        "of": worst,
    }


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows in Markdown, the largest difference of weights first."""
    lines = ["| path | weights | scores | of |", "| :-- | --: | --: | :-- |"]
    for row in sorted(rows, key=lambda row: -row["weights"]):
        numbers = f"{row['weights']:.1e} | {row['scores']:.1e}"
        lines.append(f"| {row['path']} | {numbers} | {row['of']} |")
    return "\n".join(lines)


def main(given: Sequence[str] | None = None) -> int:
    """Compares: 0 if every path ran."""
    read = argparse.ArgumentParser(description="Compare two devices.")
    read.add_argument("--devices", default="cpu,cuda")
    read.add_argument("--paths", help="those whose names contain this")
    read.add_argument("--workers", type=int, default=2, help="runs at a time")
    read.add_argument("--json", type=Path, help="write the differences here")
    asked = read.parse_args(given)
    devices, chosen = asked.devices.split(","), paths(asked.paths)
    if not chosen:
        names = ", ".join(path.name for path in paths(None))
        read.error(f"no path's name contains {asked.paths!r}; the paths are: {names}")
    rows, failed = [], []
    with ProcessPoolExecutor(asked.workers, mp_context=get_context("spawn")) as pool:
        runs = {
            path: [pool.submit(measured, path.spec(), device) for device in devices]
            for path in chosen
        }
        for path, pair in runs.items():
            try:
                rows.append(compared(path, [each.result() for each in pair]))
            except Exception as error:
                failed.append(path.name)
                print(f"{path.name}: {error}", file=sys.stderr)
    print(table(rows))
    if asked.json:
        asked.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
