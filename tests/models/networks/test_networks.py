"""What every network must promise, whatever its name."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from uedp_bench.components.registry import models
from uedp_bench.models.networks.lstm import keep_mask

TEXTS = ["the cat sat on the mat", "a dog ran in the park", "birds sing in the tall old trees"] * 4
SMALL: dict[str, dict[str, Any]] = {
    "lstm-small": {"embedding": 8, "units": 12},
    "cifg-lstm": {"embedding": 8, "units": 12},
    "awd-lstm": {"embedding": 8, "units": 12},
    "gpt2": {},
}


def _network(name: str) -> tuple[Any, Any, nn.Module]:
    torch.set_num_threads(1)
    model = models.create(name, SMALL[name])
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    return model, vocabulary, model.build(vocabulary, seed=3)


def _tokens(size: int, *shape: int) -> Tensor:
    return torch.randint(size, shape, generator=torch.Generator().manual_seed(5))


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _of_words(name: str, words: int) -> tuple[Any, nn.Module]:
    model = models.create(name)
    text = " ".join(f"w{i}" for i in range(words))
    vocabulary = model.vocabulary([text], origin="test", private=False)
    return vocabulary, model.build(vocabulary, seed=0)


def test_cifg_has_the_published_size() -> None:
    vocabulary, module = _of_words("cifg-lstm", 20_000)
    assert vocabulary.size == 10_000
    # embedding + three gates of 670 over input and projection, bias, projection back to 96
    assert _size(module) == 960_000 + 3 * 670 * (96 + 96) + 3 * 670 + 670 * 96
    assert 1.3e6 <= _size(module) < 1.45e6


def test_lstm_small_is_small_at_its_default_vocabulary() -> None:
    vocabulary, module = _of_words("lstm-small", 20_000)
    assert vocabulary.size == 2_000
    assert 50_000 < _size(module) < 100_000


def test_awd_lstm_has_the_paper_s_layers() -> None:
    vocabulary, module = _of_words("awd-lstm", 50)
    sizes = [(100, 1150), (1150, 1150), (1150, 100)]
    layers = sum(4 * out * (inn + out + 1) for inn, out in sizes)
    assert _size(module) == layers + vocabulary.size * 101
    assert float(module.embedding.detach().abs().max()) <= 0.1
    for layer, (_, units) in zip(module.layers, sizes, strict=True):
        largest = float(layer.weight_recurrent.detach().abs().max())
        assert 0.9 / math.sqrt(units) < largest <= 1.0 / math.sqrt(units)


@pytest.mark.parametrize("name", SMALL)
def test_seed_alone_decides_initial_weights(name: str) -> None:
    model, vocabulary, module = _network(name)
    torch.manual_seed(99)
    again, other = model.build(vocabulary, seed=3), model.build(vocabulary, seed=4)
    same = [torch.equal(a, b) for a, b in zip(module.parameters(), again.parameters(), strict=True)]
    assert all(same)
    assert any(
        not torch.equal(a, b) for a, b in zip(module.parameters(), other.parameters(), strict=True)
    )


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dropout", [False, True])
def test_a_row_depends_on_itself_only(name: str, dropout: bool) -> None:
    _, vocabulary, module = _network(name)
    module.train()
    tokens = _tokens(vocabulary.size, 4, 9)
    seeds = torch.tensor([11, 12, 13, 14]) if dropout else None
    whole = module(tokens, seeds)
    others = tokens.clone()
    others[[0, 1, 3]] = _tokens(vocabulary.size - 1, 3, 9) + 1
    other_seeds = None if seeds is None else torch.tensor([91, 92, 13, 94])
    torch.testing.assert_close(module(others, other_seeds)[2], whole[2], atol=1e-5, rtol=1e-5)
    alone = module(tokens[2:3], None if seeds is None else seeds[2:3])
    torch.testing.assert_close(alone[0], whole[2], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dropout", [False, True])
def test_what_follows_a_token_cannot_change_its_logits(name: str, dropout: bool) -> None:
    _, vocabulary, module = _network(name)
    tokens = _tokens(vocabulary.size, 2, 9)
    seeds = torch.tensor([7, 8]) if dropout else None
    padded = tokens.clone()
    padded[:, 5:] = vocabulary.end
    whole = module(tokens, seeds)
    torch.testing.assert_close(module(padded, seeds)[:, :5], whole[:, :5], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(module(tokens[:, :5], seeds), whole[:, :5], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in SMALL if n != "gpt2"])
def test_users_side_by_side_get_the_gradients_they_get_alone(name: str) -> None:
    model, vocabulary, module = _network(name)
    assert model.vectorised
    tokens, seeds = _tokens(vocabulary.size, 3, 2, 6), _tokens(2**60, 3, 2)
    weights = {
        key: torch.stack([p.detach() + 0.02 * i for i in range(3)])
        for key, p in module.named_parameters()
    }

    def loss(params: dict[str, Tensor], tokens: Tensor, seeds: Tensor) -> Tensor:
        logits = torch.func.functional_call(module, params, (tokens, seeds))
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())

    together = torch.func.vmap(torch.func.grad(loss))(weights, tokens, seeds)
    for i in range(3):
        alone = torch.func.grad(loss)(
            {key: value[i] for key, value in weights.items()}, tokens[i], seeds[i]
        )
        for key, value in alone.items():
            torch.testing.assert_close(together[key][i], value, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_a_prefix_run_once_gives_the_logits_of_full_rows(name: str) -> None:
    _, vocabulary, module = _network(name)
    module.eval()
    prefix, rest = _tokens(vocabulary.size, 1, 5), _tokens(vocabulary.size, 3, 4)
    with torch.no_grad():
        full = module(torch.cat([prefix.expand(3, -1), rest], dim=1))[:, 5:]
        state = module.prefix_state(prefix)
        for _ in range(2):  # the state can be used again
            torch.testing.assert_close(module.resume(rest, state), full, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_saved_networks_come_back(name: str, tmp_path: Path) -> None:
    model, vocabulary, module = _network(name)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.01)
    model.save_network(module, tmp_path)
    again = model.load_network(vocabulary, tmp_path).eval()
    tokens = _tokens(vocabulary.size, 2, 6)
    assert torch.equal(again(tokens), module.eval()(tokens))


def test_awd_dropout_is_off_without_seeds_and_differs_with_other_seeds() -> None:
    _, vocabulary, module = _network("awd-lstm")
    module.train()
    tokens = _tokens(vocabulary.size, 1, 6)
    assert torch.equal(module(tokens), module(tokens))
    one, same, two = (module(tokens, torch.tensor([seed])) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, two)
    assert not torch.equal(one, module(tokens))


def test_one_cell_by_hand() -> None:
    """CIFG: c = f c + (1 - f) tanh(.), h = P (o tanh(c)), step by step."""
    _, vocabulary, module = _network("cifg-lstm")
    layer = module.layers[0]
    tokens = _tokens(vocabulary.size, 1, 4)
    hidden, cells, expected = torch.zeros(8), torch.zeros(12), []
    for token in tokens[0]:
        gates = layer.weight_input @ module.embedding[token]
        gates = gates + layer.weight_recurrent @ hidden + layer.bias
        forget, out = gates[:12].sigmoid(), gates[12:24].sigmoid()
        cells = forget * cells + (1 - forget) * gates[24:].tanh()
        hidden = layer.projection @ (out * cells.tanh())
        expected.append(module.embedding @ hidden)
    torch.testing.assert_close(module(tokens)[0], torch.stack(expected), atol=1e-6, rtol=1e-5)


def test_uncoupled_layer_equals_torch_s_lstm() -> None:
    _, _, module = _network("awd-lstm")
    layer = module.layers[0]
    reference = nn.LSTM(8, 12, batch_first=True)
    order = [3, 0, 2, 1]  # torch: input, forget, candidate, output
    with torch.no_grad():
        for theirs, ours in (
            (reference.weight_ih_l0, layer.weight_input),
            (reference.weight_hh_l0, layer.weight_recurrent),
            (reference.bias_ih_l0, layer.bias),
        ):
            theirs.copy_(torch.cat([ours.chunk(4)[i] for i in order]))
        reference.bias_hh_l0.zero_()
    inputs = torch.randn(3, 7, 8, generator=torch.Generator().manual_seed(1))
    ours, _ = layer(inputs, layer.zero_state(3), None)
    torch.testing.assert_close(ours, reference(inputs)[0], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_masks_drop_the_stated_fraction_independently(rate: float) -> None:
    seeds = torch.arange(400)
    columns = torch.arange(500)[None]
    masks = [keep_mask(seeds, stream, columns, rate) for stream in (0, 1)]
    kept = [mask > 0 for mask in masks]
    for mask, keep in zip(masks, kept, strict=True):
        # 200,000 coins: five standard errors
        assert abs(float((~keep).float().mean()) - rate) < 5 * math.sqrt(rate * (1 - rate) / 2e5)
        assert mask.unique().tolist() == pytest.approx([0.0, 1 / (1 - rate)])
    pairs = [(kept[0], kept[1]), (kept[0][1:], kept[0][:-1]), (kept[0][:, 1:], kept[0][:, :-1])]
    for a, b in pairs:
        both = float((a & b).float().mean())
        assert abs(both - (1 - rate) ** 2) < 0.006


def test_a_dropped_word_is_dropped_wherever_it_stands() -> None:
    tokens = torch.tensor([[3, 4, 3, 5, 3]])
    for seed in range(20):
        mask = keep_mask(torch.tensor([seed]), 0, tokens, 0.5)[0]
        assert mask[0] == mask[2] == mask[4]
