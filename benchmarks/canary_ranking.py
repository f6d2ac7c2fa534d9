"""Candidates per second whose losses are computed, by ways of ranking a canary.

The yardstick is what one would write: full forward passes over prefix and suffix, in batches. The
other sides run the candidates one by one, go on from the state of the prefix, share what random
suffixes begin with, or rank among all suffixes that a pool makes. Each side is a fresh process; all
take turns. Losses are compared with those of full forward passes first.

    python benchmarks/canary_ranking.py [--models gpt,cifg] [--candidates 20000] [--json]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from turns import Found, Stopwatch, arguments, chosen, in_turns, print_ratios, ratios

from uedp_bench.attacks.secret_sharer.canary import random_suffix_words
from uedp_bench.corpus import FloatArray
from uedp_bench.models.vocabularies.words import WordVocabulary
from uedp_bench.registry import models
from uedp_bench.tasks.language.language_model import LanguageModelRelease, LanguageReader
from uedp_bench.training.device import choose_device, keep_freed_memory

SIDES = ("full forwards in batches", "one by one", "prefix state", "tree", "all as a tree")


class Setting(NamedTuple):
    """A network and a secret.

    Attributes:
        model: its name.
        vocabulary: number of tokens.
        prefix, suffix: tokens.
        pool: tokens that suffixes are made of.
        space: pool and tokens of the secret of which all values are ranked.
        batch: full rows at once.
    """

    model: str
    vocabulary: int
    prefix: int
    suffix: int
    pool: int
    space: tuple[int, int]
    batch: int


SETTINGS = {
    "gpt": Setting("gpt2", 2_000, 24, 6, 2_000, (10, 5), 64),
    "cifg": Setting("cifg-lstm", 10_000, 2, 3, 9_997, (100, 3), 32),
}


class Work:
    """The work of all sides: one network, one prefix, the same suffixes."""

    def __init__(self, setting: Setting, candidates: int, device: str) -> None:
        model = models.create(setting.model)
        words = [f"w{i}" for i in range(setting.vocabulary - 3)]
        vocabulary = WordVocabulary(words, origin="made up")
        self.module = model.build(vocabulary, seed=1).eval().to(device)
        self.release = LanguageModelRelease(LanguageReader(model, vocabulary), self.module)
        self.setting, self.words, self.device = setting, words, device
        self.before = " ".join(words[: setting.prefix]) + " "
        self.start = torch.tensor([[vocabulary.begin, *range(3, 3 + setting.prefix)]]).to(device)
        own = np.zeros(setting.suffix, dtype=np.int64)
        rng = np.random.default_rng(1)
        pool = min(setting.pool, len(words))
        self.suffixes = random_suffix_words(pool, own, candidates, rng)

    def full(self, batch: int, count: int) -> FloatArray:
        """Losses by full forward passes."""
        tokens = torch.from_numpy(self.suffixes[:count] + 3).to(self.device)
        parts = []
        with torch.no_grad():
            for part in tokens.split(batch):
                rows = torch.cat([self.start.expand(len(part), -1), part], dim=1)
                logits = self.module(rows[:, :-1])[:, -part.shape[1] :]
                parts.append(_losses(logits, part))
        return np.concatenate(parts)

    def resumed(self, batch: int, count: int) -> FloatArray:
        """Losses by going on from the state of the prefix."""
        tokens = torch.from_numpy(self.suffixes[:count] + 3).to(self.device)
        parts = []
        with torch.no_grad():
            state = self.module.prefix_state(self.start[:, :-1])
            for part in tokens.split(batch):
                rows = torch.cat([self.start[:, -1:].expand(len(part), -1), part[:, :-1]], dim=1)
                parts.append(_losses(self.module.resume(rows, state), part))
        return np.concatenate(parts)

    def tree(self, count: int) -> FloatArray:
        """Losses with what suffixes share run once."""
        return self.release.pool_losses(self.before, self.words, self.suffixes[:count])

    def every(self) -> int:
        """The rank of an unlikely secret among all, so that few are left out."""
        size, length = self.setting.space
        own = np.random.default_rng(2).integers(size, size=(200, length))
        words = self.words[:size]
        unlikely = int(self.release.pool_losses(self.before, words, own).argmax())
        return self.release.pool_rank(self.before, words, own[unlikely])


def _losses(logits: Any, targets: Any) -> FloatArray:
    nats = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), reduction="none"
    )
    return nats.view(targets.shape).sum(dim=1).double().cpu().numpy()


def side(options: argparse.Namespace) -> Found:
    """Laps of one side in this process."""
    torch.set_num_threads(1)
    keep_freed_memory()
    setting = SETTINGS[options.models]
    count = 300 if options.quick else options.candidates
    work = Work(setting, count, choose_device(options.device))
    fewer = min(count, 300 if options.side == "one by one" else 2_000)
    expected = work.full(setting.batch, 50)
    for found in (work.tree(50), work.resumed(setting.batch, 50)):
        np.testing.assert_allclose(found, expected, rtol=1e-3)
    ways: dict[str, tuple[int, Callable[[], Any]]] = {
        "full forwards in batches": (fewer, lambda: work.full(setting.batch, fewer)),
        "one by one": (fewer, lambda: work.full(1, fewer)),
        "prefix state": (fewer, lambda: work.resumed(setting.batch, fewer)),
        "tree": (count, lambda: work.tree(count)),
        "all as a tree": (setting.space[0] ** setting.space[1], work.every),
    }
    done, call = ways[options.side]
    watch = Stopwatch(warm_up=0)
    for _ in range(options.laps):
        call()
        watch.lap()
    return watch.found(done)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(SETTINGS), help="by commas")
    parser.add_argument("--candidates", type=int, default=20_000, help="random suffixes")
    parser.add_argument("--laps", type=int, default=3, help="repeats in a process")
    arguments(parser)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(side(options)))
        return
    same = [
        "--candidates",
        str(options.candidates),
        "--device",
        options.device,
        "--laps",
        str(options.laps),
    ]
    same += ["--quick"] if options.quick else []
    out = {}
    for model in options.models.split(","):
        found = in_turns(
            __file__, chosen(options, SIDES), ["--models", model, *same], options.turns
        )
        out[model] = ratios(found, SIDES[0], options.clock)
        if not options.json:
            print_ratios(f"{model}: candidates per second, {SIDES[0]} = 1", out[model])
    if options.json:
        print(json.dumps(out))


if __name__ == "__main__":
    main()
