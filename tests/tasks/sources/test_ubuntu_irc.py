from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.ubuntu_irc import COUNTED, NICKS

TRAIN = [
    "[09:14] <Ann> bob: try  apt-get",
    "=== carl [~c@example.org]  has joined #ubuntu",
    "[09:15] <bob> thanks: it works",
    "[09:15] <ANN> Carl, hello",
    "[09:16]  * bob waves",
    "[09:16] <ubottu> ann: a factoid",
    "[09:17] <carl>",
    "[09:18] <carl> time is 09:18: late",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, TRAIN)
    return tmp_path


def write(folder: Path, train: list[str]) -> None:
    logs = {
        "train.raw.jsonl.gz": train,
        "dev.raw.jsonl.gz": ["[10:00] <dora> hi", "[10:00] <eve> ann: hi", "[10:01] <ann> hi"],
        "test.raw.jsonl.gz": ["[11:00] <eve> hello all", "[11:01] <BOB> back"],
    }
    for name, lines in logs.items():
        record = json.dumps({"file": f"log of {name}", "text": "\n".join(lines)}) + "\n"
        (folder / name).write_bytes(gzip.compress(record.encode()))


def load(folder: Path, **params: object):
    return sources.create("ubuntu-irc", {"path": folder, **params}).load()


def test_messages_nicks_and_splits(folder: Path) -> None:
    corpus = load(folder, min_messages=1)
    assert corpus.only("train").texts == (
        "bob: try apt-get", "thanks: it works", "Carl, hello", "time is 09:18: late",
    )  # fmt: skip
    assert corpus.only("train").users.tolist() == [0, 1, 0, 2]
    # ann and bob wrote in train, eve in test: their messages elsewhere are left out.
    assert corpus.only("valid").texts == ("hi",)
    assert corpus.only("test").texts == ("hello all",)
    assert corpus.groups["document"].tolist() == [0, 0, 0, 0, 1, 2]
    # Without his one message in train, what bob wrote in test stays: guarantees say so.
    write(folder, [line for line in TRAIN if "<bob>" not in line])
    assert load(folder, min_messages=1).only("test").texts == ("hello all", "back")
    assert COUNTED in corpus.quotas


def test_users_with_few_messages_still_keep_their_messages_out_of_test(folder: Path) -> None:
    corpus = load(folder, min_messages=2)
    assert corpus.only("train").texts == ("bob: try apt-get", "Carl, hello")
    assert corpus.only("test").texts == ("hello all",)


def test_the_first_messages_of_a_training_user_may_be_all(folder: Path) -> None:
    corpus = load(folder, min_messages=1, max_messages=1)
    assert corpus.only("train").texts == (
        "bob: try apt-get", "thanks: it works", "time is 09:18: late",
    )  # fmt: skip
    assert load(folder, min_messages=2, max_messages=1).only("train").texts == ("bob: try apt-get",)
    assert corpus.only("test").texts == ("hello all",)


def test_addressed_nicks_are_entities(folder: Path) -> None:
    corpus = load(folder, min_messages=1)
    assert corpus.entity_types == ("NICK",)
    assert [corpus.surface(i) for i in range(len(corpus.entities))] == ["bob", "Carl"]
    assert NICKS in corpus.quotas  # without bob, a message of ann would have no entity


def test_bots_are_a_parameter(folder: Path) -> None:
    corpus = load(folder, min_messages=1, bots=["Carl"])
    assert "ann: a factoid" in corpus.texts
    assert "time is 09:18: late" not in corpus.texts


def test_bad_input_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="min_messages=3"):
        load(folder, min_messages=3)
    (folder / "dev.raw.jsonl.gz").write_bytes(gzip.compress(b'{"file": "a"}\n'))
    with pytest.raises(InputError, match=r"line 1.*KeyError\('text'\)"):
        load(folder, min_messages=1)
    (folder / "test.raw.jsonl.gz").unlink()
    with pytest.raises(InputError, match=r"test\.raw\.jsonl"):
        load(folder)


def test_published_files(shared_data: Path) -> None:
    corpus = load(shared_data / "ubuntu_irc")
    train = corpus.only("train")
    # 2,261 nicks have 20 or more messages; two of them are the bots. One is written in two ways.
    assert len(np.unique(train.users)) == 2_259
    assert train.rows_of_user.counts[np.unique(train.users)].min() == 20
    assert not set(train.users.tolist()) & set(corpus.only("valid", "test").users.tolist())
