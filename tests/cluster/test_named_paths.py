"""Files that specs name, on their way to another machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from tiny import runs

from uedp_bench.cluster import named_paths
from uedp_bench.cluster.named_paths import NamedFiles, named_in, with_paths
from uedp_bench.cluster.node_folder import NodeFolder, folder_of, remove_left_behind


def text(path, **more):
    return runs(source={"name": "text", "params": {"path": str(path), **more}})[0]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Holds files of several sizes, an empty one among them, two of them below."""
    monkeypatch.setattr(named_paths, "CHUNK_BYTES", 7)
    made = tmp_path / "made"
    (made / "below").mkdir(parents=True)
    for name, size in (("a", 3), ("b", 0), ("below/c", 21), ("below/d", 5)):
        (made / name).write_bytes(bytes(range(size)))
    return made


def test_files_arrive_as_they_were_whatever_their_size(folder, tmp_path):
    named = NamedFiles.of(folder)
    pieces = list(named.chunks())
    assert [len(piece) for piece in pieces] == [7, 7, 7, 7, 1]
    named.write(tmp_path / "there", pieces)
    assert NamedFiles.of(tmp_path / "there").files == named.files
    assert named.lies_at(tmp_path / "there")
    (tmp_path / "there" / "a").write_bytes(b"xyz")
    assert not named.lies_at(tmp_path / "there")


def test_files_that_changed_on_the_way_are_refused(folder, tmp_path):
    named = NamedFiles.of(folder / "a")
    (folder / "a").write_bytes(b"zzz")
    with pytest.raises(OSError, match="changed while it was read"):
        named.write(tmp_path / "there", named.chunks())


def test_a_release_travels_with_its_result_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    (run / "release").mkdir(parents=True)
    for name in ("release/weights", "result.json", "planted.json"):
        (run / name).write_text(name)
    named = NamedFiles.of(run / "release", of_a_run=True)
    assert {name for name, _, _ in named.files} == {"release/weights", "result.json"}
    there = tmp_path / "there" / named.base
    named.write(there, named.chunks())
    assert (named.below(there) / "weights").read_text() == "release/weights"
    assert (named.below(there).parent / "result.json").read_text() == "result.json"


def test_a_spec_names_its_files_and_no_other_text_changes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mail.csv").write_text("body\nx\n")
    Path("public.txt").write_text("rain\n")
    spec = text("mail.csv", text_column="body", public=["public.txt"])
    assert {*named_in([spec])} == {"mail.csv", "public.txt"}
    moved = with_paths(spec, lambda path, mark: f"/there/{path}")
    assert moved.source.params["path"] == "/there/mail.csv"
    assert moved.source.params["public"] == ["/there/public.txt"]
    assert moved.source.params["text_column"] == "body"
    assert moved.model_copy(update={"source": spec.source}) == spec


def test_a_node_asks_for_a_file_once_and_reads_a_shared_one_in_place(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    node, named = NodeFolder("token"), NamedFiles.of(folder)
    here = NamedFiles.of(folder / "a")
    assert node.place(here, lambda digest: pytest.fail("it lies here")) == folder / "a"
    elsewhere = NamedFiles("/nowhere/made", named.base, named.inside, named.files)
    assert node.place(elsewhere, lambda digest: None) is None
    place = node.place(elsewhere, {named.digest: list(named.chunks())}.get)
    assert place != folder
    assert place.name == "made"
    assert NamedFiles.of(place).files == named.files
    assert node.place(elsewhere, lambda digest: pytest.fail("it is there")) == place
    assert place.stat().st_mode & 0o077 == 0


def test_folders_of_grids_that_are_gone_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    alive, gone = NodeFolder("alive"), NodeFolder("gone")
    remove_left_behind()
    assert folder_of("gone").is_dir()
    gone._held.close()
    remove_left_behind()
    assert not folder_of("gone").exists()
    assert alive.path.is_dir()
    folder_of("link").symlink_to(alive.path)
    with pytest.raises(OSError, match="somebody else's"):
        NodeFolder("link")
