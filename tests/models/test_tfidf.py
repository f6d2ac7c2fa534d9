"""TF-IDF: scikit-learn's numbers, public words and weights, and training with per-row gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.feature_extraction.text import TfidfVectorizer

from uedp_bench.components.registry import models
from uedp_bench.errors import InputError
from uedp_bench.models.networks.classifier import TfidfNetwork
from uedp_bench.models.word_vocabularies import FIRST_TERM, TermVocabulary
from uedp_bench.one_run.planting import forget_corpora
from uedp_bench.one_run.preparing import Execution
from uedp_bench.one_run.runner import execute
from uedp_bench.spec.grid import expand
from uedp_bench.spec.spec import parse_spec

PUBLIC = ["The cat sat, on the mat.", "A dog ran in the park", "Birds sing in tall old trees",
          "the cat and the dog sing"]  # fmt: skip
TEXTS = ["the cat the dog the cat", "a b c", "", "Sing, birds! SING in the unheard park",
         "2 birds and 22 cats"]  # fmt: skip


def tfidf(**params: Any) -> tuple[Any, Any, Any]:
    torch.set_num_threads(1)
    model = models.create("tfidf", params)
    vocabulary = model.vocabulary(PUBLIC, origin="test", private=False)
    return model, vocabulary, model.build_encoder(vocabulary, seed=3)


def vectors(vocabulary: Any, module: Any, texts: list[str]) -> torch.Tensor:
    """As the reader of the task makes batches: begin, tokens, end, padding."""
    rows = [[vocabulary.begin, *ids, vocabulary.end] for ids in vocabulary.encode(texts)]
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    padding = [row + [FIRST_TERM] * (width - len(row)) for row in rows]  # a term, if it were read
    output: torch.Tensor = module(torch.tensor(padding), lengths)
    return output


def test_vectors_are_those_of_scikit_learn() -> None:
    _, vocabulary, module = tfidf()
    oracle = TfidfVectorizer(sublinear_tf=True, vocabulary=list(vocabulary.words))
    wanted = oracle.fit(PUBLIC).transform(TEXTS).toarray()
    np.testing.assert_allclose(vectors(vocabulary, module, TEXTS).numpy(), wanted, atol=1e-6)
    assert wanted[0].any()
    assert not wanted[2].any()


def test_words_are_the_most_frequent_of_public_text_and_no_more_than_asked_for() -> None:
    _, vocabulary, module = tfidf(vocabulary_size=6)
    assert vocabulary.words == ("the", "cat", "dog")  # in 3, 2, 2 of the texts; "in", "sing" too
    assert vocabulary.size == 6
    assert module.width == 3
    assert not vocabulary.private
    with pytest.raises(InputError, match=r"test\).*words"):
        TermVocabulary.build(["a", "!"], 10, origin="a test")


def test_hashed_words_need_no_text_and_agree_between_machines() -> None:
    model, vocabulary, module = tfidf(words="hashed", vocabulary_size=67)
    assert model.brings_vocabulary()
    assert vocabulary.encode(["cat dog"]) == [[43, 64]]  # CRC-32 modulo 64, after three others
    assert vocabulary.unknown is None
    rows = vectors(vocabulary, module, TEXTS)
    assert rows.shape == (5, 64)
    np.testing.assert_allclose(rows.norm(dim=1), [1, 0, 0, 1, 1], atol=1e-6)
    again = model.vocabulary((), origin="", private=False)
    assert again.fingerprint == vocabulary.fingerprint


@pytest.mark.parametrize("words", ["vocabulary", "hashed"])
def test_a_saved_vocabulary_and_encoder_answer_alike(tmp_path: Path, words: str) -> None:
    model, vocabulary, module = tfidf(words=words, vocabulary_size=40)
    vocabulary.save(tmp_path / "v")
    model.save_encoder(module, tmp_path / "e")
    again = model.load_vocabulary(tmp_path / "v")
    assert again.fingerprint == vocabulary.fingerprint
    assert (again.size, again.unknown, again.origin) == (
        vocabulary.size, vocabulary.unknown, vocabulary.origin
    )  # fmt: skip
    loaded = model.load_encoder(again, tmp_path / "e")
    assert torch.equal(vectors(again, loaded, TEXTS), vectors(vocabulary, module, TEXTS))
    assert again.decode(again.encode(["the cat"])[0]).count(" ") == 1


def test_a_row_that_is_much_longer_needs_no_more_room() -> None:
    model, _, _ = tfidf()
    assert model.row_numbers(100_000, 500) == 500
    assert models.create("bilstm").row_numbers(10, 500) == 5000


def test_nothing_in_it_is_trained_and_texts_of_one_batch_do_not_touch() -> None:
    _, vocabulary, module = tfidf()
    assert list(module.parameters()) == []
    alone = torch.cat([vectors(vocabulary, module, [text]) for text in TEXTS])
    torch.testing.assert_close(alone, vectors(vocabulary, module, TEXTS))
    assert isinstance(module, TfidfNetwork)


# ------------------------------------------------------------------------------------ real text


def ag_news(shared_data: Path, model: dict[str, Any], *mechanisms: Any, sample: float) -> list[Any]:
    spec = parse_spec({
        "task": {"name": "text-classification", "params": {"max_tokens": 128}},
        "source": {"name": "ag-news", "params": {"path": str(shared_data / "ag_news"),
                   "sample": sample, "public_share": 0.2}},
        "model": model,
        "mechanisms": list(mechanisms),
    })  # fmt: skip
    return expand(spec)


WORDS = {"name": "tfidf", "params": {"vocabulary_size": 8000}}


def test_it_classifies_real_news_and_dp_sgd_trains_it(shared_data, tmp_path) -> None:
    """Findings on reviews: 25.5 % by BiLSTM, 14.8 % by TF-IDF with logistic regression."""
    torch.set_num_threads(1)
    specs = ag_news(
        shared_data, WORDS, {"name": "noiseless", "params": {"epochs": 8}},
        {"name": "dp-sgd", "params": {"batch_size": 256, "steps": 40, "noise_multiplier": 0.8,
                                      "learning_rate": 0.1, "records": 4000}}, sample=0.15,
    )  # fmt: skip
    plain, private = (
        execute(spec, Execution(tmp_path, "cpu", keep_release=False)) for spec in specs
    )
    forget_corpora()
    assert plain.error is None
    assert private.error is None
    # A seventh of the users, and few steps.
    assert plain.utility["error"].value < 0.22
    assert plain.utility["error"].value < plain.utility["tfidf_error"].value + 0.04
    assert plain.utility["tfidf_error"].high < min(plain.floors.values())
    assert plain.learned is True
    assert private.learned is True
    (epsilon,) = (g.epsilon for g in private.guarantees if g.kind == "proven")
    assert 0 < epsilon < 10
    assert plain.provenance["vocabulary"]["private"] is False
