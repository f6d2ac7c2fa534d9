from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.imdb import break_lines


def create(path: Path, **params: object):
    return sources.create("imdb", {"path": path, **params})


def reviews(movies: int, prefix: str) -> str:
    rows = (
        {"id": i, "label": ("pos", "neg")[i % 2], "movie": f"{prefix}{i // 3}", "text": f"T {i}"}
        for i in range(3 * movies)
    )
    return "\n".join(map(json.dumps, rows)) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.jsonl.gz").write_bytes(gzip.compress(reviews(20, "a").encode()))
    (tmp_path / "test.jsonl").write_text(reviews(5, "b"))
    return tmp_path


def test_reviews_have_sentiment_and_movie(folder: Path) -> None:
    corpus = create(folder).load()
    test = corpus.only("test")
    assert corpus.label_names == ("neg", "pos")
    assert test.labels is not None
    assert test.labels[:4].tolist() == [1, 0, 1, 0]
    assert test.users.tolist() == [20 + i // 3 for i in range(15)]
    assert len(test.texts) == 15
    assert test.texts[0] == "T 0"


def test_valid_is_cut_off_whole_movies(folder: Path) -> None:
    corpus = create(folder, valid=0.2).load()
    valid = corpus.where("valid").sum()
    assert (valid % 3, 3 <= valid <= 12 * 3) == (0, True)
    assert not set(corpus.only("valid").users.tolist()) & set(corpus.only("train").users.tolist())
    public = create(folder, valid=0.2, valid_is_public=True).load()
    assert public.where("public").sum() == valid


def test_files_of_splits_are_taken_as_they_are(folder: Path) -> None:
    (folder / "valid.jsonl").write_text(reviews(2, "c"))
    corpus = create(folder).load()
    assert [corpus.where(split).sum() for split in ("train", "valid", "test")] == [60, 6, 15]


@pytest.mark.parametrize(
    ("line_breaks", "text"),
    [
        ("space", "One. Two. x<b"),
        ("newline", "One.\nTwo. x<b"),
        ("markup", "One. <br /><br />Two. x<b"),
    ],
)
def test_line_breaks(line_breaks, text: str) -> None:
    assert break_lines("One. <br /><br />Two. x<b", line_breaks) == text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"label": "pos", "text": "a"}', r"line 2.*KeyError\('movie'\)"),
        ('{"label": "pos", "movie": null, "text": "a"}', "line 2: movie"),
        ('{"label": "pos", "movie": "m", "text": " "}', "line 2: text"),
        ('{"label": 1, "movie": "m", "text": "a"}', "line 2: label.* 1$"),
        ('{"label": "post", "movie": "m", "text": "a"}', "label 'post'.*'pos'"),
        ("nonsense", "line 2.*JSONDecodeError"),
    ],
)
def test_bad_lines_are_refused(folder: Path, line: str, message: str) -> None:
    first = '{"label": "pos", "movie": "m", "text": "a"}\n'
    (folder / "test.jsonl").write_text(first + line + "\n")
    with pytest.raises(InputError, match=message):
        create(folder).load()


def test_missing_and_empty_files_are_named(folder: Path) -> None:
    with pytest.raises(InputError, match=r"imdb\.path.*nowhere"):
        create(folder / "nowhere").load()
    (folder / "test.jsonl").write_text("")
    with pytest.raises(InputError, match=r"test\.jsonl.*empty"):
        create(folder).load()
    (folder / "train.jsonl.gz").unlink()
    with pytest.raises(InputError, match=r"train\.jsonl"):
        create(folder).load()


def test_sizes_of_other_files_are_not_documented(folder: Path) -> None:
    assert create(folder, valid=0).documented() is None


def test_published_files(shared_data: Path) -> None:
    source = create(shared_data / "imdb", valid=0)
    corpus = source.load()
    train, test = corpus.only("train"), corpus.only("test")
    assert train.labels is not None
    assert test.labels is not None
    assert np.bincount(train.labels).tolist() == np.bincount(test.labels).tolist() == [12_500] * 2
    movies = np.unique(train.users)
    assert len(np.intersect1d(movies, test.users)) == 1
    assert train.rows_of_user.counts.max() <= 30
    assert not any("<br />" in text for text in corpus.texts)
    stats = source.documented()
    assert stats is not None
    assert (stats.users, stats.rows, stats.public) == (len(movies), len(train), True)
    assert create(shared_data / "imdb").documented() is None
