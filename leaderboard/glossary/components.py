"""What the page says of mechanisms and attacks: summary, paper, code and threat model."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uedp_bench.errors import UedpBenchError
from uedp_bench.leaderboard.glossary.papers import papers
from uedp_bench.leaderboard.rows import Row
from uedp_bench.mechanism import (
    PublishingMechanism,
    RepresentationMechanism,
    ServingMechanism,
    TrainingMechanism,
    VocabularyMechanism,
)
from uedp_bench.registry import Registry

_OURS = "uedp_bench."


@dataclass(frozen=True)
class Entry:
    """A component as readers see it.

    Attributes:
        name: as tables write it.
        summary: its first sentence; empty where it is not installed.
        source: what it comes from, as it says.
        papers: that its source names, with addresses.
        module: where its code is.
        code: the file within the repository; empty for others than ours.
        docs: its page within the repository; empty for others than ours.
        threat: who may see what, of mechanisms.
    """

    name: str
    summary: str = ""
    source: str = ""
    papers: tuple[tuple[str, str], ...] = ()
    module: str = ""
    code: str = ""
    docs: str = ""
    threat: str = ""


def entries(names: Sequence[str], registry: Registry[Any], pages: str = "") -> list[Entry]:
    """What is known of components, by name.

    Args:
        names: as results write them.
        registry: of their kind.
        pages: the folder of their pages, in the repository; empty for one without.
    """
    return [_entry(name, registry, pages) for name in sorted(set(names))]


def _entry(name: str, registry: Registry[Any], pages: str) -> Entry:
    try:
        found = registry.get(name)
    except UedpBenchError:
        return Entry(name)
    ours = found.__module__.startswith(_OURS)
    return Entry(
        name=name,
        summary=_summary(found),
        source=found.source,
        papers=papers(found.source),
        module=found.__module__,
        code=_file(found.__module__) if ours else "",
        docs=f"{pages}/{name}.md" if ours and pages else "",
        threat=threat_model(found),
    )


def _summary(found: type) -> str:
    text = " ".join((inspect.getdoc(found) or "").partition("\n\n")[0].split())
    return text.replace("`", "")


def _file(module: str) -> str:
    """Mechanisms and attacks stand in folders of their own in the repository."""
    path = module.removeprefix(_OURS).replace(".", "/")
    return f"{path}.py"


def threat_model(found: type) -> str:
    """Who is trusted with private text, and what an adversary sees, by what a mechanism is."""
    if issubclass(found, RepresentationMechanism):
        return (
            "Trusted: whoever trains, and the owner of a text. The adversary sees the "
            "representation that leaves the owner, after the mechanism."
        )
    if issubclass(found, PublishingMechanism):
        who = (
            "Trusted: nobody but the owner of a row, for every row is protected by itself."
            if found.rowwise
            else "Trusted: whoever publishes, who sees all private rows."
        )
        return f"{who} The adversary sees all that is published."
    if issubclass(found, ServingMechanism):
        return (
            "Trusted: whoever trains. The adversary is a party of the protocol that answers, and "
            "sees its own input, the messages and the answer."
        )
    if issubclass(found, TrainingMechanism):
        shows = f" Parties of its protocol also see {found.shows}." if found.shows else ""
        return (
            "Trusted: whoever computes updates from private text. The adversary sees the model "
            f"that is released, with its weights.{shows}"
        )
    if issubclass(found, VocabularyMechanism):
        return (
            "Trusted: whoever counts, who sees all private text. The adversary sees the vocabulary."
        )
    return ""


def mechanisms_of(rows: Sequence[Row]) -> list[str]:
    """Names of the mechanisms of some rows."""
    return sorted({part.name for row in rows for part in row.spec.mechanism})


def attacks_of(rows: Sequence[Row]) -> list[str]:
    """Names of the attacks that measured something of some rows."""
    return sorted({name for row in rows for name in row.leakage})
