from __future__ import annotations

import gzip
from dataclasses import replace

import numpy as np
import pytest

from uedp_bench.corpus import SPLITS, Corpus, Spans
from uedp_bench.errors import InputError
from uedp_bench.source import SourceParams
from uedp_bench.tasks.sources._public import ROWS_PER_USER, add_public
from uedp_bench.tasks.sources._read import open_text


def small(public: int = 0) -> Corpus:
    texts = tuple(f"Bob row {i}" for i in range(4 + public))
    split = np.array([0, 0, 1, 2] + [SPLITS.index("public")] * public)
    return Corpus(
        texts=texts,
        groups={"user": np.arange(len(texts)) // 2, "document": np.arange(len(texts))},
        split=split,
        entities=Spans.build(texts, [(i, 0, 3, 0) for i in range(len(texts))]),
        entity_types=("PERSON",),
        labels=np.zeros(len(texts), dtype=np.int64),
        label_names=("x",),
        attributes={"gender": np.zeros(len(texts), dtype=np.int64)},
        attribute_names={"gender": ("f",)},
    )


def test_rows_are_appended_with_users_of_their_own(tmp_path):
    lines = [f"sentence   number {i} ." for i in range(45)]
    wiki = ["", " = Title = ", *lines[:30], "  ", " = = Section = = ", *lines[30:], ""]
    plain, packed = tmp_path / "a.txt", tmp_path / "b.gz"
    plain.write_text("\n".join(wiki))
    packed.write_bytes(gzip.compress(b"x = y .\n"))
    before = small()
    after = add_public(before, SourceParams(public=(plain, packed)))
    public = after.only("public")
    assert public.texts[:45] == tuple(f"sentence number {i} ." for i in range(45))
    assert public.texts[45:] == ("x = y .",)
    users = before.user_count + np.arange(46) // ROWS_PER_USER
    assert public.users.tolist() == users.tolist()
    assert not public.sensitive.any()
    assert set(public.labels) == set(public.attributes["gender"]) == {-1}
    assert set(public.groups["document"]) == {-1}
    assert after.texts[:4] == before.texts
    assert after.only("train", "valid", "test").fingerprint == before.fingerprint
    assert after.origin.tolist() == list(range(50))


@pytest.mark.parametrize(("limit", "own", "read"), [(2, 2, 0), (3, 3, 0), (5, 3, 2), (99, 3, 4)])
def test_at_most_public_rows_and_own_ones_first(tmp_path, limit, own, read):
    file = tmp_path / "a.txt"
    file.write_text("a\nb\nc\nd\n")
    after = add_public(small(public=3), SourceParams(public=(file,), public_rows=limit))
    expected = ["Bob row 4", "Bob row 5", "Bob row 6"][:own] + ["a", "b", "c", "d"][:read]
    assert list(after.only("public").texts) == expected
    assert after.origin.tolist() == list(range(len(after)))


def test_the_text_of_other_users_can_be_declared_public():
    before = small()
    after = add_public(before, SourceParams(valid_is_public=True))
    assert after.only("public").texts == before.only("valid").texts == ("Bob row 2",)
    assert not after.where("valid").any()
    assert after.only("train").fingerprint == before.only("train").fingerprint


def test_the_text_of_training_users_cannot_be_declared_public():
    users = np.array([0, 1, 1, 2])  # user 1 has a row in train and one in valid
    shared = replace(small(), groups={"user": users})
    with pytest.raises(InputError, match="1 users of the split valid are in train too"):
        add_public(shared, SourceParams(valid_is_public=True))
    nobody = replace(small(), groups={"user": np.array([0, -1, -1, 2])})
    assert add_public(nobody, SourceParams(valid_is_public=True)).where("public").sum() == 1


def test_nothing_to_add_changes_nothing():
    before = small(public=1)
    assert add_public(before, SourceParams()) is before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.txt", None, "public: no such file"),
        ("empty.txt", b"", "holds no sentence"),
        ("blank.txt", b"\n \n = Title = \n", "holds no sentence"),
        ("latin.txt", b"caf\xe9\n", "not UTF-8"),
        ("cut.gz", gzip.compress(b"word " * 5000)[:40], "damaged or cut short"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        add_public(small(), SourceParams(public=(file,)))


def test_open_text_names_the_parameter_and_refuses_folders(tmp_path):
    with pytest.raises(InputError, match=r"path: not a file"), open_text(tmp_path):
        pass
    with (
        pytest.raises(InputError, match=r"valid: no such file"),
        open_text(tmp_path / "x", "valid"),
    ):
        pass


def test_gzip_is_known_by_content_not_by_name(tmp_path):
    file = tmp_path / "packed.txt"
    file.write_bytes(gzip.compress(b"\xef\xbb\xbfone\r\ntwo\n"))
    with open_text(file) as text:
        assert text.read() == "one\ntwo\n"
