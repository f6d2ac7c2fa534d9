"""Trees of tokens: every node has the logits of its whole sequence, however it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from uedp_bench.components.registry import models
from uedp_bench.models.networks.causal_transformer import packed_rows
from uedp_bench.models.networks.token_tree import NONE, TokenTree, logits_by_rows, tree_logits

TEXTS = ["the cat sat on the mat", "a dog ran in the park"] * 4
SMALL: dict[str, dict[str, Any]] = {
    "lstm-small": {"embedding": 8, "units": 12},
    "cifg-lstm": {"embedding": 8, "units": 12},
    "awd-lstm": {"embedding": 8, "units": 12},
    "gpt2": {"vocabulary_size": 300},
}


def network(name: str) -> Any:
    torch.set_num_threads(1)
    model = models.create(name, SMALL[name])
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    module = model.build(vocabulary, seed=3).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(3.0)
    return module


def some_rows(count: int = 60, words: int = 4, length: int = 5) -> np.ndarray:
    rng = np.random.default_rng(1)
    rows = rng.integers(words, size=(count, length))
    rows[np.arange(length) >= rng.integers(1, length + 1, size=count)[:, None]] = NONE
    return rows


def test_a_tree_has_every_beginning_once_and_parents_in_order() -> None:
    rows = some_rows()
    tree, ends = TokenTree.from_rows(rows)
    beginnings = {tuple(row[:n]) for row in rows.tolist() for n in range(1, 6) if row[n - 1] >= 0}
    sequences = [tuple(t for t in row if t != NONE) for row in tree.sequences().tolist()]
    assert len(sequences) == len(set(sequences)) == len(beginnings) + 1
    assert set(sequences) == {(), *beginnings}
    assert (np.diff(tree.parents) >= 0).all()
    assert [sequences[end] for end in ends] == [
        tuple(t for t in r if t >= 0) for r in rows.tolist()
    ]
    inner, nodes = tree.inner()
    assert [tuple(t for t in r if t != NONE) for r in inner.sequences().tolist()] == [
        sequences[node] for node in nodes
    ]
    values = np.random.default_rng(2).normal(size=len(tree.tokens))
    total = tree.sums(values)
    by_text = {sequences[node + 1]: value for node, value in enumerate(values.tolist())}
    for node, sequence in enumerate(sequences):
        alone = sum(by_text[sequence[:n]] for n in range(1, len(sequence) + 1))
        assert total[node] == pytest.approx(alone)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_packed_rows_have_every_node_once_and_let_it_see_its_ancestors(size: int) -> None:
    tree, _ = TokenTree.from_rows(some_rows())
    sequences = [tuple(t for t in row if t != NONE) for row in tree.sequences().tolist()]
    new: list[int] = []
    for row in packed_rows(tree, size):
        assert len(row.nodes) <= max(size, 5)
        assert (tree.tokens[row.nodes - 1] == row.tokens).all()
        new += row.nodes[row.new].tolist()
        for i, node in enumerate(row.nodes.tolist()):
            mine = sequences[node]
            assert row.depths[i] == len(mine)
            seen = {sequences[other] for other in row.nodes[row.sees[i]].tolist()}
            assert seen == {mine[:n] for n in range(1, len(mine) + 1)}
    assert sorted(new) == list(range(1, tree.size))


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("before", [1, 6])
def test_every_node_has_the_logits_of_its_sequence(
    name: str, before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("uedp_bench.models.networks.lstm.LOGITS_AT_ONCE", 1000)
    module = network(name)
    tree, _ = TokenTree.from_rows(some_rows())
    start = torch.arange(before)[None] % 5
    queried = np.random.default_rng(3).random(tree.size) < 0.6
    queried[0] = before == 1
    sequences = tree.sequences()
    with torch.no_grad():
        parts = tree_logits(module, start, tree, queried=queried, rows=9)
        node_logits = [(n, row) for nodes, rows in parts
                       for n, row in zip(nodes.tolist(), rows, strict=True)]  # fmt: skip
        assert sorted(n for n, _ in node_logits) == np.flatnonzero(queried).tolist()
        for node, logits in node_logits:
            tokens = [t for t in sequences[node].tolist() if t != NONE]
            whole = torch.cat([start, torch.tensor([tokens], dtype=torch.int64)], dim=1)
            torch.testing.assert_close(module(whole)[0, -1], logits, atol=1e-3, rtol=1e-4)


def test_a_network_that_reads_positions_in_another_way_is_run_by_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = network("gpt2")
    tree, _ = TokenTree.from_rows(some_rows(20))
    start, queried = torch.tensor([[1, 2]]), np.ones(tree.size, dtype=bool)
    inner = module.network.forward

    def ignoring(*args: Any, attention_mask: Any = None, **options: Any) -> Any:
        return inner(*args, **options)

    monkeypatch.setattr(module.network, "forward", ignoring)
    with torch.no_grad():
        packed = dict(zip(*_flat(module.tree_logits(start, tree, queried)), strict=True))
        rows = dict(zip(*_flat(logits_by_rows(module, start, tree, queried=queried, rows=5)),
                        strict=True))  # fmt: skip
    assert packed.keys() == rows.keys() == set(range(tree.size))
    for node, logits in rows.items():
        torch.testing.assert_close(packed[node], logits, atol=1e-3, rtol=1e-4)


def _flat(blocks: Any) -> tuple[list[int], list[torch.Tensor]]:
    pairs = [(n, row) for nodes, rows in blocks for n, row in zip(nodes.tolist(), rows)]  # noqa: B905
    return [n for n, _ in pairs], [row for _, row in pairs]
