"""Findings: sentences of pages, each with the expression over stored results that makes it true.

`NAME.findings.yaml` below `leaderboard/results` belongs to the results of that name:

    page: docs/bloggers.md
    findings:
      - says: No canary of a protected row is extracted.
        holds: mean("secret-sharer.extracted_beam_search", "user-dp") == 0

An entry may name a page of its own. `docs/hooks/expressions.py` has the language; `names` of a file
maps names that its expressions use to expressions, each of which may use those before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from expressions import RESULTS, Study

from uedp_bench.io.yaml_files import load_yaml

ENDING = ".findings.yaml"


@dataclass(frozen=True)
class Finding:
    """A sentence of a page, and the expression that makes it true.

    Attributes:
        results: name of the results that the expression is about.
        page: file of the page, from the root of the checkout.
        says: words of the page.
        holds: expression that is True where the words hold.
        names: expressions of names that it uses.
    """

    results: str
    page: str
    says: str
    holds: str
    names: dict[str, str] = field(default_factory=dict)

    def is_true(self) -> bool:
        """The value of the expression, which is True or False."""
        study, values = Study(self.results), {}
        for name, expression in self.names.items():
            values[name] = study.evaluate(expression, values)
        value = study.evaluate(self.holds, values)
        assert isinstance(value, bool), f"{self.holds} is {value!r}"
        return value


def findings() -> Iterator[Finding]:
    """All stored findings."""
    for file in sorted(RESULTS.rglob(f"*{ENDING}")):
        content: Any = load_yaml(file.read_text("utf-8"))
        name = file.relative_to(RESULTS).as_posix().removesuffix(ENDING)
        for entry in content["findings"]:
            page = entry.get("page", content.get("page"))
            yield Finding(name, page, entry["says"], entry["holds"], content.get("names", {}))
