from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.dpnlp_ag import PERSONS

RULE = "=" * 20
LINES = [
    "0\tArafat  speaks;  it #39;s late\t2", "3\tBush and Kerry\t0 1", RULE,
    "1\tSharon\t4", RULE,
    "2\tnobody\t", "0\tBlair\t3", RULE,
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path, LINES)


def write(folder: Path, lines: list[str]) -> Path:
    text = "\n".join(lines) + "\n"
    (folder / "ag_data.txt.gz").write_bytes(gzip.compress(text.encode()))
    return folder


def create(path: Path, **params: object):
    return sources.create("dpnlp-ag", {"path": path, **params})


def test_blocks_labels_and_persons(folder: Path) -> None:
    corpus = create(folder).load()
    assert corpus.texts[0] == "Arafat speaks; it's late"
    assert [corpus.where(split).sum() for split in ("train", "valid", "test")] == [2, 1, 2]
    assert corpus.labels is not None
    assert corpus.labels.tolist() == [0, 3, 1, 2, 0]
    table = np.stack([corpus.attributes[name] for name in PERSONS], axis=1)
    assert table.tolist() == [
        [0, 0, 1, 0, 0], [1, 1, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 0], [0, 0, 0, 1, 0],
    ]  # fmt: skip
    assert corpus.attribute_names["kerry"] == ("absent", "present")
    assert corpus.users.tolist() == [0, 1, 2, 3, 4]


def test_the_file_itself_and_a_public_valid_block(folder: Path) -> None:
    corpus = create(folder / "ag_data.txt.gz", valid_is_public=True).load()
    assert corpus.only("public").texts == ("Sharon",)
    assert create(folder).documented() is None


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0\ttext"], "line 1: 2 fields.*persons"),
        (["4\ttext\t0"], "line 1.*label '4'"),
        (["0\ttext\t0 5"], "line 1.*'5'"),
        (["0\t \t0"], "line 1.*text.*blank"),
        ([*LINES, "0\ttext\t0"], "line 9"),
        (LINES[:3], "block valid"),
        ([], "block train"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        create(write(tmp_path, lines)).load()


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"dpnlp-ag\.path.*nowhere"):
        create(tmp_path / "nowhere").load()
    with pytest.raises(InputError, match=r"ag_data\.txt"):
        create(tmp_path).load()


def test_the_published_file(shared_data: Path) -> None:
    source = create(shared_data / "dpnlp_ag")
    corpus = source.load()
    sizes = [int(corpus.where(split).sum()) for split in ("train", "valid", "test")]
    assert sizes == [11_657, 1_457, 1_457]
    assert corpus.labels is not None
    assert np.bincount(corpus.labels).tolist() == [8_446, 5_412, 106, 607]
    counts = {name: int(corpus.attributes[name].sum()) for name in PERSONS}
    assert counts == {
        "bush": 7_928,
        "kerry": 3_761,
        "arafat": 2_666,
        "blair": 1_512,
        "sharon": 1_451,
    }
    for name in PERSONS:
        rows = np.flatnonzero(corpus.attributes[name])
        assert all(name in corpus.texts[row].casefold() for row in rows)
    stats = source.documented()
    assert stats is not None
    assert (stats.users, stats.rows, stats.public) == (11_657, 11_657, True)
