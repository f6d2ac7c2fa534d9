"""Layers whose updates leak, and the tokens and labels of which an update was made.

A token that a text does not have changes nothing in a table of inputs alone: its row is exactly 0,
however many steps of whatever optimiser were taken (its gradient is 0 in each, so momentum and
Adam's averages stay 0), and weight decay moves it along itself. In a table that is the output's
too, every row moves, but the tokens that a text has move against all others: the gradient of
row v is the sum over places t of (p_t(v) - [v comes next at t]) h_t, and what is added for tokens
that are read is theirs alone. So does a bias of the outputs, for the same reason. Tokens that the
network expects more often than they come are missed by both. Under noise what is left is a test on
the norm of each row.

Where vectors of tokens are public and not trained, the change of a weight that multiplies them is,
after any number of steps of SGD, a sum of products d x^T, x the vector of a token that was read:
its rows lie in the span of these vectors (Petrov et al. 2024, arXiv:2405.15586, theorem 1, for
linear layers in general). As long as there are fewer different tokens than a vector has numbers,
vectors of all others lie outside of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from uedp_bench.api import BoolArray, CapabilityError
from uedp_bench.api.networks import EmbedsTokens, HasOutputLayer, ReadsTokenVectors

if TYPE_CHECKING:
    from torch import Tensor, nn

Array = NDArray[Any]


class Place(NamedTuple):
    """The place of one weight in the flat weights."""

    start: int
    shape: tuple[int, ...]

    def weight_in(self, flat: Array) -> Array:
        """Weight of this place in flat weights (d,), in its own shape."""
        return flat[self.start : self.start + int(np.prod(self.shape))].reshape(self.shape)


class Layers(NamedTuple):
    """The layers of a network that tell what it reads and predicts, as far as they are trained.

    Attributes:
        size: d, trainable weights of the network.
        embedding: (vocabulary, size) its table of token vectors; None where it is not trained.
        tied: the output layer reads the same table.
        output: (outputs, size) weight of the output layer, if it is trained.
        bias: (outputs,) its bias, if there is one that is trained.
        frozen: (vocabulary, size) the table where it is not trained; None where it is.
        readers: (outputs, inputs) trained weights whose first inputs are vectors of a frozen table.
    """

    size: int
    embedding: Place | None
    tied: bool
    output: Place | None
    bias: Place | None
    frozen: Array | None = None
    readers: tuple[Place, ...] = ()

    @staticmethod
    def from_module(module: nn.Module) -> Layers:
        """Layers that the parts of a network declare.

        Raises:
            CapabilityError: if none of its parts says in which table it looks tokens up, or which
                layer makes its logits.
        """
        table, output, bias = _declared(module)
        if table is None and output is None:
            raise CapabilityError(
                f"no part of the network {type(module).__name__} says in which table it looks "
                "tokens up (`token_embedding`), nor which layer makes its logits (`output_layer`)"
            )
        places: dict[int, Place] = {}
        at = 0
        for weight in module.parameters():
            if weight.requires_grad:
                places[id(weight)] = Place(at, tuple(weight.shape))
                at += weight.numel()

        def place(weight: Tensor | None) -> Place | None:
            return None if weight is None else places.get(id(weight))

        frozen = None if table is None or id(table) in places else table.detach().cpu().numpy()
        readers = [place(weight) for weight in _readers(module)] if frozen is not None else []
        return Layers(
            at, place(table), table is output, place(output), place(bias), frozen,
            tuple(reader for reader in readers if reader is not None),
        )  # fmt: skip

    def labels_of(self, change: Array) -> Array | None:
        """(outputs,) rise of each label's bias in a change (d,); None without a bias.

        The gradient of a bias is the mean of p(label) - [it is the label] (Zhao et al. 2020): it is
        positive for labels that no row has, in each step. So labels that rise are there; those that
        the network expects more often than they are need not rise.
        """
        return None if self.bias is None else self.bias.weight_in(change)


def _readers(module: nn.Module) -> Sequence[Tensor]:
    """Weights that multiply vectors of tokens, as far as the network says which."""
    declared = (
        part.token_readers() for part in module.modules() if isinstance(part, ReadsTokenVectors)
    )
    return next(declared, ())


def _declared(module: nn.Module) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """The table of token vectors, and weight and bias of the output layer."""
    tables = (part.token_embedding() for part in module.modules() if isinstance(part, EmbedsTokens))
    outputs = (part.output_layer() for part in module.modules() if isinstance(part, HasOutputLayer))
    weight, bias = next((layer for layer in outputs if layer is not None), (None, None))
    return next(tables, None), weight, bias


_SPARE = 4
"""Numbers of a vector beyond the rank: with fewer, other tokens come too near to the span."""

_OUTSIDE = 1e-3
"""Share of a vector's length outside of the span with which it still counts as inside."""


def spanned(table: Array, changes: Sequence[Array], before: Sequence[Array]) -> BoolArray:
    """(vocabulary,) True for tokens whose vectors lie in the span of the changes.

    None are named where the changes span (nearly) everything: there were too many tokens, or there
    is noise.

    Args:
        table: (vocabulary, size) vectors.
        changes: (outputs, inputs) of weights whose first `size` inputs are a token's vector.
        before: the same weights, for how far float32 has rounded their differences.
    """
    size = table.shape[1]
    rows = np.concatenate([change[:, :size] for change in changes])
    rounded = max(float(np.abs(each).max()) for each in before) * _EPS
    _, values, directions = np.linalg.svd(rows, full_matrices=False)
    rank = int((values > 4.0 * rounded * np.sqrt(rows.size)).sum())
    lengths = np.linalg.norm(table, axis=1)
    if not 0 < rank <= size - _SPARE:
        return np.zeros(len(table), dtype=bool)
    inside = directions[:rank]
    outside = np.linalg.norm(table - (table @ inside.T) @ inside, axis=1)
    in_span: BoolArray = (lengths > 0.0) & (outside < _OUTSIDE * lengths)
    return in_span


_EIGHT_BITS = 256
_EPS = float(np.finfo(np.float32).eps)


def tokens_in_update(
    change: Array, before: Array | None, layers: Layers, *, noisy: bool, false_tokens: float
) -> BoolArray | None:
    """(vocabulary,) True for tokens that the text seems to have; None where no row tells.

    Args:
        change: (d,) change of the weights.
        before: (d,) weights that it started from, if they are known.
        layers: layers of the network.
        noisy: noise was added to it.
        false_tokens: expected number of tokens that the test takes for the text's where noise is
            all there is.
    """
    table = layers.embedding
    if table is None:
        return _of_frozen_table(change, before, layers, noisy=noisy)
    rows = table.weight_in(change).astype(np.float64)
    if layers.tied and layers.bias is not None:
        rows = np.concatenate([rows, layers.bias.weight_in(change)[:, None]], axis=1)
    rate = min(false_tokens / len(rows), 1.0)
    if noisy and layers.tied:  # two tests share what may be wrong
        return beyond_noise(rows, rate / 2.0) | against_the_crowd(rows, rate / 2.0)
    if noisy:
        return beyond_noise(rows, rate)
    if layers.tied:
        away = against_the_crowd(rows)
        return away if layers.bias is None else away | (layers.bias.weight_in(change) > 0)
    start = None if before is None else table.weight_in(before).astype(np.float64)
    changed = moved(rows, start)
    return beyond_noise(rows, rate) if changed is None else changed


def _of_frozen_table(
    change: Array, before: Array | None, layers: Layers, *, noisy: bool
) -> BoolArray | None:
    """(vocabulary,) tokens that what the next layer learnt shows; None where nobody says which."""
    if layers.frozen is None or not layers.readers:
        return None
    if noisy or before is None:
        return np.zeros(len(layers.frozen), dtype=bool)
    return spanned(
        layers.frozen.astype(np.float64),
        [place.weight_in(change).astype(np.float64) for place in layers.readers],
        [place.weight_in(before) for place in layers.readers],
    )


def moved(rows: Array, before: Array | None) -> BoolArray | None:
    """(vocabulary,) rows of a change (vocabulary, size) that are not what weight decay makes them.

    Nor are they what rounding makes them: where weights travel in few bits, a row that did not move
    may come back as the next number that these bits have.

    None where all rows moved in ways of their own, as under noise.
    """
    norms = np.linalg.norm(rows, axis=1)
    changed: BoolArray = np.abs(rows).max(axis=1) > _rounding(rows, before)
    if (norms == 0.0).any() or changed.mean() < 0.5:
        return changed
    if before is None:
        return None
    small = norms <= np.median(norms)
    decay = (rows[small] * before[small]).sum() / (before[small] ** 2).sum()
    rest = np.linalg.norm(rows - decay * before, axis=1)
    # Rounding of a float32 difference of two weights.
    away_from_decay: BoolArray = rest > 4.0 * _EPS * np.linalg.norm(before, axis=1)
    return away_from_decay if away_from_decay.mean() < 0.5 else None


def _rounding(rows: Array, before: Array | None) -> float:
    """Distance by which rounding to eight bits moves a number; 0 where numbers are not rounded."""
    if before is None:
        return 0.0
    values = np.sort(before + rows, axis=None)
    gaps = np.diff(values)
    steps = gaps[gaps > 1e-5 * np.abs(values).max()]  # less is what float32 rounds off
    if len(steps) >= min(_EIGHT_BITS, values.size // 2):
        return 0.0
    return 0.5 * float(steps.min()) * (1.0 + 1e-3) if len(steps) else 0.0


def against_the_crowd(rows: Array, rate: float | None = None) -> BoolArray:
    """(vocabulary,) rows of (vocabulary, size) that point away from the sum of the small ones.

    Args:
        rows: the change.
        rate: under noise, of rows that point away from it by chance: how far they must is measured
            by how far rows lie beside its line. None where there is no noise.
    """
    from scipy.stats import chi2, norm

    norms = np.linalg.norm(rows, axis=1)
    crowd = rows[norms <= np.median(norms)].sum(axis=0)
    along = rows @ crowd / max(float(np.linalg.norm(crowd)), 1e-300)
    if rate is None:
        away: BoolArray = along < 0.0
        return away
    beside = np.median((rows**2).sum(axis=1) - along**2) / chi2.median(rows.shape[1] - 1)
    opposed: BoolArray = along < -norm.isf(rate) * np.sqrt(beside)
    return opposed


def beyond_noise(rows: Array, rate: float) -> BoolArray:
    """(vocabulary,) rows of (vocabulary, size) that are too long to be noise.

    Squared norms of independent normal numbers of deviation s are s^2 times chi-squared. s is taken
    from their median: most tokens are not in a text. Those that are make it larger, which makes the
    test careful.

    Args:
        rows: the change.
        rate: rate of rows that are taken for more than noise where noise is all there is.
    """
    from scipy.stats import chi2

    squares = (rows**2).sum(axis=1)
    scale = np.median(squares) / chi2.median(rows.shape[1])
    too_long: BoolArray = squares > scale * chi2.isf(rate, rows.shape[1])
    return too_long
