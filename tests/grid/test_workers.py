"""Processes that die, hang, exit or leave children behind harm no other task."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from chores import Chores

from uedp_bench.grid.workers import DIED, TIMEOUT, KeptProcess, in_processes


def do(tmp_path, *chores, workers=2, **more):
    heard = []
    running = in_processes(
        Chores(tmp_path), chores, workers=workers,
        listen=lambda chore, event: heard.append((chore, event)), **more,
    )  # fmt: skip
    return dict(running), heard


def pids(folder: Path) -> list[int]:
    texts = [path.read_text() for path in sorted(folder.glob("*.pid"))]
    return [int(text) for text in texts if text]  # killed before it could write


def living(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (ProcessLookupError, FileNotFoundError):  # gone, perhaps between the two
        return False


def soon(condition, seconds=120.0):
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_processes_are_kept_for_the_next_task(tmp_path):
    ended, heard = do(tmp_path, *[f"note {i}" for i in range(6)])
    assert set(ended.values()) == {None}
    assert len(ended) == 6
    assert len(set(pids(tmp_path))) <= 2
    assert os.getpid() not in pids(tmp_path)
    assert sorted(event for _, event in heard) == sorted(f"note {i}" for i in range(6))
    assert not any(map(living, pids(tmp_path)))


def test_one_that_is_not_fit_any_more_is_replaced(tmp_path):
    ended, _ = do(tmp_path, "unfit 1", "note 2", workers=1)
    assert set(ended.values()) == {None}
    assert len(set(pids(tmp_path))) == 2


ENDS = {
    "exit 9": (DIED, "exit code 9"),
    "exit 0": (DIED, "exit code 0"),
    "signal 9": (DIED, "SIGKILL"),
    "signal 6": (DIED, "signal 6 (SIGABRT)"),
    "raise SystemExit": ("SystemExit", "SystemExit: 0"),
    "raise KeyboardInterrupt": ("KeyboardInterrupt", "KeyboardInterrupt"),
    "raise GeneratorExit": ("GeneratorExit", "GeneratorExit"),
    "raise EOFError": ("EOFError", "EOFError"),
    "raise UnpicklableError": ("UnpicklableError", "UnpicklableError"),
    "orphan": (DIED, "exit code 7"),
    "fork": (DIED, "exit code 7"),
}
"""Kind and message of the crash that each chore ends with."""


def test_what_ends_a_process_is_told_and_the_others_go_on(tmp_path):
    began = time.monotonic()
    # Two processes: a note comes before, between and after what ends them.
    chores = ["note first", *(one for chore in ENDS for one in (chore, f"note {chore}"))]
    ended, _ = do(tmp_path, *chores)
    assert time.monotonic() - began < 200
    crashes = {chore: ended.pop(chore) for chore in ENDS}
    assert {chore: crash.kind for chore, crash in crashes.items()} == {
        chore: kind for chore, (kind, _) in ENDS.items()
    }
    for chore, (_, message) in ENDS.items():
        assert message in crashes[chore].message, chore
        assert crashes[chore].last == chore
    assert ended == dict.fromkeys(chores[::2])
    for file in tmp_path.glob("*.child"):
        assert soon(lambda file=file: not living(int(file.read_text()))), file.stem


def test_a_process_killed_between_tasks_is_replaced(tmp_path):
    process = KeptProcess(Chores(tmp_path))
    assert process.do("note 1") is None
    (killed,) = pids(tmp_path)
    os.kill(killed, signal.SIGKILL)
    assert soon(lambda: not living(killed))
    assert process.do("note 2") is None
    assert killed in pids(tmp_path)
    process.end()
    assert not any(map(living, pids(tmp_path)))


def test_a_message_may_be_larger_than_a_pipe(tmp_path):
    ended, heard = do(tmp_path, "large", workers=1)
    assert ended == {"large": None}
    assert [len(event) for _, event in heard] == [5, 2**22]


def test_a_native_crash_names_the_line_of_python(tmp_path):
    ended, _ = do(tmp_path, "segfault", workers=1)
    assert "signal 11 (SIGSEGV)" in ended["segfault"].message
    assert "in segfault" in ended["segfault"].stack


@pytest.mark.long
def test_one_that_hangs_is_ended_in_time(tmp_path):
    began = time.monotonic()
    ended, _ = do(tmp_path, "note 1", "hang", "note 2", workers=1, timeout=5.0)
    assert time.monotonic() - began < 200
    assert ended["hang"].kind == TIMEOUT
    assert "5 s" in ended["hang"].message
    assert ended["note 1"] is None
    assert ended["note 2"] is None
    assert soon(lambda: not any(map(living, pids(tmp_path))))


def test_a_full_disk_ends_all(tmp_path):
    with pytest.raises(OSError, match="No space left") as caught:
        do(tmp_path, "note 1", "full disk", "note 2")
    assert caught.value.errno == errno.ENOSPC
    assert caught.value.filename == "somewhere"
    assert soon(lambda: not any(map(living, pids(tmp_path))))


def test_a_process_that_cannot_start_is_one_failure_a_task(tmp_path):
    ended = dict(in_processes(Chores(tmp_path, broken=True), ["note 1", "note 2"], workers=2))
    assert [crash.message for crash in ended.values()] == ["ImportError: no such plug-in"] * 2


def test_closing_ends_everything_at_once(tmp_path):
    chores = ["note 1", "hang", "hang 2"]
    with closing(in_processes(Chores(tmp_path), chores, workers=3)) as running:
        next(running)
        assert soon(lambda: len(pids(tmp_path)) == 3)
        began = time.monotonic()
    assert time.monotonic() - began < 60
    assert not any(map(living, pids(tmp_path)))


UNCLOSED = """
import sys
from pathlib import Path
from chores import Chores
from uedp_bench.grid.workers import in_processes
running = in_processes(Chores(Path(sys.argv[1])), ["note 1", "hang", "hang 2", "hang 3"], workers=2)
next(running)
sys.exit(3)
"""


def test_a_thread_that_cannot_start_leaves_no_process(tmp_path, monkeypatch):
    start, begun = threading.Thread.start, []

    def refusing(thread):
        # The second worker is refused once the process of the first one works.
        if "look_after_one" in thread.name:
            begun.append(thread)
            if len(begun) == 2:
                assert soon(lambda: pids(tmp_path))
                raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refusing)
    with pytest.raises(RuntimeError, match="can't start"):
        do(tmp_path, "hang 1", "note 1")
    assert len(pids(tmp_path)) == 1
    assert soon(lambda: not any(map(living, pids(tmp_path))), 5.0)
    assert not begun[0].is_alive()


def test_a_command_that_ends_before_it_closes_leaves_no_process(tmp_path):
    """As a second Ctrl-C has it, which comes before anything could be closed."""
    done = subprocess.run(
        [sys.executable, "-c", UNCLOSED, str(tmp_path)], check=False, timeout=400,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert done.returncode == 3
    assert not any(map(living, pids(tmp_path)))
