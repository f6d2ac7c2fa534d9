from __future__ import annotations

from pathlib import Path

import pytest

from uedp_bench.errors import InputError
from uedp_bench.models.tokenizers import TokenizerVocabulary
from uedp_bench.models.word_vocabularies import WordVocabulary

TEXTS = ["the cat sat on the mat", "a cat and a dog", "the Zürich naïve façade – 東京 🙂"]


def test_words_are_ranked_by_count_then_alphabetically() -> None:
    vocabulary = WordVocabulary.build(["b a b c", "d c b"], 6, origin="test")
    assert vocabulary.words == ("b", "c", "a")
    assert vocabulary.size == 6
    assert vocabulary.encode(["a b d", ""]) == [[5, 3, 2], []]
    assert vocabulary.decode([0, 5, 3, 2, 1]) == "a b <unk>"


def test_special_words_in_text_do_not_become_second_ids() -> None:
    vocabulary = WordVocabulary.build(["<s> x </s> <unk>"], 10, origin="test")
    assert vocabulary.words == ("x",)
    assert vocabulary.encode(["</s> x <s>"]) == [[2, 3, 2]]


def test_no_words_is_an_input_error() -> None:
    with pytest.raises(InputError, match=r"test\).*words"):
        WordVocabulary.build([" ", ""], 10, origin="test")


@pytest.mark.parametrize("kind", [WordVocabulary, TokenizerVocabulary])
def test_a_saved_vocabulary_is_the_same(
    kind: type[WordVocabulary | TokenizerVocabulary], tmp_path: Path
) -> None:
    vocabulary = (
        WordVocabulary.build(TEXTS, 9, origin="test", private=True)
        if kind is WordVocabulary
        else TokenizerVocabulary.train(TEXTS, 300, origin="test", private=True)
    )
    vocabulary.save(tmp_path / "v")
    again = kind.load(tmp_path / "v")
    for name in ("size", "begin", "end", "unknown", "origin", "private", "fingerprint"):
        assert getattr(again, name) == getattr(vocabulary, name), name
    texts = [*TEXTS, "a new word"]
    assert again.encode(texts) == vocabulary.encode(texts)


def test_fingerprints_tell_vocabularies_apart() -> None:
    makers = [WordVocabulary.build, TokenizerVocabulary.train]
    prints = [
        make(texts, 270, origin="test").fingerprint
        for make in makers
        for texts in (TEXTS, ["other words here entirely other words"])
    ]
    assert len(set(prints)) == 4
