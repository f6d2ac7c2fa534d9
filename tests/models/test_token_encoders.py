"""What every encoder of words must promise, whatever its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from transformers import BertConfig, BertModel

from uedp_bench.components.registry import models
from uedp_bench.contracts.capabilities import Vocabulary
from uedp_bench.contracts.model import TokenEncoder, WordRows
from uedp_bench.errors import InputError
from uedp_bench.models.tokenizers import train_wordpiece
from uedp_bench.models.word_rows import ALPHABET, case_of, features_of

TEXTS = ["The cat sat on the mat", "a dog ran in the park", "birds sing in the tall old trees"] * 9
# Words that nobody knows, without a character, of characters nobody knows, and far too long.
ROWS = [["The", "cat", "", "\u4e2d\u6587", "ran"], ["birds"], ["x" * 300, "sat"], []]
ROWS += [["a", "dog", "ran"], [f"w{i}" for i in range(12)]]
SIZES = {
    "num_hidden_layers": 2,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
SMALL: dict[str, dict[str, Any]] = {
    "bilstm": {"embedding_size": 6, "units": 5, "dropout": 0.4},
    "bilstm case": {"embedding_size": 6, "units": 5, "character_filters": 0},
    "bilstm table": {"embedding_size": 6, "units": 5, "frozen_embedding": True},
    "bert": {"configuration": "tiny", "projection": 7},
    "bert local": {},
    "bert adapters": {"lora_rank": 2},
    "bert frozen": {"frozen": True, "projection": 5},
}
TRAINED = [name for name in SMALL if name != "bert frozen"]
MOST = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random encoder and a tokenizer, as `save_pretrained` writes them."""
    tokenizer = train_wordpiece(TEXTS, 120)
    where = tmp_path_factory.mktemp("pretrained")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        BertModel(BertConfig(**SIZES, vocab_size=len(tokenizer))).save_pretrained(where)
    tokenizer.save_pretrained(where)
    return where


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    torch.set_num_threads(1)
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _model(name: str, folder: Path) -> TokenEncoder[Any]:
    params = SMALL[name]
    if name.startswith("bert") and "configuration" not in params:
        params = {**params, "pretrained": str(folder)}
    model = models.create(name.split()[0], params)
    assert isinstance(model, TokenEncoder)
    return model


def _encoder(name: str, folder: Path) -> tuple[TokenEncoder[Any], Vocabulary | None, WordRows, Any]:
    model = _model(name, folder)
    vocabulary = None
    if not model.frozen():
        vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    module = model.build_token_encoder(vocabulary, seed=3)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(5)
        for weight in (w for w in module.parameters() if not w.any()):
            weight.normal_(0.0, 0.1)
    return model, vocabulary, model.read_words(ROWS, vocabulary, MOST, "cpu"), module


def _gradients(module: nn.Module, outputs: Tensor) -> list[Tensor]:
    weights = [weight for weight in module.parameters() if weight.requires_grad]
    return list(torch.autograd.grad(outputs.square().sum(), weights, materialize_grads=True))


@pytest.mark.parametrize("name", SMALL)
def test_a_row_depends_on_its_own_words_only(name: str, folder: Path) -> None:
    """Neither who stands beside it nor its padding change its vectors or their gradient."""
    _, _, rows, module = _encoder(name, folder)
    module.train()
    every = np.arange(len(ROWS))
    seeds = torch.arange(len(ROWS)) + 11
    batch = {**rows.batch(every), "seeds": seeds}
    whole = module(batch)
    assert whole.shape == (len(ROWS), int(rows.lengths.max()), module.width)
    assert torch.isfinite(whole).all()
    assert torch.equal(batch["lengths"], torch.from_numpy(rows.lengths))
    for row, length in enumerate(rows.lengths.tolist()):
        alone = module({**rows.batch(every[[row]]), "seeds": seeds[[row]]})
        assert alone.shape[1] == max(length, 1)
        torch.testing.assert_close(alone[0, :length], whole[row, :length], atol=1e-5, rtol=1e-5)
        if length:
            expected = _gradients(module, alone[0, :length])
            padded = _gradients(module, module(batch)[row, :length])
            torch.testing.assert_close(padded, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_another_row_changes_nothing_here(name: str, folder: Path) -> None:
    model, vocabulary, rows, module = _encoder(name, folder)
    module.eval()
    others = [ROWS[0], ["park"], ["trees", "mat"], ["sing"], ["on"], ["old"] * 12]
    read = model.read_words(others, vocabulary, MOST, "cpu")
    both = [module(each.batch(np.arange(len(others)))) for each in (rows, read)]
    length = int(rows.lengths[0])
    torch.testing.assert_close(both[0][0, :length], both[1][0, :length], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_what_was_saved_answers_as_before(name: str, folder: Path, tmp_path: Path) -> None:
    model, vocabulary, rows, module = _encoder(name, folder)
    model.save_token_encoder(module, tmp_path / "saved")
    loaded = _model(name, folder).load_token_encoder(vocabulary, tmp_path / "saved")
    batch = rows.batch(np.arange(len(ROWS)))
    module.eval()
    torch.testing.assert_close(loaded.eval()(batch), module(batch), atol=1e-6, rtol=1e-6)
    trained = [n for n, w in module.named_parameters() if w.requires_grad]
    assert [n for n, w in loaded.named_parameters() if w.requires_grad] == trained


@pytest.mark.parametrize("name", TRAINED)
def test_the_seed_draws_the_weights(name: str, folder: Path) -> None:
    model = _model(name, folder)
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    first, same, other = (
        torch.cat([w.reshape(-1) for w in model.build_token_encoder(vocabulary, seed).parameters()])
        for seed in (1, 1, 2)
    )
    assert torch.equal(first, same)
    assert torch.equal(first, other) is (name == "bert local")


def test_words_past_the_limit_are_left_out(folder: Path) -> None:
    model = models.create("bilstm", SMALL["bilstm"])
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    rows = model.read_words(ROWS, vocabulary, 3, "cpu")
    assert rows.lengths.tolist() == [3, 1, 2, 0, 3, 3]
    assert rows.truncated == 2
    whole = model.read_words(ROWS, vocabulary, MOST, "cpu")
    assert whole.truncated == 0
    assert torch.equal(
        rows.batch(np.array([0]))["tokens"], whole.batch(np.array([0]))["tokens"][:, :3]
    )


def test_pieces_past_the_limit_are_left_out(folder: Path) -> None:
    model = _model("bert local", folder)
    vocabulary = model.vocabulary([], origin="", private=False)
    row = ["cat", "trees" * 4, "mat"]
    cut = [len(ids) for ids in vocabulary.encode(row)]
    assert cut[1] > 3
    read = {limit: model.read_words([row], vocabulary, limit, "cpu") for limit in (3, 5, 40, 99)}
    assert [rows.lengths.tolist() for rows in read.values()] == [[1], [2], [3], [3]]
    assert [rows.truncated for rows in read.values()] == [1, 1, 0, 0]
    assert read[5].batch(np.array([0]))["tokens"].shape[1] == 5
    assert read[40].batch(np.array([0]))["first"].tolist() == [[1, 1 + cut[0], 1 + sum(cut[:2])]]


def test_a_word_has_the_vector_of_its_first_piece(folder: Path) -> None:
    model = _model("bert local", folder)
    vocabulary = model.vocabulary([], origin="", private=False)
    module = model.build_token_encoder(vocabulary, seed=1)
    row = ["birds", "singing", "cat"]
    ids = [vocabulary.begin, *vocabulary.encode([" ".join(row)])[0], vocabulary.end]
    hidden = BertModel.from_pretrained(folder).eval()(torch.tensor([ids])).last_hidden_state[0]
    cut = [len(pieces) for pieces in vocabulary.encode(row)]
    expected = hidden[[1, 1 + cut[0], 1 + cut[0] + cut[1]]]
    batch = model.read_words([row], vocabulary, MOST, "cpu").batch(np.array([0]))
    torch.testing.assert_close(module(batch)[0], expected, atol=1e-6, rtol=1e-5)


def test_a_frozen_encoder_gives_the_vectors_that_training_would_start_from(
    folder: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    model = models.create("bert", {"pretrained": str(folder), "frozen": True})
    again = [*ROWS, ROWS[0], ["cat", ROWS[0][1]]]
    rows = model.read_words(again, None, MOST, "cpu")
    trained = _model("bert local", folder)
    vocabulary = trained.vocabulary([], origin="", private=False)
    module = trained.build_token_encoder(vocabulary, seed=1).eval()
    every = np.arange(len(again))
    expected = module(trained.read_words(again, vocabulary, MOST, "cpu").batch(every))
    states = model.build_token_encoder(None, seed=1)(rows.batch(every))
    for row, length in enumerate(rows.lengths.tolist()):
        torch.testing.assert_close(
            states[row, :length], expected[row, :length], atol=1e-5, rtol=1e-5
        )
        assert not states[row, length:].any()
    assert len(list(cache.rglob("*.npz"))) == 1

    from uedp_bench.models import bert

    def never(*_: object) -> None:
        raise AssertionError("vectors were computed again")

    monkeypatch.setattr(bert, "_frozen_words", never)
    kept = model.read_words(again, None, MOST, "cpu")
    torch.testing.assert_close(kept.batch(every), rows.batch(every), rtol=0.0, atol=0.0)


def test_byte_level_tokenizers_have_the_space_in_the_piece() -> None:
    from uedp_bench.models.tokenizers import TokenizerVocabulary
    from uedp_bench.models.word_rows import read_pieces

    vocabulary = TokenizerVocabulary.train(TEXTS, 300, origin="test")
    row = ["The", "cat", "sat"]
    rows = read_pieces([row, [""]], vocabulary, 40, numbers=1)
    batch = rows.batch(np.array([0, 1]))
    length = int(batch["pieces"][0])
    assert vocabulary.decode(batch["tokens"][0, :length].tolist()) == " ".join(row)
    assert batch["lengths"].tolist() == [3, 1]


def test_users_side_by_side_have_the_gradients_of_each(folder: Path) -> None:
    _, _, rows, module = _encoder("bilstm", folder)
    module.train()
    batch = {**rows.batch(np.arange(4)), "seeds": torch.arange(4)}
    weights = {name: weight.detach() for name, weight in module.named_parameters()}

    def loss(weights: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
        states = torch.func.functional_call(module, weights, (batch,))
        inside = torch.arange(states.shape[1]) < batch["lengths"][:, None]
        total: Tensor = (states.square().sum(dim=2) * inside).sum()
        return total

    many = {name: torch.stack([value[:2], value[2:]]) for name, value in batch.items()}
    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, many)
    for unit in range(2):
        alone = torch.func.grad(loss)(weights, {n: v[unit] for n, v in many.items()})
        for name, value in alone.items():
            torch.testing.assert_close(gradients[name][unit], value, atol=1e-5, rtol=1e-4)


def test_features_of_words_are_their_own() -> None:
    words = [
        "",
        "B",
        "EU",
        "London",
        "McCoy",
        "1996",
        "3-2",
        "B2B",
        "the",
        "--",
        "\u0141\u00f3d\u017a",
    ]
    assert [case_of(word) for word in words] == [0, 6, 5, 6, 7, 1, 2, 3, 4, 0, 6]
    features = features_of([*words, "a" * 15 + "b" * 15, "\u4e2d"])
    assert features.characters.max() < ALPHABET
    assert (features.characters[0] > 0).sum() == 2  # begin and end of a word without characters
    assert features.characters[-1].tolist()[:3] == [2, 1, 3]
    long = features.characters[-2]
    assert (long > 0).all()
    assert len(set(long[1:11].tolist())) == len(set(long[11:21].tolist())) == 1
    assert len({tuple(row) for row in features.characters.tolist()}) == len(words) + 2


def test_a_word_is_looked_up_as_written_and_then_in_lower_case(folder: Path) -> None:
    model = models.create("bilstm", SMALL["bilstm"])
    vocabulary = model.vocabulary(["The the cat"], origin="test", private=False)
    rows = model.read_words([["The", "THE", "Cat", "dog"]], vocabulary, MOST, "cpu")
    the, upper, cat, dog = rows.batch(np.array([0]))["tokens"][0].tolist()
    ids = dict(zip(["The", "the", "cat"], vocabulary.encode(["The", "the", "cat"]), strict=True))
    assert ([the], [upper], [cat], dog) == (ids["The"], ids["the"], ids["cat"], vocabulary.unknown)


def test_features_of_words_are_refused_where_a_text_is_one_vector() -> None:
    model = models.create("bilstm", {"character_filters": 4})
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    with pytest.raises(InputError, match=r"bilstm\.character_filters is 4"):
        model.build_encoder(vocabulary, seed=0)


def test_a_pooling_is_refused_where_words_are_labelled(folder: Path) -> None:
    model = models.create("bert", {"configuration": "tiny", "pooling": "mean"})
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    with pytest.raises(InputError, match=r"bert\.pooling is 'mean'"):
        model.build_token_encoder(vocabulary, seed=0)


@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
def test_vectors_from_a_file_start_a_network_of_words(tmp_path: Path, frozen: bool) -> None:
    file = tmp_path / "vectors.txt"
    file.write_text("cat 1 2 3\nthe 4 5 6\n", encoding="utf-8")
    params = {"embedding": str(file), "units": 3, "frozen_embedding": frozen}
    model = models.create("bilstm", params)
    vocabulary = model.vocabulary(TEXTS, origin="test", private=False)
    module = model.build_token_encoder(vocabulary, seed=0)
    at = vocabulary.encode(["cat"])[0][0]
    assert module.embedding[at].tolist() == [1.0, 2.0, 3.0]
    model.save_token_encoder(module, tmp_path)
    file.unlink()
    loaded = model.load_token_encoder(vocabulary, tmp_path)
    assert torch.equal(loaded.embedding, module.embedding)
    for one in (module, loaded):  # who trains it looks there
        stays = [name for name, w in one.named_parameters() if not w.requires_grad]
        assert stays == (["embedding"] if frozen else [])


def test_results_from_before_keep_their_parameters() -> None:
    params = models.create("bilstm", {"units": 3}).params.model_dump()
    assert not {"character_filters", "frozen_embedding"} & {*params}
