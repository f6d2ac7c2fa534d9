"""One rule for spaCy pipelines: which count as trained on public text, and which are declared.

What a pipeline was trained on cannot be read from it. spaCy's own packages name their text on their
pages, and it is published corpora. Any other package, and any folder, may have been trained on
anybody's text, also on that of the people whom a run protects (docs/proofs.md, section 16, C14).
"""

from __future__ import annotations

import re
from pathlib import Path

_OF_SPACY = re.compile(
    r"[a-z]{2}_(?:core_web|core_news|dep_news|ent_wiki|sent_ud)_(?:sm|md|lg|trf)"
)
"""Names of the packages of https://spacy.io/models."""

DECLARES = (
    "declare that the pipeline was trained on public text alone; without it nothing is proven, "
    "unless the pipeline is one of spaCy's own packages (en_core_web_sm), whose text is documented"
)
"""Describes the parameter `pipeline_is_public`."""


def documented(pipeline: str) -> bool:
    """True for the name of one of spaCy's own packages, where no folder of that name is meant."""
    return _OF_SPACY.fullmatch(pipeline) is not None and not Path(pipeline).exists()


def check_declared(pipeline: str | None, declared: bool) -> None:
    """Refuses a declaration about nothing.

    Raises:
        ValueError: if a pipeline is declared public, and there is none.
    """
    if declared and pipeline is None:
        raise ValueError("pipeline_is_public is given, and there is no pipeline")


def pipeline_refusals(
    pipeline: str | None, declared: bool, what: str, field: str
) -> tuple[str, ...]:
    """Why nothing can be proven of what depends on a pipeline, or nothing.

    Args:
        pipeline: its name or folder; None where there is none.
        declared: somebody says that its text is public.
        what: depends on it ("the annotation of a row").
        field: that declares it ("annotate.pipeline_is_public").
    """
    if pipeline is None or declared or documented(pipeline):
        return ()
    return (
        f"{what} depends on a spaCy pipeline of which nobody says that it was trained on public "
        f"text alone: declare it by {field}",
    )
