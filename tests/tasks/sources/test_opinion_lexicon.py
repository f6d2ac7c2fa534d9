from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError


def source(path: Path, **params: object):
    return sources.create("opinion-lexicon", {"path": path, **params})


def write(folder: Path, negative: list[str], positive: list[str]) -> Path:
    head = ";;;\n; Opinion Lexicon\n;\n\n"
    text = (head + "\n".join(negative) + "\n").encode("latin-1")
    (folder / "negative-words.txt.gz").write_bytes(gzip.compress(text))
    (folder / "positive-words.txt").write_text(head + "\n".join(positive), encoding="latin-1")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(
        tmp_path, [f"bad{i}" for i in range(1000)] + ["both"], [f"ok{i}" for i in range(500)]
    )


def test_words_are_rows_with_a_label(tmp_path: Path) -> None:
    corpus = source(write(tmp_path, ["awful", "naïve"], ["a+", "good"]), valid=0, test=0).load()
    assert corpus.texts == ("awful", "naïve", "a+", "good")
    assert corpus.labels is not None
    assert [corpus.label_names[i] for i in corpus.labels] == ["negative"] * 2 + ["positive"] * 2
    assert corpus.where("train").all()


def test_shares_of_the_splits(folder: Path) -> None:
    corpus = source(folder, valid=0.2, test=0.1).load()
    # 1,501 draws: the standard error is at most 0.011.
    shares = [corpus.where(split).mean() for split in ("train", "valid", "test")]
    assert shares == pytest.approx([0.7, 0.2, 0.1], abs=0.04)


def test_the_seed_decides_and_other_words_do_not(folder: Path) -> None:
    first, other = source(folder).load(), source(folder, seed=1).load()
    assert first.fingerprint == source(folder).load().fingerprint
    assert np.mean(first.split != other.split) > 0.1
    write(folder, ["new", *first.texts[:1001]], [*first.texts[1001:]])
    assert source(folder).load().split[1:].tolist() == first.split.tolist()


def test_a_word_on_both_lists_is_in_one_split_and_one_user(folder: Path) -> None:
    shared = [f"both{i}" for i in range(100)]
    corpus = source(write(folder, shared, shared)).load()
    assert corpus.split[:100].tolist() == corpus.split[100:].tolist()
    assert len(np.unique(corpus.split)) == 3
    assert corpus.users[:100].tolist() == corpus.users[100:].tolist()


def test_bad_input_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=r"valid=0\.5.*test=0\.5"):
        source(folder, valid=0.5, test=0.5)
    (folder / "positive-words.txt").write_text("; nothing\n\n")
    with pytest.raises(InputError, match=r"positive-words\.txt.*word"):
        source(folder).load()
    (folder / "positive-words.txt").unlink()
    with pytest.raises(InputError, match=r"positive-words\.txt \(plain"):
        source(folder).load()
    with pytest.raises(InputError, match=r"opinion-lexicon\.path.*nowhere"):
        source(folder / "nowhere").load()


def test_no_word_to_train_on_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"2 words.*test=0\.999999"):
        source(write(tmp_path, ["bad"], ["good"]), test=0.999999, valid=0).load()


def test_other_lists_have_no_documented_sizes(folder: Path) -> None:
    assert source(folder).documented() is None


def test_the_published_lists(shared_data: Path) -> None:
    published = source(shared_data / "opinion_lexicon")
    corpus = published.load()
    assert corpus.labels is not None
    assert np.bincount(corpus.labels).tolist() == [4_783, 2_006]
    assert "naïve" in corpus.texts
    train, stats = corpus.only("train"), published.documented()
    assert stats is not None
    assert (stats.public, stats.rows) == (True, len(train))
    assert stats.users == len(np.unique(train.users)) < len(train)
