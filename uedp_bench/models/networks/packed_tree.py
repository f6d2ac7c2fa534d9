"""Nodes of a tree as one row of tokens: attention sees the ancestors of a node and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from uedp_bench.models.networks.token_tree import NONE, BoolArray, IntArray, TokenTree

NODES_AT_ONCE = 192
"""Nodes of one row: more cost attention between branches, fewer repeat their ancestors."""


class PackedRow(NamedTuple):
    """Some branches of a tree, every node after its parent.

    Attributes:
        nodes: (n,) of the tree; the start is not among them.
        tokens: (n,) their tokens.
        depths: (n,) tokens after the start, from 1.
        sees: (n, n) True where the second node is the first one or an ancestor of it.
        new: (n,) False for nodes that a row before has.
    """

    nodes: IntArray
    tokens: IntArray
    depths: IntArray
    sees: BoolArray
    new: BoolArray


def packed_rows(tree: TokenTree, size: int = NODES_AT_ONCE) -> Iterator[PackedRow]:
    """All nodes but the start, in rows of at most `size` nodes or of one branch."""
    paths = _paths(tree)
    seen = np.zeros(tree.size, dtype=bool)
    for branches in _groups(paths, size):
        nodes = np.unique(branches[branches != NONE])
        depths = np.empty(len(nodes), dtype=np.int64)
        sees = np.eye(len(nodes), dtype=bool)
        for column in range(branches.shape[1]):
            here = np.searchsorted(nodes, np.unique(branches[branches[:, column] != NONE, column]))
            depths[here] = column + 1
            if column:
                parents = np.searchsorted(nodes, tree.parents[nodes[here] - 1])
                sees[here] |= sees[parents]
        yield PackedRow(nodes, tree.tokens[nodes - 1], depths, sees, ~seen[nodes])
        seen[nodes] = True


def _paths(tree: TokenTree) -> IntArray:
    """(leaves, depth) nodes on the way to each leaf, depth first, filled up with `NONE`."""
    levels = tree.levels()
    way = np.full((tree.size, len(levels)), NONE)
    for depth, level in enumerate(levels):
        at = np.arange(level.start, level.stop)
        way[at] = way[tree.parents[at - 1]]
        way[at, depth] = at
    leaves = way[np.setdiff1d(np.arange(1, tree.size), tree.parents)]
    return leaves[np.lexsort(leaves.T[::-1])] if len(levels) else leaves


def _groups(paths: IntArray, size: int) -> Iterator[IntArray]:
    """Consecutive paths that have at most so many nodes together."""
    depths = (paths != NONE).sum(axis=1)
    own = np.append(depths[:1], (paths[1:] != paths[:-1]).sum(axis=1))
    # A node is new if it differs from the one at its place in the path before.
    own[1:] -= ((paths[1:] == NONE) & (paths[:-1] != NONE)).sum(axis=1)
    first, held = 0, 0
    for at, (more, whole) in enumerate(zip(own.tolist(), depths.tolist(), strict=True)):
        if at > first and held + more > size:
            yield paths[first:at]
            first, held = at, 0
        held += more if at > first else whole
    if len(paths):
        yield paths[first:]
