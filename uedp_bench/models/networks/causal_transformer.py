"""A causal language model of `transformers` behind the interface of this package's networks."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from uedp_bench.contracts.learner import numbers_per_call
from uedp_bench.models.fast import gpt2_blocks
from uedp_bench.models.fast.products import FasterProducts
from uedp_bench.models.networks.modules import OutputLayer
from uedp_bench.models.networks.token_tree import (
    LOGITS_AT_ONCE,
    NONE,
    BoolArray,
    IntArray,
    NodeLogits,
    TokenTree,
    logits_by_rows,
)
from uedp_bench.models.networks.transformer_encoders import starts_past_padding
from uedp_bench.text.pretrained import no_progress_bars

NODES_AT_ONCE = 192
"""Nodes of one row: more cost attention between branches, fewer repeat their ancestors."""

ADAPTERS = "adapter"
"""Folder of adapters that are not merged, within that of their saved network."""


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
            at_depth = np.searchsorted(
                nodes, np.unique(branches[branches[:, column] != NONE, column])
            )
            depths[at_depth] = column + 1
            if column:
                parents = np.searchsorted(nodes, tree.parents[nodes[at_depth] - 1])
                sees[at_depth] |= sees[parents]
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


class TransformerNetwork(nn.Module):
    """Logits of tokens, right-padded, under the causal mask.

    The wrapped network stays in evaluation mode, so that no dropout is ever drawn. Position ids
    that count from 0 are given for every row: ids of one row for all would give per-example
    gradients of the position embedding a batch of one.

    Logits are float32 whatever the weights are: a log-softmax in half precision loses digits that
    tell members from others.

    Args:
        network: a causal language model of `transformers`.
        adapted: the `PeftModel` around it, where it has adapters that are not merged.
    """

    def __init__(self, network: Any, adapted: Any = None) -> None:
        super().__init__()
        self.network: Any = _one_function_gelu(network.eval())
        self._adapted = (adapted,)  # in a tuple, so that its weights are not registered again
        takes = "position_ids" in inspect.signature(network.forward).parameters
        # Networks of RoBERTa's kind count from the position after padding's, and do so themselves.
        self._positions = takes and not starts_past_padding(network.base_model)

    def train(self, mode: bool = True) -> TransformerNetwork:
        """Set the mode of this module, not of the wrapped network."""
        self.training = mode
        return self

    def forward(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        """Logits (rows, length, vocabulary) of ids (rows, length); seeds have nothing to do."""
        return self._run(self.network, tokens, 0, use_cache=False).logits.float()  # type: ignore[no-any-return]

    def outputs(self, tokens: Tensor, seeds: Tensor | None = None) -> Tensor:
        """(rows, length, size) what `output_layer` reads; see `FeatureModule`."""
        transformer = self.network.transformer
        if (values := gpt2_blocks.features(transformer, tokens)) is not None:
            return values
        return self._run(transformer, tokens, 0, use_cache=False).last_hidden_state  # type: ignore[no-any-return]

    def output_layer(self) -> OutputLayer | None:
        """The layer of GPT-2 without adapters; other networks may change logits after it."""
        from transformers import GPT2LMHeadModel

        head = getattr(self.network, "lm_head", None)
        if type(self.network) is not GPT2LMHeadModel or type(head) is not nn.Linear:
            return None
        return OutputLayer(head.weight, head.bias)

    def token_embedding(self) -> Tensor:
        """See `EmbedsTokens`."""
        return self.network.get_input_embeddings().weight  # type: ignore[no-any-return]

    def prefix_state(self, tokens: Tensor) -> tuple[Any, int]:
        """Keys and values after the tokens (1, length), for `resume`."""
        return self._run(self.network, tokens, 0, use_cache=True).past_key_values, tokens.shape[1]

    def resume(self, tokens: Tensor, state: tuple[Any, int]) -> Tensor:
        """Logits of tokens (rows, length) that all follow the prefix of `state`."""
        cache, length = state
        cache = copy.deepcopy(cache)  # the library appends to it
        cache.batch_repeat_interleave(tokens.shape[0])
        out = self._run(self.network, tokens, length, use_cache=True, past_key_values=cache)
        return out.logits.float()  # type: ignore[no-any-return]

    def tree_logits(self, start: Tensor, tree: TokenTree, queried: BoolArray) -> NodeLogits:
        """See `TreeNetwork`: many nodes are one row, in which each sees its ancestors.

        Not all networks of the library take positions and masks of this kind. One branch is run
        as a row of its own too: where the logits differ, so are all the others.
        """
        rows = list(packed_rows(tree))
        if not rows or not self._packs(start, rows[0]):
            logits = self.network.config.vocab_size * start.shape[1]
            most = max(1, numbers_per_call(LOGITS_AT_ONCE, start.device) // logits)
            yield from logits_by_rows(self, start, tree, queried=queried, rows=most)
            return
        first = self._run(self.network, start, 0, use_cache=True)
        if queried[0]:
            yield np.zeros(1, dtype=np.int64), first.logits[:, -1].float()
        state = first.past_key_values, start.shape[1]
        for row in rows:
            wanted = row.new & queried[row.nodes]
            if wanted.any():
                at = torch.from_numpy(np.flatnonzero(wanted)).to(start.device)
                yield row.nodes[wanted], self._packed(row, state)[at]

    def _packed(self, row: PackedRow, state: tuple[Any, int]) -> Tensor:
        """Logits (nodes, vocabulary) of a packed row after the prefix of `state`."""
        cache, length = state
        device = self.network.device
        before = np.ones((len(row.nodes), length), dtype=bool)
        sees = torch.from_numpy(np.concatenate([before, row.sees], axis=1)).to(device)
        mask = torch.zeros(sees.shape, dtype=self.network.dtype, device=device)
        mask.masked_fill_(~sees, torch.finfo(mask.dtype).min)
        out = self.network(
            input_ids=torch.from_numpy(row.tokens[None]).to(device),
            position_ids=torch.from_numpy(row.depths[None] + length - 1).to(device),
            attention_mask=mask[None, None],
            past_key_values=copy.deepcopy(cache),  # the library appends to it
            use_cache=True,
        )
        return out.logits[0].float()  # type: ignore[no-any-return]

    def _packs(self, start: Tensor, row: PackedRow) -> bool:
        """True if the deepest branch of a packed row has the logits that it has alone."""
        if not self._positions:
            return False
        branch = np.flatnonzero(row.sees[int(row.depths.argmax())])
        tokens = torch.from_numpy(row.tokens[branch][None]).to(start.device)
        alone = self(torch.cat([start, tokens], dim=1))
        state = self.prefix_state(start)
        try:
            packed = self._packed(row, state)[torch.from_numpy(branch).to(start.device)]
        except (RuntimeError, ValueError, TypeError):
            return False
        alone = alone[0, start.shape[1] :]
        return torch.allclose(packed, alone, rtol=1e-3, atol=1e-3, equal_nan=True)

    def save(self, folder: Path) -> None:
        """Write configuration and weights in the library's format, adapters beside them."""
        (adapted,) = self._adapted
        with no_progress_bars():
            if adapted is None:
                self.network.save_pretrained(folder)
                return
            copy.deepcopy(adapted).unload().save_pretrained(folder)
            # Else peft asks the hub for the base, to see if its vocabulary was changed.
            adapted.save_pretrained(folder / ADAPTERS, save_embedding_layers=False)

    def _run(self, network: Any, tokens: Tensor, start: int, **options: Any) -> Any:
        if self._positions:
            positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
            options["position_ids"] = positions.expand(tokens.shape[0], -1)
        with FasterProducts():
            return network(input_ids=tokens, **options)


def _one_function_gelu(network: Any) -> Any:
    """The network, its tanh GELU computed by torch's one function in place of eight.

    The library writes GPT-2's activation out, and each of its operations fills a table of its own.
    """
    from transformers.activations import NewGELUActivation

    for module in list(network.modules()):
        for name, child in module.named_children():
            if type(child) is NewGELUActivation:
                setattr(module, name, nn.GELU(approximate="tanh").train(child.training))
    return network
