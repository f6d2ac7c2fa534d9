"""Files that specs name, on their way to another machine."""

from __future__ import annotations

import fcntl
import io
import shutil
import tarfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny import runs

from uedp_bench.components.component import MayBePath
from uedp_bench.errors import UedpBenchError
from uedp_bench.grid.grid_on_ray import keep
from uedp_bench.grid.ray_nodes import NamedFiles, grid_folder, place, with_paths

ray = pytest.importorskip("ray", reason="needs Ray: install the extra cluster")
MARK = MayBePath()


def text(path, **more):
    return runs(source={"name": "text", "params": {"path": str(path), **more}})[0]


@pytest.fixture(autouse=True)
def chunks(monkeypatch):
    """Chunks stand for the references to them."""
    monkeypatch.setattr(ray, "get", bytes)


@pytest.fixture
def folder(tmp_path):
    """Holds files of several sizes, an empty one among them, two of them below."""
    root = tmp_path / "made"
    (root / "below").mkdir(parents=True)
    for name, size in (("a", 3), ("b", 0), ("below/c", 21), ("below/d", 5)):
        (root / name).write_bytes(bytes(range(size)))
    return root


def sent(named):
    """The sent files, in pieces of seven bytes."""
    return [
        (path.relative_to(named.root).as_posix(),
         [path.read_bytes()[at : at + 7] for at in range(0, path.stat().st_size, 7)])
        for path in named.files()
    ]  # fmt: skip


def elsewhere(named):
    """The same files, named on a machine whose folders are not here."""
    return replace(named, root=Path("/nowhere"))


def test_files_arrive_as_they_were_whatever_their_size(folder, tmp_path):
    named = elsewhere(NamedFiles.from_path(str(folder), MARK))
    copy = place(named, tmp_path / "0", sent(replace(named, root=folder.parent)))
    assert copy != folder
    assert copy.name == "made"
    assert {path.relative_to(copy): path.read_bytes() for path in copy.rglob("?")} == {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("?")
    }
    assert place(named, tmp_path / "0", None) == copy


def test_files_that_changed_on_the_way_are_refused(folder, tmp_path):
    named = NamedFiles.from_path(str(folder / "a"), MARK)
    content = [("a", [b"zzz"])]
    with pytest.raises(UedpBenchError, match="it changed"):
        place(elsewhere(named), tmp_path / "0", content)


def test_a_shared_file_is_read_in_place_and_a_missing_one_is_named(folder, tmp_path):
    local_files = NamedFiles.from_path(str(folder / "a"), MARK)
    assert place(local_files, tmp_path / "0", None) == folder / "a"
    with pytest.raises(UedpBenchError, match=f"lacks {local_files.text}"):
        place(elsewhere(local_files), tmp_path / "0", None)


def test_a_release_travels_with_its_result_and_nothing_else(tmp_path):
    run = tmp_path / "run"
    (run / "release").mkdir(parents=True)
    for name in ("release/weights", "result.json", "planted.json"):
        (run / name).write_text(name)
    (tmp_path / "best").symlink_to(run / "release")
    for name in (run / "release", tmp_path / "best"):
        named = NamedFiles.from_path(str(name), MayBePath(of_a_run=True))
        assert {path.name for path in named.files()} == {"weights", "result.json"}
        content = sent(named)
        copy = place(elsewhere(named), tmp_path / f"of {name.name}", content)
        assert (copy / "weights").read_text() == "release/weights"
        assert (copy.parent / "result.json").read_text() == "result.json"


def test_a_spec_names_its_files_and_no_other_text_changes(tmp_path):
    spec = text("mail.csv", text_column="body", public=["public.txt"])
    moved = with_paths(spec, lambda path, mark: f"/there/{path}")
    assert moved.source.params["path"] == "/there/mail.csv"
    assert moved.source.params["public"] == ["/there/public.txt"]
    assert moved.source.params["text_column"] == "body"
    assert moved.model_copy(update={"source": spec.source}) == spec


def test_folders_of_grids_that_are_gone_are_removed_and_no_others(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    alive, gone = grid_folder("alive"), tmp_path / "uedp-bench-grid-gone"
    assert alive.stat().st_mode & 0o077 == 0
    shutil.copytree(alive, gone)
    linked = tmp_path / "uedp-bench-grid-link"
    linked.symlink_to(alive)
    with (gone / ".in-use").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        grid_folder("second")
        assert gone.is_dir()
    grid_folder("third")
    assert not gone.exists()
    assert alive.is_dir()
    assert linked.is_symlink()


@pytest.mark.parametrize("name", ["../elsewhere", "/elsewhere"])
def test_a_node_writes_into_the_folder_of_its_run_alone(name, tmp_path):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in ("result.json", name):
            tar.addfile(tarfile.TarInfo(path))
    out = tmp_path / "out"
    with pytest.raises(UedpBenchError):
        keep(SimpleNamespace(id="run", label="a run"), packed.getvalue(), out)
    assert not [path for path in tmp_path.rglob("elsewhere") if out / "run" not in path.parents]
    assert not Path("/elsewhere").exists()
    assert not (out / "run" / "result.json").exists()
