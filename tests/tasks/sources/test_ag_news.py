from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.ag_news import clean


def load(path: Path, **params: object):
    return sources.create("ag-news", {"path": path, **params}).load()


def write_csv(file: Path, rows: int) -> Path:
    lines = (f'"{i % 4 + 1}","Title {i}","Words, ""quoted"" {i}\\more"' for i in range(rows))
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    records = ({"label": i % 4 + 1, "text": f"Train {i}", "source": "x"} for i in range(3000))
    (tmp_path / "train_part.jsonl").write_text("\n".join(map(json.dumps, records)))
    write_csv(tmp_path / "test.csv", 600)
    return tmp_path


def test_both_formats_become_rows_with_topics(folder: Path) -> None:
    corpus = load(folder)
    test = corpus.only("test")
    assert test.texts[1] == 'Title 1 Words, "quoted" 1 more'
    assert corpus.label_names == ("World", "Sports", "Business", "Sci/Tech")
    assert test.labels is not None
    assert test.labels[:5].tolist() == [0, 1, 2, 3, 0]
    assert (corpus.where("train", "valid").sum(), len(test)) == (3000, 600)


def test_users_have_fifteen_rows_with_deviation_two(folder: Path) -> None:
    corpus = load(folder)
    counts = corpus.only("train", "valid").rows_of_user.counts
    counts = counts[counts > 0]
    # 200 users: the standard error of the mean is 0.14, that of the deviation 0.10; the last
    # user of a file gets what is left.
    assert counts.mean() == pytest.approx(15, abs=0.6)
    assert np.sort(counts)[1:].std() == pytest.approx(2, abs=0.4)


def test_users_are_in_one_split_and_mixed(folder: Path) -> None:
    corpus = load(folder)
    groups = [set(corpus.only(split).users.tolist()) for split in ("train", "valid", "test")]
    assert sum(map(len, groups)) == len(set.union(*groups)) == corpus.user_count
    # Binomial: 200 users, deviation 4.2.
    assert len(groups[1]) == pytest.approx(0.1 * (len(groups[0]) + len(groups[1])), abs=17)
    rows = corpus.rows_of_user[int(corpus.users[0])]
    assert rows.max() - rows.min() > 100  # dealt, not cut in the order of the file


def test_the_seed_of_the_source_decides(folder: Path) -> None:
    same, again, other = load(folder), load(folder), load(folder, seed=1)
    assert same.fingerprint == again.fingerprint
    assert same.fingerprint != other.fingerprint
    assert same.texts == other.texts


def test_a_single_file_is_cut_into_all_splits(tmp_path: Path) -> None:
    corpus = load(write_csv(tmp_path / "all.csv", 600), valid=0.2, test=0.3)
    users = [len(np.unique(corpus.only(split).users)) for split in ("train", "valid", "test")]
    # Binomial: 40 users, deviations 2.5 and 2.9.
    assert users[1] == pytest.approx(0.2 * sum(users), abs=10)
    assert users[2] == pytest.approx(0.3 * sum(users), abs=12)


@pytest.mark.parametrize(
    ("raw", "repaired"),
    [
        ("it #39;s a  #36;10 deal\\now", "it's a $10 deal now"),
        ("a &lt;b&gt; c", "a <b> c"),
        ("rank #1; plain", "rank #1; plain"),
    ],
)
def test_known_damage_is_repaired(raw: str, repaired: str) -> None:
    assert clean(raw) == repaired


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", '"5","t","d"\n', "line 1.*class '5'"),
        ("a.csv", '"1","t"\n', "line 1: 2 fields"),
        ("a.csv", "", r"ag-news\.path.*a\.csv.*empty"),
        ("a.jsonl", '{"label": 1}\n', r"line 1.*KeyError\('text'\)"),
        ("a.jsonl", '{"label": 1, "text": null}\n', "line 1.*text.*blank"),
        ("a.jsonl", "nonsense\n", "line 1.*JSONDecodeError"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load(tmp_path / name)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ag-news\.path.*nowhere"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"train\.csv"):
        load(tmp_path)


def test_the_published_test_file(shared_data: Path) -> None:
    test = load(shared_data / "ag_news").only("test")
    assert test.labels is not None
    assert np.bincount(test.labels).tolist() == [1_900] * 4
