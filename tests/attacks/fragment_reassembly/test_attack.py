"""Sentences are put together where fragments determine them, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from parallel_text import generated, parallel
from toy import toy_run

from uedp_bench.attacks.fragment_reassembly.assembly import Rules, assemble
from uedp_bench.attacks.fragment_reassembly.attack import FragmentReassembly
from uedp_bench.contracts.leakage import Leakage, Planted
from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.corpus import Corpus, Spans
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.fragments.k_document import KDocument
from uedp_bench.mechanisms.fragments.phrase_fragments import PhraseFragments
from uedp_bench.one_run.publishing import publish

PUBLIC = [pair for document in generated(1, 200, seed=7) for pair in document]
CORPUS = parallel(generated(8, 12), PUBLIC)


def attacked(corpus: Corpus, **params: object) -> Leakage:
    mechanism = PhraseFragments.create({"trained_on": "public", **params})
    out, _ = publish(mechanism, corpus, toy_run())
    return reassembled(corpus, out)


def reassembled(corpus: Corpus, published: Corpus, **params: object) -> Leakage:
    attack = FragmentReassembly.create(params)
    release = PublishedOnly().showing(published=published)
    assert attack.refuses(release, corpus) is None
    leakage: Leakage = attack.run(release, Planted(), corpus, toy_run())
    return leakage


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def test_overlapping_fragments_make_a_run_and_ambiguous_ones_end_it() -> None:
    three = [(words("a b c"), ("x",)), (words("b c d"), ("x",)), (words("c d e"), ("x",))]
    rules = Rules(overlap=2, bilingual=False)
    assert assemble(three, rules) == [words("a b c d e")]
    assert assemble(three[::-1], rules) == [words("a b c d e")]
    fork = [*three, (words("b c f"), ("x",))]
    # What stands before "b c" is known, what follows it is not.
    assert sorted(assemble(fork, rules)) == [words("a b c"), words("a b c d e"), words("a b c f")]
    assert assemble([three[0], three[2]], rules) == [words("a b c"), words("c d e")]
    assert assemble([three[0], three[2]], Rules(1, bilingual=False)) == [words("a b c d e")]
    with pytest.raises(InputError, match=r"0 words.* 1 "):
        assemble(three, Rules(0, bilingual=False))


def test_translations_tell_forks_apart() -> None:
    fork = [
        (words("a b c"), words("A B C")),
        (words("z b c"), words("Z Q R")),  # the same words, otherwise translated
        (words("b c d"), words("B C D")),
        (words("b c f"), words("Q R F")),
    ]
    assert set(assemble(fork, Rules(2, bilingual=True))) == {words("a b c d"), words("z b c f")}
    assert set(assemble(fork, Rules(2, bilingual=False))) == {source for source, _ in fork}


def test_fragments_of_any_length_are_joined() -> None:
    text = [f"w{n}" for n in range(200)]
    long = [(tuple(text[at : at + 60]), ("x",)) for at in range(0, 200, 20)]
    assert assemble(long, Rules(2, bilingual=True)) == [tuple(text)]


def test_texts_that_repeat_themselves_end() -> None:
    circle = [(words("a b a"), ("x",)), (words("b a b"), ("x",))]
    assert all(len(run) < 10 for run in assemble(circle, Rules(2, bilingual=True)))


def planted(documents: int, rows: int) -> Corpus:
    """Sentences of ten words that occur once, translated word by word; the alignment saw them."""
    numbers = np.arange(documents * rows * 10).reshape(documents, rows, 10)
    texts = [[(" ".join(f"s{n}" for n in row), " ".join(f"t{n}" for n in row)) for row in document]
             for document in numbers.tolist()]  # fmt: skip
    return parallel(texts, [*PUBLIC, *(pair for rows in texts for pair in rows)])


def test_a_planted_sentence_is_found_whole_and_none_in_shuffled_words() -> None:
    """All fragments of sentences of words that occur once give the sentences back."""
    corpus = planted(10, 5)
    metrics = attacked(corpus, keep=1, max_words=4).metrics
    assert metrics["sentences_recovered"].value == 1.0
    assert metrics["sentences_recovered_floor"].value == 0.0
    assert metrics["longest_run_median"].value == 10.0
    assert metrics["run_precision"].value == 1.0
    rng = np.random.default_rng(0)
    out, _ = publish(PhraseFragments.create({"keep": 1, "trained_on": "public"}), corpus, toy_run())
    every = [word for text in out.texts for word in text.split()]
    drawn = iter(rng.permutation(every).tolist())
    shuffled = replace(
        out, texts=tuple(" ".join(next(drawn) for _ in text.split()) for text in out.texts)
    )
    nothing = reassembled(corpus, shuffled).metrics
    assert nothing["sentences_recovered"].value == 0.0
    assert nothing["longest_run_median"].value <= 4.0


def test_less_is_found_where_less_is_published() -> None:
    """Share of sentences against what is kept, and against the length of fragments."""
    corpus = planted(6, 3)
    kept = [attacked(corpus, keep=keep).metrics["longest_run_median"].value for keep in (0.1, 1.0)]
    assert kept[0] < kept[1]
    lengths = [attacked(corpus, keep=1, max_words=n).metrics["sentences_recovered"].value
               for n in (2, 4)]  # fmt: skip
    assert lengths == [0.0, 1.0]


def test_order_and_origin_of_published_rows_play_no_part() -> None:
    out, _ = publish(PhraseFragments.create({"trained_on": "public"}), CORPUS, toy_run())
    private = np.flatnonzero(~out.where("public"))
    order = np.concatenate([np.flatnonzero(out.where("public")), private[::-1]])
    one, other = reassembled(CORPUS, out), reassembled(CORPUS, out.take(order))
    assert one.metrics == other.metrics
    nameless = replace(out, origin=np.full(len(out), -1))
    alone = reassembled(CORPUS, nameless)
    assert {name: alone.metrics[name] for name in alone.metrics} == {
        name: value for name, value in one.metrics.items() if not name.endswith("_floor")
    }
    assert "no published row says" in alone.details["floor"]


def test_tags_are_no_words() -> None:
    plain, tagged = (attacked(CORPUS, tags=tags) for tags in (False, True))
    assert plain.metrics == tagged.metrics


def test_a_lone_phrase_keeps_its_words() -> None:
    """What all published phrases begin and end with is no tag."""
    corpus = planted(2, 1)
    out, _ = publish(PhraseFragments.create({"keep": 1, "trained_on": "public"}), corpus, toy_run())
    private = np.flatnonzero(~out.where("public")).tolist()
    at = next(row for row in private if len(out.texts[row].split()) == 4)
    leakage = reassembled(corpus, out.take(np.array([at])))
    assert leakage.details["longest_fragment_of_text"] == 4


def test_facts_are_joined_where_one_run_has_both() -> None:
    corpus = planted(6, 1)
    mentions = [
        (row, text.index(word), text.index(word) + len(word), 0)
        for row, text in enumerate(corpus.texts[:6])
        for word in (text.split()[1], text.split()[7])
    ]
    named_corpus = replace(
        corpus, entities=Spans.build(corpus.texts, mentions), entity_types=("x",)
    )
    metrics = attacked(named_corpus, keep=1).metrics
    assert metrics["facts_joined"].value == 1.0
    assert metrics["facts_joined_floor"].value == 0.0
    assert attacked(named_corpus, keep=0.05).metrics["facts_joined"].value == 0.0
    assert "facts_joined" not in attacked(corpus, keep=1).metrics


def test_releases_without_phrases_are_refused_with_the_reason() -> None:
    attack = FragmentReassembly.create({})
    bare = replace(CORPUS, targets=None)
    assert "there are none" in str(attack.refuses(PublishedOnly().showing(published=bare), CORPUS))
    nothing, _ = publish(
        KDocument.create({"documents": 8, "trained_on": "public"}),
        parallel(generated(8, 2, words=10**6), PUBLIC), toy_run(),
    )  # fmt: skip
    release = PublishedOnly().showing(published=nothing)
    assert "none was published" in str(attack.refuses(release, CORPUS))
    whole = reassembled(CORPUS, CORPUS)
    assert whole.metrics == {}
    assert "none has more words" in whole.details["texts_looked_for"]
