"""Canaries asked for by the losses of their rows: in which rows, beside which labels."""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np
import pytest

from uedp_bench.attacks.audit.attack import Audit
from uedp_bench.attacks.audit.scores import (
    CANARY_ROWS,
    TextProbe,
    canary_rows,
    row_scores,
    text_scores,
    with_texts_in,
)
from uedp_bench.contracts.release import Release
from uedp_bench.corpus import Corpus


class Remembers(Release):
    """Losses by label, and less of it for texts that it saw beside that label."""

    def __init__(self, seen: set[tuple[str, int]], gain: float) -> None:
        self.seen, self.gain = seen, gain
        self.questions: list[Corpus] = []

    def scorable(self, corpus: Corpus) -> np.ndarray:
        return corpus.labels >= 0

    def row_losses(self, corpus: Corpus) -> np.ndarray:
        self.questions.append(corpus)
        pairs = list(zip(corpus.texts, corpus.labels.tolist(), strict=True))
        hits = np.array([pair in self.seen for pair in pairs])
        own = np.array([zlib.crc32(text.encode()) / 2**32 for text, _ in pairs])
        return 50.0 * corpus.labels + own + 10.0 - self.gain * hits


@pytest.fixture
def labelled(development_corpus: Corpus) -> Corpus:
    labels = np.random.default_rng(1).integers(3, size=len(development_corpus))
    return replace(development_corpus, labels=labels, label_names=("a", "b", "c"))


def planted(corpus: Corpus, **params):
    attack = Audit.create({"canaries": 40, **params})
    return attack, *attack.plant(corpus, np.random.default_rng(1))


def seen_by_training(corpus: Corpus, what) -> set[tuple[str, int]]:
    inside = {canary.user for canary in what.canaries if canary.included}
    rows = [row for user in inside for row in corpus.rows_of_user[user].tolist()]
    return {(corpus.texts[row], int(corpus.labels[row])) for row in rows}


@pytest.mark.parametrize("adjacency", ["add-or-remove", "replace-one"])
def test_what_is_remembered_is_told_from_what_is_not_whatever_the_labels(
    labelled, make_run, adjacency
):
    attack, corpus, what = planted(labelled, adjacency=adjacency)
    leakage = attack.run(Remembers(seen_by_training(corpus, what), 5.0), what, corpus, make_run(1))
    assert leakage.metrics["auc"].value == 1.0
    assert leakage.details["scored_by"] == "losses of rows"
    nothing = attack.run(Remembers(set(), 5.0), what, corpus, make_run(1))
    assert nothing.metrics["auc"].low < 0.5 < nothing.metrics["auc"].high
    assert nothing.metrics["epsilon_lower_bound"].value == 0.0


def test_a_canary_and_its_references_differ_in_words_after_the_prefix_alone(labelled, make_run):
    _, corpus, what = planted(labelled)
    release = Remembers(set(), 0.0)
    probe = TextProbe(what.words, 2, 7)
    row_scores(release, what.canaries[:1], probe, corpus, make_run(1))
    (question,) = release.questions
    rows = canary_rows(corpus, what.canaries[0])
    assert len(rows) == CANARY_ROWS
    assert len(question) == (1 + 7) * CANARY_ROWS
    assert question.labels.tolist() == corpus.labels[rows].tolist() * 8
    assert question.texts[:CANARY_ROWS] == (what.canaries[0].text,) * CANARY_ROWS
    prefixes = {tuple(text.split()[:2]) for text in question.texts}
    assert prefixes == {tuple(what.canaries[0].text.split()[:2])}
    assert len(set(question.texts)) == 8


def test_without_references_a_score_is_the_loss_alone(labelled, make_run):
    _, corpus, what = planted(labelled)
    release = Remembers(seen_by_training(corpus, what), 5.0)
    probe = TextProbe(what.words, 2, Audit.create({"references": 0}).params.references)
    scores = row_scores(release, what.canaries[:3], probe, corpus, make_run(1))
    rows = [canary_rows(corpus, canary) for canary in what.canaries[:3]]
    losses = [release.row_losses(corpus.take(each)).mean() for each in rows]
    assert scores.tolist() == pytest.approx([-loss for loss in losses])

    class Completes(Release):
        def filler_losses(self, before, after, suffixes):
            assert len(suffixes) == 1
            return np.array([float(len(before) + len(suffixes[0]))])

    scores = text_scores(Completes(), what.canaries[:2], probe, make_run(1))
    assert scores.tolist() == [-float(len(canary.text)) for canary in what.canaries[:2]]


def test_texts_stand_in_every_row_text_by_text(labelled):
    question = with_texts_in(labelled, np.array([5, 9]), ["one", "two"])
    assert question.texts == ("one", "one", "two", "two")
    assert question.labels.tolist() == labelled.labels[[5, 9, 5, 9]].tolist()
    assert not len(question.entities)


def test_rows_that_nothing_is_predicted_of_give_a_note_and_no_bound(labelled, make_run):
    attack, corpus, what = planted(labelled)
    bare = replace(corpus, labels=np.full(len(corpus), -1))
    leakage = attack.run(Remembers(set(), 0.0), what, bare, make_run(1))
    assert not leakage.lower_bounds
    assert "nothing that the release predicts" in leakage.details["notes"][-1]
    vectors = Remembers(set(), 0.0)
    vectors.takes_vectors = True
    leakage = attack.run(vectors, what, corpus, make_run(1))
    assert "vectors" in leakage.details["notes"][-1]
