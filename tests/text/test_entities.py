from __future__ import annotations

import builtins
import sys
from pathlib import Path

import numpy as np
import pytest

from uedp_bench.components.component import parse_params
from uedp_bench.corpus import Corpus, Spans
from uedp_bench.corpus.entity_detection import DetectionParams
from uedp_bench.errors import InputError, MissingExtraError
from uedp_bench.text import entities
from uedp_bench.text.entities import add_entities, detect

NAMES = ["Anna", "Boris", "Clara", "David", "Elena", "Frank", "Greta", "Hugo", "Ines", "Jonas"]
PLACES = ["Rome", "Oslo", "Riga", "Bonn", "Kyiv", "Lima", "Cairo", "Quito", "Delhi", "Hanoi"]


@pytest.fixture(scope="session")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A spaCy pipeline trained to recognise people and places in twenty sentences."""
    import spacy
    from spacy.training import Example
    from spacy.util import fix_random_seed

    fix_random_seed(0)
    nlp = spacy.blank("en")
    ner = nlp.add_pipe("ner")
    for label in ("PERSON", "GPE"):
        ner.add_label(label)
    examples = []
    for name, place in zip(NAMES, PLACES, strict=True):
        for text in (f"{name} lives in {place} now", f"yesterday {name} went to {place}"):
            spans = [
                (text.index(name), text.index(name) + len(name), "PERSON"),
                (text.index(place), text.index(place) + len(place), "GPE"),
            ]
            examples.append(Example.from_dict(nlp.make_doc(text), {"entities": spans}))
    optimizer = nlp.initialize(lambda: examples)
    for _ in range(30):
        nlp.update(examples, sgd=optimizer)
    folder = tmp_path_factory.mktemp("pipeline") / "people-and-places"
    nlp.to_disk(folder)
    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "entities"


TEXTS = ("Anna lives in Oslo now", "nothing at all", "yesterday Hugo went to Lima")


def mentions_in(texts: tuple[str, ...], params: DetectionParams) -> list[tuple[int, str, str]]:
    types, mentions = detect(texts, params)
    return [
        (row, texts[row][start:end], types[kind]) for row, start, end, kind in mentions.tolist()
    ]


def corpus_of(texts: tuple[str, ...], spans: Spans | None = None, types: tuple[str, ...] = ()):
    rows = np.arange(len(texts))
    return Corpus(
        texts=texts,
        groups={"user": rows},
        split=np.zeros(len(texts), dtype=np.int64),
        entities=spans or Spans.none(),
        entity_types=types,
    )


def test_a_trained_pipeline_finds_people_and_places(pipeline: Path) -> None:
    params = DetectionParams(detector="spacy", pipeline=str(pipeline))
    assert mentions_in(TEXTS, params) == [
        (0, "Anna", "PERSON"), (0, "Oslo", "GPE"), (2, "Hugo", "PERSON"), (2, "Lima", "GPE"),
    ]  # fmt: skip
    assert detect(TEXTS, params).types == ("GPE", "PERSON")


def test_the_cache_answers_without_the_detector(
    pipeline: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = DetectionParams(detector="spacy", pipeline=str(pipeline))
    first = detect(TEXTS, params)
    assert [file.suffix for file in cache.iterdir()] == [".npz"]

    def refuse(*_: object) -> None:
        raise RuntimeError("detected again")

    monkeypatch.setattr(entities, "_pipeline", refuse)
    again = detect(TEXTS, params)
    assert again.types == first.types
    assert np.array_equal(again.mentions, first.mentions)
    with pytest.raises(RuntimeError, match="detected again"):
        detect((*TEXTS, "one more"), params)
    # A boundary moved between two texts is another corpus.
    with pytest.raises(RuntimeError, match="detected again"):
        detect((TEXTS[0] + TEXTS[1][:3], TEXTS[1][3:], TEXTS[2]), params)


def test_a_changed_pipeline_in_the_same_folder_is_another(pipeline: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(pipeline, copy)
    before = entities.pipeline_identity(str(copy))
    assert before == entities.pipeline_identity(str(pipeline))
    (copy / "meta.json").write_text((copy / "meta.json").read_text() + " ")
    assert entities.pipeline_identity(str(copy)) != before


def test_a_damaged_cache_is_made_anew(pipeline: Path, cache: Path) -> None:
    params = DetectionParams(detector="spacy", pipeline=str(pipeline))
    first = detect(TEXTS, params)
    (file,) = cache.iterdir()
    file.write_bytes(file.read_bytes()[:40])
    assert np.array_equal(detect(TEXTS, params).mentions, first.mentions)
    assert len(np.load(file)["mentions"]) == 4


def test_an_unwritable_cache_costs_time_not_results(
    pipeline: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="not cached"):
        assert len(detect(TEXTS, DetectionParams(detector="spacy", pipeline=str(pipeline)))[1]) == 4


def test_presidio_finds_patterns_without_a_pipeline_or_network(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import socket

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    texts = ("write to anna@example.com", "card 4111 1111 1111 1111", "Anna lives in Oslo now")
    assert mentions_in(texts, DetectionParams(detector="presidio")) == [
        (0, "anna@example.com", "EMAIL_ADDRESS"), (1, "4111 1111 1111 1111", "CREDIT_CARD"),
    ]  # fmt: skip


def test_presidio_with_a_pipeline_finds_names_too(pipeline: Path) -> None:
    params = DetectionParams(detector="presidio", pipeline=str(pipeline))
    texts = ("Anna lives in Oslo now", "write to anna@example.com")
    assert {(0, "Anna", "PERSON"), (0, "Oslo", "LOCATION")} <= set(mentions_in(texts, params))
    assert (1, "anna@example.com", "EMAIL_ADDRESS") in mentions_in(texts, params)


def test_own_entities_win_over_detected_ones(pipeline: Path) -> None:
    own = Spans.build(TEXTS, [(0, 14, 22, 0)])  # "Oslo now"
    corpus = add_entities(
        corpus_of(TEXTS, own, ("PLACE",)),
        DetectionParams(detector="spacy", pipeline=str(pipeline)),
    )
    assert corpus.entity_types == ("GPE", "PERSON", "PLACE")
    surfaces = [corpus.surface(i) for i in range(len(corpus.entities))]
    assert surfaces == ["Anna", "Oslo now", "Hugo", "Lima"]


def test_types_are_filtered_and_checked(pipeline: Path) -> None:
    detector = {"detector": "spacy", "pipeline": str(pipeline)}
    corpus = add_entities(corpus_of(TEXTS), DetectionParams(**detector, entity_types=("PERSON",)))
    assert corpus.entity_types == ("PERSON",)
    assert [corpus.surface(i) for i in range(len(corpus.entities))] == ["Anna", "Hugo"]
    with pytest.raises(InputError, match=r"type 'PERSN'.*'PERSON'"):
        add_entities(corpus_of(TEXTS), DetectionParams(**detector, entity_types=("PERSN",)))


def test_a_missing_pipeline_says_how_to_install_it() -> None:
    params = DetectionParams(detector="spacy", pipeline="en_core_web_none")
    with pytest.raises(InputError, match="en_core_web_none"):
        detect(TEXTS, params)
    with pytest.raises(InputError, match=r"pipeline: .*config\.cfg"):
        detect(TEXTS, DetectionParams(detector="spacy", pipeline="./no/such/folder"))


def test_a_pipeline_without_entities_is_refused(tmp_path: Path) -> None:
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(InputError, match=r"pipeline: .*blank"):
        detect(TEXTS, DetectionParams(detector="spacy", pipeline=str(tmp_path / "blank")))


def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "presidio_analyzer", None)
    with pytest.raises(MissingExtraError, match=r"'uedp-bench\[ner\]'"):
        detect(TEXTS, DetectionParams(detector="presidio"))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"detector": "spacy"}, "detector 'spacy'.*pipeline"),
        ({"pipeline": "en_core_web_sm"}, "pipeline.*'none'"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(values: dict[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_params(DetectionParams, values, "text")


def test_no_detector_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def guarded(name: str, *rest: object, **named: object) -> object:
        if name.split(".")[0] in {"spacy", "presidio_analyzer"}:
            raise AssertionError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", guarded)
    assert add_entities(corpus_of(TEXTS), DetectionParams()).entity_types == ()
