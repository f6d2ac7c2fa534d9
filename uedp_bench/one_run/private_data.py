"""Private data of a result: numbers that only a simulation may print, and files of its folder.

A deployment may show what was released with its guarantee, and whatever follows from that, from
public text and from test rows. All else that a result holds was computed from training rows without
noise: counts, times, losses, word statistics, hashes, and what attacks find, for they know the
truth. A new field of a result is private until it is named here.

The files of its folder are kept, readable and told in one place. A saved release is loaded and
asked once: what cannot be asked again was not saved.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uedp_bench.accounting.guarantee import Guarantee, proves_something
from uedp_bench.contracts.capabilities import RowScorer, declared_capabilities
from uedp_bench.contracts.mechanism import ServedRelease, served_again
from uedp_bench.contracts.release import PublishedOnly, Release, Updates, protected_rows
from uedp_bench.contracts.results import Result, write_result
from uedp_bench.contracts.task import Task
from uedp_bench.contracts.transcript import Transcript
from uedp_bench.corpus import Corpus, FloatArray
from uedp_bench.errors import PluginError, described
from uedp_bench.io.folders import (
    make_private,
    make_readable,
    private_folder,
    sync_files,
    write_json,
)
from uedp_bench.io.sealed_files import check_folder, seal_folder

if TYPE_CHECKING:
    from uedp_bench.contracts.source import CorpusStats
    from uedp_bench.one_run.evaluation import Attacked
    from uedp_bench.one_run.pipeline import Pipeline
    from uedp_bench.one_run.preparing import Prepared
    from uedp_bench.one_run.protecting import Protected

KEY = "simulation_only"
"""Of `diagnostics`: the list of names. A name stands for everything below it; names without a dot
are diagnostics, or fields of the result."""

PUBLIC = frozenset({
    "schema_version", "status", "error", "spec", "headline", "lower_bounds", "skipped_attacks",
    "pretraining", "stages", "stored", "tracking", "metrics",
})  # fmt: skip
"""Fields that are functions of the spec, of public text, of downstream rows, which no guarantee
speaks of, and of what was released. A lower bound comes from the coins of an auditor who asks the
release."""

_IN_PARTS = frozenset({
    "utility", "floors", "learned", "events", "guarantees", "selection", "diagnostics",
    "provenance",
})  # fmt: skip


def counts_sizes(pipeline: Pipeline, stats: CorpusStats) -> bool:
    """True if mechanisms took sizes that were counted from private rows for public ones."""
    later = stats.downstream
    if stats.public and (later is None or later.public):
        return False
    public_stats = replace(
        stats, public=True, downstream=None if later is None else replace(later, public=True)
    )
    return pipeline.refusals(stats) != pipeline.refusals(public_stats)


def _names(result: Result, task: type[Task[Any]], counted_sizes: bool) -> Iterator[str]:
    yield from (f"utility.{name}" for name in task.counted if name in result.utility)
    floors = [name for name, at in task.floors.items() if at in task.counted]
    floors = [name for name in floors if name in result.floors]
    yield from (f"floors.{name}" for name in floors)
    if floors:
        yield "learned"
    if counted_sizes:
        yield from ("events", "guarantees", "selection")
    # Both hash the corpus, and so tell two corpora apart.
    yield from ("provenance.corpus", "provenance.identity.corpus")
    if "downstream" in result.provenance:
        yield from ("provenance.downstream", "provenance.identity.downstream")
    vocabulary = result.provenance.get("vocabulary")
    if isinstance(vocabulary, dict) and vocabulary.get("private"):
        yield "provenance.vocabulary"
    rest = type(result).model_fields.keys() - PUBLIC - _IN_PARTS
    rest -= {
        name for name in ("samples", "failed_attacks", "ceilings") if not getattr(result, name)
    }
    yield from (name for name in type(result).model_fields if name in rest)


# -------------------------------------------------------------------------------- files of a result


MESSAGES = "transcript.npz"
"""File of what parties said to each other."""


@dataclass(frozen=True)
class Keeper:
    """Keeps the files of a run beside its result.

    Attributes:
        ready: prepared run.
        folder: folder of the run.
        keeps_release: True if the release, and what was planted, are kept at all.
    """

    ready: Prepared
    folder: Path
    keeps_release: bool = True

    def save(self, release: Release) -> None:
        """Write what attacks can be run again on, for the owner alone.

        Raises:
            PluginError: if what the task loads is not what was saved.
        """
        where, planted_corpus = self.folder / "release", self.ready.planted_corpus
        shutil.rmtree(where, ignore_errors=True)
        for left in ("planted.json", MESSAGES):
            (self.folder / left).unlink(missing_ok=True)
        if not self.keeps_release:
            return
        private_folder(where)
        save_release(release, where)
        make_private(where)
        values = {
            name: value.model_dump(mode="json") for name, value in planted_corpus.planted.items()
        }
        write_json(self.folder / "planted.json", values, private=True)
        check_saved(self.ready.parts.task, where, release, planted_corpus.corpus)

    def described(self, result: Result, protected: Protected, attacked: Attacked) -> Result:
        """Complete a result by what its folder holds, and by what only a simulation may print.

        Args:
            result: result with the names of `simulation_only` that mechanisms gave.
            protected: release of the run.
            attacked: measurements of the attacks.
        """
        parts, diagnostics = self.ready.parts, result.diagnostics
        counted_sizes = counts_sizes(parts.pipeline, self.ready.run.stats)
        own_names = _names(result, type(parts.task), counted_sizes)
        names = list(dict.fromkeys([*diagnostics.get(KEY, []), *own_names]))
        stored = self._stored(protected, result.guarantees, attacked)
        update = {"stored": stored, "diagnostics": {**diagnostics, KEY: names}}
        return result.model_copy(update=update)

    def _stored(
        self, protected: Protected, guarantees: Sequence[Guarantee], attacked: Attacked
    ) -> dict[str, str]:
        """List what the folder holds, by kind; let others read a release that proofs protect."""
        release, where = protected.release, self.folder / "release"
        proven = proves_something(guarantees)
        if proven and where.is_dir() and not (release.draws_noise or _hidden(release)):
            make_readable(where)
        out: dict[str, str] = {}
        if where.is_dir() and any(where.iterdir()):
            out |= self._released(protected, proven)
        if (self.folder / "planted.json").is_file():
            out["planted"] = "canaries, and which users trained; only the owner can read them"
        if isinstance(release, Transcript) and self.keeps_release:
            out["transcript"] = self._messages(release)
        if references := int(self.ready.run.counts.get("reference_models", 0)):
            out["cache"] = (
                f"cache/ beside the folder: {references} models that attacks asked for, trained on "
                "private rows; only the owner can read them"
            )
        details = attacked.details
        if attacked.samples:
            out["samples"] = (
                f"what {', '.join(attacked.samples)} read of a few texts, which are generated or "
                "may be shown, beside these texts"
            )
        if any(details.values()):
            out["details"] = f"what {', '.join(details)} measured of single rows, users or canaries"
        for name, classes in _classes(self.ready.planted_corpus.data.corpus):
            if shown := set(_texts(details)) & set(classes):
                out[f"classes of {name}"] = f"{len(shown)} names in the details"
        return out

    def _released(self, protected: Protected, proven: bool) -> dict[str, str]:
        """Contents of the files of a release, by kind."""
        release, vocabulary = protected.release, protected.vocabulary
        what = f"the model behind {release.view}" if _hidden(release) else release.view
        out: dict[str, str] = {}
        if not release.events:
            out["release"] = f"{what}, from public data alone"
        elif proven:
            out["release"] = f"{what}, as protected as the guarantees prove"
            if release.draws_noise:
                out["noise"] = (
                    "key of the noise that the release draws when it is asked, which takes it "
                    "off; only the owner can read it"
                )
            if self.ready.spec.noise_source == "seed":
                out["seed"] = "draws the noise of the release again, which takes it off"
        else:
            out["release"] = (
                f"{what} made from private rows; nothing is proven about it, and only "
                "the owner of the files can read it"
            )
        if _hidden(release):
            out["protocol"] = (
                "hides the model from those who ask it; only the owner can read the model"
            )
        if vocabulary is not None and vocabulary.private:
            out["vocabulary"] = f"{vocabulary.size} words and tokens of private text"
        return out

    def _messages(self, release: Transcript) -> str:
        """Write the messages of parties, and describe the file."""
        release.transcript.save(self.folder / MESSAGES)
        payloads = sum(one.payload is not None for one in release.transcript.sent)
        return (
            f"{len(release.transcript.sent)} messages that parties sent while it was made, "
            f"{payloads} of them with what they carried; no guarantee about the release "
            "protects them, and only the owner can read them"
        )


def _hidden(release: Release) -> bool:
    """True if a mechanism answers for the model, which nobody sees."""
    return isinstance(release, ServedRelease)


def keep_result(result: Result, out: Path) -> None:
    """Write a result into the folder of its run, last: it says that all else is there."""
    folder = out / result.id
    folder.mkdir(parents=True, exist_ok=True)
    sync_files(folder)
    write_result(result, folder / "result.json")


def _classes(corpus: Corpus) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield from corpus.attribute_names.items()
    if corpus.label_names:
        yield "labels", corpus.label_names


def _texts(value: Any) -> Iterator[str]:
    """All texts and keys in nested values."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key)
            yield from _texts(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _texts(part)


# ----------------------------------------------------------------------------------- saved releases

ROWS = 3
"""Rows that both are asked about."""

RELATIVE, ABSOLUTE = 1e-3, 1e-4
"""Tolerances: what was trained on a GPU is loaded on the CPU."""

UPDATE = "update.npy"
"""File beside a task's own that holds the change of the weights."""


def save_release(release: Release, folder: Path) -> None:
    """Write a release, and by how much training moved its weights where that was asked for."""
    folder.mkdir(parents=True, exist_ok=True)
    release.save(folder)
    if isinstance(release, Updates):
        np.save(folder / UPDATE, release.update)
    seal_folder(folder)


def load_release(task: Task[Any], folder: Path) -> Release:
    """The release that `save_release` wrote.

    Raises:
        DamagedFileError: if a file is not what was written.
    """
    check_folder(folder)
    release = served_again(task.load(folder), folder)
    if (folder / UPDATE).is_file():
        return release.showing(update=np.load(folder / UPDATE, allow_pickle=False))
    return release


def check_saved(task: Task[Any], folder: Path, release: Release, corpus: Corpus) -> None:
    """Load what was saved, and compare its answers with those of the release.

    Every capability brings its own question (`uedp_bench.contracts.capabilities.capability`).

    Args:
        task: task whose `load` reads the folder.
        folder: folder that `save_release` wrote into.
        release: release that was saved.
        corpus: the original corpus, of which a few rows are asked about.

    Raises:
        PluginError: if it does not load, offers less, or answers something else.
    """
    if isinstance(release, PublishedOnly):
        return
    saved = [one for one in declared_capabilities() if one.question is not None]
    offered = [one for one in saved if isinstance(release, one.kind)]
    try:
        again = load_release(task, folder)
        lost = [one.kind.__name__ for one in offered if not isinstance(again, one.kind)]
        if lost:
            raise _OtherReleaseError(f"it is no {' and no '.join(sorted(lost))} any more")
        rows = _rows(release, corpus)
        for name, ask in ((one.kind.__name__, one.question) for one in offered):
            if ask is not None:
                _compare(name, ask(release, rows), ask(again, rows))
        if isinstance(again, RowScorer):
            _check_alone(again, rows)
    except Exception as error:
        reason = str(error) if isinstance(error, _OtherReleaseError) else described(error)
        raise PluginError(
            f"the release was saved, and what the task {task.name} loads is not that release: "
            f"{reason}"
        ) from error


class _OtherReleaseError(Exception):
    """A loaded release that is not the one that was saved; the message says how."""


def _rows(release: Release, corpus: Corpus) -> Corpus:
    """A few rows as the release takes them."""
    if release.takes_vectors:
        shown = protected_rows(release)
        corpus = corpus if shown is None else shown
    elif corpus.where("test").any():
        corpus = corpus.only("test")
    return corpus.take(np.arange(min(ROWS, len(corpus))))


def _check_alone(release: RowScorer, rows: Corpus) -> None:
    """Refuse losses of a row that depend on the rows beside it: attacks compare single rows."""
    some = rows.take(np.flatnonzero(release.scorable(rows)))
    together = release.row_losses(some)
    for row, loss in enumerate(together.tolist()):
        alone = float(release.row_losses(some.take(np.array([row])))[0])
        if not np.isclose(loss, alone, rtol=RELATIVE, atol=ABSOLUTE):
            raise _OtherReleaseError(
                f"the loss of row {row} is {loss:.6g} beside other rows and {alone:.6g} alone: it "
                "must depend on that row alone"
            )


def _compare(capability: str, before: FloatArray, after: FloatArray) -> None:
    if before.shape != after.shape:
        raise _OtherReleaseError(
            f"asked as {capability}, it answers with shape {after.shape}, and did with "
            f"{before.shape}"
        )
    if not np.allclose(before, after, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True):
        gap = float(np.abs(before - after).max())
        raise _OtherReleaseError(f"asked as {capability}, its answers differ by up to {gap:.3g}")
