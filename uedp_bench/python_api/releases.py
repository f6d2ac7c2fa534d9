"""Releases that were saved, asked and attacked again from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uedp_bench.accounting.declarations import DeclaredClaim
from uedp_bench.components import registry
from uedp_bench.contracts.leakage import Attack, Leakage, Planted
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.results import read_result
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus
from uedp_bench.errors import CapabilityError, InputError
from uedp_bench.one_run.components import build
from uedp_bench.one_run.planted_elsewhere import planted_for, planted_in
from uedp_bench.one_run.planting import counted_sizes, forget_corpora, lacks, load_data, withheld
from uedp_bench.python_api.results import Result
from uedp_bench.store.run_files import load_release as load_saved


@dataclass(frozen=True)
class SavedRun:
    """A finished run, read from its folder.

    Attributes:
        result: result of the run.
        release: release of the run.
        corpus: its rows, with everything that its attacks planted.
        planted: planted secrets of each attack, by name.
    """

    result: Result
    release: Release
    corpus: Corpus
    planted: Mapping[str, Planted]


def load_corpus(source: str, **parameters: Any) -> Corpus:
    """Load the corpus of a source: `load_corpus("text", path="mail.csv", text_column="body")`.

    Raises:
        InputError: if the name or a parameter is wrong, or the data cannot be read.
    """
    params = {k: str(v) if isinstance(v, Path) else v for k, v in parameters.items()}
    corpus: Corpus = registry.sources.create(source, params).load()
    return corpus


def load_release(folder: Path | str, *, plugins: Iterable[Path | str] = ()) -> Release:
    """Load the release of a run, as its users have it; no data are read.

    Args:
        folder: folder of the run, `runs/<id>`.
        plugins: files that register its components.

    Raises:
        InputError: if the folder holds no finished run, or its release was not kept.
    """
    registry.load_plugins(tuple(map(Path, plugins)))
    return _release(Path(folder), _result(Path(folder)))


def load_run(folder: Path | str, *, plugins: Iterable[Path | str] = ()) -> SavedRun:
    """Load a finished run with its release, its planted corpus, and the planted secrets.

    Args:
        folder: folder of the run, `runs/<id>`; its source is read again.
        plugins: files that register its components.

    Raises:
        InputError: if the folder holds no finished run, its release was not kept, or its data
            changed since.
    """
    where = Path(folder)
    registry.load_plugins(tuple(map(Path, plugins)))
    result = _result(where)
    spec, parts = result.spec, build(result.spec)
    forget_corpora()
    data = load_data(parts.sources)
    planted_corpus = planted_for(parts, data, spec)
    was = result.provenance.get("corpus", {}).get("fingerprint")
    if was not in (None, data.corpus.fingerprint):
        raise InputError(f"{where}: the data of {spec.source.name} changed after the run")
    return SavedRun(result, _release(where, result), planted_corpus.corpus, planted_corpus.planted)


def load_checkpoint(
    where: Path | str, corpus: Corpus, *, task: str = "next-word", **parameters: Any
) -> Release:
    """A model that `transformers` saved, as attacks ask it; nothing is trained.

    Args:
        where: folder or hub id, with its tokenizer.
        corpus: corpus whose split `train` it was trained on; of classifiers and taggers, its
            classes.
        task: task that such a model learns: "next-word", "masked-language-model",
            "text-classification" or "tagging".
        parameters: parameters of the model `checkpoint`, such as `labels`.

    Raises:
        InputError: if the folder holds another kind of model, its weights are not those of its
            configuration, or its classes are not those of the corpus.
    """
    model = registry.models.create("checkpoint", {"pretrained": str(where), **parameters})
    return _as_saved(model, corpus, task)


def _as_saved(model: Any, corpus: Corpus, task: str = "next-word") -> Release:
    kind = registry.tasks.get(task)
    if kind.models is None or not isinstance(model, kind.models):
        raise InputError(f"the task {task} learns no model that transformers saves as a folder")
    live = kind.create({}, model=model)
    visible = corpus.only("train", "valid", "public")
    (learner,) = live.stages(visible, live.vocabulary(visible), Run(1, counted_sizes(corpus)))
    release: Release = learner.release(learner.module)
    return release.showing(events=DeclaredClaim().events())


def attack(
    release: Release | Path | str,
    corpus: Corpus,
    name: str,
    *,
    planted: Planted | None = None,
    base: Release | Path | str | None = None,
    seed: int = 1,
    **parameters: Any,
) -> Leakage:
    """Attacks a release: of a run, or a model of your own behind the capabilities of a release.

    A folder or hub id is a language model that `transformers` saved; for a classifier, a tagger or
    a masked language model, give what `load_checkpoint` returns.

    An attack that plants before training needs what it planted (`SavedRun.planted`). One that only
    tells who trained from who did not reads that from the splits: rows of `train` are members, and
    rows of `held_out` are not. Nothing is trained for it, so an attack that compares with models
    of its own does without them (`membership` of a classifier: give `shadow_models=0`).

    Args:
        release: under attack, or where a causal language model is.
        corpus: its rows, with all splits.
        name: name of the attack.
        planted: secrets that the attack had planted before the release was trained.
        base: the model before it learnt the private rows, or where it is; of `membership`, the
            strongest scores that need no other models compare with it.
        seed: seed of the attack's own draws.
        parameters: parameters of the attack.

    Raises:
        InputError: for an unknown name or parameter, or an attack that must plant first.
        CapabilityError: if the release has nothing that the attack asks.
    """
    live: Attack[Any] = registry.attacks.create(name, parameters)
    if isinstance(release, Path | str):
        release = load_checkpoint(release, corpus)
    reason = lacks(live.required_capabilities(), release) or withheld(
        live.required_capabilities(), release
    )
    reason = reason or live.refuses(release, corpus) or live.refuses_events(release.events)
    if reason is not None:
        raise CapabilityError(f"the attack {name} {reason}")
    if planted is None:
        planted = planted_in(live, corpus, seed)
    if planted is None:
        raise InputError(
            f"the attack {live.name} plants before training, and nothing says what was planted "
            "here: run it within a benchmark (`run`), or give `planted` of the run (`load_run`)"
        )
    if isinstance(base, Path | str):
        base = _base(base, release, corpus)
    context = Run(seed, counted_sizes(corpus), scope=f"attack {name}").retraining(None, base)
    return live.run(release, planted, corpus, context.within(f"attack {name}"))


def _base(where: Path | str, release: Release, corpus: Corpus) -> Release:
    """A base model, read in the type and format of the checkpoint that is compared with it."""
    from uedp_bench.tasks.language.language_model import LanguageModelRelease  # torch

    if not isinstance(release, LanguageModelRelease) or not release.reader.model.trained_elsewhere:
        return load_checkpoint(where, corpus)
    tuned: Any = release.reader.model
    params = tuned.params.model_copy(update={"base": str(where), "base_revision": None})
    return _as_saved(type(tuned)(params).before_training(), corpus)


def _result(folder: Path) -> Result:
    if not (folder / "result.json").is_file():
        raise InputError(f"{folder} is no folder of a run: it holds no result.json")
    result = Result.from_recorded(read_result(folder / "result.json"))
    if result.error is not None:
        raise InputError(f"{folder}: the run failed: {result.error.message}")
    return result


def _release(folder: Path, result: Result) -> Release:
    where = folder / "release"
    if not where.is_dir():
        raise InputError(
            f"{folder} holds no release: remove it, and run again without --no-release (with "
            "--releases on a cluster)"
        )
    events = {"events": result.events}
    return load_saved(build(result.spec).task, where).showing(**events)
