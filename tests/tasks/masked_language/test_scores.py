"""Scores of hidden words, against definitions that are written out."""

from __future__ import annotations

import numpy as np
import pytest
from masked_rows import release_of, rows_of_words, task_with

from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.errors import InputError
from uedp_bench.tasks.masked_language.masked_model import MaskedReader
from uedp_bench.tasks.masked_language.scores import WordPieces


def test_a_uniform_model_has_the_vocabulary_s_size_to_the_pieces_of_a_word() -> None:
    task, corpus = task_with(), rows_of_words()
    release = release_of(task, corpus)
    for weight in release.module.parameters():
        weight.data.zero_()
    utility = task.score(release, corpus)
    metrics, size = utility.metrics, release.vocabulary.size
    # Public text has few words, and all of them are frequent.
    assert {one.name for one in task.metrics} - set(metrics) == {"middle_accuracy", "rare_accuracy"}
    assert metrics["pseudo_perplexity_piece"].value == pytest.approx(size, rel=1e-5)
    words = [word for text in corpus.only("test").texts for word in text.split()]
    pieces = sum(len(release.encode(word)) for word in words)
    assert metrics["pseudo_perplexity"].value == pytest.approx(
        size ** (pieces / len(words)), rel=1e-4
    )
    assert utility.details["words"] == utility.details["scored_words"] == len(words)


def test_every_word_is_hidden_once_with_all_its_pieces() -> None:
    task, corpus = task_with(), rows_of_words()
    release, queries = release_of(task, corpus), []
    real = release.masked_logprobs

    def spied(rows, hidden):
        queries.extend(zip(rows, hidden, strict=True))
        return real(rows, hidden)

    release.masked_logprobs = spied  # type: ignore[method-assign]
    task.score(release, corpus)
    hidden: dict[tuple[int, ...], list[int]] = {}
    for row, places in queries:
        hidden.setdefault(tuple(row), []).extend(places.tolist())
        assert 1 <= len(places) <= max(1, -(-len(row) // 6))
    counts = {}
    for text in corpus.only("test").texts:
        row = tuple(release.encode(text))
        counts[row] = counts.get(row, 0) + 1
    assert {row: sorted(hidden_places) for row, hidden_places in hidden.items()} == {
        row: sorted([*range(len(row))] * times) for row, times in counts.items()
    }


def test_words_of_a_large_split_are_drawn_evenly() -> None:
    task, corpus = task_with(), rows_of_words(1_000, longest=20)
    reader = release_of(task, corpus).reader
    read = WordPieces.from_texts(corpus.texts, reader)
    lengths = np.diff(read.windows)
    whole, some = (
        np.concatenate([words for _, words in read.turns(0.15, enough)])
        for enough in (10**9, len(read.words) // 7)
    )
    np.testing.assert_array_equal(np.sort(whole), np.arange(len(read.words)))
    drawn = np.isin(np.arange(len(read.words)), some)
    short = np.repeat(lengths, lengths) < 6
    for part in (drawn[short], drawn[~short]):
        assert abs(part.mean() - 1 / 7) < 4 * (6 / 49 / len(part)) ** 0.5


def test_long_rows_are_windows_of_whole_words() -> None:
    corpus = rows_of_words()
    task = task_with()
    release = release_of(task, corpus)
    reader = MaskedReader(task.model, release.vocabulary, max_tokens=9, rate=0.15)
    text = "clinic unseenable nurse the old zebra went home"
    read = WordPieces.from_texts([text, "", "home"], reader)
    assert read.words == (*text.split(), "home")
    sizes = read.lengths
    for a, b in zip(read.windows[:-1], read.windows[1:], strict=True):
        assert sizes[a:b].sum() <= 7
        assert len(set(read.row[a:b].tolist())) == 1
    assert len(read.windows) > 3


def test_unknown_words_are_counted_and_spelt_and_left_out_of_accuracy() -> None:
    texts = ["the old \u4e2d", "\u4e2d\u6587", "the old", "the nurse the", "the old nurse " * 3]
    split = [SPLITS.index(s) for s in ("test", "test", "test", "train", "public")]
    corpus = Corpus(tuple(texts), {"user": np.arange(5)}, np.array(split))
    task = task_with()
    release = release_of(task, corpus)
    for weight in release.module.parameters():
        weight.data.zero_()
    release.module.head.bias.data[release.vocabulary.unknown] = 30.0  # type: ignore[union-attr]
    metrics = task.score(release, corpus).metrics
    assert metrics["oov_rate"].value == pytest.approx(2 / 6)
    assert metrics["accuracy"].value == 0.0
    perplexity = metrics["pseudo_perplexity_known"].value
    assert metrics["pseudo_perplexity"].value == pytest.approx(perplexity ** (4 / 6), rel=1e-3)
    spelt = 256 ** ((4 + 7) / 6)  # three bytes a sign, and an end
    pieces = [len(release.encode(text)) for text in ("\u4e2d", "\u4e2d\u6587")]
    assert pieces == [1, 2]
    assert metrics["pseudo_perplexity_open"].value == pytest.approx(
        metrics["pseudo_perplexity"].value * spelt, rel=1e-3
    )
    assert metrics["constant_accuracy"].value == 0.5  # "the", twice of four known words
    release.module.head.bias.data[release.vocabulary.unknown] = -np.inf  # type: ignore[union-attr]
    metrics = task.score(release, corpus).metrics
    assert metrics["pseudo_perplexity"].value == np.inf
    assert np.isfinite(metrics["pseudo_perplexity_known"].value)


def test_bins_go_by_public_text_and_are_left_out_without_it() -> None:
    public = " ".join(f"w{i} " * (1_200 - i) for i in range(0, 1_200, 1))
    split = [SPLITS.index(s) for s in ("public", "train", "test")]
    corpus = Corpus((public, "w1", "W0 w150 w1100 unseen"), {"user": np.arange(3)}, np.array(split))
    from uedp_bench.tasks.masked_language.scores import _bins

    bins = _bins(corpus.texts[2].split(), corpus)
    assert {name: where.tolist() for name, where in bins.items()} == {
        "frequent": [True, False, False, False],
        "middle": [False, True, False, False],
        "rare": [False, False, True, True],
    }
    assert _bins(["w1"], corpus.only("train", "test")) == {}


def test_a_split_without_words_is_one_clear_line() -> None:
    texts, split = ("the old", "", "the"), [SPLITS.index(s) for s in ("train", "test", "public")]
    corpus = Corpus(texts, {"user": np.arange(3)}, np.array(split))
    task = task_with()
    with pytest.raises(InputError, match="split 'test'"):
        task.score(release_of(task, corpus), corpus)
