"""Translators answer row by row, never with a tag, and the same when they were saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import parallel_rows
import pytest

from uedp_bench.errors import InputError
from uedp_bench.models.networks.modules import ModuleSet
from uedp_bench.tasks.translation.translator import PairReader, TranslatorRelease

TEXTS = ["der Arzt hat die Tablette gesehen .", "eine Frau", "", "ohne den Vertrag", "Xylo 東"]


@pytest.fixture(scope="module")
def release() -> TranslatorRelease:
    return parallel_rows.release()


@pytest.mark.parametrize("beams", [1, 3])
def test_a_translation_depends_on_its_text_alone(beams: int) -> None:
    one, many = (parallel_rows.release(beams=beams, score_rows=rows) for rows in (1, 512))
    together = many.translate(TEXTS)
    assert together == one.translate(TEXTS) == many.translate(TEXTS)
    assert together[::-1] == many.translate(TEXTS[::-1])
    assert together[2] == ""


def test_tags_are_entries_that_no_translation_has(release: TranslatorRelease) -> None:
    import torch

    vocabulary = release.vocabulary
    plain, tagged = vocabulary.encode(["der Arzt", "<P> der Arzt </P>"])
    start, end = tagged[0], tagged[-1]
    assert tagged[1:-1] == plain
    assert {start, end} <= {*vocabulary.never}
    loud = parallel_rows.release(seed=2)
    weights = loud.module.embedding.weight
    with torch.no_grad():  # the tags are by far the most probable tokens
        features = loud.module.decoder_norm
        features.weight.zero_()
        features.bias.fill_(1.0)
        weights[[start, end]] = 100.0
        weights[7] = 50.0
    (translation,) = loud.translate(["der Arzt"])
    assert translation
    assert "<P>" not in translation
    assert "</P>" not in translation


def test_losses_are_those_of_training(release: TranslatorRelease) -> None:
    rows = parallel_rows.corpus().only("test")
    assert rows.targets is not None
    nats = release.pair_losses(rows.texts, rows.targets)
    tokens = np.array([len(ids) + 1 for ids in release.vocabulary.encode_targets(rows.targets)])
    assert nats / tokens == pytest.approx(release.row_losses(rows), rel=1e-5)
    alone = [
        release.pair_losses([one], [two])[0]
        for one, two in zip(rows.texts, rows.targets, strict=True)
    ]
    assert nats == pytest.approx(alone, rel=1e-5)
    assert not release.scorable(rows.with_texts(rows.texts)).any()
    with pytest.raises(InputError, match=r"pair_losses.*2.*1"):
        release.pair_losses(["a", "b"], ["a"])


def test_a_saved_translator_answers_as_before(release: TranslatorRelease, tmp_path: Path) -> None:
    release.save(tmp_path)
    again = PairReader.load(tmp_path)
    assert again.translate(TEXTS) == release.translate(TEXTS)
    assert again.pair_losses(TEXTS[:2], TEXTS[:2]) == pytest.approx(
        release.pair_losses(TEXTS[:2], TEXTS[:2])
    )
    assert again.vocabulary.fingerprint == release.vocabulary.fingerprint


def test_a_set_of_one_network_answers_as_the_network(release: TranslatorRelease) -> None:
    both = TranslatorRelease(release.reader, ModuleSet([release.module, release.module]))
    assert both.translate(TEXTS) == release.translate(TEXTS)
    assert both.pair_losses(TEXTS[:2], TEXTS[:2]) == pytest.approx(
        release.pair_losses(TEXTS[:2], TEXTS[:2]), rel=1e-5
    )
