"""One process a folder; whole files; nothing left half-written."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from uedp_bench.errors import InputError
from uedp_bench.io import folders
from uedp_bench.io.folders import (
    make_private,
    only_process,
    remove_partial,
    scratch_folder,
    write_atomically,
)


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_a_folder_is_made_held_and_given_back(tmp_path):
    out = tmp_path / "a" / "b"
    with only_process(out):
        assert json.loads((out / ".in-use.json").read_text())["pid"] == os.getpid()
    assert files(out) == [".lock"]
    with only_process(out):
        pass


def test_another_process_is_refused_until_the_first_is_gone(tmp_path, monkeypatch):
    code = (
        "import sys, pathlib; from uedp_bench.io.folders import only_process\n"
        "with only_process(pathlib.Path(sys.argv[1])): print('held', flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdout.readline() == "held\n"
    monkeypatch.setattr(folders, "_PATIENCE_SECONDS", 0.1)
    refused = pytest.raises(InputError, match=f"process {holder.pid} on")
    with refused as caught, only_process(tmp_path):
        pass
    assert "\n" not in str(caught.value)
    holder.kill()
    holder.communicate()
    # What a process leaves that was killed is no lock.
    assert (tmp_path / ".in-use.json").is_file()
    with only_process(tmp_path):
        pass


@pytest.mark.parametrize("text", ["", "[]", "{", '{"pid": "x"}', '{"pid": 1}'])
def test_who_holds_it_may_be_unknown(tmp_path, monkeypatch, text):
    monkeypatch.setattr(folders, "_PATIENCE_SECONDS", 0.0)
    with only_process(tmp_path):
        (tmp_path / ".in-use.json").write_text(text)
        refused = pytest.raises(InputError, match=r"--out .*process")
        with refused, only_process(tmp_path):
            pass


def test_what_was_half_written_goes_and_nothing_else_does(tmp_path):
    for name in ("aa/result.json", "aa/.result.json-1-00.partial", "aa/result.partial",
                 "cache/retrain-1/done.json", "cache/retrain-1/release/weights",
                 "cache/retrain-2/release/weights", "cache/other/x", "notes.txt",
                 ".mlflow.db-1-00.partial", ".mlflow.db-1-00.partial-journal"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    remove_partial(tmp_path)
    left = [name for name in files(tmp_path) if (tmp_path / name).is_file()]
    assert left == ["aa/result.json", "cache/other/x", "cache/retrain-1/done.json",
                    "cache/retrain-1/release/weights", "notes.txt"]  # fmt: skip


def test_links_of_a_stranger_are_not_followed(tmp_path):
    kept = tmp_path / "kept"
    (kept / "release").mkdir(parents=True)
    (kept / "release" / "weights").write_text("x")
    cache = tmp_path / "out" / "cache"
    cache.mkdir(parents=True)
    (cache / "retrain-3").symlink_to(kept)
    remove_partial(tmp_path / "out")
    make_private(tmp_path / "out")
    assert (kept / "release" / "weights").stat().st_mode & 0o077
    assert files(kept) == ["release", "release/weights"]


def test_readers_see_whole_files_while_many_write(tmp_path):
    path = tmp_path / "result.json"
    texts = [json.dumps({"by": who, "text": "x" * 20_000}) for who in range(4)]
    write_atomically(path, texts[0])

    def write(text):
        for _ in range(25):
            write_atomically(path, text)

    with ThreadPoolExecutor(4) as pool:
        writing = [pool.submit(write, text) for text in texts]
        while not all(one.done() for one in writing):
            assert path.read_text() in texts
    for one in writing:
        one.result()
    assert files(tmp_path) == ["result.json"]


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path, monkeypatch):
    path = tmp_path / "result.json"
    write_atomically(path, "old")

    def broken(handle):
        raise OSError("no")

    monkeypatch.setattr(folders.os, "fsync", broken)
    with pytest.raises(OSError, match="no"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert files(tmp_path) == ["result.json"]


def test_private_is_for_the_owner_alone(tmp_path):
    (tmp_path / "release" / "deep").mkdir(parents=True)
    (tmp_path / "release" / "deep" / "weights").write_text("x")
    make_private(tmp_path / "release")
    for path in (tmp_path / "release", *(tmp_path / "release").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.ENOSYS])
def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch, number):
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("filelock.BaseFileLock.acquire", refuse)
    with pytest.raises(InputError, match="locks"), only_process(tmp_path / "runs"):
        pass


KILLED = """
import os, signal
from pathlib import Path
from uedp_bench.io.folders import scratch_folder
folder = scratch_folder()
(Path(folder.name) / "private.txt").write_text("text")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_folders_of_killed_processes_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", KILLED], check=False, env=environment)
    assert len(list(tmp_path.iterdir())) == 1
    with scratch_folder() as first, scratch_folder() as second:
        assert {Path(first), Path(second)} == {*tmp_path.iterdir()}
    assert not list(tmp_path.iterdir())


def test_folders_of_others_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    living = tmp_path / f"uedp-bench-{os.getpid()}-abc"
    other = tmp_path / "uedp-bench-site-abc"
    link = tmp_path / "uedp-bench-999999999-abc"
    (tmp_path / "target").mkdir()
    living.mkdir()
    other.mkdir()
    link.symlink_to(tmp_path / "target")
    with scratch_folder():
        assert living.exists()
        assert other.exists()
        assert link.is_symlink()
