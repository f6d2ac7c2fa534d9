"""A compiled network as one party runs it, and what it asks of the dealer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor

from uedp_bench.mechanisms.secure_inference.engine.correlations import (
    SERVER,
    Correlation,
    Shape,
    Spec,
)
from uedp_bench.mechanisms.secure_inference.engine.dealer import Recorder, Supply, mask_of_weights
from uedp_bench.mechanisms.secure_inference.engine.exchange import Steps, receive, send
from uedp_bench.mechanisms.secure_inference.engine.layers import Layer
from uedp_bench.mechanisms.secure_inference.engine.protocol import Party, Truncation

Reveals = Literal["label", "logits"]


@dataclass(frozen=True)
class Program:
    """Public part of the protocol: no weight and no input.

    Attributes:
        layers: layers from inputs to logits.
        inputs: shape of one row.
        weights: names of layers with the shapes of the server's weights.
        reveals: answer that the client sees.
        truncation, width: of `Party`.
    """

    layers: Layer
    inputs: Shape
    weights: tuple[tuple[str, Shape], ...]
    reveals: Reveals
    truncation: Truncation
    width: Literal[32, 64]

    def party(self, supply: Supply, *, keep: bool = False) -> Party:
        """A party that has seen nothing yet."""
        if keep:
            supply.kept = []
        return Party(supply, self.truncation, self.width, opened=[] if keep else None)

    def show_weights(self, party: Party) -> Steps[None]:
        """The server shows its weights under a mask, once for all batches; one round."""
        if party.leads:
            seed = party.supply.seed
            yield from send(*(
                party.weights[name] - mask_of_weights(seed, name, shape)
                for name, shape in self.weights
            ))  # fmt: skip
        else:
            shown = yield from receive(*(Spec(shape) for _, shape in self.weights))
            party.weights = {name: x for (name, _), x in zip(self.weights, shown, strict=True)}
            party.note(*shown)

    def answer(self, party: Party, share: Tensor) -> Steps[Tensor | None]:
        """The answer for one batch; None on the server's side.

        Args:
            party: after `show_weights`.
            share: share of the inputs (rows, *inputs): the client's is the inputs, the server's 0.
        """
        answer_share = yield from self.layers.run(party, share)
        if self.reveals == "label":
            answer_share = yield from party.arg_max(answer_share)
        if party.leads:
            yield from send(answer_share)
            return None
        (other,) = yield from receive(Spec(tuple(answer_share.shape)))
        return answer_share + other

    def share_of(self, party: int, rows: int, inputs: Tensor | None = None) -> Tensor:
        """A party's share of the inputs: nothing that the client has leaves it."""
        if inputs is None or party == SERVER:
            return torch.zeros((rows, *self.inputs), dtype=torch.int64)
        return inputs


@lru_cache(maxsize=16)
def plan_of(program: Program, rows: int) -> tuple[Correlation, ...]:
    """Correlations that a batch needs; shapes decide them, so one side is run on zeros."""
    recorder = Recorder()
    party = program.party(recorder)
    party.weights = {name: _blank(shape) for name, shape in program.weights}
    dry_run(program.answer(party, _blank((rows, *program.inputs))))
    return tuple(recorder.correlations)


def dry_run(steps: Steps[Any]) -> None:
    """Runs one side of a protocol against nobody: it receives zeros."""
    try:
        exchange = next(steps)
        while True:
            exchange = steps.send([_blank(spec.shape, spec.dtype) for spec in exchange.receive])
    except StopIteration:
        return


def _blank(shape: Shape, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.zeros(shape, dtype=dtype)
