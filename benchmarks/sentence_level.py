"""Rows per second of sentence-level and one-step user-level training over training without privacy.

`uedp-group` clips every sentence's gradient, `user-dp` with one local step that of a user's rows,
`uedp-spread` both. All sides train the same rows of the same users with Adam at the server, on one
thread, each in a fresh process, in turns; without privacy, rows come in batches of 64. Then the
peak memory as users are added to a round.

    python benchmarks/sentence_level.py [--models gpt,lstm,default] [--users 40] [--json]
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch
from federated_sides import FusedLSTM
from record_level import TokenLoss
from torch import nn
from turns import Figures, Stopwatch, arguments, chosen, in_turns, print_ratios, ratios
from workloads import MODELS, Sizes, language_learner, stats_of

from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.learner import Learner
from uedp_bench.contracts.run_context import Run
from uedp_bench.training.device import choose_device

MECHANISMS = {
    "sentences (uedp-group)": "uedp-group",
    "users of one step (user-dp)": "user-dp",
    "both (uedp-spread)": "uedp-spread",
}
SIDES = ("non-private", *MECHANISMS)
_BATCH = 64


def settings(name: str, users: int, rows: int, rounds: int) -> dict[str, object]:
    """Parameters with which every row takes part in every round; noise is given, not searched."""
    server = {"server_optimizer": "adam", "server_learning_rate": 0.01, "noise_multiplier": 1.0}
    if name == "uedp-group":
        own: dict[str, object] = {"sampling_rate": 1.0, "sentences_per_user": rows}
    else:
        own = {"users_per_round": users}
        if name == "uedp-spread":
            own["sentences_per_user"] = rows
    return {"users": users, "rounds": rounds, **server, **own}


def private(name: str, learner: Learner, rounds: int, watch: Stopwatch, device: str) -> None:
    """A mechanism of this project at its defaults."""
    stats = stats_of(learner.corpus)
    most = int(learner.corpus.rows_of_user.counts.max())
    mechanism = mechanisms.create(name, settings(name, stats.users, most, rounds))
    run = Run(1, stats, device=device, progress=lambda *_: watch.lap())
    watch.start()
    mechanism.train(learner, learner.corpus, run)


def non_private(learner: Learner, rounds: int, watch: Stopwatch, device: str) -> None:
    """Adam on batches; a lap is all rows once. `nn.LSTM` where the network is one."""
    rows = len(learner.corpus)
    own = learner.module
    lstm = type(own).__name__ == "RecurrentNetwork" and not own.shape.layers[0].coupled  # type: ignore[union-attr,index]
    module: nn.Module = (FusedLSTM(own) if lstm else own).to(device).train()
    batch = learner.batch(np.arange(rows), np.zeros(rows, np.int64))
    tokens, targets = batch["tokens"].to(device), batch["targets"].to(device)
    optimizer, loss_of = torch.optim.Adam(module.parameters(), lr=0.01), TokenLoss()
    watch.start()
    for _ in range(rounds):
        for chosen_rows in torch.randperm(rows).split(_BATCH):
            optimizer.zero_grad()
            loss_of(module(tokens[chosen_rows]), targets[chosen_rows]).backward()
            optimizer.step()
        watch.lap()


def one_side(options: argparse.Namespace) -> Figures:
    """Figures that the process of one side prints."""
    torch.set_num_threads(options.threads)
    sizes = Sizes(options.users, 4 if options.quick else 16)
    learner, watch = language_learner(options.models, sizes, small=options.quick), Stopwatch()
    if options.side in MECHANISMS:
        device = choose_device(options.device, options.threads)
        private(MECHANISMS[options.side], learner, options.rounds, watch, device)
    else:
        non_private(learner, options.rounds, watch, options.device)
    return watch.figures(len(learner.corpus))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments(parser, MODELS)
    parser.add_argument("--users", type=int, default=40, help="users of a round")
    parser.add_argument("--rounds", type=int, default=4, help="the first does not count")
    parser.add_argument("--grow", default="8", help="times as many users, for memory alone")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(one_side(options)))
        return
    sides, out = chosen(options, SIDES), {}
    users = 4 if options.quick else options.users
    same = ["--device", options.device, "--threads", str(options.threads)]
    same += ["--quick"] if options.quick else []
    for model in options.models.split(","):

        def run(
            names: list[str], factor: int, rounds: int, turns: int, model: str = model
        ) -> dict[str, list[Figures]]:
            sizes = ["--users", str(users * factor), "--rounds", str(rounds)]
            return in_turns(__file__, names, ["--models", model, *sizes, *same], turns)

        figures = run(sides, 1, options.rounds, options.turns)
        out[model] = ratios(figures, sides[0], options.clock)
        for factor in (int(part) for part in options.grow.split(",") if part):
            for side, results in run(sides[1:], factor, 2, 1).items():
                grown = results[0].get("peak_mb", 0.0) / figures[side][0].get("peak_mb", 1.0)
                out[model][side][f"memory with {factor} times the users"] = round(grown, 3)
        if not options.json:
            print_ratios(f"{model}: rows per second, {sides[0]} = 1", out[model])
            for side in sides[1:]:
                grown = {k: v for k, v in out[model][side].items() if k.startswith("memory with")}
                print(f"  {side}: " + ", ".join(f"{name} {v:.2f}" for name, v in grown.items()))
    if options.json:
        print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
