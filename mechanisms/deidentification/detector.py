"""Detectors of the pieces of text that de-identification replaces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import MayBePath, Params, Requirement, equals
from uedp_bench.api.text import DetectionParams
from uedp_bench.components.component import of_detector
from uedp_bench.corpus import Corpus, Layer
from uedp_bench.corpus.entity_detection import DECLARES, check_declared, pipeline_refusals
from uedp_bench.mechanisms.deidentification.trained_tagger import TrainedOn, TrainedTagger
from uedp_bench.text.entities import found_in

_SOFTWARE = ("spacy", "presidio")


class DetectorParams(Params):
    """Choice of the detector."""

    detector: Literal["corpus", "names", "spacy", "presidio", "tagger"] = Field(
        default="corpus",
        exclude_if=equals("corpus"),
        description="what finds the pieces that are replaced: corpus, the entities that the source "
        "has (its labels, or what its own detector found); or, whatever the source says: names "
        "(capitalised words on a public list of English first names), the entities of a spaCy "
        "pipeline, Presidio's recognisers (patterns, and names if a pipeline is given), or a "
        "tagger that an earlier run trained",
    )
    pipeline: Annotated[str | None, MayBePath()] = Field(
        default=None,
        exclude_if=equals(None),
        description="spaCy pipeline of the detectors spacy and presidio, by the name of an "
        "installed package or as a folder",
    )
    pipeline_is_public: bool = Field(default=False, exclude_if=equals(False), description=DECLARES)
    tagger: Annotated[Path | None, MayBePath(of_a_run=True)] = Field(
        default=None,
        exclude_if=equals(None),
        description="folder of the run that trained the tagger (its release was kept)",
    )
    tagger_trained_on: TrainedOn = Field(
        default="private",
        exclude_if=equals("private"),
        description="private: what the tagger's run did to people's text composes with this run, "
        "for its people may be those of this corpus; public: you declare that its text is public",
    )

    def requires(self) -> tuple[Requirement, ...]:
        """Packages of the detector."""
        return (*super().requires(), *of_detector(self.detector, self.pipeline))

    @model_validator(mode="after")
    def _detector_fits(self) -> DetectorParams:
        kind = self.detector
        if kind == "spacy" and self.pipeline is None:
            raise ValueError(
                "detector is spacy and needs a pipeline (pipeline=en_core_web_sm, say)"
            )
        if self.pipeline is not None and kind not in _SOFTWARE:
            raise ValueError(f"pipeline is given, but detector is {kind}; use spacy or presidio")
        check_declared(self.pipeline, self.pipeline_is_public)
        if kind == "tagger" and self.tagger is None:
            raise ValueError("detector is tagger, but tagger, the folder of its run, is not given")
        if kind != "tagger" and (self.tagger is not None or self.tagger_trained_on == "public"):
            raise ValueError(f"a tagger is described, but detector is {kind}; use tagger")
        return self


def detector_refusals(params: DetectorParams) -> tuple[str, ...]:
    """Why nothing can be proven of what the detector has seen, or nothing."""
    if (tagger := trained_tagger(params)) is not None:
        return tagger.refusals()
    return pipeline_refusals(
        params.pipeline, params.pipeline_is_public, "what deidentify finds in a row",
        "pipeline_is_public of deidentify",
    )  # fmt: skip


def trained_tagger(params: DetectorParams) -> TrainedTagger | None:
    """The tagger that the parameters name; None where another detector acts."""
    if params.tagger is None:
        return None
    return TrainedTagger(params.tagger, params.tagger_trained_on)


def found_by(params: DetectorParams, corpus: Corpus) -> Layer:
    """Find the detector's pieces in the texts of a corpus, with its types; every row is complete.

    Raises:
        InputError: for a missing pipeline or tagger.
        MissingExtraError: if spaCy or Presidio is not installed.
        CapabilityError: if the entities of the corpus were lost on the way.
    """
    if params.detector == "corpus":
        everywhere = np.ones(len(corpus), dtype=bool)
        return Layer(corpus.entities, corpus.entity_types, everywhere)
    if (tagger := trained_tagger(params)) is not None:
        return tagger.find(corpus)
    detection = DetectionParams.model_validate(
        {"detector": params.detector, "pipeline": params.pipeline}
    )
    return found_in(corpus.texts, detection)


def name_of(params: DetectorParams) -> str:
    """The detector as diagnostics name it."""
    return " ".join(filter(None, (params.detector, params.pipeline)))


OWN = "entities of the source"
"""Name of the layer that has them while a detector of its own acts."""


def acting_on(corpus: Corpus, detected: Layer) -> Corpus:
    """Corpus with detected pieces as its entities; its own become a layer that edits follow."""
    layers = dict(corpus.layers)
    if not corpus.entities.lost:
        layers[OWN] = Layer(corpus.entities, corpus.entity_types, np.ones(len(corpus), dtype=bool))
    return replace(corpus, entities=detected.spans, entity_types=detected.types, layers=layers)


def with_own_entities(published: Corpus, corpus: Corpus) -> Corpus:
    """Published corpus with the source's own entities: their remains or replacements."""
    layers = dict(published.layers)
    own = layers.pop(OWN, None)
    entities = corpus.entities if own is None else own.spans
    return replace(published, entities=entities, entity_types=corpus.entity_types, layers=layers)
