"""Temporary folders of killed processes go when the next one starts."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from uedp_bench.io.scratch import scratch_folder

KILLED = """
import os, signal
from pathlib import Path
from uedp_bench.io.scratch import scratch_folder
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
