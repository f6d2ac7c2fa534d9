"""What every trained encoder must promise, whatever its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from uedp_bench.components.registry import models
from uedp_bench.contracts.model import TextEncoder
from uedp_bench.errors import InputError

TEXTS = ["the cat sat on the mat", "a dog ran in the park", "birds sing in the tall old trees"] * 4
SMALL: dict[str, dict[str, Any]] = {
    "awd-lstm": {"embedding": 8, "units": 12},
    "bilstm": {"embedding_size": 8, "units": 6, "dropout": 0.4},
    "bert": {"configuration": "tiny"},
    "bert mean": {"configuration": "tiny", "pooling": "mean", "projection": 7},
}
RECURRENT = ["awd-lstm", "bilstm"]
LENGTHS = torch.tensor([9, 2, 5, 7])


def _encoder(name: str) -> tuple[Any, Any, Any]:
    torch.set_num_threads(1)
    model = models.create(name.split()[0], SMALL[name])
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    return model, vocabulary, model.build_encoder(vocabulary, seed=3)


def _tokens(size: int, *shape: int) -> Tensor:
    return torch.randint(size, shape, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("name", SMALL)
def test_it_gives_one_vector_of_its_width_for_each_row(name: str) -> None:
    model, vocabulary, module = _encoder(name)
    assert isinstance(model, TextEncoder)
    assert not model.frozen()
    vectors = module(_tokens(vocabulary.size, 4, 9), LENGTHS)
    assert vectors.shape == (4, module.width)
    assert torch.isfinite(vectors).all()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("dropout", [False, True])
def test_a_row_depends_on_its_own_tokens_only(name: str, dropout: bool) -> None:
    _, vocabulary, module = _encoder(name)
    module.train()
    tokens = _tokens(vocabulary.size, 4, 9)
    seeds = torch.tensor([11, 12, 13, 14]) if dropout else None
    whole = module(tokens, LENGTHS, seeds)
    for row, length in enumerate(LENGTHS.tolist()):
        one = None if seeds is None else seeds[row : row + 1]
        alone = module(tokens[row : row + 1, :length], LENGTHS[row : row + 1], one)
        torch.testing.assert_close(alone[0], whole[row], atol=1e-5, rtol=1e-5)
    others = tokens.clone()
    others[[0, 1, 3]] = (tokens[[0, 1, 3]] + 1) % vocabulary.size
    others[2, 5:] = (tokens[2, 5:] + 1) % vocabulary.size  # padding
    after = module(others, LENGTHS, seeds)
    torch.testing.assert_close(after[2], whole[2], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(after[0], whole[0], atol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_padding_gets_no_gradient(name: str) -> None:
    _, vocabulary, module = _encoder(name)
    tokens = torch.full((1, 9), 4)
    tokens[0, 5:] = vocabulary.size - 1
    module(tokens, torch.tensor([5])).square().sum().backward()
    gradient = dict(module.named_parameters())[
        next(n for n, p in module.named_parameters() if p.shape[0] == vocabulary.size)
    ].grad
    assert gradient is not None
    assert gradient[4].abs().max() > 0
    assert gradient[vocabulary.size - 1].abs().max() == 0


@pytest.mark.parametrize("name", SMALL)
def test_every_weight_is_trained(name: str) -> None:
    """Weights that no loss sees would get a mechanism's noise for nothing."""
    _, vocabulary, module = _encoder(name)
    tokens = _tokens(vocabulary.size, 4, 9)
    weights = torch.linspace(0.5, 2.0, module.width)
    (module(tokens, LENGTHS) * weights).square().sum().backward()
    assert [n for n, p in module.named_parameters() if p.grad is None] == []


@pytest.mark.parametrize("name", RECURRENT)
@pytest.mark.parametrize("dropout", [False, True])
def test_users_side_by_side_get_the_gradients_they_get_alone(name: str, dropout: bool) -> None:
    model, vocabulary, module = _encoder(name)
    assert model.vectorised
    tokens = _tokens(vocabulary.size, 3, 2, 6)
    lengths = torch.tensor([[6, 2], [4, 5], [3, 3]])
    seeds = _tokens(2**60, 3, 2) if dropout else None
    weights = {
        key: torch.stack([p.detach() + 0.02 * i for i in range(3)])
        for key, p in module.named_parameters()
    }

    def loss(params: dict[str, Tensor], tokens: Tensor, lengths: Tensor, seeds: Any) -> Tensor:
        outputs = torch.func.functional_call(module, params, (tokens, lengths, seeds))
        return (outputs * torch.linspace(-1, 1, module.width)).square().sum()

    gradient = torch.func.grad(loss)
    inner = None if seeds is None else 0
    together = torch.func.vmap(gradient, (0, 0, 0, inner))(weights, tokens, lengths, seeds)
    for i in range(3):
        own = None if seeds is None else seeds[i]
        alone = gradient({k: v[i] for k, v in weights.items()}, tokens[i], lengths[i], own)
        for key, value in alone.items():
            torch.testing.assert_close(together[key][i], value, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_dropout_comes_from_seeds_alone(name: str) -> None:
    _, vocabulary, module = _encoder(name)
    module.train()
    tokens, lengths = _tokens(vocabulary.size, 1, 6), torch.tensor([6])
    plain = module(tokens, lengths)
    assert torch.equal(plain, module(tokens, lengths))
    one, same, two = (module(tokens, lengths, torch.tensor([seed])) for seed in (1, 1, 2))
    assert torch.equal(one, same)
    if name in RECURRENT:
        assert not torch.equal(one, two)
        assert not torch.equal(one, plain)
    else:
        assert torch.equal(one, plain), "transformers have no dropout"


@pytest.mark.parametrize("name", SMALL)
def test_seed_alone_decides_initial_weights(name: str) -> None:
    model, vocabulary, module = _encoder(name)
    torch.manual_seed(99)
    again, other = (model.build_encoder(vocabulary, seed=seed) for seed in (3, 4))
    tokens = _tokens(vocabulary.size, 4, 9)
    assert torch.equal(module(tokens, LENGTHS), again(tokens, LENGTHS))
    assert not torch.equal(module(tokens, LENGTHS), other(tokens, LENGTHS))


@pytest.mark.parametrize("name", SMALL)
def test_saved_encoders_and_vocabularies_come_back(name: str, tmp_path: Path) -> None:
    model, vocabulary, module = _encoder(name)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.01)
    model.save_encoder(module, tmp_path / "encoder")
    vocabulary.save(tmp_path / "words")
    words = model.load_vocabulary(tmp_path / "words")
    again = model.load_encoder(words, tmp_path / "encoder")
    tokens = _tokens(vocabulary.size, 4, 9)
    assert torch.equal(again(tokens, LENGTHS), module(tokens, LENGTHS))
    assert words.encode(TEXTS) == vocabulary.encode(TEXTS)
    assert (words.begin, words.end) == (vocabulary.begin, vocabulary.end)


@pytest.mark.parametrize("name", SMALL)
def test_the_mask_is_one_token_whatever_it_stands_for(name: str) -> None:
    model, vocabulary, _ = _encoder(name)
    ids = vocabulary.encode([model.mask, f"the {model.mask} sat"])
    assert len(ids[0]) == 1
    assert ids[1][1:2] == ids[0]
    assert ids[0] != vocabulary.encode(["the"])[0]


def test_a_bilstm_is_torch_s_over_packed_rows() -> None:
    _, vocabulary, module = _encoder("bilstm")
    reference = nn.LSTM(8, 6, batch_first=True, bidirectional=True)
    for layer, suffix in ((module.onward, ""), (module.backward_layer, "_reverse")):
        for ours, theirs in (
            (layer.weight_input, "weight_ih_l0"),
            (layer.weight_recurrent, "weight_hh_l0"),
            (layer.bias, "bias_ih_l0"),
        ):
            forget, out, candidate, enter = ours.detach().chunk(4)
            value = torch.cat([enter, forget, candidate, out])
            getattr(reference, theirs + suffix).data.copy_(value)
        getattr(reference, "bias_hh_l0" + suffix).data.zero_()
    tokens = _tokens(vocabulary.size, 4, 9)
    packed = nn.utils.rnn.pack_padded_sequence(
        nn.functional.embedding(tokens, module.embedding),
        LENGTHS,
        batch_first=True,
        enforce_sorted=False,
    )
    _, (states, _) = reference(packed)
    expected = torch.cat([states[0], states[1]], dim=1)
    torch.testing.assert_close(module(tokens, LENGTHS), expected, atol=1e-6, rtol=1e-5)


def test_concat_pooling_by_hand() -> None:
    _, vocabulary, module = _encoder("awd-lstm")
    tokens = _tokens(vocabulary.size, 4, 9)
    outputs = module.network.outputs(tokens)
    pooled = module(tokens, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        own = outputs[row, :length]
        expected = torch.cat([own[-1], own.max(dim=0).values, own.mean(dim=0)])
        torch.testing.assert_close(pooled[row], expected, atol=1e-6, rtol=1e-5)


def test_words_start_from_a_file_of_vectors(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("cat 1 2 3\nDog 4 5 6\nThe 7 8 9\n", encoding="utf-8")
    model = models.create("bilstm", {"embedding": str(file), "units": 4})
    vocabulary = model.vocabulary(["cat the dog The"], origin="test", private=False)
    module = model.build_encoder(vocabulary, seed=1)
    table = module.embedding.detach()
    (cat,), (lower,), (dog,) = vocabulary.encode(["cat", "the", "dog"])
    assert table.shape == (vocabulary.size, 3)
    assert table[cat].tolist() == [1, 2, 3]
    assert table[dog].abs().max() <= 0.1, "the file has another word"
    assert table[vocabulary.encode(["The"])[0][0]].tolist() == [7, 8, 9]
    assert table[lower].abs().max() <= 0.1
    model.save_encoder(module, tmp_path / "saved")
    file.unlink()
    again = model.load_encoder(vocabulary, tmp_path / "saved")
    tokens, lengths = torch.tensor([[0, cat, dog, 1]]), torch.tensor([4])
    assert torch.equal(again(tokens, lengths), module(tokens, lengths))


def test_bad_vectors_are_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("zebra 1 2 3\n", encoding="utf-8")
    model = models.create("bilstm", {"embedding": str(file)})
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    with pytest.raises(InputError, match=r"bilstm\.embedding.*vectors\.txt"):
        model.build_encoder(vocabulary, seed=0)
    with pytest.raises(InputError, match="embedding_size"):
        models.create("bilstm", {"embedding": str(file), "embedding_size": 3})
    missing = models.create("bilstm", {"embedding": str(tmp_path / "none.txt")})
    with pytest.raises(InputError, match=r"bilstm\.embedding.*none\.txt"):
        missing.build_encoder(vocabulary, seed=0)


def test_wordpieces_of_the_same_text_are_the_same() -> None:
    model = models.create("bert", SMALL["bert"])
    first, second = (model.vocabulary(TEXTS, origin="t", private=True) for _ in range(2))
    assert first.fingerprint == second.fingerprint
    assert first.private
    assert first.size <= 2_000
    assert len(first.encode(["the"])[0]) == 1, "frequent words are whole"
    assert (
        first.decode(first.encode(["The ##cat, singing"])[0]) == "the [UNK] [UNK] cat [UNK] singing"
    )
    assert np.unique([first.begin, first.end, first.unknown]).size == 3
