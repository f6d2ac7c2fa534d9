"""Rows per second of record-level DP-SGD: this engine and Opacus over training without privacy.

All sides train the same rows with Adam on one thread, each in a fresh process, in turns. Every step
takes all rows of a batch, so that all sides do the same work. Opacus is used as its documentation
says, with the sizes of batches fixed: hooks, ghost clipping, functorch and expanded weights. What a
side cannot do is printed in place of its figures.

    python benchmarks/record_level.py [--models bert-2k,bert-30k,...] [--sides ...] [--json]
"""

from __future__ import annotations

import argparse
import copy
import json
from typing import Any, NamedTuple

import numpy as np
import torch
from federated_sides import FusedLSTM
from torch import Tensor, nn
from turns import Figures, Stopwatch, arguments, chosen, in_turns, missing, print_ratios, ratios
from workloads import (
    GPT2_SMALL,
    BertRows,
    Numbers,
    Sizes,
    TorchGPT,
    TorchLSTM,
    TorchMaskedBert,
    language_learner,
    masked_learner,
    numbers_corpus,
    square_lstm,
    stats_of,
)

from uedp_bench.components.registry import mechanisms, models
from uedp_bench.contracts.run_context import Run
from uedp_bench.tasks.language.language_model import LanguageReader
from uedp_bench.training.device import choose_device

MODELS = (
    "bert-2k",
    "bert-30k",
    "bert-mlm-2k",
    "bert-mlm-30k",
    "lstm-2k",
    "lstm-30k",
    "gpt",
    "lstm",
    "default",
)
OPACUS = {"Opacus hooks": "hooks", "Opacus ghost": "ghost", "Opacus functorch": "functorch",
          "Opacus expanded weights": "ew"}  # fmt: skip
SIDES = ("non-private", "engine", *OPACUS)


class Rows(NamedTuple):
    """A batch and those who learn from it.

    Attributes:
        learner: of this project.
        torch_module: what one would train with torch, or None for the learner's own network.
        opacus_module: what Opacus can clip, or why there is none.
        language: True for losses of every token, False for one a row.
    """

    learner: Any
    torch_module: nn.Module | None
    opacus_module: nn.Module | str
    language: bool


def rows_of(model: str, quick: bool, opacus: bool) -> Rows:
    """The batch of a model by name: 64 rows, and 512 (the default of `dp-sgd`) of `default`."""
    count = 8 if quick else 64
    if model.startswith("bert-mlm"):
        masked = masked_learner(count, 64, {"bert-mlm-2k": 2_000, "bert-mlm-30k": 30_000}[model])
        places = masked.batch(np.arange(count), np.zeros(count, np.int64))["places"]
        other = TorchMaskedBert(masked.module, places)
        return Rows(masked, other, other, language=True)
    if model.startswith("bert"):
        learner = BertRows(count, 64, {"bert-2k": 2_000, "bert-30k": 30_000}[model])
        return Rows(learner, None, learner.module, language=False)
    if model in ("lstm-2k", "lstm-30k"):
        words = Numbers({"lstm-2k": 2_000, "lstm-30k": 30_000}[model])
        corpus = numbers_corpus(Sizes(count, 1), words.size)
        own = square_lstm(words.size, 128)
        learner = LanguageReader(models.create("cifg-lstm", {}), words).learner(own, corpus)
        layer = nn.LSTM
        if opacus:
            from opacus.layers import DPLSTM as layer  # noqa: N811
        other = TorchLSTM(words.size, 128, layer)
        return Rows(learner, other, other, language=True)
    learner = language_learner(model, Sizes(count if model != "default" else 100, 1), small=quick)
    if model in ("gpt", GPT2_SMALL):
        other = TorchGPT(copy.deepcopy(learner.module.network))
        return Rows(learner, other, other, language=True)
    if model == "lstm":
        return Rows(learner, FusedLSTM(learner.module), "DPLSTM has no projection", language=True)
    return Rows(learner, None, "Opacus has no CIFG", language=True)


def batch_of(rows: Rows, model: str, quick: bool, device: str) -> tuple[Tensor, Tensor]:
    """Tokens and targets of the whole batch."""
    every = np.arange(len(rows.learner.corpus))
    if model == "default" and not quick:
        every = every[:512]
    batch = rows.learner.batch(every, np.zeros(len(every), np.int64))
    return batch["tokens"].to(device), batch["targets"].to(device)


class TokenLoss(nn.Module):
    """Mean loss of a row's tokens; by row where Opacus asks for it."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none"
        ).view(targets.shape)
        rows = loss.sum(dim=1) / (targets >= 0).sum(dim=1)
        return rows.mean() if self.reduction == "mean" else rows


def criterion(language: bool) -> nn.Module:
    return TokenLoss() if language else nn.CrossEntropyLoss()


def non_private(
    module: nn.Module, batch: tuple[Tensor, Tensor], language: bool, steps: int, watch: Stopwatch
) -> None:
    """Adam on the mean loss."""
    tokens, targets = batch
    module.train()
    loss_of = criterion(language)
    optimizer = torch.optim.Adam(module.parameters(), lr=0.01)
    watch.start()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(module(tokens), targets).backward()
        optimizer.step()
        watch.lap()


def opacus(
    rows: Rows, batch: tuple[Tensor, Tensor], mode: str, steps: int, watch: Stopwatch
) -> None:
    """Adam on clipped gradients with noise, by one of Opacus' ways to clip them."""
    from opacus import PrivacyEngine

    if isinstance(rows.opacus_module, str):
        raise NotImplementedError(rows.opacus_module)
    tokens, targets = batch
    module = rows.opacus_module.to(tokens.device).train()
    data = torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(tokens, targets), batch_size=len(tokens)
    )
    private_parts = PrivacyEngine().make_private(
        module=module, optimizer=torch.optim.Adam(module.parameters(), lr=0.01), data_loader=data,
        criterion=criterion(rows.language), noise_multiplier=0.8, max_grad_norm=1.0,
        poisson_sampling=False, grad_sample_mode=mode,
    )  # fmt: skip
    if mode == "ghost":
        module, optimizer, loss_of, _ = private_parts
    else:
        (module, optimizer, _), loss_of = private_parts, criterion(rows.language)
    watch.start()
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(module(tokens), targets).backward()
        optimizer.step()
        watch.lap()


def engine(rows: Rows, count: int, steps: int, watch: Stopwatch, device: str) -> None:
    """The mechanism `dp-sgd` with Adam, its default."""
    learner = rows.learner
    learner.corpus = learner.corpus.take(np.arange(count))
    mechanism = mechanisms.create(
        "dp-sgd", {"records": count, "batch_size": count, "steps": steps, "learning_rate": 0.01}
    )
    run = Run(1, stats_of(learner.corpus), device=device, progress=lambda *_: watch.lap())
    watch.start()
    mechanism.train(learner, learner.corpus, run)


def one_side(options: argparse.Namespace) -> Figures:
    """Figures that the process of one side prints."""
    side, device = options.side, options.device
    if side in OPACUS and (answer := missing("opacus", "pip install opacus")) is not None:
        return answer
    torch.set_num_threads(options.threads)
    rows, watch = rows_of(options.models, options.quick, side in OPACUS), Stopwatch(warm_up=2)
    tokens, targets = batch_of(rows, options.models, options.quick, device)
    count = len(tokens)
    if side in OPACUS:
        try:
            opacus(rows, (tokens, targets), OPACUS[side], options.steps, watch)
        except Exception as error:  # what a peer cannot do belongs into the table
            return {"missing": f"cannot: {' '.join(str(error).split())[:90] or repr(error)}"}
    elif side == "engine":
        engine(rows, count, options.steps, watch, choose_device(device, options.threads))
    else:
        module = copy.deepcopy(rows.torch_module or rows.learner.module).to(device)
        non_private(module, (tokens, targets), rows.language, options.steps, watch)
    return watch.figures(count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments(parser, MODELS)
    parser.add_argument("--steps", type=int, default=12, help="the first two do not count")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(one_side(options)))
        return
    out = {}
    for model in options.models.split(","):
        same = ["--models", model, "--steps", str(options.steps), "--device", options.device,
                "--threads", str(options.threads)]  # fmt: skip
        same += ["--quick"] if options.quick else []
        sides = chosen(options, SIDES)
        figures = in_turns(__file__, sides, same, options.turns)
        out[model] = ratios(figures, sides[0], options.clock)
        if not options.json:
            print_ratios(f"{model}: rows per second, {sides[0]} = 1", out[model])
    if options.json:
        print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
