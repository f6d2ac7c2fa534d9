"""Tags of a column are read in the scheme that the column is written in, or refused."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from uedp_bench.components.registry import sources
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.tasks.sources.reading.tag_schemes import FAMILIES, scheme_of

Span = tuple[int, int, str]
"""Words from one number to before another, and their type."""

LETTERS_OF = {
    "IOB2": ("B", "I", "I", "B"),
    "BIOES": ("B", "I", "E", "S"),
    "BILOU": ("B", "I", "L", "U"),
    "BMES": ("B", "M", "E", "S"),
    "BMEWO": ("B", "M", "E", "W"),
    "IOE2": ("I", "I", "E", "E"),
}
"""Letters of the first word, of those between, of the last, and of the only word of an entity."""


SHAPES = ("{letter}-{type}", "{letter}_{type}", "{type}-{letter}", "{type}_{letter}")


def letters_of(scheme: str, span: Span, before: Span | None, after: Span | None) -> list[str]:
    start, end, kind = span
    size = end - start
    if scheme == "IO":
        return [""] * size
    if scheme == "IOB1":
        touches = before is not None and before[1] == start and before[2] == kind
        return ["B" if touches else "I", *"I" * (size - 1)]
    if scheme == "IOE1":
        touches = after is not None and after[0] == end and after[2] == kind
        return [*"I" * (size - 1), "E" if touches else "I"]
    first, between, last, only = LETTERS_OF[scheme]
    return [only] if size == 1 else [first, *between * (size - 2), last]


def written(scheme: str, spans: list[Span], size: int, shape: str, *, lower: bool) -> list[str]:
    tags = ["o" if lower else "O"] * size
    around = [None, *spans, None]
    for at, span in enumerate(spans):
        letters = letters_of(scheme, span, around[at], around[at + 2])
        for word, letter in enumerate(letters, start=span[0]):
            letter = letter.lower() if lower else letter
            tags[word] = shape.format(letter=letter, type=span[2]) if letter else span[2]
    return tags


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[Span], int]:
    spans: list[Span] = []
    at = draw(st.integers(0, 2))
    for _ in range(draw(st.integers(1, 5))):
        end = at + draw(st.integers(1, 4))
        spans.append((at, end, draw(st.sampled_from(["PER", "cell-line", "BRAWLERS", "ID_1"]))))
        at = end + draw(st.integers(0, 2))
    return spans, at + draw(st.integers(0, 1))


@given(
    row=rows(),
    scheme=st.sampled_from([*LETTERS_OF, "IOB1", "IOE1", "IO"]),
    shape=st.sampled_from(SHAPES),
    lower=st.booleans(),
)
def test_entities_come_back_from_every_scheme(
    row: tuple[list[Span], int], scheme: str, shape: str, lower: bool
) -> None:
    spans, size = row
    if scheme == "IO":
        assume(all(a[1] < b[0] or a[2] != b[2] for a, b in pairwise(spans)))
    if lower and scheme != "IO":
        assume(not scheme.startswith("IOE") or any(s[1] - s[0] > 1 for s in spans))
        assume(any(s[1] - s[0] > 1 for s in spans))  # letters other than b or i alone are open
    tags = written(scheme, spans, size + 1, shape, lower=lower)
    places = [(at, at + 1) for at in range(size + 1)]
    # What else is in the file decides of a row with little in it.
    every = {
        *tags,
        *written(scheme, [(0, 3, "PER"), (3, 4, "PER"), (5, 6, "X")], 7, shape, lower=lower),
    }
    assert scheme_of(every).spans(places, tags) == spans


def column(tmp_path: Path, *tags: str, **params: object) -> Corpus:
    """A file with a sentence of these tags; each word is a letter."""
    lines = "\n".join(f"{chr(97 + at)} {tag}" for at, tag in enumerate(tags))
    (tmp_path / "x.conll").write_text(lines + "\n\nz " + tags[-1] + "\n")
    defaults = {"path": tmp_path / "x.conll", "entities_column": "gold", "valid": 0, "test": 0}
    corpus: Corpus = sources.create("text", {**defaults, **params}).load()
    return corpus


def test_no_tag_outside_becomes_a_type(tmp_path: Path) -> None:
    for tags, types in (
        (("S-PER", "O", "S-LOC", "O"), ("LOC", "PER")),
        (("PER", "PER", "O", "LOC", "O"), ("LOC", "PER")),
        (("per", "o", "loc", "o"), ("loc", "per")),
        (("PER-B", "PER-I", "O"), ("PER",)),
        (("b-per", "i-per", "o"), ("per",)),
    ):
        corpus = column(tmp_path, *tags)
        assert corpus.entity_types == types
        assert corpus.layer("gold").types == types
    assert corpus.surface(0) == "a b"


@pytest.mark.parametrize(
    ("tags", "bad"),
    [
        (("B-PER", "-", "O"), "-"),
        (("B-PER", "E-PER", "U-PER", "O"), "U-PER"),
        (("B-PER", "PER", "O"), "PER"),
        (("PER-B", "PER-I", "PER", "O"), "PER"),
        (("B-PER", "I_PER", "O"), "I_PER"),
        (("B-PER", "i-PER", "O"), "i-PER"),
        (("B-PER", "o", "O"), "o"),
        (("B-PER", "o"), "o"),
        (("B", "I", "O"), "B"),
        (("PER", "_", "O"), "_"),
        (("PER", "_", "_"), "_"),
        (("(PER*", "*)", "*"), "(PER*"),
        (("PER", ",", "O"), ","),
        (("B-PER", "O", "E-PER", "O"), "B-PER"),
        (("B-PER", "E-PER", "E-PER", "O"), "E-PER"),
        (("B-PER", "E-LOC", "O"), "B-PER"),
        (("s-per", "o"), "s-per"),
        (("NN", "VB"), "NN"),
    ],
)
def test_a_tag_of_no_scheme_is_refused_with_its_line(
    tmp_path: Path, tags: tuple[str, ...], bad: str
) -> None:
    with pytest.raises(InputError) as refused:
        column(tmp_path, *tags)
    line = tags.index(bad) + 1
    if bad == "E-PER":
        line += 1  # the first has a beginning
    assert f"line {line}, column 'gold': tag {line}" in str(refused.value)


@pytest.mark.parametrize("tags", [("PER", "0"), ("3", "0", "3")])
def test_a_number_is_no_category(tmp_path: Path, tags: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"tag 2.*'0'"):
        column(tmp_path, *tags, entities_column=None)


def test_categories_of_words_stay_as_they_are(tmp_path: Path) -> None:
    corpus = column(tmp_path, "NN", ",", "-LRB-", "S-x", "NN", entities_column=None)
    assert corpus.layer("gold").types == (",", "-LRB-", "NN", "S-x")
    assert len(corpus.layer("gold").spans) == 6


def test_every_family_reads_its_letters() -> None:
    for name, letters in FAMILIES.items():
        assert scheme_of({"O", *(f"{letter}-PER" for letter in letters)}).name == name


CONLLU = """# sent_id = 1
# text = Ann met Bo
1\tAnn\t_\tB-PER
2\tmet\t_\tO
3\t#\t_\tO

# newdoc
1\t#\t_\tO
"""


def test_comments_and_counts_of_conllu_are_no_tokens(tmp_path: Path) -> None:
    file = tmp_path / "x.conll"
    file.write_text(CONLLU)
    whole = {"path": file, "entities_column": "gold", "valid": 0, "test": 0}
    corpus = sources.create("text", whole).load()
    assert corpus.texts == ("Ann met #", "#")
    assert corpus.surface(0) == "Ann"
    file.write_text(CONLLU.replace("3\t#", "3-4\t#"))
    with pytest.raises(InputError, match=r"line 5.*3-4"):
        sources.create("text", whole).load()
    file.write_text("# O\nAnn B-PER\n\n# O\n6-3 O\n")
    assert sources.create("text", whole).load().texts == ("# Ann", "# 6-3")
