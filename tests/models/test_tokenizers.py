"""Byte-level tokenizers: nothing of a text is lost, and use changes nothing."""

from __future__ import annotations

from uedp_bench.models.tokenizers import TokenizerVocabulary

TEXTS = ["the cat sat on the mat", "a cat and a dog", "the Zürich naïve façade – 東京 🙂"]


def test_byte_level_tokens_lose_nothing_and_know_no_unknown() -> None:
    vocabulary = TokenizerVocabulary.train(TEXTS, 280, origin="test")
    assert vocabulary.size <= 280
    assert vocabulary.unknown is None
    assert vocabulary.begin == vocabulary.end
    for text in [*TEXTS, "unseen: ßœ 漢字\t two  spaces", ""]:
        (ids,) = vocabulary.encode([text])
        assert vocabulary.decode([vocabulary.begin, *ids, vocabulary.end]) == text
        assert vocabulary.end not in ids


def test_fingerprint_does_not_depend_on_use() -> None:
    vocabulary = TokenizerVocabulary.train(TEXTS, 280, origin="test")
    other = TokenizerVocabulary.train(TEXTS, 280, origin="test")
    vocabulary._tokenizer(TEXTS, max_length=3, truncation=True)
    assert vocabulary.fingerprint == other.fingerprint
