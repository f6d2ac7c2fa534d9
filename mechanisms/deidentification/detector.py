"""Detectors of the pieces of text that de-identification replaces, trained taggers among them.

A trained tagger is a release of the text that it was trained on. Whoever uses it on text of the
same people tells about them twice, so that the events of its run compose with those of this one
(docs/proofs.md, section 17).
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from uedp_bench.api import Corpus, Events, InputError, Layer, MayBePath, Params, Requirement, equals
from uedp_bench.api.capabilities import Tagger
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.api.text import DetectionParams
from uedp_bench.components import registry
from uedp_bench.components.component import of_detector
from uedp_bench.contracts.recorded_identity import parts_of, record_faults, unreviewed_of_result
from uedp_bench.contracts.results import ComponentSpec, Result, read_result
from uedp_bench.corpus.entity_detection import DECLARES, check_declared, pipeline_refusals
from uedp_bench.io.files import shown_path, state_of
from uedp_bench.io.sealed_files import check_folder
from uedp_bench.text.entities import found_in
from uedp_bench.version import ENGINE

TrainedOn = Literal["private", "public"]

_FIELD = "deidentify.tagger"
_SAME = (
    "whoever is a unit here and in the text that the tagger was trained on is the same unit in both"
)


class TrainedTagger(NamedTuple):
    """The saved tagger of an earlier run.

    Attributes:
        folder: folder of the run that trained it, or that run's folder `release`.
        trained_on: "public" where its text was declared public.
    """

    folder: Path
    trained_on: TrainedOn

    def find(self, corpus: Corpus) -> Layer:
        """Tag the texts without their labels and users.

        Raises:
            InputError: if there is no tagger in the folder.
        """
        nobody = {"user": np.full(len(corpus), -1, dtype=np.int64)}
        bare = Corpus(corpus.texts, nobody, corpus.split, origin=corpus.origin)
        folder = self.folder.resolve()
        files = tuple(map(state_of, sorted(each for each in folder.rglob("*") if each.is_file())))
        tagger = _loaded(folder, files)
        return Layer(tagger.spans(bare), tagger.types, np.ones(len(corpus), dtype=bool))

    def inherited(self) -> Events:
        """Events of its run on people's text; none where that text was declared public.

        Without the record of its run, or with one that holds no event, nobody knows what it was
        trained on: then nothing can be proven of whatever uses it.

        Raises:
            InputError: if there is no such folder, or the run failed.
        """
        if self.trained_on == "public":
            return ()
        result = self._result()
        if result is None or not result.events:  # every training emits one, also without noise
            missing = "is not there" if result is None else "holds no privacy event"
            reason = (
                "nobody knows what the tagger of deidentify was trained on: result.json of its run "
                f"{missing} (tagger_trained_on=public declares that it was public text)"
            )
            return (PrivacyEvent(unit="record", event=NonPrivate(reason=reason)),)
        # Its guarantees alone state what its data and seed must be like.
        stated = {
            (proof.unit, proof.adjacency): proof.assumptions
            for proof in result.guarantees
            if proof.kind != "claimed"
        }
        return tuple(
            event.model_copy(
                update={
                    "assumptions": (
                        *event.assumptions,
                        *stated.get((event.unit, event.adjacency), ()),
                        _SAME,
                    )
                }
            )
            for event in result.events
        )

    def refusals(self) -> tuple[str, ...]:
        """Reasons beyond its events why nothing can be proven of mechanisms that use it.

        Raises:
            InputError: as `inherited`.
        """
        result = None if self.trained_on == "public" else self._result()
        if result is None:
            return ()
        reasons = [
            guarantee.reason
            for guarantee in result.guarantees
            if guarantee.kind != "claimed" and guarantee.status == "refused"
        ]
        reasons += [
            f"the record of its run does not hold: {what}" for what in record_faults(result)
        ]
        recorded = parts_of(result)
        if recorded is not None and recorded.engine != ENGINE:
            reasons.append(
                f"engine {recorded.engine} of this package trained it, and only what engine "
                f"{ENGINE} does is proven here"
            )
        if parts := unreviewed_of_result(result):
            reasons.append(f"nobody reviewed {', '.join(parts)}, so its events are not proven")
        vocabulary = result.provenance.get("vocabulary")
        if isinstance(vocabulary, dict) and vocabulary.get("private"):
            reasons.append("its vocabulary comes from private text")
        if any(stage.role == "downstream" for stage in result.stages or ()):
            reasons.append("no event tells what a stage without protection learnt of other rows")
        if result.spec.selection is not None:
            reasons.append("its parameters were chosen among trials, which its events do not tell")
        return tuple(f"the tagger of deidentify: {reason}" for reason in dict.fromkeys(reasons))

    def _result(self) -> Result | None:
        folder = self.folder.resolve()
        for place in (folder, folder.parent if folder.name == "release" else folder):
            if (path := place / "result.json").is_file():
                result = read_result(path)
                if result.error is not None:
                    raise InputError(f"{_FIELD}: the run in {shown_path(place)} failed")
                return result
        if not folder.is_dir():
            raise InputError(f"{_FIELD}: there is no folder {shown_path(self.folder)}")
        return None


@lru_cache(maxsize=2)
def _loaded(folder: Path, files: tuple[tuple[int, ...], ...]) -> Tagger:
    """The tagger that a run saved, by the task that trained it (without a record, `tagging`).

    Args:
        folder: folder of the run, or of its release.
        files: states of all files there: what was written anew is read anew.
    """
    result = TrainedTagger(folder, "private")._result()
    inside = folder / "release" if (folder / "release").is_dir() else folder
    check_folder(inside)
    task = ComponentSpec(name="tagging") if result is None else result.spec.task
    release = registry.tasks.create(task.name, task.params).load(inside)
    if not isinstance(release, Tagger):
        raise InputError(
            f"{_FIELD}: {shown_path(folder)} holds what the task {task.name} trained, and that "
            "finds no entities; name the folder of a run of the task tagging"
        )
    return release


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
        return Layer(corpus.entities, corpus.entity_types, np.ones(len(corpus), dtype=bool))
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
