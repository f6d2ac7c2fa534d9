"""Costs of two parties that classify texts without showing them: Table 2 of Adams et al. 2021.

    OMP_NUM_THREADS=1 python benchmarks/secure_inference.py

The paper's network (7,078 weights) is trained for a moment on vectors of 768 numbers that are drawn
by chance; the protocol's cost depends on shapes alone. Both parties and the dealer run in this
process, and CPU seconds are of all three together. Modelled seconds add rounds and bytes on two
networks, one after the other. `--quick` takes few texts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from uedp_bench.mechanisms.secure_inference.computed_labels import LAN, WAN
from uedp_bench.mechanisms.secure_inference.engine.compile import (
    ArgMax,
    Branches,
    SecureConfig,
    Traffic,
    compile_network,
)

SIZE, CLASSES = 768, 2
KERNELS, CHANNELS, POOLS = ((4, 2, 3), (8, 3, 4), (16, 4, 5)), (2, 4, 6), (3, 4, 5)
ROUNDING = 2e-4
"""Logits of both sides are off by half of it at most: closer ones may change places."""

PAPER = {200: (151, 21), 1000: (734, 110)}
"""Seconds one by one and batched on machines of 16 processors; Table 2."""


def vectors(rows: int, seed: int) -> Tensor:
    """Inputs between -8 and 8."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 1, SIZE, generator=generator).clamp(-8, 8)


def branch(kernels: tuple[int, ...]) -> nn.Sequential:
    """One of the three columns of figure 2."""
    parts: list[nn.Module] = []
    for inputs, outputs, kernel, pool in zip(
        (1, *CHANNELS), CHANNELS, kernels, POOLS, strict=False
    ):
        parts += [nn.Conv1d(inputs, outputs, kernel), nn.ReLU(), nn.MaxPool1d(pool)]
    return nn.Sequential(*parts, nn.Flatten())


def trained() -> nn.Sequential:
    """The paper's network after 100 steps towards a linear rule."""
    torch.manual_seed(0)
    network = nn.Sequential(
        Branches(map(branch, KERNELS)), nn.Linear(204, 32), nn.Linear(32, CLASSES)
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=0.002)
    inputs = vectors(1000, seed=1)
    labels = (inputs[:, 0, :64].sum(1) > 0).long()
    for step in range(100):
        rows = torch.arange(50) + 50 * step % 1000
        optimizer.zero_grad()
        nn.functional.cross_entropy(network(inputs[rows]), labels[rows]).backward()
        optimizer.step()
    return network.eval()


def linear() -> nn.Sequential:
    """The linear classifier of the same inputs."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(SIZE, CLASSES))


def taken(network: nn.Sequential, rows: int, **options: Any) -> tuple[Traffic, float, float]:
    """Traffic of answering so many texts, bound of failures, and CPU seconds of everything."""
    secure = compile_network(nn.Sequential(*network, ArgMax()), (1, SIZE), SecureConfig(**options))
    inputs = vectors(rows, seed=2)
    start = time.process_time()
    traffic = secure.infer(inputs).traffic
    return traffic, secure.failure(rows), time.process_time() - start


def batches(network: nn.Sequential, sizes: list[int]) -> Iterator[str]:
    """Texts one by one and in one batch."""
    yield "| texts | | rounds | MB a party | MB of the dealer | CPU s | LAN s | WAN s | paper, s |"
    yield "| --: | :-- | --: | --: | --: | --: | --: | --: | --: |"
    for rows in sizes:
        for at, (label, together) in enumerate((("one by one", 1), ("batched", rows))):
            traffic, _, seconds = taken(network, rows, batch_rows=together)
            paper = PAPER.get(rows, ("", ""))[at]
            yield f"| {rows:,} | {label} | {cells(traffic, seconds)} | {paper} |"


def variants(network: nn.Sequential, rows: int) -> Iterator[str]:
    """Ways to compute, and the linear classifier, on one batch."""
    head = "rounds | MB a party | MB of the dealer | CPU s | LAN s | WAN s"
    yield f"| {rows:,} texts | {head} | fails, at most |"
    yield "| :-- | --: | --: | --: | --: | --: | --: | --: |"
    wide = 2.0**20
    sides: dict[str, tuple[nn.Sequential, dict[str, Any]]] = {
        "compared at 32 bits": (network, {}),
        "compared at 64 bits": (network, {"value_range": wide}),
        "each party truncates": (network, {"truncation": "local"}),
        "with the sigmoid": (nn.Sequential(*network, nn.Sigmoid()), {"keep_sigmoid": True}),
        "linear classifier": (linear(), {}),
    }
    for label, (side, options) in sides.items():
        traffic, failure, seconds = taken(side, rows, batch_rows=rows, **options)
        yield f"| {label} | {cells(traffic, seconds)} | {failure:.2g} |"


def cells(traffic: Traffic, seconds: float) -> str:
    """Figures of one line."""
    traffic = replace(traffic, offline_seconds=seconds, online_seconds=0.0)
    party, dealer = (x / 1e6 for x in (traffic.bytes_party, traffic.bytes_dealer))
    lan, wan = traffic.seconds(*LAN), traffic.seconds(*WAN)
    return (
        f"{traffic.rounds:,} | {party:,.2f} | {dealer:,.2f} | {seconds:,.2f} | {lan:,.1f} | "
        f"{wan:,.1f}"
    )


def agreement(network: nn.Sequential, rows: int) -> Iterator[str]:
    """Labels and logits beside those of PyTorch."""
    inputs = vectors(rows, seed=3)
    closed = nn.Sequential(*network, ArgMax())
    answers = compile_network(closed, (1, SIZE), SecureConfig(reveals="logits")).infer(inputs)
    labels = compile_network(closed, (1, SIZE)).infer(inputs).labels
    with torch.no_grad():
        plain = network(inputs)
    if answers.logits is None:
        raise AssertionError("logits were asked for")
    off = float((answers.logits - plain).abs().max())
    margins = (plain[:, 0] - plain[:, 1]).abs()
    near = margins < ROUNDING
    same = labels == plain.argmax(1)
    yield f"logits differ by at most {off:.1e}; {int(same.sum()):,} of {rows:,} labels agree"
    for row in near.nonzero().flatten().tolist():
        verdict = "agrees" if same[row] else "differs"
        yield f"row {row} has a margin of {float(margins[row]):.1e}, and its label {verdict}"
    if not bool(same[~near].all()):
        raise SystemExit("a label differs that is not near a tie")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few texts")
    quick = parser.parse_args().quick
    network = trained()
    taken(network, 2)  # what is loaded at first use
    for lines in (
        batches(network, [1, 5] if quick else [1, 50, 200, 1000]),
        variants(network, 10 if quick else 200),
        agreement(network, 50 if quick else 2000),
    ):
        print("\n".join(lines), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
