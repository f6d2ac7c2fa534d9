"""Users per second of DP-FedAvg with several local steps: this engine, a plain loop, and peers.

All sides train the same users on the same network on one thread, each in a fresh process, in turns.
First all of them are checked to end at the same weights: a few users, all rows a step, no noise.
A peer that is not installed is skipped, with a word on how to install it.

    python benchmarks/federated_peers.py [--models gpt,lstm,default] [--sides ...] [--json]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import torch
from federated_sides import Work, needs, weights_of
from turns import Figures, Stopwatch, arguments, chosen, in_turns, missing, print_ratios, ratios
from workloads import MODELS, Sizes

SIDES = ("plain loop", "engine", "pfl-research", "Flower")


def work_of(options: argparse.Namespace) -> Work:
    """The work of a process for `--model`."""
    small, checked = options.quick, bool(options.weights)
    rows = 4 if small else 16
    users = 4 if small else (6 if checked else options.users)
    if options.models == "default" and not checked and not small:
        users = 100  # users_per_round of user-dp
    work = Work(options.models, Sizes(users, rows), small, options.rounds, device=options.device)
    if checked:  # what the order of rows and the noise cannot change
        return work._replace(rounds=2, epochs=2, batch_size=0, noise=0.0)
    if options.models == "default":  # most users have fewer rows than a batch
        return work._replace(epochs=5, batch_size=0)
    return work


def one_side(options: argparse.Namespace) -> Figures:
    """Figures that the process of one side prints."""
    for package, install in needs(options.side):
        if (answer := missing(package, install)) is not None:
            return answer
    torch.set_num_threads(1)
    torch.manual_seed(1)
    work, watch = work_of(options), Stopwatch()
    weights = weights_of(options.side, work, watch)
    if options.weights:
        torch.save(weights, options.weights)
    return watch.figures(work.sizes.users)


def check(sides: list[str], same: list[str]) -> None:
    """Raise `AssertionError` if a side ends at other weights than the plain loop."""
    with tempfile.TemporaryDirectory() as folder:
        ends = {}
        for number, side in enumerate(sides):
            path = Path(folder) / f"{number}.pt"
            figures = in_turns(__file__, [side], [*same, "--weights", str(path)], turns=1)
            if "missing" not in figures[side][0]:
                ends[side] = torch.load(path)
        for side, weights in ends.items():
            torch.testing.assert_close(
                weights, ends[sides[0]], rtol=1e-3, atol=1e-5,
                msg=lambda text, side=side: f"{side} ends elsewhere: {text}",
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments(parser, MODELS)
    parser.add_argument("--users", type=int, default=40, help="users of a round; 'default' has 100")
    parser.add_argument("--rounds", type=int, default=4, help="the first does not count")
    parser.add_argument("--unchecked", action="store_true", help="leave out the check of weights")
    parser.add_argument("--weights", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(one_side(options)))
        return
    out = {}
    for model in options.models.split(","):
        sides = chosen(options, SIDES)
        same = ["--models", model, "--users", str(options.users), "--rounds", str(options.rounds),
                "--device", options.device, *(["--quick"] if options.quick else [])]  # fmt: skip
        if not options.unchecked:
            check(sides, same)
        figures = in_turns(__file__, sides, same, options.turns)
        out[model] = ratios(figures, sides[0], options.clock)
        if not options.json:
            print_ratios(f"{model}: users per second, {sides[0]} = 1", out[model])
    if options.json:
        print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
