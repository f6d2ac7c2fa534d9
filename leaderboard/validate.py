"""Finds what is wrong with a result, as far as it can be known without repeating its run.

A result is a text that its submitter wrote. Checked is that it has the form of a result, that its
numbers are possible and agree with each other, that its id is the hash of what it says was run,
and that its guarantees are what its events are worth. That the events happened cannot be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from uedp_bench.leaderboard.loading import differing_utility, utility_of
from uedp_bench.leaderboard.sources import Folder
from uedp_bench.leaderboard.validation.audits import check_audit
from uedp_bench.leaderboard.validation.before_publishing import check_publishing, told
from uedp_bench.leaderboard.validation.claims import check_claims
from uedp_bench.leaderboard.validation.components import check_components
from uedp_bench.leaderboard.validation.consistency import check_consistency, check_provenance
from uedp_bench.leaderboard.validation.identity import HASH, check_identity
from uedp_bench.leaderboard.validation.leakage_details import check_backing
from uedp_bench.leaderboard.validation.proofs import check_proofs
from uedp_bench.leaderboard.validation.ranges import check_ranges
from uedp_bench.leaderboard.validation.read_result import read
from uedp_bench.leaderboard.validation.report import MOST_SAID, Problem, Report, error, note, plain
from uedp_bench.leaderboard.validation.selections import check_selection
from uedp_bench.leaderboard.validation.stored_files import check_samples, check_stored
from uedp_bench.results import Result

CHECKS: tuple[Callable[[Result], Iterator[Problem]], ...] = (
    check_components,
    check_ranges,
    check_consistency,
    check_backing,
    check_audit,
    check_provenance,
    check_identity,
    check_proofs,
    check_claims,
    check_selection,
    check_stored,
    check_samples,
    check_publishing,
)


def check(path: Path) -> Report:
    """Everything that is wrong with one file; no content of a file makes it raise."""
    reading = read(path)
    problems = list(reading.problems)
    result = reading.result
    if result is not None:
        for of in CHECKS:
            problems += _checked(of, result)
        problems += _folder(path, result)
    known = result is not None and HASH.fullmatch(result.id) is not None
    unique = list(dict.fromkeys(problems))
    return Report(
        path=plain(str(path), MOST_SAID),
        id=result.id if result is not None and known else None,
        problems=tuple(sorted(unique, key=lambda problem: problem.severity)),
        told=() if result is None else tuple(plain(text, MOST_SAID) for text in told(result)),
        utility=utility_of(result) if result is not None and result.status == "finished" else {},
    )


def without_twins(reports: Sequence[Report]) -> list[Report]:
    """Reports with an error where an earlier file has the same id and another utility."""
    first: dict[str, Report] = {}
    checked = []
    for report in reports:
        twin = report if report.id is None else first.setdefault(report.id, report)
        if difference := differing_utility(twin.utility, report.utility):
            clash = error("id", f"also stands for {twin.path}, but {difference}: keep one of them")
            report = report.model_copy(update={"problems": (clash, *report.problems)})
        checked.append(report)
    return checked


def find(paths: Iterable[Path]) -> Iterator[Path | Report]:
    """The files to check, each once: those given, and every result.json below folders given.

    Yields:
        A report in place of a folder without any.
    """
    seen: set[Path] = set()
    for path in paths:
        files = [path]
        if path.is_dir():
            files = [Path(found.name) for found in Folder(path).find()]
        if not files:
            yield Report(
                path=plain(str(path), MOST_SAID), problems=(error("", "holds no result.json"),)
            )
        for file in files:
            if (place := file.absolute()) not in seen:
                seen.add(place)
                yield file


def _checked(of: Callable[[Result], Iterator[Problem]], result: Result) -> list[Problem]:
    """The problems that one check finds; a file that breaks the check itself is no valid one."""
    try:
        return list(of(result))
    except Exception as reason:
        what = f"{of.__name__} ended with {type(reason).__name__}: {reason}"
        return [error("", f"could not be checked: {what}")]


def _folder(path: Path, result: Result) -> list[Problem]:
    """Results lie in folders named by their ids."""
    if path.name != "result.json" or path.absolute().parent.name == result.id:
        return []
    return [note("id", f"is not the name of its folder, {plain(path.absolute().parent.name)!r}")]
