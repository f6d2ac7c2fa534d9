"""Checks of sources: the same corpus each time, and errors that say what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from uedp_bench.contracts.source import Source
from uedp_bench.contracts.source_rows import SourceParams
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.one_run.planting import load_corpus
from uedp_bench.testing.checks import NotApplicable, check
from uedp_bench.testing.small_runs import digest
from uedp_bench.testing.subjects import Subject


@check("source")
def check_source_declares(subject: Subject) -> None:
    """Every source takes public text, samples and annotation, and says whether it needs a path."""
    kind: Any = subject.component
    assert issubclass(kind.Params, SourceParams), "Params does not derive from SourceParams"
    if kind.needs_path:
        assert "path" in kind.Params.model_fields, "`needs_path` is true, and there is no `path`"


@check("source")
def check_corpus_repeats(subject: Subject) -> None:
    """A corpus that is another one each time gives a run an identity of its own each time."""
    source = _source(subject)
    first, second = load_corpus(source), source.load()
    assert digest(first) == digest(second), "`load` gives another corpus when it is called again"
    assert len(first), "the corpus has no row"
    for split in ("train", "test"):
        assert first.where(split).any(), f"no row is in the split {split}"
    empty = [row for row, text in enumerate(first.texts) if not text.strip()]
    assert not empty, f"row {empty[0]} has no text"


@check("source")
def check_labels_in_range(subject: Subject) -> None:
    """A label outside its names becomes a class that no table has."""
    corpus = load_corpus(_source(subject))
    columns = {"labels": (corpus.labels, corpus.label_names)}
    columns |= {
        name: (values, corpus.attribute_names[name]) for name, values in corpus.attributes.items()
    }
    for name, (values, names) in columns.items():
        if values is not None and len(values):
            top = int(np.max(values))
            assert top < len(names), f"{name} has the number {top}, and only {len(names)} names"


@check("source")
def check_missing_file_refused(subject: Subject) -> None:
    """A mistyped path must stand in the error, without a traceback."""
    kind: Any = subject.component
    if "path" not in kind.Params.model_fields:
        raise NotApplicable("it reads no file")
    path = str(subject.folder / "no-such-file.csv")
    try:
        kind.create({**subject.small, "path": path}).load()
    except InputError as error:
        assert "no-such-file" in str(error) or subject.name in str(error), (
            f"the error names neither the path nor {subject.name}: {error}"
        )
    except UedpBenchError:
        pass
    else:
        raise AssertionError(f"{path} does not exist, and `load` says nothing")


def _source(subject: Subject) -> Source[Any]:
    if subject.lacks_files:
        raise NotApplicable("it reads files: give some, as --set path=FILE")
    source: Source[Any] = subject.create()
    return source
