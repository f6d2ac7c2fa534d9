from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.registry import sources
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.newsgroups import GROUPS, author, without

MESSAGE = (
    "From: Ann@Example.org (Ann)\nSubject: Re: orbits\n\n"
    "bob@example.org (Bob) writes:\n> How high?\n\nVery high.\n\n--\nAnn, somewhere"
)


def create(path: Path, **params: object):
    return sources.create("20-newsgroups", {"path": path, **params})


def write(file: Path, messages: list[tuple[str, str]]) -> None:
    rows = (json.dumps({"id": "1", "group": group, "text": text}) for group, text in messages)
    file.write_text("\n".join(rows) + "\n")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    others = [("sci.med", f"From: u{i}@example.org\n\nText {i}.") for i in range(10)]
    write(tmp_path / "train.jsonl", [("sci.space", MESSAGE), *others])
    reply = "From: Ann <ann@example.org>\n\nMore."
    write(tmp_path / "test.jsonl", [("rec.autos", reply), ("sci.med", MESSAGE)])
    return tmp_path


def test_groups_are_labels_and_addresses_users(folder: Path) -> None:
    corpus = create(folder, valid=0).load()
    assert corpus.labels is not None
    assert [corpus.label_names[i] for i in corpus.labels[[0, 1, 11]]] == [
        "sci.space", "sci.med", "rec.autos",
    ]  # fmt: skip
    assert corpus.users.tolist() == [*range(11), 0, 0]
    assert corpus.texts[0] == MESSAGE
    assert create(folder, valid=0).documented() is None


def test_valid_is_cut_off_the_users(folder: Path) -> None:
    corpus = create(folder, valid=0.3).load()
    assert [corpus.where(split).sum() for split in ("train", "valid", "test")] == [8, 3, 2]


@pytest.mark.parametrize(
    ("line", "user"),
    [
        ("Ann@Example.ORG (Ann B.)", "ann@example.org"),
        ('"Ann B., Jr." <ann@example.org>', "ann@example.org"),
        ("Ann B., Jr. <ann@example.org>", "ann@example.org"),
        ("host.UUCP!ann (Ann  B.)", "host.uucp!ann"),
        ("(Ann  B.)", "(ann b.)"),
        ("ann@host@gateway (Ann)", "ann@host@gateway"),
        ("()", "()"),
    ],
)
def test_author(line: str, user: str) -> None:
    assert author(f"Subject: x\nFrom: {line}\n\nFrom: other@example.org") == user


def test_parts_are_removed() -> None:
    assert without(MESSAGE, ()) == MESSAGE
    assert without(MESSAGE, ("headers",)).startswith("bob@")
    assert without(MESSAGE, ("quotes", "footers", "headers")) == "\nVery high.\n"


def test_messages_of_which_nothing_is_left_are_left_out(folder: Path) -> None:
    quote = "From: zed@example.org\n\n> only this"
    write(folder / "test.jsonl", [("rec.autos", quote), ("sci.med", MESSAGE)])
    corpus = create(folder, remove=["headers", "quotes"], valid=0).load()
    assert len(corpus.only("test")) == 1
    assert corpus.user_count == 11
    write(folder / "test.jsonl", [("rec.autos", quote)])
    with pytest.raises(InputError, match=r"20-newsgroups\.remove: .*split test"):
        create(folder, remove=["headers", "quotes"]).load()


def test_bad_input_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="remove"):
        create(folder, remove=["header"])
    write(folder / "test.jsonl", [("rec.auto", MESSAGE)])
    with pytest.raises(InputError, match=r"'rec\.auto'.*'rec\.autos'"):
        create(folder).load()
    write(folder / "test.jsonl", [("rec.autos", "Subject: x\n\nFrom: nobody")])
    with pytest.raises(InputError, match="From:"):
        create(folder).load()
    (folder / "train.jsonl").unlink()
    with pytest.raises(InputError, match=r"train\.jsonl"):
        create(folder).load()


def test_published_files(shared_data: Path) -> None:
    source = create(shared_data / "20newsgroups_bydate", valid=0)
    corpus = source.load()
    train, test = corpus.only("train"), corpus.only("test")
    assert train.labels is not None
    assert (len(train), len(test)) == (11_314, 7_532)
    assert len(np.unique(train.labels)) == len(GROUPS) == 20
    assert np.bincount(train.labels).min() == 377
    both = np.intersect1d(train.users, test.users)
    assert (corpus.user_count, len(both)) == (8_479, 1_480)
    stats = source.documented()
    assert stats is not None
    assert (stats.users, stats.rows) == (len(np.unique(train.users)), len(train))
    bare = create(source.params.path, valid=0, remove=["headers", "footers", "quotes"])
    kept = bare.load()
    assert (kept.where("train").sum(), kept.where("test").sum()) == (11_314 - 300, 7_532 - 215)
    assert bare.documented() is None


def test_what_is_removed_is_what_scikit_learn_removes(shared_data: Path) -> None:
    published = pytest.importorskip("sklearn.datasets._twenty_newsgroups")
    texts = create(shared_data / "20newsgroups_bydate").load().only("test").texts[:1500]
    for text in texts:
        expected = published.strip_newsgroup_header(text)
        assert without(text, ("headers",)) == expected
        expected = published.strip_newsgroup_footer(expected)
        assert without(text, ("headers", "footers")) == expected
        expected = published.strip_newsgroup_quoting(expected)
        assert without(text, ("headers", "footers", "quotes")) == expected
