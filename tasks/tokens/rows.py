"""Padded rows of token ids, and scores of tokens: log-probabilities and perplexities."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from uedp_bench.contracts.learner import LengthsOnDemand, RowLengths
from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray
from uedp_bench.errors import UedpBenchError

if TYPE_CHECKING:
    from torch import Tensor

    from uedp_bench.contracts.capabilities import Vocabulary
    from uedp_bench.contracts.results import Estimate

Preprocessing = Literal["none", "paper"]

IGNORED = -100
"""Target of padded positions; the default `ignore_index` of torch's cross-entropy."""

LOOKED_AT = 10_000
"""Rows of a text in a file that are looked at to know how long rows are."""

ROWS_AT_ONCE = 65_536
"""Rows whose tokens are in memory together where all are counted."""

_PUNCTUATION = re.compile(r"(?P<unknown>(?<!\S)<unk>(?!\S))|[^\w\s]|_")


def prepare(texts: Sequence[str], preprocessing: Preprocessing) -> list[str]:
    """Preprocessed texts: unchanged, or in lower case without punctuation (Lai et al., appendix C).

    Signs are removed, not replaced by spaces: "U.N." becomes "un". The word <unk>, by which
    published corpora (WikiText, Penn Treebank) mark what they left out, stays as it is.
    """
    if preprocessing == "none":
        return list(texts)
    return [" ".join(_PUNCTUATION.sub(r"\g<unknown>", text).lower().split()) for text in texts]


@dataclass(frozen=True, eq=False)
class TextRows:
    """Target tokens of many rows, one after the other: row i has `flat[offsets[i]:offsets[i + 1]]`.

    The inputs of a row are the begin token and all its targets but the last.

    Attributes:
        flat: (tokens,) target ids.
        offsets: (rows + 1,).
        begin, padding: ids that start a row's inputs and that fill them up.
        truncated: rows that lost tokens to a limit.
    """

    flat: IntArray
    offsets: IntArray
    begin: int
    padding: int
    truncated: int = 0

    @staticmethod
    def build(rows: Sequence[Sequence[int]], vocabulary: Vocabulary, cut: int = 0) -> TextRows:
        """Rows of these targets; none may be empty, and `cut` of them lost tokens to a limit."""
        lengths = np.array([len(row) for row in rows], dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths)])
        flat = np.fromiter((t for row in rows for t in row), dtype=np.int64, count=offsets[-1])
        return TextRows(flat, offsets, vocabulary.begin, vocabulary.end, cut)

    @staticmethod
    def framed(ids: Sequence[Sequence[int]], vocabulary: Vocabulary, room: int | None) -> TextRows:
        """Rows of at most `room` ids, each between a begin and an end token."""
        rows = [[vocabulary.begin, *row[:room], vocabulary.end] for row in ids]
        cut = sum(room is not None and len(row) > room for row in ids)
        return TextRows.build(rows, vocabulary, cut)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> IntArray:
        """(rows,) number of targets."""
        return np.diff(self.offsets)

    def table(self, rows: IntArray, padding: int, least: int = 1) -> IntArray:
        """(rows, longest of these rows) tokens, padded on the right to `least` columns or more."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts  # of these rows: there may be millions of others
        columns = np.arange(lengths.max(initial=least))
        inside = columns < lengths[:, None]
        at = starts[:, None] + np.where(inside, columns, 0)
        return np.where(inside, self.flat[at], padding)

    def padded(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Inputs and targets (rows, longest of these rows), padded on the right."""
        targets = self.table(rows, IGNORED)
        inputs = np.full_like(targets, self.padding)
        inputs[:, 0] = self.begin
        inputs[:, 1:] = np.where(targets[:, 1:] != IGNORED, targets[:, :-1], self.padding)
        return inputs, targets

    def row_sums(self, values: FloatArray | BoolArray) -> FloatArray:
        """(rows,) sums of token values (tokens,), or counts of those that are true."""
        numbers = np.asarray(values, dtype=np.float64)
        return np.add.reduceat(numbers, self.offsets[:-1]) if len(self) else np.empty(0)


@dataclass(frozen=True, eq=False)
class Columns:
    """Rows as a network reads them.

    Attributes:
        columns: by name: an array with an entry a row, or tokens with `lengths` and `truncated`.
        sized: names of the columns whose lengths add up to that of a row.
    """

    columns: Mapping[str, Any]
    sized: tuple[str, ...]

    @cached_property
    def lengths(self) -> IntArray:
        """(rows,) tokens of each row; 1 where it has none."""
        sizes = [self.columns[name].lengths for name in self.sized if name in self.columns]
        if not sizes:
            return np.ones(len(next(iter(self.columns.values()))), dtype=np.int64)
        return np.asarray(sum(sizes[1:], sizes[0]))

    @property
    def truncated(self) -> int:
        """Rows that lost tokens to a limit."""
        return sum(self.columns[name].truncated for name in self.sized if name in self.columns)


Read = Callable[[IntArray], Columns]
"""Reads n different rows, in order; it can be pickled."""


class EncodedRows:
    """Encoded rows: all of them in memory, or each on demand.

    Args:
        rows: number of rows.
        read: encodes some of them.
        looked_at: number of rows, at even distances, that are read first for their lengths, where
            texts stay in a file; None where all rows are held.

    Attributes:
        held: rows in memory. Their lengths decide how many rows are computed side by side, and
            nothing that is private.
    """

    def __init__(self, rows: int, read: Read, looked_at: int | None) -> None:
        self._read, some = None if looked_at is None else read, np.arange(rows)
        if looked_at is not None and looked_at < rows:
            some = np.unique(np.linspace(0, rows - 1, looked_at).astype(np.int64))
        self.held = read(some)

    def some(self, rows: IntArray) -> tuple[Columns, IntArray]:
        """Encoded rows among which these are, and (rows,) where each is in them."""
        if self._read is None:
            return self.held, rows
        different, place = np.unique(rows, return_inverse=True)
        return self._read(different), place.reshape(np.shape(rows))


def encoded_rows(corpus: Corpus, read: Read) -> tuple[EncodedRows, RowLengths]:
    """Encoded rows of a corpus and their lengths: held, or where texts stay in a file on demand."""
    rows = EncodedRows(len(corpus), read, LOOKED_AT if corpus.stored else None)
    if not corpus.stored:
        return rows, rows.held.lengths
    longest = int(rows.held.lengths.max(initial=0))
    return rows, LengthsOnDemand(len(corpus), longest, partial(_lengths, read))


def _lengths(read: Read, rows: IntArray) -> IntArray:
    return read(rows).lengths


def rows_in_parts(
    texts: Sequence[str], vocabulary: Vocabulary, preprocessing: Preprocessing
) -> Iterator[TextRows]:
    """The target tokens of texts, some thousand rows after the other: parts are let go of."""
    for first in range(0, len(texts), ROWS_AT_ONCE):
        part = list(texts[first : first + ROWS_AT_ONCE])
        yield TextRows.build(encode_targets(part, vocabulary, preprocessing), vocabulary)


def encode_targets(
    texts: Sequence[str], vocabulary: Vocabulary, preprocessing: Preprocessing
) -> list[list[int]]:
    """Target ids of each text: its tokens and one end token."""
    return [[*ids, vocabulary.end] for ids in vocabulary.encode(prepare(texts, preprocessing))]


_BOOTSTRAP_SEED = 2022

IN_CACHE = 2**17
"""Logits that a CPU reads at once: it reads each ten times, and a whole batch leaves its cache."""


def token_columns(
    logits: Tensor, targets: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    """(tokens,) columns of `TokenScores`, of logits (tokens, vocabulary) and targets (tokens,).

    Raises:
        UedpBenchError: if a log-probability is NaN.
    """
    size = max(1, len(logits))
    if logits.device.type == "cpu":
        size = max(1, IN_CACHE // max(logits.shape[1], 1))
    starts = range(0, max(len(logits), 1), size)
    parts = [_columns(logits[at : at + size], targets[at : at + size]) for at in starts]
    logp, mean, std, correct = (np.concatenate(column) for column in zip(*parts, strict=True))
    return logp, mean, std, correct


def _columns(
    logits: Tensor, targets: IntArray
) -> tuple[FloatArray, FloatArray, FloatArray, BoolArray]:
    import torch

    wanted = torch.from_numpy(targets).to(logits.device)[:, None]
    logs = torch.log_softmax(logits.float(), dim=-1)
    p = logs.exp()
    # 0 log 0 = 0: an impossible token adds nothing to an expectation.
    logs_or_0 = torch.where(p > 0, logs, torch.zeros_like(logs))
    mean = (p * logs_or_0).sum(dim=-1)
    std = (p * (logs_or_0 - mean[:, None]) ** 2).sum(dim=-1).sqrt()
    columns = (logs.gather(1, wanted)[:, 0], mean, std)
    logp, mean_logp, std_logp = (no_nan(each.double().cpu().numpy()) for each in columns)
    return logp, mean_logp, std_logp, (logs.argmax(dim=-1) == wanted[:, 0]).cpu().numpy()


def no_nan(values: FloatArray) -> FloatArray:
    """The values.

    Raises:
        UedpBenchError: if one is NaN.
    """
    if np.isnan(values).any():
        raise UedpBenchError("the released model gives NaN: its weights or logits are not finite")
    return values


def ratio(top: ArrayLike, bottom: ArrayLike, users: IntArray) -> Estimate:
    """Ratio of sums; every metric sees the same resamples of users."""
    from uedp_bench.statistics.intervals import ratio_estimate

    return ratio_estimate(top, bottom, np.random.default_rng(_BOOTSTRAP_SEED), users)


def perplexity(nats: ArrayLike, divisor: ArrayLike, users: IntArray) -> Estimate:
    """Exp of the ratio of nats to what they are divided by."""
    from uedp_bench.contracts.results import Estimate

    rate = ratio(nats, divisor, users)
    with np.errstate(over="ignore"):  # a broken model may be infinitely surprised
        low, high = (None if x is None else float(np.exp(x)) for x in (rate.low, rate.high))
        return Estimate(value=float(np.exp(rate.value)), low=low, high=high)
