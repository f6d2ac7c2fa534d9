"""Continuations of one start as a tree: what many token sequences share is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

NodeLogits = Iterator[tuple[IntArray, Tensor]]
"""Blocks: nodes (n,) that were asked for, each in one block, and their logits (n, vocabulary)."""

LOGITS_AT_ONCE = 2**21
"""Logits of one block (8 MB): more leave the cache, fewer waste calls."""

NONE = -1
"""Stands where a row has no further token."""


class TokenTree(NamedTuple):
    """A tree of token sequences in breadth-first order, all of them after the same start.

    Node 0 is the start itself; node i has one token more than its parent. Nodes of the same parent
    have different tokens, and parents never decrease from one node to the next.

    Attributes:
        tokens: (nodes - 1,) the token of node i stands at i - 1.
        parents: (nodes - 1,) the parent of node i stands at i - 1.
    """

    tokens: IntArray
    parents: IntArray

    @staticmethod
    def from_rows(rows: IntArray) -> tuple[TokenTree, IntArray]:
        """Build the tree of token sequences (rows, length), and the node (rows,) where each ends.

        Args:
            rows: token ids; `NONE` fills up what is shorter.
        """
        size = int(rows.max(initial=0)) + 1
        ends = np.zeros(len(rows), dtype=np.int64)
        tokens, parents, nodes = [], [], 1
        for column in rows.T:
            inside = column != NONE
            branches, place = np.unique(ends[inside] * size + column[inside], return_inverse=True)
            tokens.append(branches % size)
            parents.append(branches // size)
            ends[inside] = nodes + place
            nodes += len(branches)
        none = np.empty(0, dtype=np.int64)
        return TokenTree(np.concatenate([none, *tokens]), np.concatenate([none, *parents])), ends

    @property
    def size(self) -> int:
        """Number of nodes, the start included."""
        return len(self.tokens) + 1

    def levels(self) -> list[range]:
        """Nodes with one token, with two tokens, and so on."""
        levels, level = [], range(1)
        while len(level := self._children(level)):
            levels.append(level)
        return levels

    def _children(self, level: range) -> range:
        first, stop = np.searchsorted(self.parents, [level.start, level.stop]) + 1
        return range(int(first), int(stop))

    def inner(self) -> tuple[TokenTree, IntArray]:
        """The tree without its leaves, and which node each of its nodes was."""
        kept = np.unique(self.parents) if len(self.parents) else np.zeros(1, dtype=np.int64)
        place = np.full(self.size, NONE)
        place[kept] = np.arange(len(kept))
        at = kept[1:] - 1
        return TokenTree(self.tokens[at], place[self.parents[at]]), kept

    def sequences(self) -> IntArray:
        """(nodes, depth) the tokens on the way to each node, filled up with `NONE`."""
        levels = self.levels()
        out = np.full((self.size, len(levels)), NONE)
        for depth, level in enumerate(levels):
            at = np.arange(level.start, level.stop)
            out[at] = out[self.parents[at - 1]]
            out[at, depth] = self.tokens[at - 1]
        return out

    def sums(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(nodes,) sums of the values (nodes - 1,) of all nodes on the way from the start."""
        total = np.concatenate([np.zeros(1), values])
        for level in self.levels():
            at = slice(level.start, level.stop)
            total[at] += total[self.parents[level.start - 1 : level.stop - 1]]
        return total


@runtime_checkable
class TreeNetwork(Protocol):
    """A network that computes what the nodes of a tree share once."""

    def tree_logits(self, start: Tensor, tree: TokenTree, queried: BoolArray) -> NodeLogits:
        """Logits of the next token after nodes of a tree.

        Args:
            start: (1, length) token ids before the tree, at least one.
            tree: tree of tokens that follow.
            queried: (nodes,) True for the nodes whose logits are needed.
        """
        ...


def tree_logits(
    module: nn.Module, start: Tensor, tree: TokenTree, *, queried: BoolArray, rows: int
) -> NodeLogits:
    """Logits after nodes of a tree, of any module that maps tokens to logits.

    A `TreeNetwork` does it in its own way. Others get the longest sequences of the tree as rows;
    where they have `prefix_state` and `resume`, the start is run once.

    Args:
        module: the network, in evaluation mode.
        start: (1, length) token ids before the tree, at least one.
        tree: tree of tokens that follow.
        queried: (nodes,) True for the nodes whose logits are needed.
        rows: sequences at once, for modules that are no `TreeNetwork`.
    """
    if isinstance(module, TreeNetwork):
        return module.tree_logits(start, tree, queried)
    return logits_by_rows(module, start, tree, queried=queried, rows=rows)


def logits_by_rows(
    module: nn.Module, start: Tensor, tree: TokenTree, *, queried: BoolArray, rows: int
) -> NodeLogits:
    """`tree_logits` with the longest sequences of the tree as rows."""
    before, last = start[:, :-1], start[:, -1:]
    state = None
    if before.shape[1] and hasattr(module, "prefix_state"):
        state = module.prefix_state(before)  # type: ignore[operator]
    sequences = tree.sequences()
    depth = (sequences != NONE).sum(axis=1)
    leaves, leaf_of = _leaves(tree)
    for at in range(0, len(leaves), rows):
        nodes = np.flatnonzero((leaf_of >= at) & (leaf_of < at + rows))
        part = sequences[leaves[at : at + rows], : int(depth[nodes].max())]
        # What fills up short sequences follows them: no node of theirs sees it.
        filled = torch.from_numpy(np.where(part == NONE, 0, part)).to(start.device)
        tokens = torch.cat([last.expand(len(part), -1), filled], dim=1)
        if state is None:
            whole = torch.cat([before.expand(len(part), -1), tokens], dim=1)
            logits = module(whole)[:, before.shape[1] :]
        else:
            logits = module.resume(tokens, state)  # type: ignore[operator]
        nodes = nodes[queried[nodes]]
        row = torch.from_numpy(leaf_of[nodes] - at).to(start.device)
        yield nodes, logits[row, torch.from_numpy(depth[nodes]).to(start.device)]


def _leaves(tree: TokenTree) -> tuple[IntArray, IntArray]:
    """Nodes without children, and for each node (nodes,) the number of one leaf below it."""
    leaves = np.setdiff1d(np.arange(tree.size), tree.parents)
    leaf_of = np.full(tree.size, NONE)
    leaf_of[leaves] = np.arange(len(leaves))
    for level in reversed(tree.levels()):
        nodes = np.arange(level.start, level.stop)
        leaf_of[tree.parents[nodes - 1]] = leaf_of[nodes]
    return leaves, leaf_of
