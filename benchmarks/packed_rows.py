"""Recurrent layers with and without the padding of short rows: CPU seconds, in turns.

    python benchmarks/packed_rows.py [--units 512 1150] [--turns 3] [--json]

A batch has 64 rows of up to 40 words, 15 on average, and is padded to 40. A turn computes outputs
and gradients of one LSTM layer with the padding, then without it. Layers of every size are packed
here; training packs those of `recurrence_packing.LARGE` recurrent weights and more. Each ratio is
the median of those of the turns. Gradients must agree.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time

import torch
from torch import Tensor

from uedp_bench.models.fast import recurrence_packing
from uedp_bench.models.fast.recurrence import recurrence
from uedp_bench.models.fast.recurrence_tables import CellWeights

ROWS, STEPS, MEAN = 64, 40, 15.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, nargs="+", default=[512, 1150])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    recurrence_packing.LARGE = 0
    found = {units: compare(units, options.turns) for units in options.units}
    if options.json:
        print(json.dumps(found))
        return
    words = int(lengths_of_rows().sum())
    print(f"{words:,} words of {ROWS * STEPS:,} places; CPU seconds without the padding")
    for units, share in found.items():
        print(f"{units:>6} units: {share:.2f} of those with it")


def lengths_of_rows() -> Tensor:
    """(ROWS,) words of each row, exponentially distributed and cut; one row is full."""
    drawn = torch.empty(ROWS).exponential_(1 / MEAN, generator=torch.Generator().manual_seed(0))
    lengths = drawn.ceil().clamp(1, STEPS).long()
    lengths[0] = STEPS
    return lengths


def compare(units: int, turns: int) -> float:
    """CPU seconds of a pass without the padding, over those of one with it."""
    generator = torch.Generator().manual_seed(1)

    def normal(*shape: int) -> Tensor:
        drawn: Tensor = torch.randn(*shape, generator=generator) / units**0.5
        return drawn

    recurrent = normal(4 * units, units).requires_grad_()
    weights = CellWeights(
        normal(4 * units, units).requires_grad_(), recurrent, normal(4 * units), None
    )
    inputs, lengths = normal(ROWS, STEPS, units), lengths_of_rows()
    counted = (torch.arange(STEPS) < lengths[:, None])[:, :, None]
    state = (torch.zeros(ROWS, units), torch.zeros(ROWS, units))

    def one(known: Tensor | None) -> tuple[float, Tensor]:
        start = time.process_time()
        outputs, _ = recurrence(inputs, state, weights, None, coupled=False, lengths=known)
        (gradient,) = torch.autograd.grad((outputs * counted).square().sum(), recurrent)
        return time.process_time() - start, gradient

    shares = []
    for turn in range(turns + 1):
        (padded, expected), (packed, gradient) = one(None), one(lengths)
        largest = float(expected.abs().max())
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-4 * largest)
        if turn:  # the first one warms up
            shares.append(packed / padded)
    return statistics.median(shares)


if __name__ == "__main__":
    main()
