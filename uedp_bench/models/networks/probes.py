"""Probes of a network: what an output may not depend on, tried on random tokens.

No private row is read. Outputs are compared relative to their own range, which rounding moves by
about 1e-6 in single precision, and by a few units in the last place of a half-precision network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.errors import InputError

NEAR = 1e-4
"""Distance of two outputs, as a share of their range, that counts as rounding in float32."""

ULPS = 4.0
"""Tolerance of networks in half precision, in units of the last place of 1."""

LONGEST = 1024
"""Tokens of the longest row that is tried; a longer limit is not."""

_LENGTH = 8
"""Tokens of a row."""

_LEAST = -100.0
"""Log-probabilities below count as this: a network may bar tokens by logits of -1e9, and their
range would hide all else."""

Outputs = Callable[[Tensor, Tensor], Tensor]
"""Outputs (rows, length, ...) or (rows, size) of tokens (rows, length) and lengths (rows,)."""


def log_probabilities(module: nn.Module) -> Outputs:
    """Log-probabilities (rows, length, vocabulary) of the logits that a language model gives."""

    def outputs(tokens: Tensor, lengths: Tensor) -> Tensor:
        return torch.log_softmax(module(tokens).double(), dim=-1).clamp(min=_LEAST)

    return outputs


class Probe(NamedTuple):
    """A network and the rows that it takes.

    Attributes:
        name: name of the network, for messages.
        module: the network.
        outputs: function that asks it for outputs.
        vocabulary: its tokens.
        limit: most tokens of a row; None for any number.
    """

    name: str
    module: nn.Module
    outputs: Outputs
    vocabulary: Vocabulary
    limit: int | None

    def check_causal(self) -> None:
        """Refuse log-probabilities (`log_probabilities`) that depend on a later token.

        Raises:
            InputError: if they do.
        """
        row = self._row(self._length)
        if len(row) < 2:
            return
        places = sorted({1, len(row) // 2, len(row) - 1})
        rows = row.repeat(1 + len(places), 1)
        for number, at in enumerate(places, 1):
            # Every later token is another one, the end among them.
            rows[number, at:] = (row[at:] + 1).remainder(self.vocabulary.size)
        with _probing(self.module):
            logs = self.outputs(rows, torch.full((len(rows),), len(row)))
        for number, at in enumerate(places, 1):
            if moved := _moved(logs[0, :at], logs[number, :at], self._near):
                raise InputError(
                    f"{self.name} reads the tokens that it is to predict: other tokens from place "
                    f"{at + 1} on move its log-probabilities of earlier ones by {moved}. A "
                    "language model sees the tokens before its target alone (a network of BERT's "
                    "kind: is_decoder is true in its configuration)"
                )

    def check_rows(self) -> None:
        """Refuse a network whose rows depend on each other, or are shorter than they should be.

        Raises:
            InputError: as `check_padding` and `check_longest`.
        """
        self.check_longest()
        self.check_padding()

    def check_padding(self) -> None:
        """Refuse outputs of a row that depend on padding, or on rows beside it.

        Raises:
            InputError: if they do, or if the network takes no rows of different lengths.
        """
        long = self._row(self._length)
        short = self._row(max(1, min(len(long) - 1, 4)))
        padding = torch.full((len(long) - len(short),), self.vocabulary.end)
        rows = torch.stack([torch.cat([short, padding]), long])
        with _probing(self.module):
            try:
                alone = self.outputs(short[None], torch.tensor([len(short)]))[0]
                beside = self.outputs(rows, torch.tensor([len(short), len(long)]))[0]
            except (ValueError, RuntimeError, IndexError) as error:
                raise InputError(
                    f"{self.name} takes no rows of different lengths: {_first_line(error)}"
                ) from error
        if alone.dim() > 1:
            beside = beside[: len(short)]
        if moved := _moved(alone, beside, self._near):
            raise InputError(
                f"{self.name} gives a row another output beside a longer row than alone, so that "
                f"the loss of a row is not its own: it moves by {moved}"
            )

    def check_longest(self) -> None:
        """Refuse a limit on the tokens of a row that the network itself does not take.

        Raises:
            InputError: if a row of so many tokens is an error.
        """
        if self.limit is None or self.limit > LONGEST:
            return
        with _probing(self.module):
            try:
                self.outputs(self._row(self.limit)[None], torch.tensor([self.limit]))
            except (ValueError, RuntimeError, IndexError) as error:
                raise InputError(
                    f"{self.name} fails at a row of {self.limit} tokens, which its configuration "
                    f"allows: {_first_line(error)}. Give a smaller max_length"
                ) from error

    @property
    def _near(self) -> float:
        types = (weight.dtype for weight in self.module.parameters() if weight.is_floating_point())
        return max((NEAR, *(ULPS * torch.finfo(each).eps for each in {*types})))

    @property
    def _length(self) -> int:
        return _LENGTH if self.limit is None else max(1, min(_LENGTH, self.limit))

    def _row(self, length: int) -> Tensor:
        """(length,) begin, random tokens, and the end where there is room for it."""
        random = torch.Generator().manual_seed(length)
        row = self._inner[torch.randint(len(self._inner), (length,), generator=random)]
        row[-1] = self.vocabulary.end
        row[0] = self.vocabulary.begin
        return row

    @property
    def _inner(self) -> Tensor:
        """Tokens that neither begin nor end a row."""
        marks = {self.vocabulary.begin, self.vocabulary.end}
        inner = [at for at in range(min(self.vocabulary.size, 1000)) if at not in marks]
        return torch.tensor(inner or [0])


def _moved(first: Tensor, second: Tensor, near: float) -> str:
    """Distance that outputs moved, and their range, in words; empty where rounding explains it."""
    first, second = first.double(), second.double()
    distance = torch.where(first == second, 0.0, (first - second).abs())
    finite = first[torch.isfinite(first)]
    span = float(finite.max() - finite.min()) if len(finite) else 0.0
    most = float(distance.max())
    return "" if most <= near * span else f"{most:.3g} of a range of {span:.3g}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


@contextmanager
def _probing(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the mode comes back."""
    training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(training)
