"""Losses of many continuations of one start under a language model, shared work done once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from uedp_bench.api import BoolArray, FloatArray, IntArray
from uedp_bench.tasks.tokens.rows import no_nan

if TYPE_CHECKING:
    from torch import Tensor, nn

    from uedp_bench.models.networks.token_tree import NodeLogits, TokenTree

ENCODED = 3
"""Texts that are split into tokens for each word of a pool."""

Encode = Callable[[Sequence[str]], list[list[int]]]

ROWS_AT_ONCE = 2**15
"""Continuations whose tree is held at once."""

CELLS_AT_ONCE = 2**20
"""Sequences of one word more that a level of the whole space is cut into."""

ROUNDING = 1e-3
"""Nats by which rounding may lower the loss of a longer text, with much to spare."""


class Pieces(NamedTuple):
    """Token sequences of which continuations are made; several words may have the same.

    Attributes:
        tokens: (pieces, length) ids, filled up with -1; no two pieces are equal.
        words: (words,) the piece of each word.
    """

    tokens: IntArray
    words: IntArray

    @staticmethod
    def from_tokens(sequences: list[list[int]]) -> Pieces:
        """Distinct token sequences of words."""
        tokens, words = np.unique(padded(sequences), axis=0, return_inverse=True)
        return Pieces(tokens, words.reshape(-1))

    @property
    def counts(self) -> IntArray:
        """(pieces,) number of words of each piece."""
        return np.bincount(self.words, minlength=len(self.tokens))


@dataclass(frozen=True, eq=False)
class Continuations:
    """Continuations of one start under a network.

    Attributes:
        module: network in evaluation mode; maps tokens to logits.
        start: (1, length) token ids before the continuations, at least one.
        rows: sequences at once, for networks without token trees.
    """

    module: nn.Module
    start: Tensor
    rows: int

    def losses(self, rows: IntArray) -> FloatArray:
        """(rows,) negative log-likelihoods (nats) of token sequences.

        Equal rows have equal losses to the last bit.

        Args:
            rows: (rows, length) ids, filled up with -1; none is empty.
        """
        distinct, place = _distinct(rows)
        parts = [
            self._tree_losses(distinct[at : at + ROWS_AT_ONCE])
            for at in range(0, len(distinct), ROWS_AT_ONCE)
        ]
        return no_nan(np.concatenate([np.empty(0), *parts])[place])

    def rank(self, levels: list[Pieces], own: list[int]) -> int:
        """1 + the number of other continuations, one word a level, with a lower or equal loss.

        Every continuation is compared, the loss of a beginning being computed once for all that
        begin so. A beginning whose loss is above the own one's is left with all that begins so:
        losses of further tokens are not negative.

        Args:
            levels: the words that stand at each place.
            own: the word at each place of the continuation that is ranked.
        """
        pieces = [int(level.words[word]) for level, word in zip(levels, own, strict=True)]
        one = [level.tokens[piece] for level, piece in zip(levels, pieces, strict=True)]
        limit = float(self.losses(joined([tokens[None] for tokens in one]))[0])
        place = _WholeSpace(self, levels, pieces, limit)
        count = place.count(np.zeros((1, 0), dtype=np.int64), np.zeros(1))
        same = np.prod([level.counts[p] for level, p in zip(levels, pieces, strict=True)])
        return count + int(same)

    def logits(self, tree: TokenTree, nodes: BoolArray) -> NodeLogits:
        """Logits after the nodes of a tree that are asked for; see `TreeNetwork`."""
        from uedp_bench.models.networks.token_tree import tree_logits

        return tree_logits(self.module, self.start, tree, queried=nodes, rows=self.rows)

    def _tree_losses(self, rows: IntArray) -> FloatArray:
        import torch

        from uedp_bench.models.networks.token_tree import TokenTree

        tree, ends = TokenTree.from_rows(rows)
        inner, nodes = tree.inner()
        first = np.searchsorted(tree.parents, nodes)
        count = np.searchsorted(tree.parents, nodes, side="right") - first
        nats = np.empty(len(tree.tokens))
        with torch.no_grad():
            for batch, logits in self.logits(inner, np.ones(inner.size, dtype=bool)):
                row = np.repeat(np.arange(len(batch)), count[batch])
                before = np.cumsum(count[batch]) - count[batch]
                child = np.arange(len(row)) + np.repeat(first[batch] - before, count[batch])
                nats[child] = token_losses(logits, row, tree.tokens[child])
        return tree.sums(nats)[ends]


@dataclass(frozen=True, eq=False)
class _WholeSpace:
    """Counts continuations that are as likely as one of them, which is left out.

    Attributes:
        continuations: the start and the network.
        levels: the words that stand at each place.
        own: the piece at each place of the continuation that is ranked.
        limit: its loss in nats.
    """

    continuations: Continuations
    levels: list[Pieces]
    own: list[int]
    limit: float

    def count(self, paths: IntArray, losses: FloatArray) -> int:
        """Continuations with at most the limit that begin with one of these paths (n, words)."""
        level = self.levels[paths.shape[1]]
        last = paths.shape[1] + 1 == len(self.levels)
        size = max(1, CELLS_AT_ONCE // len(level.tokens))
        fewer = 0
        for at in range(0, len(paths), size):
            batch = paths[at : at + size]
            total = losses[at : at + size, None] + self._next_losses(batch)
            if last:
                mine = np.flatnonzero((batch == self.own[:-1]).all(axis=1))
                total[mine, self.own[-1]] = np.inf
                fewer += int(((total <= self.limit) @ level.counts) @ self._multiplicity(batch))
            else:
                row, piece = np.nonzero(total <= self.limit + ROUNDING)
                longer = np.concatenate([batch[row], piece[:, None]], axis=1)
                fewer += self.count(longer, total[row, piece])
        return fewer

    def _multiplicity(self, paths: IntArray) -> IntArray:
        """(n,) how many sequences of words have these pieces."""
        out = np.ones(len(paths), dtype=np.int64)
        for column, level in zip(paths.T, self.levels, strict=False):
            out *= level.counts[column]
        return out

    def _next_losses(self, paths: IntArray) -> FloatArray:
        """(n, pieces) losses in nats of every piece of the next level after each path."""
        import torch

        from uedp_bench.models.networks.token_tree import TokenTree

        pool, ends = TokenTree.from_rows(self.levels[paths.shape[1]].tokens)
        inside, nodes = pool.inner()
        words = [self.levels[j].tokens[paths[:, j]] for j in range(paths.shape[1])]
        before = joined([np.empty((len(paths), 0), dtype=np.int64), *words])
        starts = inside.sequences()
        rows = joined([np.repeat(before, len(starts), axis=0), np.tile(starts, (len(before), 1))])
        tree, at = TokenTree.from_rows(rows)
        row_of = np.full(tree.size, -1)
        row_of[at] = np.arange(len(rows))
        first = np.searchsorted(pool.parents, nodes)
        stop = np.searchsorted(pool.parents, nodes, side="right")
        out = np.empty((len(paths), len(pool.tokens)))
        with torch.no_grad():
            for batch, logits in self.continuations.logits(tree, row_of >= 0):
                path, node = np.divmod(row_of[batch], len(starts))
                for each in np.unique(node).tolist():
                    chosen = np.flatnonzero(node == each)
                    child = slice(int(first[each]), int(stop[each]))
                    out[path[chosen], child] = every_loss(logits, chosen, pool.tokens[child])
        for level in pool.levels()[1:]:
            at = np.arange(level.start, level.stop)
            out[:, at - 1] += out[:, pool.parents[at - 1] - 1]
        return no_nan(out[:, ends - 1])


def token_losses(logits: Tensor, rows: IntArray, tokens: IntArray) -> FloatArray:
    """(n,) nats of tokens (n,), each after the row of logits (rows, vocabulary) that is named."""
    import torch

    row = torch.from_numpy(rows).to(logits.device)
    token = torch.from_numpy(tokens).to(logits.device)
    # All of them, though few are wanted: torch has a fast kernel for it, none for their sum alone.
    return np.asarray(-torch.log_softmax(logits.float(), dim=1)[row, token].double().cpu().numpy())


def every_loss(logits: Tensor, rows: IntArray, tokens: IntArray) -> FloatArray:
    """(rows, tokens) nats of every token after each of these rows of logits."""
    import torch

    row = torch.from_numpy(rows).to(logits.device)
    token = torch.from_numpy(tokens).to(logits.device)
    chosen = logits if len(rows) == len(logits) else logits[row]
    return np.asarray(-torch.log_softmax(chosen.float(), dim=1)[:, token].double().cpu().numpy())


def padded(sequences: list[list[int]]) -> IntArray:
    """(sequences, longest) ids, filled up with -1."""
    out = np.full((len(sequences), max(map(len, sequences), default=0)), -1, dtype=np.int64)
    for row, tokens in zip(out, sequences, strict=True):
        row[: len(tokens)] = tokens
    return out


def joined(parts: list[IntArray]) -> IntArray:
    """Rows of several padded tables one after the other, padded on the right alone."""
    table = np.concatenate(parts, axis=1)
    if not (table == -1).any():
        return table
    order = np.argsort(table == -1, axis=1, kind="stable")
    longest = int((table != -1).sum(axis=1).max(initial=0))
    return np.take_along_axis(table, order[:, :longest], axis=1)


def _distinct(rows: IntArray) -> tuple[IntArray, IntArray]:
    """Different rows in lexicographic order, and the place (rows,) of each row among them."""
    order = np.lexsort(rows.T[::-1])
    ordered = rows[order]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.cumsum(new) - 1
    return ordered[new], place


@dataclass(frozen=True, eq=False)
class WordPool:
    """Suffixes made of the words of a pool, as tokens after a common prefix.

    Attributes:
        prefix: tokens of what comes before, as far as no word of the pool changes them.
        first: the words right after it.
        later: the words after another word.
    """

    prefix: list[int]
    first: Pieces
    later: Pieces

    @staticmethod
    def build(encode: Encode, before: str, words: Sequence[str]) -> WordPool | None:
        """The pool, or None where tokens of a text are not those of its words.

        Every word is looked at after another one and before a third: if the tokens of these texts
        are those of their words one after the other, so are those of all texts. A token that
        begins a word may not stand inside one either, so that no two texts have the same tokens in
        other words.

        Args:
            encode: token ids of texts.
            before: text before all suffixes.
            words: words of the pool.
        """
        prefix, *begun = encode([before, *(before + word for word in words)])
        common = common_prefix(prefix, begun)
        first = [tokens[common:] for tokens in begun]
        lead = begun[0]
        after = encode([f"{before}{words[0]} {word}" for word in words])
        if any(tokens[: len(lead)] != lead for tokens in after):
            return None
        later = [tokens[len(lead) :] for tokens in after]
        if not all(first) or not all(later):
            return None
        inside = {token for tokens in (*first, *later) for token in tokens[1:]}
        if inside & {tokens[0] for tokens in later}:
            return None
        turns = [[(at + step) % len(words) for step in (0, 1, 3)] for at in range(len(words))]
        texts = encode([before + " ".join(words[at] for at in turn) for turn in turns])
        for (a, b, c), tokens in zip(turns, texts, strict=True):
            if tokens != [*prefix[:common], *first[a], *later[b], *later[c]]:
                return None
        return WordPool(prefix[:common], Pieces.from_tokens(first), Pieces.from_tokens(later))

    def levels(self, length: int) -> list[Pieces]:
        """The words at each place of a suffix of so many words."""
        return [self.first, *[self.later] * (length - 1)]

    def rows(self, suffixes: IntArray) -> IntArray:
        """(suffixes, longest) tokens, filled up with -1, of suffixes (suffixes, words)."""
        places = zip(self.levels(suffixes.shape[1]), suffixes.T, strict=True)
        return joined([level.tokens[level.words[column]] for level, column in places])


def common_prefix(prefix: list[int], full: list[list[int]]) -> int:
    """Length of the longest part of `prefix` with which every sequence begins."""
    common = len(prefix)
    for tokens in full:
        while tokens[:common] != prefix[:common]:
            common -= 1
    return common
