"""Text of a pull request that offers results: what they are, and who can compute them again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from uedp_bench.errors import plain
from uedp_bench.leaderboard.rows import aggregate
from uedp_bench.leaderboard.table import to_markdown

if TYPE_CHECKING:
    from uedp_bench.contracts.results import Result
    from uedp_bench.leaderboard.validation.report import Report

AGAIN = """\
- **By anybody, from the bundle alone**: ids, guarantees and claims (from events and parameters), \
lower bounds (from scores), ranges, and whether parts agree. `uedp-bench leaderboard validate` \
computes them.
- **By whoever has the data**: everything, from the spec; one kind of CPU repeats a run \
to the bit.
- **By nobody else**: that the events happened. Utility and leakage are what the submitter says."""


def submission(results: Sequence[Result], reports: Iterable[Report], bundle: str) -> str:
    """Markdown for a pull request that adds a bundle.

    Args:
        results: finished results of the bundle.
        reports: reports of their validation, without errors.
        bundle: path of the bundle, as in the repository.
    """
    seeds = sorted({result.spec.seed for result in results})
    lines = [
        f"# Results: {plain(bundle)}",
        "",
        f"{len(results)} runs, seeds {', '.join(map(str, seeds))}.",
        "",
        *_section("Table", [to_markdown(aggregate(results)).strip()]),
        *_section(
            "Computed with",
            (f"- {_inline(name)}: {n} runs" for name, n in environments(results).most_common()),
        ),
        *_section(
            "Data", [*_sources(results), "- Place and licence of the data: *to be filled in*"]
        ),
        *_section("Components of others", _unreviewed(results)),
        *_section("Who can compute it again", [AGAIN]),
        *_section("What validation noted", _notes(reports)),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    if content := list(lines):
        yield from (f"## {title}", "", *content, "")


def environments(results: Sequence[Result]) -> Counter[str]:
    """Package, Python, libraries and device of runs, with their numbers."""
    return Counter(
        f"uedp-bench {result.provenance.get('package', '?')} at commit "
        f"{str(result.provenance.get('commit') or 'unknown')[:12]}, Python "
        f"{result.provenance.get('python', '?')}, {_libraries(result.provenance)}, on "
        f"{result.cost.device or 'an unknown device'}"
        for result in results
    )


def _libraries(provenance: Mapping[str, Any]) -> str:
    libraries = provenance.get("libraries")
    pairs = libraries.items() if isinstance(libraries, Mapping) else ()
    return ", ".join(f"{name} {version}" for name, version in pairs) or "unknown libraries"


def _sources(results: Sequence[Result]) -> Iterator[str]:
    sources = Counter(
        (result.spec.source.name, json.dumps(result.spec.source.params, sort_keys=True),
         str(result.provenance.get("identity", {}).get("corpus", "?")))
        for result in results
    )  # fmt: skip
    for (name, params, corpus), count in sources.most_common():
        yield f"- {_inline(name)}, corpus {_inline(corpus)}: {count} runs, with {_inline(params)}"


def _unreviewed(results: Sequence[Result]) -> Iterator[str]:
    notes = dict.fromkeys(
        guarantee.note
        for result in results
        for guarantee in result.guarantees
        if guarantee.kind == "stated"
    )
    for note in notes:
        yield f"- Stated, not proven: {_inline(note or 'a component that was not reviewed')}"


def _notes(reports: Iterable[Report]) -> Iterator[str]:
    notes = Counter(problem.what for report in reports for problem in report.problems)
    for text, count in notes.items():
        yield f"- {_inline(text)} ({count} runs)"


def _inline(text: str) -> str:
    """Text as code, so that nothing of a stranger acts in Markdown."""
    return f"`{plain(text).replace('`', chr(39))}`"
