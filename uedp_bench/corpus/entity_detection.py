"""Parameters of entity detection, and which of its spaCy pipelines count as public.

What a pipeline was trained on cannot be read from it. spaCy's own packages name their text on their
pages, and it is published corpora. Any other package, and any folder, may have been trained on
anybody's text, also on that of the people whom a run protects (docs/proofs.md, section 16, C14).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from uedp_bench.components.component import Params, Requirement, equals, of_detector

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


class DetectionParams(Params):
    """Detection of entities by a source without gold labels."""

    detector: Literal["none", "spacy", "presidio", "names"] = Field(
        default="none",
        description="what finds entities: the entities of a spaCy pipeline, Presidio's recognisers "
        "(patterns, and names if a pipeline is given), or names: capitalised words on a public "
        "list of English first names; none leaves the source's own",
    )
    pipeline: str | None = Field(
        default=None,
        description="spaCy pipeline, by the name of an installed package (en_core_web_sm) or as "
        "a folder; presidio without one finds patterns only",
    )
    pipeline_is_public: bool = Field(default=False, exclude_if=equals(False), description=DECLARES)
    entity_types: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="types that count as entities (default: all that the source and the detector "
        "know)",
    )

    def requires(self) -> tuple[Requirement, ...]:
        """Packages of the detector."""
        return (*super().requires(), *of_detector(self.detector, self.pipeline))

    @model_validator(mode="after")
    def _pipeline_fits(self) -> DetectionParams:
        if self.detector == "spacy" and self.pipeline is None:
            raise ValueError("detector 'spacy' needs a pipeline (pipeline=en_core_web_sm, say)")
        if self.detector in ("none", "names") and self.pipeline is not None:
            raise ValueError(
                f"pipeline is given, but detector is {self.detector!r}; use spacy or presidio"
            )
        check_declared(self.pipeline, self.pipeline_is_public)
        return self

    def refusals(self) -> tuple[str, ...]:
        """Why nothing can be proven of what is made of the entities, or nothing."""
        return pipeline_refusals(
            self.pipeline, self.pipeline_is_public, "what counts as an entity",
            "source.pipeline_is_public",
        )  # fmt: skip
