"""Texts in a file: what trains reads the same, and few rows are encoded together, or at all."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from masked_rows import SMALL, STATS, rows_of_words, task_with
from text_encoders import HashedWords, MeanOfWords

from uedp_bench.contracts import learner as contract
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus, Spans, StoredTexts
from uedp_bench.errors import InputError
from uedp_bench.models import bert
from uedp_bench.models.bilstm import BiLSTM
from uedp_bench.models.lstm import LSTMSmall
from uedp_bench.models.translators import TransformerSmall
from uedp_bench.tasks.classification.text_classification import TextClassification
from uedp_bench.tasks.language.next_word import NextWord
from uedp_bench.tasks.tagging import tagger as tagging
from uedp_bench.tasks.tagging.tagging import Tagging
from uedp_bench.tasks.tokens import rows as tokens
from uedp_bench.tasks.translation.translation import Translation
from uedp_bench.training.device import batches_of_like_length

ROWS, LOOKED_AT, AT_ONCE = 60, 3, 5
ASKED = [7, 2, 7, 19]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(bert.SIZES, "tiny", SMALL)
    monkeypatch.setattr(tokens, "LOOKED_AT", LOOKED_AT)
    monkeypatch.setattr(contract, "LENGTHS_AT_ONCE", AT_ONCE)
    monkeypatch.setattr(tagging, "AT_ONCE", AT_ONCE)
    monkeypatch.setattr(tagging, "FEW", LOOKED_AT)


def with_model(task: Any, model: Any, params: dict[str, Any], **of_model: Any) -> Any:
    configured = task.create(params)
    configured.model = model.create(of_model)
    return configured


TASKS: dict[str, Callable[[], Any]] = {
    "next-word": lambda: with_model(NextWord, LSTMSmall, {"max_tokens": 6}),
    "classification": lambda: with_model(
        TextClassification, MeanOfWords, {"max_tokens": 6}, width=4
    ),
    "masked": lambda: task_with(max_tokens=8),
    "tagging": lambda: with_model(Tagging, BiLSTM, {"max_tokens": 6}, units=4, embedding_size=4),
    "translation": lambda: with_model(
        Translation, TransformerSmall, {"max_tokens": 6},
        vocabulary_size=300, layers=1, width=8, inner=8, heads=2,
    ),
}  # fmt: skip

FROZEN: dict[str, Callable[[], Any]] = {
    "frozen classification": lambda: with_model(TextClassification, HashedWords, {}, width=4),
    "frozen tagging": lambda: with_model(Tagging, HashedWords, {"max_tokens": 6}, width=4),
}


def corpus_of_words() -> Corpus:
    """Rows with a label, a translation, and an entity in every other one: its first word."""
    corpus = rows_of_words(ROWS)
    ends = [len(text.split()[0]) for text in corpus.texts]
    return replace(
        corpus,
        labels=np.arange(ROWS) % 2,
        label_names=("no", "yes"),
        targets=tuple(text.upper().lower()[::-1] for text in corpus.texts),
        entities=Spans.build(corpus.texts, [(r, 0, ends[r], 0) for r in range(0, ROWS, 2)]),
        entity_types=("PER",),
    )


def in_a_file(corpus: Corpus) -> Corpus:
    stored = replace(corpus, texts=StoredTexts([pa.array(corpus.texts)]))
    assert stored.stored
    assert stored.fingerprint == corpus.fingerprint
    return stored


class Both(NamedTuple):
    """The private learner of rows in memory, of rows in a file, and how many texts of the file
    each look at it read."""

    held: Any
    lazy: Any
    sizes: list[int]


def both(name: str, monkeypatch: pytest.MonkeyPatch) -> Both:
    subject, corpus = {**TASKS, **FROZEN}[name](), corpus_of_words()
    vocabulary = subject.vocabulary(corpus.only("public"))
    visible = corpus.only("train")
    (held,) = subject.stages(visible, vocabulary, Run(1, STATS))
    sizes: list[int] = []
    original = StoredTexts.some

    def counted(self: StoredTexts, rows: Any) -> list[str]:
        sizes.append(len(rows))
        return original(self, rows)

    monkeypatch.setattr(StoredTexts, "some", counted)
    (lazy,) = subject.stages(in_a_file(visible), vocabulary, Run(1, STATS))
    return Both(held, lazy, sizes)


def same_batches(one: Any, other: Any, rows: list[int]) -> bool:
    first, second = (each.batch(rows, np.arange(len(rows))) for each in (one, other))
    return first.keys() == second.keys() and all((first[n] == second[n]).all() for n in first)


@pytest.mark.parametrize("name", sorted(TASKS))
def test_rows_are_encoded_when_they_are_asked_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, lazy, sizes = both(name, monkeypatch)
    annotated = len(lazy.corpus.entities) if name == "tagging" else 0  # do spans fit the words?
    assert max(sizes) <= max(LOOKED_AT, AT_ONCE)
    assert sum(sizes) == LOOKED_AT + annotated
    sizes.clear()
    assert same_batches(held, lazy, ASKED)
    assert sizes == [3]  # row 7 once
    assert lazy.truncated is None if hasattr(lazy, "truncated") else name == "translation"
    other = pickle.loads(pickle.dumps(lazy))  # noqa: S301 - of this process
    assert same_batches(held, other, ASKED)


@pytest.mark.parametrize("name", sorted(FROZEN))
def test_a_frozen_encoder_reads_each_row_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held, lazy, sizes = both(name, monkeypatch)
    tagged = name == "frozen tagging"
    # A few tagged rows say how long rows are, and spans must fit words.
    assert sum(sizes) == (2 * LOOKED_AT + len(lazy.corpus.entities) if tagged else 0)
    assert lazy.vectorised == held.vectorised
    if tagged:
        rows = np.arange(len(lazy.corpus))[::-1]
        assert (lazy.row_lengths[rows[:2]] == held.row_lengths[rows[:2]]).all()
    for reads in ([3, 3], [3]) if tagged else ([3], []):  # labels are made anew, vectors are not
        sizes.clear()
        assert same_batches(held, lazy, ASKED)
        assert sizes == reads
    assert same_batches(held, pickle.loads(pickle.dumps(lazy)), ASKED)  # noqa: S301 - ours


@pytest.mark.parametrize("name", ["masked", "tagging", "translation"])
def test_lengths_are_found_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held, lazy, sizes = both(name, monkeypatch)
    sizes.clear()
    rows = np.array([ASKED, [2, 3, 4, 5]])
    for _ in range(2):
        assert (lazy.row_lengths[rows] == held.row_lengths[rows]).all()
    assert sizes == [AT_ONCE, 1]  # six different rows
    order = np.arange(len(lazy.corpus))[::-1]
    of_both = (
        batches_of_like_length(order, each.row_lengths, 4, np.random.default_rng(1))
        for each in (held, lazy)
    )
    assert np.array_equal(*of_both)
    assert sum(sizes) == len(order)
    assert lazy.row_lengths.max(initial=1) <= held.row_lengths.max()
    assert lazy.row_size <= held.row_size


def test_spans_that_cut_words_are_refused_before_training() -> None:
    corpus = in_a_file(corpus_of_words())
    cut = Spans.build(corpus.texts, [(row, 0, 1, 0) for row in (0, 40)])
    task = TASKS["tagging"]()
    with pytest.raises(InputError, match=r"row 0.*PER.*'and'"):
        task.stages(replace(corpus, entities=cut), task.vocabulary(corpus), Run(1, STATS))
