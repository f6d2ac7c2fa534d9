"""Tasks for processes, each of which goes wrong in a way of its own."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


class UnpicklableError(Exception):
    def __reduce__(self):
        raise TypeError("cannot be sent")


RAISED = {
    kind.__name__: kind for kind in (EOFError, GeneratorExit, KeyboardInterrupt, UnpicklableError)
}


@dataclass(frozen=True)
class Chores:
    """Every chore notes the process that does it, and tells its own name first."""

    folder: Path
    broken: bool = False

    def start(self):
        if self.broken:
            raise ImportError("no such plug-in")

    def __call__(self, chore, tell):
        (self.folder / f"{chore}.pid").write_text(str(os.getpid()))
        tell(chore)
        verb, _, rest = chore.partition(" ")
        if verb == "exit":
            os._exit(int(rest))
        elif verb == "signal":
            os.kill(os.getpid(), int(rest))
        elif verb == "raise":
            if rest == "SystemExit":
                sys.exit(0)
            raise RAISED[rest]
        elif verb == "segfault":
            segfault()
        elif verb == "orphan":
            child = subprocess.Popen(["/bin/sleep", "60"], close_fds=False)
            (self.folder / "orphan.child").write_text(str(child.pid))
            os._exit(7)
        elif verb == "fork":
            child = os.fork()  # holds all pipes of this process
            if child == 0:
                time.sleep(60)
                os._exit(0)
            (self.folder / "fork.child").write_text(str(child))
            os._exit(7)
        elif verb == "large":
            tell("x" * 2**22)
        elif verb == "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        elif chore == "full disk":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "somewhere")
        return verb != "unfit"


def segfault():
    ctypes.string_at(0)
