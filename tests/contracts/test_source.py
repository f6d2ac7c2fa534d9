"""Every source has the parameters that all sources have, whoever wrote it."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.component import Params
from uedp_bench.contracts.source import ROWS_PER_USER, Source, SourceParams, add_public
from uedp_bench.corpus import SPLITS, Corpus, Spans
from uedp_bench.errors import InputError, PluginError
from uedp_bench.io.files import open_text


class Three(Source[SourceParams]):
    """Reads three rows, and knows nothing of public text."""

    name = "three"
    Params = SourceParams

    def read(self) -> Corpus:
        split = np.array([SPLITS.index(name) for name in ("train", "valid", "test")])
        return Corpus(texts=("a b", "c", "d"), groups={"user": np.arange(3)}, split=split)


class Loose(Three):
    """Its parameters are not those of a source."""

    Params = Params


def test_shared_parameters_hold_for_a_source_that_does_not_know_them(tmp_path: Path) -> None:
    assert Three.create().load().split.tolist() == [0, 1, 2]
    file = tmp_path / "public.txt"
    file.write_text("anybody may\nread this\n")
    corpus = Three.create({"public": [str(file)], "valid_is_public": True}).load()
    assert corpus.only("public").texts == ("c", "anybody may", "read this")


def test_a_source_whose_parameters_are_no_source_parameters_is_refused() -> None:
    with pytest.raises(PluginError, match=r"'three'.*Params.*SourceParams"):
        Loose.create().load()


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
    with pytest.raises(InputError, match="valid_is_public: 1 users"):
        add_public(shared, SourceParams(valid_is_public=True))
    nobody = replace(small(), groups={"user": np.array([0, -1, -1, 2])})
    assert add_public(nobody, SourceParams(valid_is_public=True)).where("public").sum() == 1


def test_nothing_to_add_changes_nothing():
    before = small(public=1)
    assert add_public(before, SourceParams()) is before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.txt", None, r"gone\.txt"),
        ("empty.txt", b"", r"public: .*(empty|blank)\.txt"),
        ("blank.txt", b"\n \n = Title = \n", r"public: .*(empty|blank)\.txt"),
        ("latin.txt", b"caf\xe9\n", "UTF-8"),
        ("table.csv", b"text\none\n", "is a table"),
        ("cut.gz", gzip.compress(b"word " * 5000, mtime=0)[:40], r"public: .*cut\.gz"),
    ],
)
def test_bad_files(tmp_path, name, content, message):
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        add_public(small(), SourceParams(public=(file,)))


def test_open_text_names_the_parameter_and_refuses_folders(tmp_path):
    with pytest.raises(InputError, match=r"path: .*folder"), open_text(tmp_path):
        pass
    with (
        pytest.raises(InputError, match=r"valid: .*x$"),
        open_text(tmp_path / "x", "valid"),
    ):
        pass


def test_gzip_is_known_by_content_not_by_name(tmp_path):
    file = tmp_path / "packed.txt"
    file.write_bytes(gzip.compress(b"\xef\xbb\xbfone\r\ntwo\n"))
    with open_text(file) as text:
        assert text.read() == "one\ntwo\n"


def documents(rows: int = 40) -> Corpus:
    """Two rows a user; row i has 1 + i % 4 sentences; the last users are in test."""
    texts = tuple("We came . " * (1 + i % 4) for i in range(rows))
    split = np.array([SPLITS.index("train" if i < rows - 12 else "test") for i in range(rows)])
    return Corpus(texts=texts, groups={"user": np.arange(rows) // 2}, split=split)


def test_a_share_of_the_training_users_becomes_public_as_a_whole():
    before = documents(400)
    after = add_public(before, SourceParams(public_share=0.3))
    public = after.only("public")
    assert 0.2 * 400 < len(public) < 0.4 * 400
    assert not set(public.users) & set(after.only("train").users)
    assert after.only("test").fingerprint == before.only("test").fingerprint
    again = add_public(before, SourceParams(public_share=0.3))
    assert again.fingerprint == after.fingerprint
    more = add_public(before, SourceParams(public_share=0.6)).only("public")
    assert set(public.users) < set(more.users)


def test_users_with_test_rows_never_become_public():
    shared = replace(documents(60), groups={"user": np.arange(60) % 30})
    held = set(shared.only("test").users)
    after = add_public(shared, SourceParams(public_share=0.9))
    assert held
    assert not held & set(after.only("public").users)


def test_short_rows_are_left_out_of_every_split():
    after = add_public(documents(), SourceParams(min_sentences=3))
    assert {text.count(".") for text in after.texts} == {3, 4}
    assert after.origin.tolist() == list(range(len(after)))
    assert len(after.only("test")) == 6


def test_test_rows_of_some_numbers_of_sentences():
    after = add_public(documents(), SourceParams(test_sentences=(2, 3)))
    assert {text.count(".") for text in after.only("test").texts} == {2, 3}
    assert len(after.only("train")) == 28


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"min_sentences": 5}, "min_sentences=5.*'train'.* 4 "),
        ({"test_sentences": (7, 9)}, r"test_sentences=\(7, 9\).*'test'.* 4 "),
        ({"public_share": 1e-9}, r"source\.public_share=1e-09"),
    ],
)
def test_nothing_left_is_an_error_that_says_what_there_is(params, words):
    with pytest.raises(InputError, match=words):
        add_public(documents(), SourceParams(**params))


def test_sizes_are_not_the_documented_ones_where_rows_were_moved():
    assert not SourceParams(test_sentences=(1, 2)).selects
    assert SourceParams(min_sentences=2).selects
    assert SourceParams(public_share=0.1).selects


def test_a_sample_keeps_whole_users_of_all_splits():
    before = documents(400)
    after = add_public(before, SourceParams(sample=0.25))
    assert 0.15 * 400 < len(after) < 0.35 * 400
    assert (np.bincount(np.unique(after.users, return_inverse=True)[1]) == 2).all()
    assert len(after.only("test"))
    assert SourceParams(sample=0.25).selects
    with pytest.raises(InputError, match=r"source\.sample=1e-09.*'train'"):
        add_public(before, SourceParams(sample=1e-9))


def test_a_range_of_sentences_goes_from_few_to_many():
    with pytest.raises(ValueError, match=r"test_sentences\s.* 5, .* 2"):
        SourceParams(test_sentences=(5, 2))


def test_of_a_jsonl_file_the_texts_are_read_sentence_by_sentence(tmp_path):
    file = tmp_path / "train.jsonl.gz"
    lines = ['{"id": 1, "text": "One two.<br /><br />Three\\n four! (?) = five ="}', '{"text": ""}']
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    after = add_public(small(), SourceParams(public=(file,)))
    assert after.only("public").texts == ("One two.", "Three four!", "= five =")


@pytest.mark.parametrize("line", ["no", "[1]", '{"id": 1}', '{"text": 1}', "[" * 5000])
def test_a_line_without_a_text_is_refused(tmp_path, line):
    file = tmp_path / "train.jsonl"
    file.write_text('{"text": "fine"}\n' + line + "\n")
    with pytest.raises(InputError, match=r"train\.jsonl.*line 2"):
        add_public(small(), SourceParams(public=(file,)))


def in_three_splits() -> Corpus:
    """documents(), whose first 20 rows (10 users) are in valid."""
    before = documents(60)
    return before.with_split(np.arange(60) < 20, "valid")


def test_settings_are_chosen_on_users_of_valid_alone():
    before = in_three_splits()
    after = add_public(before, SourceParams(tune_on_valid=0.4))
    trained, scored = (set(after.only(name).users) for name in ("train", "test"))
    assert trained
    assert scored
    assert not trained & scored  # whole users
    assert trained | scored == set(before.only("valid").users)
    assert len(after) == 20  # nobody else's row is there
    assert not after.where("valid").any()
    assert after.origin.tolist() == list(range(20))
    more = add_public(before, SourceParams(tune_on_valid=0.6)).only("test")
    assert scored < set(more.users)
    assert SourceParams(tune_on_valid=0.4).selects


def test_public_rows_stay_beside_users_of_valid(tmp_path):
    (tmp_path / "a.txt").write_text("one .\ntwo .\n")
    params = SourceParams(tune_on_valid=0.4, public=(tmp_path / "a.txt",))
    assert len(add_public(in_three_splits(), params).only("public")) == 2


def test_too_few_users_of_valid_are_an_error_that_counts_them():
    with pytest.raises(InputError, match=r"tune_on_valid=0\.5 .* 0 users.*'valid'"):
        add_public(documents(), SourceParams(tune_on_valid=0.5))
    with pytest.raises(InputError, match="cuts 10 users"):
        add_public(in_three_splits(), SourceParams(tune_on_valid=1e-9))


@pytest.mark.parametrize("split", ["train", "test"])
def test_users_of_valid_with_rows_elsewhere_are_refused(split):
    """The run that is tuned for protects them: settings that read them would not be for free."""
    shared = in_three_splits()
    shared = shared.with_split(np.arange(60) < 1, split)  # a row of a user of valid
    with pytest.raises(InputError, match=r"tune_on_valid=0\.5: 1 users.*'valid'.*'train'"):
        add_public(shared, SourceParams(tune_on_valid=0.5))


def test_rows_of_nobody_are_no_users_of_valid():
    nobody = in_three_splits()
    nobody = replace(nobody, groups={"user": np.full(60, -1)})
    with pytest.raises(InputError, match=r"tune_on_valid=0\.5 .* 0 users.*'valid'"):
        add_public(nobody, SourceParams(tune_on_valid=0.5))


def test_valid_is_scored_or_public():
    with pytest.raises(ValueError, match=r"tune_on_valid=0\.5.*valid_is_public"):
        SourceParams(tune_on_valid=0.5, valid_is_public=True)
