from __future__ import annotations

import datetime
from dataclasses import replace
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.components.component import parse_params
from uedp_bench.corpus import SPLITS, Corpus, Facts
from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.errors import InputError
from uedp_bench.tasks.tagging.targets import WordTable, annotation_of, word_labels
from uedp_bench.text import automatic_annotation
from uedp_bench.text.automatic_annotation import (
    AUTOMATIC,
    PART,
    WIKIPII,
    AnnotationParams,
    Candidate,
    Date,
    RecordTag,
    annotate,
    by_patterns,
    by_pipeline,
    closeness,
    find_dates,
    marks_of,
    normalise_key,
    similarity,
    tags_by_key,
    values_of,
    words_of_name,
)
from uedp_bench.text.entities import Detection


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("He met Anna Smith, a lawyer.", ["Anna Smith"]),
        ("In Troy he met Dr. A. van der Berg .", ["Troy", "Dr. A. van der Berg"]),
        ("the University of the Arts", ["University of the Arts", "University", "Arts"]),
        ("Jean-Luc O'Brien's son", ["Jean-Luc O'Brien"]),
        ("Łukasz Müller and Άγγελος", ["Łukasz Müller", "Άγγελος"]),
        ("they left of the", []),
        ("Anna\nSmith", ["Anna", "Smith"]),
        ("Of the Troy of Bo of the Oslo", ["Troy of Bo of the Oslo", "Troy", "Bo", "Oslo"]),
    ],
)
def test_runs_of_capitalised_words(text: str, phrases: list[str]) -> None:
    assert [text[one.start : one.end] for one in by_patterns(text)] == phrases


def test_a_long_run_has_few_candidates() -> None:
    assert len(by_patterns("Bo of " * 5_000)) == 5_001


def test_a_date_is_no_name() -> None:
    text = "born 4 Aug. 1961"
    date, month = by_patterns(text)
    assert (text[date.start : date.end], date.kinds) == ("4 Aug. 1961", frozenset({"date"}))
    assert "date" not in month.kinds


def test_entities_of_a_pipeline_are_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    def detect(texts: list[str], params: DetectionParams) -> Detection:
        assert (params.detector, params.pipeline) == ("spacy", "rules")
        mentions = np.array([(0, 0, 4, 2), (0, 10, 16, 1), (1, 3, 13, 0)])
        return Detection(("FAC", "MONEY", "PERSON"), mentions)

    monkeypatch.setattr(automatic_annotation, "detect", detect)
    assert by_pipeline(["troy paid 10 USD", "at the bridge"], "rules") == [
        [Candidate(0, 4, frozenset({"person"}))],
        [Candidate(3, 13, frozenset({"organisation", "place"}))],
    ]


DEFAULT = AnnotationParams()


def marked(text: str, facts: Facts, params: AnnotationParams = DEFAULT) -> list[tuple[str, str]]:
    values = values_of(facts, params.tags)
    marks = marks_of(text, values, by_patterns(text), params)
    return [(text[start:end], tag) for start, end, tag in marks]


OBAMA: Facts = {
    "Born": ("August 4, 1961 (age 60)\nHonolulu",),
    "Spouse(s)": ("Michelle LaVaughn Robinson (m. 1992)",),
    "Children": ("Malia", "Sasha"),
    "Parents": ("Stanley Ann Dunham", "Barack Obama Sr."),
    "Alma mater": ("Columbia University", "Harvard University"),
    "Residence": ("Washington",),
}

# Pages of one sentence: facts, text, what the annotator marks. With each kind of error.
PAGES: list[tuple[Facts, str, list[tuple[str, str]]]] = [
    (OBAMA, "He was born on 4 August 1961 in Honolulu.", [("4 August 1961", "BD")]),
    (OBAMA, "He married Michelle Robinson in 1992.", [("Michelle Robinson", "SP")]),
    (OBAMA, "Robinson had two daughters, Malia and Sasha.",
     [("Robinson", "SP"), ("Malia", "CH"), ("Sasha", "CH")]),
    (OBAMA, "Dunham studied anthropology.", [("Dunham", "PR")]),
    # The value is not in the record: missed.
    (OBAMA, "He went to Punahou School from 1971.", []),
    # An ambiguous surface: a town that is called like a child.
    ({"Children": ("Troy",)}, "He moved to Troy in 1980.", [("Troy", "CH")]),
    # Somebody else's: a lecturer.
    (OBAMA, "The book was reviewed by a lecturer at Harvard University.",
     [("Harvard University", "ED")]),
    # Boundaries: the phrase is marked as a whole.
    (OBAMA, "He took Mrs. Michelle Robinson to Chicago.", [("Mrs. Michelle Robinson", "SP")]),
    # Several spouses, and names that no one writes in ASCII.
    ({"Spouse(s)": ("José Núñez", "Łukasz Müller")}, "After Jose Nunez she married Müller.",
     [("Jose Nunez", "SP"), ("Müller", "SP")]),
    # A key that is no tag, and a value that the text does not have.
    (OBAMA, "Washington is cold.", []),
]  # fmt: skip


@pytest.mark.parametrize(("facts", "text", "want"), PAGES)
def test_pages_by_hand(facts: Facts, text: str, want: list[tuple[str, str]]) -> None:
    assert marked(text, facts) == want


def test_closest_first_then_the_longest_value_and_one_tag_a_word() -> None:
    facts = {"Parents": ("Ann Robinson",), "Spouse": ("Michelle Robinson",)}
    # Both are as close to the family name.
    assert marked("Robinson sang.", facts) == [("Robinson", "SP")]
    # The name itself is closer than a part of another.
    assert marked("Troy sang.", {"Spouse": ("Troy Ann Miller",), "Children": ("Troy",)}) == [
        ("Troy", "CH")
    ]
    # "University of Oslo" holds "Oslo", whose word is taken.
    facts = {"School": ("University of Oslo",), "Children": ("Oslo",)}
    assert marked("the University of Oslo", facts) == [("University of Oslo", "ED")]


def test_a_value_marks_what_is_closest_and_only_if_it_is_close() -> None:
    facts = {"Spouse": ("Anna Kareninova",)}
    assert marked("Anna Kareninova saw Kareninova.", facts) == [("Anna Kareninova", "SP")]
    assert marked("Anna Karenninova sang.", facts) == [("Anna Karenninova", "SP")]
    strict = AnnotationParams(threshold=1.0)
    assert marked("Anna Karenninova sang.", facts, strict) == []
    assert marked("Bo Karlsson sang.", facts) == []


def test_table_1_of_the_paper() -> None:
    assert tuple(WIKIPII) == ("BD", "PR", "SP", "CH", "ED")
    by_key = tags_by_key(WIKIPII)
    assert [by_key[normalise_key(key)] for key in
            ("Born:", "FATHER’S NAME", "Spouse(s)", "children", "Alma\xa0mater")] == [
        "BD", "PR", "SP", "CH", "ED",
    ]  # fmt: skip
    assert normalise_key("Residence") not in by_key


def corpus_of(pages: list[tuple[Facts, list[str]]], detached: int = 0) -> Corpus:
    texts = [text for _, rows in pages for text in rows]
    users = [user for user, (_, rows) in enumerate(pages) for _ in rows]
    users += [-1] * detached
    texts += ["Anna Smith sang ."] * detached
    return Corpus(
        texts=tuple(texts),
        groups={"user": np.array(users, dtype=np.int64)},
        split=np.full(len(texts), SPLITS.index("train")),
        records=tuple(facts for facts, _ in pages),
    )


def test_rows_of_users_without_records_are_not_annotated() -> None:
    pages: list[tuple[Facts, list[str]]] = [
        ({"Spouse": ("Anna Smith",)}, ["Smith sang .", "It rained ."]),
        ({"Residence": ("Oslo",)}, ["Anna Smith sang ."]),
        ({}, ["Anna Smith sang ."]),
    ]
    layer = annotate(corpus_of(pages, detached=1), DEFAULT).layer(AUTOMATIC)
    assert layer.rows.tolist() == [True, True, False, False, False]
    assert layer.spans.mentions() == [(0, 0, 5, 2)]
    assert layer.types == ("BD", "PR", "SP", "CH", "ED")
    only = AnnotationParams(only_marked_rows=True)
    assert annotate(corpus_of(pages), only).layer(AUTOMATIC).rows.tolist() == [True, *[False] * 3]


NAMES = ("Anna Smith", "Bo Berg", "Ann Smith", "Troy", "August 4, 1961", "Oslo School")
FACTS = st.dictionaries(
    st.sampled_from(["Born", "Spouse(s)", "Children", "School"]),
    st.lists(st.sampled_from(NAMES), min_size=1, max_size=2).map(tuple),
    max_size=3,
)
ROWS = st.lists(st.sampled_from([f"{name} sang in Troy ." for name in NAMES]), min_size=1,
                max_size=3)  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.tuples(FACTS, ROWS), min_size=2, max_size=4), FACTS, st.data())
def test_one_subjects_record_and_text_change_rows_of_that_subject_alone(
    pages: list[tuple[Facts, list[str]]], facts: Facts, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(pages) - 1))
    rows = data.draw(st.lists(st.sampled_from(NAMES), min_size=len(pages[at][1]),
                              max_size=len(pages[at][1])))  # fmt: skip
    other = [*pages[:at], (facts, rows), *pages[at + 1 :]]
    one, two = (annotate(corpus_of(each), DEFAULT) for each in (pages, other))
    rest = np.flatnonzero(one.users != at)
    kept = [each.layer(AUTOMATIC) for each in (one.take(rest), two.take(rest))]
    assert kept[0].spans.mentions() == kept[1].spans.mentions()
    assert np.array_equal(kept[0].rows, kept[1].rows)
    # And what is left of the others does not depend on whether the subject is there at all.
    alone = annotate(replace(one, layers={}).take(rest), DEFAULT).layer(AUTOMATIC)
    assert alone.spans.mentions() == kept[0].spans.mentions()


def test_marks_of_untokenised_text_become_labels_of_words() -> None:
    corpus = annotate(corpus_of([({"Spouse": ("Anna Smith",)}, ["Anna Smith, his wife"])]), DEFAULT)
    annotation = annotation_of(corpus, AUTOMATIC)
    for rule, labels in {"spaces": [5, 6, 0, 0], "signs": [5, 6, 0, 0, 0]}.items():
        words = WordTable.from_texts(corpus.texts, rule)
        assert word_labels(corpus.origin, annotation, words).tolist() == labels


def test_what_cannot_be_meant_is_refused(tmp_path: Path) -> None:
    without = replace(corpus_of([({}, ["a"])]), records=None)
    with pytest.raises(InputError, match=r"source\.annotate"):
        annotate(without, DEFAULT)

    def ask(**values: object) -> None:
        parse_params(AnnotationParams, values, "annotate")

    with pytest.raises(InputError, match=r"candidates 'spacy'.*pipeline"):
        ask(candidates="spacy")
    with pytest.raises(InputError, match="pipeline_is_public"):
        ask(pipeline_is_public=True)
    with pytest.raises(InputError, match=r"annotate\.tags.*'born'"):
        twice = {
            "A": RecordTag(keys=("Born",), kind="date"),
            "B": RecordTag(keys=("born",), kind="person"),
        }
        ask(tags={name: tag.model_dump() for name, tag in twice.items()})
    with pytest.raises(InputError, match=r"annotate.*'treshold'.*'threshold'"):
        ask(treshold=0.5)


def test_nothing_is_proven_of_marks_by_a_pipeline_of_unknown_training() -> None:
    params = AnnotationParams(candidates="spacy", pipeline="mine")
    assert "pipeline_is_public" in params.refusals()[0]
    public = AnnotationParams(candidates="spacy", pipeline="mine", pipeline_is_public=True)
    assert public.refusals() == DEFAULT.refusals() == ()


FORMS = (
    "%d %B %Y",
    "%B %d, %Y",
    "%B %d , %Y",
    "%d %b. %Y",
    "%b %d, %Y",
    "%Y-%m-%d",
    "%dth of %B %Y",
)


@given(st.dates(datetime.date(1000, 1, 1), datetime.date(2999, 12, 31)), st.sampled_from(FORMS))
def test_a_date_is_found_however_it_is_written(date: datetime.date, form: str) -> None:
    text = date.strftime(form)
    dates = find_dates(f"(born {text}) in Troy")
    assert dates == [(6, 6 + len(text), Date(date.year, date.month, date.day))]


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("in August 1961 and 1990", [Date(1961, 8), Date(1990)]),
        ("Sept. 1, 1999; Sep 1 1999", [Date(1999, 9, 1)] * 2),
        ("31 February 1999", []),
        ("no. 18403/1991, 1.2.1999, 3/4/1961, 19612, 12,1999", []),
        ("4 August", []),
        ("the 1980s and 2001-2003", []),
    ],
)
def test_dates_of_texts(text: str, dates: list[Date]) -> None:
    assert [date for *_, date in find_dates(text)] == dates


def test_a_date_tells_what_it_is_at_least_as_exact_about() -> None:
    day, month, year = Date(1961, 8, 4), Date(1961, 8), Date(1961)
    assert day.tells(day)
    assert day.tells(month)
    assert day.tells(year)
    assert not year.tells(day)
    assert not month.tells(day)
    assert not Date(1961, 8, 5).tells(day)
    assert not Date(1962, 8, 4).tells(year)


SHORT = st.text(alphabet="abéŁ ", max_size=9)


def longest_common(first: str, second: str) -> int:
    @cache
    def upto(i: int, j: int) -> int:
        if not i or not j:
            return 0
        if first[i - 1] == second[j - 1]:
            return upto(i - 1, j - 1) + 1
        return max(upto(i - 1, j), upto(i, j - 1))

    return upto(len(first), len(second))


@given(SHORT, SHORT)
def test_similarity_is_the_share_of_the_longest_common_subsequence(a: str, b: str) -> None:
    total = len(a) + len(b)
    want = 2 * longest_common(a, b) / total if total else 1.0
    assert similarity(a, b) == pytest.approx(want)
    # difflib looks for blocks: a common subsequence, not always the longest.
    assert SequenceMatcher(None, a, b, autojunk=False).ratio() <= similarity(a, b) + 1e-9


@pytest.mark.parametrize(
    ("value", "phrase", "least", "most"),
    [
        ("Michelle LaVaughn Robinson", "Michelle LaVaughn Robinson", 1, 1),
        ("Michelle LaVaughn Robinson (m. 1992)", "Mrs. Michelle LaVaughn Robinson", 1, 1),
        ("Michelle LaVaughn Robinson", "Robinson", PART, PART),
        ("Michelle LaVaughn Robinson", "Michelle Robinson", PART, PART),
        ("Michelle LaVaughn Robinson", "M. Robinson", PART, PART),
        ("Michelle LaVaughn Robinson", "M.", 0, 0.1),
        ("Michelle Robinson", "Anna Robinson", 0, 0.8),
        ("Anna Robinson", "Robinson Robinson", 0, 0.8),
        ("Łukasz Müller", "Muller", PART, PART),
        ("José Ángel Núñez", "Jose Angel Nunez", 1, 1),
        ("Άγγελος Αβραμίδης", "Αβραμίδης", PART, PART),
        ("Robinson", "Michelle Robinson", 0, 0.8),
        ("(m. 1992)", "Robinson", 0, 0),
    ],
)
def test_persons(value: str, phrase: str, least: float, most: float) -> None:
    assert least <= closeness("person", value, phrase) <= most


def test_dates_agree_as_dates() -> None:
    born = "(1961-08-04) August 4, 1961 (age 60)\nHonolulu, Hawaii"
    assert closeness("date", born, "4 August 1961") == 1
    assert closeness("date", born, "5 August 1961") == 0
    assert closeness("date", born, "1961") == 0
    assert closeness("date", "1961", "4 August 1961") == 1


def test_others_agree_as_a_whole() -> None:
    assert closeness("organisation", "Harvard University", "the Harvard University") == 1
    assert closeness("organisation", "Harvard University", "Harvard") < 0.6
    assert closeness("organisation", "Harvard University", "Harward Univercity") > 0.85
    assert closeness("place", "Turkey", "TURKEY") == 1
    assert words_of_name("The Dr. of") == ("of",)
