"""Scores are those of sacrebleu, with intervals over documents; floors and terms are as said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sacrebleu

from uedp_bench.corpus import SPLITS, Corpus
from uedp_bench.tasks.translation.translator import (
    Lexicon,
    Translations,
    clusters_of,
    metrics,
    unseen_terms,
)

FOUND = ["the doctor saw the tablet .", "a nurse", "", "Mr Meier complained of a cough ."]
WANTED = [
    "the doctor saw a tablet .",
    "a nurse came , twice .",
    "nothing was seen .",
    "Mr Meier complained of the cough after taking Tavapril .",
]
DOCUMENTS = np.array([0, 0, 1, 2])


def corpus(pairs: list[tuple[str, str]], splits: list[str], users: list[int]) -> Corpus:
    texts, targets = zip(*pairs, strict=True)
    split = np.array([SPLITS.index(name) for name in splits])
    return Corpus(texts, {"user": np.array(users)}, split, targets=targets)


def test_scores_are_those_of_the_library() -> None:
    metric = metrics()
    scores = Translations(FOUND, WANTED, DOCUMENTS).scores(metric)
    bleu = sacrebleu.corpus_bleu(FOUND, [WANTED], force=True)
    assert scores["bleu"].value == pytest.approx(bleu.score)
    assert scores["brevity_penalty"].value == pytest.approx(bleu.bp)
    assert scores["length_ratio"].value == pytest.approx(bleu.sys_len / bleu.ref_len)
    assert scores["chrf"].value == pytest.approx(sacrebleu.corpus_chrf(FOUND, [WANTED]).score)
    assert scores["bleu"].low < scores["bleu"].value < scores["bleu"].high
    version = f"version:{sacrebleu.__version__}"
    assert all(version in signature for signature in metric.signatures().values())


def test_bleu_is_that_of_the_command_line(tmp_path: Path) -> None:
    for name, lines in (("found", FOUND), ("wanted", WANTED)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8")
    command = [
        sys.executable, "-m", "sacrebleu", str(tmp_path / "wanted"), "-i", str(tmp_path / "found"),
        "-b", "-w", "6", "--force",
    ]  # fmt: skip
    score = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    estimate = Translations(FOUND, WANTED, DOCUMENTS).bleu(metrics())
    assert float(score) == pytest.approx(estimate.value, abs=1e-5)


def test_documents_are_resampled_whole() -> None:
    # Within each document a good and a bad translation cancel: only whole ones hide that.
    outputs = ["a b c d e f", "x x x x x x"] * 20
    wanted = ["a b c d e f"] * 40
    metric = metrics()
    whole = Translations(outputs, wanted, np.repeat(np.arange(20), 2)).bleu(metric)
    alone = Translations(outputs, wanted, np.arange(40)).bleu(metric)
    assert whole.high - whole.low < 1e-6 < alone.high - alone.low
    assert Translations(outputs, wanted, np.zeros(40, dtype=np.int64)).bleu(metric).low is None


def test_rows_of_nobody_are_resampled_by_distinct_pair() -> None:
    pairs = [("a", "x"), ("a", "x"), ("a", "y"), ("b", "x")]
    of = clusters_of(corpus(pairs, ["test"] * 4, [-1, -1, -1, 4]))
    assert of[0] == of[1]
    assert len({*of.tolist()}) == 3
    assert of[3] == 4


def test_terms_are_words_that_no_public_translation_has() -> None:
    pairs = [("ein Arzt", "a doctor"), ("Übelkeit .", "nausea , 12 doctor nausea")]
    rows = corpus(pairs, ["public", "test"], [-1, 0])
    assert unseen_terms(rows) == {"nausea"}
    translations = Translations(["nausea x", "nausea nausea"], ["nausea nausea", "x"], np.arange(2))
    recall = translations.recall(unseen_terms(rows))
    assert recall is not None
    assert recall.value == pytest.approx(0.5)
    assert translations.recall(frozenset()) is None


def test_the_lexicon_translates_word_by_word() -> None:
    pairs = [("der Arzt", "the doctor"), ("der Koch", "the cook"), ("Arzt", "doctor")]
    lexicon = Lexicon(pairs)
    assert lexicon.translate("Koch der Arzt kam") == "cook the doctor kam"
    assert len(lexicon) == 3
