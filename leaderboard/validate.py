"""Finds what is wrong with a result, as far as it can be known without repeating its run.

A result is a text that its submitter wrote. Checked is that it has the form of a result, that its
numbers are possible and agree with each other, that its id is the hash of what it says was run,
and that its guarantees are what its events are worth. That the events happened cannot be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from uedp_bench.components import registry
from uedp_bench.contracts.mechanism import ServingMechanism, TrainingMechanism
from uedp_bench.contracts.results import MOST_SAMPLES, Result, RunSpec
from uedp_bench.errors import InputError
from uedp_bench.grid.workers import TIMEOUT, KeptProcess, Tell
from uedp_bench.leaderboard.boards import is_generated
from uedp_bench.leaderboard.loading import difference, numbers_of
from uedp_bench.leaderboard.sources import (
    SUFFIX,
    Folder,
    Line,
    bundle_of,
    has_header,
    line_of,
    read_lines,
)
from uedp_bench.leaderboard.validation.claims import check_claims, check_selection
from uedp_bench.leaderboard.validation.components import check_backing, check_components, components
from uedp_bench.leaderboard.validation.consistency import (
    check_consistency,
    check_provenance,
    check_ranges,
)
from uedp_bench.leaderboard.validation.identity import HASH, check_declarations, check_identity
from uedp_bench.leaderboard.validation.proofs import check_ceilings, check_proofs
from uedp_bench.leaderboard.validation.publishing import check_publishing, private_text_notes
from uedp_bench.leaderboard.validation.receipts import check_coins
from uedp_bench.leaderboard.validation.report import (
    MOST_SAID,
    Problem,
    Report,
    error,
    note,
    place_of,
    plain,
    read,
    shown,
)


def check_samples(result: Result) -> Iterator[Problem]:
    """Problems where a result shows text that is not generated, without the spec's consent."""
    if not result.samples:
        return
    source = result.spec.source
    if not (is_generated(result.spec) or source.params.get("show_samples") is True):
        yield error(
            "samples",
            f"holds text of {shown(source.name)}, which is not generated, and the spec does not "
            "say source.show_samples: take the samples out",
        )
    for attack, samples in result.samples.items():
        if len(samples) > MOST_SAMPLES:
            yield error(
                f"samples.{attack}", f"has {len(samples)} texts, and {MOST_SAMPLES} are kept"
            )


def check_stored(result: Result) -> Iterator[Problem]:
    """Problems where `stored` says that a protocol hides the model, and no mechanism runs one.

    A mechanism that keeps the model behind what it serves says how to serve it again.
    """
    mechanisms = [each.component for each in components(result.spec) if "mechanism" in each.where]
    if None in mechanisms or result.status == "failed":
        return
    serving = [
        kind
        for kind in mechanisms
        if kind is not None
        and issubclass(kind, ServingMechanism)
        and not issubclass(kind, TrainingMechanism)
    ]
    hiding = [kind for kind in serving if kind.serve_again is not ServingMechanism.serve_again]
    if "protocol" in result.stored and not serving:
        yield error("stored.protocol", "is there, and no mechanism of the spec answers queries")
    if hiding and "release" in result.stored and "protocol" not in result.stored:
        yield error(
            "stored.protocol", f"is missing: {hiding[0].name} keeps the model behind what it serves"
        )


CHECKS: tuple[Callable[[Result], Iterator[Problem]], ...] = (
    check_components,
    check_declarations,
    check_ranges,
    check_consistency,
    check_backing,
    check_provenance,
    check_identity,
    check_proofs,
    check_claims,
    check_ceilings,
    check_selection,
    check_stored,
    check_samples,
    check_publishing,
)


def check(
    file: Path | Line, coins: Path | None = None, own: RunSpec | Result | None = None
) -> Report:
    """Everything that is wrong with one result; no content of a file makes it raise.

    Args:
        file: a `result.json`, or the line of a bundle.
        coins: coins of a corpus that was planted for a training elsewhere, once revealed.
        own: spec of the caller whose source has the data that the coins fell on, or the result of
            its run on the released model.
    """
    reading = read(file)
    problems = list(reading.problems)
    result = reading.result
    if result is not None:
        for of in CHECKS:
            problems += _checked(of, result)
        if coins is not None:
            problems += _checked(partial(check_coins, coins, own), result)
        problems += _checked(partial(_form, file), result)
    has_id = result is not None and HASH.fullmatch(result.id) is not None
    unique = list(dict.fromkeys(problems))
    return Report(
        path=place_of(file),
        id=result.id if result is not None and has_id else None,
        problems=tuple(sorted(unique, key=lambda problem: problem.severity)),
        publication_notes=()
        if result is None
        else tuple(plain(text, MOST_SAID) for text in private_text_notes(result)),
        numbers=numbers_of(result) if result is not None and result.status == "finished" else {},
    )


def without_twins(reports: Sequence[Report]) -> list[Report]:
    """Reports with an error where an earlier file has the same id and other numbers."""
    first: dict[str, Report] = {}
    checked = []
    for report in reports:
        twin = report if report.id is None else first.setdefault(report.id, report)
        if unlike := difference(twin.numbers, report.numbers):
            clash = error("id", f"also stands for {twin.path}, but {unlike}: keep one of them")
            report = report.model_copy(update={"problems": (clash, *report.problems)})
        checked.append(report)
    return checked


def find(paths: Iterable[Path]) -> Iterator[Path | Line | Report]:
    """Everything to check, each once: files given, lines of bundles, and both below folders given.

    Yields:
        Files and lines; a report in place of a folder without any, and of a bundle that is wrong.
    """
    seen: set[Path] = set()
    for path in paths:
        files = [path]
        if path.is_dir() or bundle_of(path) is not None:
            files = [Path(location.name) for location in Folder(path, may_come=True).find()] or [
                path
            ]
        if files == [path] and path.is_dir():
            yield _of_file(path, "holds no result.json and no bundle")
            continue
        for file in files:
            if (place := file.absolute()) in seen:
                continue
            seen.add(place)
            if file.name.endswith(SUFFIX):
                yield from _lines(file)
            else:
                yield file


def _lines(bundle: Path) -> Iterator[Line | Report]:
    """The lines of a bundle, and a report if it is not as it would be packed."""
    before = ""
    try:
        for line in read_lines(bundle):
            if line.id <= before:
                what = f"line {line.number}: {line.id} does not come after {before}"
                yield _of_file(bundle, what)
            before = line.id
            yield line
        if not has_header(bundle):
            yield _of_file(bundle, f"does not begin as a bundle does: {_PACK}")
    except InputError as reason:
        yield _of_file(bundle, str(reason))


def _of_file(path: Path, what: str) -> Report:
    return Report(path=place_of(path), problems=(error("", what),))


_PACK = "write it with uedp-bench leaderboard pack"


def _checked(of: Callable[[Result], Iterable[Problem]], result: Result) -> list[Problem]:
    """The problems that one check finds; a file that breaks the check itself is no valid one."""
    try:
        return list(of(result))
    except Exception as reason:
        what = f"{getattr(of, '__name__', 'a check')} ended with {type(reason).__name__}: {reason}"
        return [error("", f"could not be checked: {what}")]


def _form(file: Path | Line, result: Result) -> list[Problem]:
    """Results lie in folders named by their ids; a line has one form for the same result."""
    if isinstance(file, Line):
        same = line_of(result) == file.text
        return [] if same else [error("", f"is not as it is packed: {_PACK}")]
    if file.name != "result.json" or file.absolute().parent.name == result.id:
        return []
    return [note("id", f"is not the name of its folder, {plain(file.absolute().parent.name)!r}")]


SECONDS = 120.0
"""Time for one file; the slowest reference results take four."""

PLANTING_SECONDS = 3600.0
"""Time for one file whose planting is computed again on data of the caller."""

_BYTES = 4 * 2**30
"""Memory beside what the process starts with, where the system can limit it."""

Check = Callable[[Path | Line], Report]


class Guard:
    """Calls a check in another process, which is started again after it had to be stopped.

    Args:
        check: check of one file, a function at the top of a module.
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

    def __exit__(self, *raised: object) -> None:
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
        limit = pages * resource.getpagesize() + _BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard < 0 else min(limit, hard), hard))
