"""Canaries of words that a release cannot read: the attack says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from uedp_bench.attacks.secret_sharer.attack import SecretSharer
from uedp_bench.contracts.release import Release
from uedp_bench.contracts.run_context import Run
from uedp_bench.corpus import Corpus
from uedp_bench.models.word_vocabularies import WordVocabulary

RunMaker = Callable[..., Run]

SMALL = {"p_u": (0.02, 0.1), "p_e": (0.5,), "references": 64, "word_pool": 60}


class Silent(Release):
    """Finds every text as likely as any other."""

    vocabulary: WordVocabulary

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> np.ndarray:
        return np.arange(len(fillers), dtype=np.float64)


def test_words_that_the_vocabulary_does_not_know_are_told(
    development_corpus: Corpus, make_run: RunMaker
) -> None:
    attack = SecretSharer.create(SMALL)
    corpus, what = attack.plant(development_corpus, np.random.default_rng(1))

    def notes(words: Sequence[str], origin: str = "DP histogram") -> list[str]:
        release = Silent()
        release.vocabulary = WordVocabulary(words, origin=origin)
        return [
            note
            for note in attack.run(release, what, corpus, make_run(1)).details["notes"]
            if "unknown" in note
        ]

    assert notes(what.words) == []
    held = [set(c.text.split()[attack.params.prefix_words :]) for c in what.canaries]
    gone = sorted(held[0])[0]
    vocabulary = [word for word in what.words if word != gone]
    assert notes(vocabulary, "public split") == []
    (note,) = notes(vocabulary)
    assert note.startswith(f"1 of {len(what.words)}")
    assert f"{sum(gone in one for one in held)} of {len(held)}" in note
