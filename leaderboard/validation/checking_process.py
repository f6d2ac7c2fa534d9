"""Files of strangers are checked in a process of its own, which may take its time and memory only.

Accountants compute for as long as events ask them to, and a file may ask for more than there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from uedp_bench.components import registry
from uedp_bench.grid.workers import TIMEOUT, KeptProcess, Tell
from uedp_bench.leaderboard.bundles import Line
from uedp_bench.leaderboard.validation.report import Report, error, place_of

SECONDS = 120.0
"""Time for one file; the slowest reference results take four."""

BYTES = 4 * 2**30
"""Memory beside what the process starts with, where the system can limit it."""

Check = Callable[[Path | Line], Report]


class Guard:
    """Calls a check in another process, which is started again after it had to be stopped.

    Args:
        check: a function of a module.
        plugins: files to import in the process.
        seconds: time limit for one file.
    """

    def __init__(
        self, check: Check, plugins: Sequence[Path] = (), seconds: float = SECONDS
    ) -> None:
        imports = ("uedp_bench.leaderboard.validate",)
        self._process = KeptProcess(_Checks(check, tuple(plugins)), seconds, imports=imports)
        self._seconds = seconds

    def __enter__(self) -> Guard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.end()

    def __call__(self, file: Path | Line) -> Report:
        """The report of the check, or one that says how the check ended too early."""
        reports: list[Report] = []
        what = "ended the process that checks it, for want of memory perhaps"
        with suppress(OSError):  # for want of memory, too
            crash = self._process.do(file, reports.append)
            if crash is None:
                return reports[0]
            if crash.kind == TIMEOUT:
                what = f"takes more than {self._seconds:g} seconds"
        problem = error("", f"could not be checked: it {what}; no honest result does")
        return Report(path=place_of(file), problems=(problem,))


@dataclass(frozen=True)
class _Checks:
    """The work of the other process: a report for every file."""

    check: Check
    plugins: tuple[Path, ...]

    def start(self) -> None:
        registry.load_plugins(self.plugins)
        _limit_memory()

    def __call__(self, file: Path | Line, tell: Tell) -> bool:
        tell(self.check(file))
        return True


def _limit_memory() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    with suppress(ValueError, OSError):  # macOS has no such file, and refuses
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        limit = pages * resource.getpagesize() + BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
