"""A tagger that an earlier run trained, as a detector; and what that run did to people's text.

A trained tagger is a release of the text that it was trained on. Whoever uses it on text of the
same people tells about them twice, so that the events of its run compose with those of this one
(docs/proofs.md, section 17).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from uedp_bench.api import Events, InputError
from uedp_bench.api.capabilities import Tagger
from uedp_bench.api.events import NonPrivate, PrivacyEvent
from uedp_bench.components import registry
from uedp_bench.contracts.recorded_identity import parts_of, record_faults, unreviewed_of_result
from uedp_bench.contracts.results import ComponentSpec, Result, read_result
from uedp_bench.corpus import Corpus, Layer
from uedp_bench.io.files import shown_path, state_of
from uedp_bench.io.sealed_files import check_folder
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
        return tuple(
            event.model_copy(update={"assumptions": (*event.assumptions, _SAME)})
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
