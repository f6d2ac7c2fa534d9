"""Listed surfaces leave no whole-word occurrence, and nothing else changes."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uedp_bench.components.registry import mechanisms
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.contracts.run_context import Run
from uedp_bench.contracts.source import CorpusStats
from uedp_bench.corpus import SPLITS, Corpus, Spans, normal_surface
from uedp_bench.errors import InputError
from uedp_bench.mechanisms.deidentification.deidentify import LISTED, Deidentify
from uedp_bench.mechanisms.deidentification.mentions import PublicList
from uedp_bench.spec.identity import component_identity

STATS = CorpusStats(users=4, rows=4, sensitive_rows=2, entities=3, public=True)
PIECES = ["new", "York", "Ada", "bank", "of", "STRASSE", "straße", "İ", "i\u0307", "é", "e\u0301",
          "-", ".", "'", " ", " ", " ", "\t", "  ", "x_1"]  # fmt: skip
texts = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
lists = st.lists(texts.filter(str.strip), min_size=1, max_size=5)


def is_word(character: str) -> bool:
    mark = unicodedata.category(character)[0] == "M"
    return character.isalnum() or character == "_" or mark


def covered(text: str, surfaces: list[str]) -> np.ndarray:
    """Brute force: (characters,) number of the run of overlapping occurrences, -1 for none."""
    listed_surfaces = {normal_surface(surface) for surface in surfaces}
    occurrences = []
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            piece = text[start:end]
            if piece != piece.strip() or normal_surface(piece) not in listed_surfaces:
                continue
            edges = [(text[at - 1], text[at]) for at in (start, end) if 0 < at < len(text)]
            if not any(is_word(left) and is_word(right) for left, right in edges):
                occurrences.append((start, end))
    runs = np.full(len(text), -1)
    last, run = 0, -1
    for start, end in sorted(occurrences):
        run += start >= last
        last = max(last, end)
        runs[start:end] = run
    return runs


def corpus_of(rows: list[tuple[str, list[tuple[str, int]]]], splits: list[str] | None = None):
    texts = [text for text, _ in rows]
    mentions = [
        (at, text.index(surface), text.index(surface) + len(surface), kind)
        for at, (text, mentions_of_row) in enumerate(rows)
        for surface, kind in mentions_of_row
    ]
    split = np.array([SPLITS.index(name) for name in splits or ["train"] * len(rows)])
    users = np.arange(len(rows), dtype=np.int64)
    return Corpus(
        tuple(texts), {"user": users}, split, Spans.build(texts, mentions), ("PER", "ORG", "LOC")
    )


@pytest.fixture(scope="module")
def list_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("list") / "surfaces.txt"


def publish(corpus: Corpus, file: Path, surfaces: list[str], **params: object) -> Corpus:
    file.write_text("\n".join(surfaces), encoding="utf-8")
    mechanism = Deidentify.create({"public_list": file, **params})
    return mechanism.publish(corpus, Run(1, STATS))[0]


@given(texts, lists)
@settings(max_examples=300, deadline=None)
def test_occurrences_are_those_of_brute_force(text: str, surfaces: list[str]) -> None:
    owner = np.full(len(text), -1)
    for i, (start, end) in enumerate(PublicList(surfaces).occurrences(text)):
        owner[start:end] = i
    assert (owner == covered(text, surfaces)).all()


@given(texts, lists, st.data())
@settings(max_examples=200, deadline=None)
def test_nothing_listed_is_left_and_nothing_else_changes(
    list_file: Path, text: str, surfaces: list[str], data: st.DataObject
) -> None:
    words = [match.span() for match in re.finditer(r"\S+", text)]
    spans = data.draw(st.lists(st.sampled_from(words), unique=True)) if words else []
    before = Corpus(
        (text,), {"user": np.zeros(1, dtype=np.int64)}, np.zeros(1, dtype=np.int64),
        Spans.build([text], [(0, start, end, 1) for start, end in spans]), ("PER", "ORG"),
    )  # fmt: skip
    runs = covered(text, surfaces)
    expected = "".join(
        c if run < 0 else LISTED if i == 0 or runs[i - 1] != run else ""
        for i, (c, run) in enumerate(zip(text, runs.tolist(), strict=True))
    )
    after = publish(before, list_file, surfaces, only_listed=True)
    assert after.texts == (expected,)
    assert (covered(after.texts[0], surfaces) < 0).all()
    untouched = sorted((s, e) for s, e in spans if (runs[s:e] < 0).all())
    assert [after.surface(i) for i in range(len(after.entities))] == [
        text[start:end] for start, end in untouched
    ]
    removed = publish(before, list_file, surfaces, only_listed=True, style="remove")
    assert (covered(removed.texts[0], surfaces) < 0).all()
    assert [removed.surface(i) for i in range(len(removed.entities))] == [
        text[start:end] for start, end in untouched
    ]


ROWS = [
    ("Ada Brown left Reuters for Acme", [("Ada Brown", 0), ("Reuters", 1), ("Acme", 1)]),
    ("the REUTERS report ; reuterses unlike Reuters.", []),
    ("Bank of New York Mellon in new\tyork", [("Bank of New York Mellon", 1)]),
    ("Ada Brown , York", [("Ada Brown", 0), ("York", 2)]),
]
SURFACES = ["Reuters", "york", "New  York", "york mellon"]


def test_only_listed_leaves_narrow_entities_to_the_curve(list_file: Path) -> None:
    after = publish(corpus_of(ROWS), list_file, SURFACES, only_listed=True)
    assert after.texts == (
        "Ada Brown left <LISTED> for Acme",
        "the <LISTED> report ; reuterses unlike <LISTED>.",
        "Bank of <LISTED> in <LISTED>",
        "Ada Brown , <LISTED>",
    )
    surfaces = {after.surface(i) for i in range(len(after.entities))}
    assert surfaces == {"Ada Brown", "Acme"}
    assert after.users_of_entity.max() == 2


@pytest.mark.parametrize("style", ["placeholder", "surrogate", "remove"])
def test_the_list_adds_to_what_is_labelled(list_file: Path, style: str) -> None:
    after = publish(corpus_of(ROWS), list_file, SURFACES, style=style)
    for text in after.texts:
        assert (covered(text, SURFACES) < 0).all()
        assert not {"Ada", "Acme", "Bank"} & set(text.split())
    if style == "placeholder":
        assert after.texts[0] == "<PER> left <ORG> for <ORG>"
        assert after.texts[2] == "<ORG> in <LISTED>"


def test_a_listed_surrogate_is_redacted_too(list_file: Path) -> None:
    rows = [("from Paris", [("Paris", 2)])]
    plain = publish(corpus_of(rows), list_file, ["none"], style="surrogate").texts[0]
    surrogate = plain.removeprefix("from ")
    assert surrogate != "Paris"
    after = publish(corpus_of(rows), list_file, [surrogate], style="surrogate")
    assert after.texts == ("from <LISTED>",)
    assert len(after.entities) == 0


def test_what_removal_moves_together_is_removed_in_turn(list_file: Path) -> None:
    rows = [("in New Acme York today", [])]
    after = publish(
        corpus_of(rows), list_file, ["acme", "new york"], only_listed=True, style="remove"
    )
    assert after.texts == ("in today",)


def test_rows_do_not_depend_on_each_other_and_public_ones_stay(list_file: Path) -> None:
    whole = publish(corpus_of(ROWS), list_file, SURFACES, only_listed=True)
    for at, row in enumerate(ROWS):
        alone = publish(corpus_of([row]), list_file, SURFACES, only_listed=True)
        assert alone.texts[0] == whole.texts[at]
    public = ["public", "train", "valid", "public"]
    after = publish(corpus_of(ROWS, public), list_file, SURFACES, only_listed=True)
    assert [a == b for a, (b, _) in zip(after.texts, ROWS, strict=True)] == [1, 0, 0, 1]


def test_identity_is_the_content_of_the_list(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt")]
    for file, content in zip(files, ("x\n", "x\n", "y\n"), strict=True):
        file.write_text(content)
    identities = [
        component_identity(
            ComponentSpec(name="deidentify", params={"public_list": str(file)}), mechanisms
        )
        for file in files
    ]
    assert identities[0] == identities[1] != identities[2]


def test_lists_that_cannot_be_used_are_one_line(tmp_path: Path) -> None:
    corpus, file = corpus_of(ROWS), tmp_path / "list.txt"

    def refuse(content: bytes | None, match: str, **params: object) -> None:
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(InputError, match=match):
            Deidentify.create({"public_list": file, **params}).publish(corpus, Run(1, STATS))

    refuse(None, r"deidentify\.public_list.*list\.txt")
    refuse(b"\xef\xbb\xbf\n \n", r"list\.txt.*surface")
    refuse(b"caf\xe9\n", r"list\.txt.*UTF-8.*3")
    refuse(b"per\n", "public_list: .*<PER>")
    refuse(b"listed\n", "public_list: .*<LISTED>", style="surrogate")
    refuse(b"a <b\n", "public_list: 'a <b'")
    file.write_bytes(b"per\nlisted\na <b\n")
    Deidentify.create({"public_list": file, "style": "remove"}).publish(corpus, Run(1, STATS))


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"only_listed": True}, "only_listed is true.*public_list"),
        ({"only_listed": True, "public_list": "x", "style": "surrogate"}, "style is surrogate"),
        ({"only_listed": True, "public_list": "x", "entity_types": ["PER"]}, "entity_types"),
    ],
)
def test_parameters_that_would_do_nothing_are_refused(
    params: dict[str, object], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        Deidentify.create(params)


def test_reading_a_list_takes_any_line_ending_and_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes("\ufeffAda  Brown\r\n\r\nStraße\n".encode())
    assert PublicList.read(file, "x").surfaces == {"ada brown", "strasse"}


@pytest.mark.parametrize(
    "written", ["Jose\u0301 Nu\u0301n\u0303ez", "JOSÉ \u200bNÚÑEZ", "Jos&eacute;  Núñez"]
)
def test_listed_surface_is_replaced_in_any_written_form(list_file: Path, written: str) -> None:
    rows = corpus_of([(f"then {written} left", [])])
    assert publish(rows, list_file, ["José Núñez"]).texts == ("then <LISTED> left",)
