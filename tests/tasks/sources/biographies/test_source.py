from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from numpy.random import default_rng

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus
from uedp_bench.statistics.span_scores import span_counts, span_scores
from uedp_bench.tasks.sources.biographies.source import AMBIGUOUS, OTHERS, PLAIN, TOLD, fill

SMALL = {"users": 120, "valid_users": 0, "test_users": 20, "public_users": 10}


def load(**params: object) -> Corpus:
    return sources.create("wiki-biographies", {**SMALL, **params}).load()


def test_the_automatic_labels_err_as_those_of_the_paper() -> None:
    corpus = load(users=500)
    gold, automatic = corpus.layer("gold").spans, corpus.layer("automatic").spans
    counts = span_counts(gold, automatic, len(corpus))
    scores = span_scores(counts, corpus.users, default_rng(0))
    # Table 4: precision, recall and F1.
    for scheme, paper in {
        "strict": (0.31, 0.45, 0.37),
        "exact": (0.32, 0.46, 0.38),
        "type_paper": (0.39, 0.57, 0.47),
        "partial_paper": (0.46, 0.65, 0.54),
    }.items():
        assert [each.value for each in scores[scheme]] == pytest.approx(paper, abs=0.05), scheme


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_without_noise_the_automatic_labels_are_those_of_people(seed: int) -> None:
    corpus = load(noise=0, seed=seed)
    gold, automatic = corpus.layer("gold").spans, corpus.layer("automatic").spans
    assert gold.mentions() == automatic.mentions()
    assert corpus.entities.mentions() == gold.mentions()
    assert corpus.layer("automatic").rows.all()


def wrong(corpus: Corpus) -> tuple[set[tuple[int, ...]], set[tuple[int, ...]]]:
    gold, automatic = (set(corpus.layer(name).spans.mentions()) for name in ("gold", "automatic"))
    return gold - automatic, automatic - gold


def test_each_kind_of_error_is_what_it_is_called() -> None:
    missed, added = wrong(load(errors=["absent"]))
    assert missed
    assert len(added) < len(missed) / 5  # a first name like that of an absent sibling
    missed, added = wrong(load(errors=["others"]))
    assert added
    assert not missed
    missed, added = wrong(load(errors=["ambiguous"]))
    assert {mark[:3] for mark in missed} <= {mark[:3] for mark in added}  # another type
    assert len(added) > len(missed)
    missed, added = wrong(load(errors=["boundary"]))
    assert [mark[0] for mark in sorted(missed)] == [mark[0] for mark in sorted(added)]
    assert {mark[3] for mark in missed} == {1, 2, 3, 4}
    assert wrong(load(errors=[])) == (set(), set())


def test_errors_grow_with_the_noise_and_nothing_else_changes() -> None:
    corpora = [load(noise=noise) for noise in (0.0, 0.5, 1.0)]
    counts = [sum(map(len, wrong(corpus))) for corpus in corpora]
    assert 0 == counts[0] < 0.7 * counts[2] > counts[1] > 0.3 * counts[2]
    same = [a == b for a, b in zip(corpora[0].texts, corpora[2].texts, strict=True)]
    assert 0.3 < np.mean(same) < 0.8


def test_words_stand_between_single_spaces_and_marks_are_whole_words() -> None:
    corpus = load()
    for text in corpus.texts:
        assert text == " ".join(text.split())
    for layer in corpus.layers.values():
        for row, start, end, _ in layer.spans.mentions():
            assert f" {corpus.texts[row]} "[start] == " " == f" {corpus.texts[row]} "[end + 1]


def test_records_have_the_keys_of_infoboxes_and_names_of_many_alphabets() -> None:
    corpus = load(noise=0)
    assert corpus.records is not None
    keys = {key for facts in corpus.records for key in facts}
    assert keys == {"Born", "Parent(s)", "Spouse(s)", "Children", "Alma mater"}
    assert {len(facts["Spouse(s)"]) for facts in corpus.records} == {1, 2}
    letters = {letter for facts in corpus.records for name in facts["Children"] for letter in name}
    scripts = {unicodedata.name(letter).split()[0] for letter in letters if letter.isalpha()}
    assert scripts == {"LATIN", "GREEK"}
    assert any(ord(letter) > 127 and unicodedata.normalize("NFKD", letter) != letter
               for letter in letters)  # fmt: skip


def test_a_subject_does_not_depend_on_the_others() -> None:
    few, many = load(users=10), load()
    mine = [few.users == 3, many.users == 3]
    texts = [[corpus.texts[row] for row in np.flatnonzero(rows)]
             for corpus, rows in zip((few, many), mine, strict=True)]  # fmt: skip
    assert texts[0] == texts[1]
    assert few.records is not None
    assert many.records is not None
    assert few.records[3] == many.records[3]
    assert load(seed=2).texts != many.texts


def test_sizes_are_documented_and_the_layer_can_be_left_out() -> None:
    source = sources.create("wiki-biographies", SMALL)
    stats, train = source.documented(), source.load().only("train")
    assert (stats.users, stats.rows, stats.public) == (120, len(train), True)
    assert set(load(annotate=None).layers) == {"gold"}
    loose = load(annotate={"threshold": 0.5}).layer("automatic").spans
    assert len(loose) > len(load().layer("automatic").spans)


def test_templates_have_one_value_each() -> None:
    for templates in (*TOLD.values(),):
        assert all(template.count("{X}") == 1 for template in templates)
    for templates in (*AMBIGUOUS.values(), *OTHERS.values()):
        assert all(template.count("{Y}") == 1 for template in templates)
    assert not any("{X}" in template or "{Y}" in template for template in PLAIN)
    assert fill("a {X} b", {"X": "Dr. Bo"}, "Bo") == ("a Dr. Bo b", (6, 8))
    assert fill("a b", {}) == ("a b", (0, 0))
