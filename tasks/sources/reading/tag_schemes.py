"""Schemes of tags: what a tag a word says about where entities begin and end.

| scheme | tags beside the outside tag | example of `Ann Lee met Bo` |
|---|---|---|
| IOB1, IOB2 (BIO) | `B-` begins, `I-` goes on | `B-PER I-PER O B-PER` |
| IOE1, IOE2 | `E-` ends, `I-` is before it | `I-PER E-PER O E-PER` |
| BIOES, BILOU | `B-` to `E-` or `L-`; one word is `S-` or `U-` | `B-PER E-PER O S-PER` |
| BMES, BMEWO | the same with `M-` for `I-`; one word is `S-` or `W-` | `B-PER E-PER O W-PER` |
| IO | the type alone | `PER PER O PER` |

Between letter and type stands `-` or `_`, and the type may stand first (`PER-B`). Letters may be in
lower case. A file has one scheme, for a tag alone does not say which: it follows from all tags.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from uedp_bench.errors import nearest, shown

Place = tuple[int, int]
"""(start, end) of a word in its text."""

TypedPlace = tuple[int, int, str]
"""(start, end, type) of an entity in its text."""

FAMILIES: dict[str, frozenset[str]] = {
    "IOB": frozenset("BI"),
    "IOE": frozenset("IE"),
    "BIOES": frozenset("BIES"),
    "BILOU": frozenset("BILU"),
    "BMES": frozenset("BMES"),
    "BMEWO": frozenset("BMEW"),
}
"""Letters of each scheme; the first that has all letters of a file is the file's."""

CATEGORIES = "categories"
"""Scheme of tags without a letter and without an outside tag: a type for every word."""

LETTERS = frozenset().union(*FAMILIES.values())
OUTSIDE = ("O", "o")
NO_TYPE = frozenset({"_", "-", "--"})
"""Marks that other formats write where there is no annotation; no type is called so."""

MOST_TYPES = 100
"""Different tags of a column that `looks_tagged`, at most."""

_IOB_STARTS = frozenset({"B-", "I-", "B_", "I_"})
_BEGIN, _END, _OPEN = frozenset("BSUW"), frozenset("ELSUW"), frozenset("BIM")
_STRICT = frozenset({"BIOES", "BILOU", "BMES", "BMEWO"})
_FIRST = re.compile(r"(?P<letter>[BIELSUMWbielsumw])(?P<mark>[-_])(?P<type>\S+)")
_LAST = re.compile(r"(?P<type>\S+)(?P<mark>[-_])(?P<letter>[BIELSUMWbielsumw])")


class TagError(Exception):
    """A tag that its scheme does not have.

    Attributes:
        tag: the tag.
        reason: a sentence without a subject.
        word: place of the tag in its row, where it is known.
    """

    def __init__(self, tag: str, reason: str, word: int | None = None) -> None:
        super().__init__(reason)
        self.tag, self.reason, self.word = tag, reason, word


@dataclass(frozen=True)
class TagScheme:
    """Scheme by which a column of tags marks entities.

    Attributes:
        name: name of the scheme: a key of `FAMILIES`, `IO`, or `CATEGORIES`.
        parts: (letter, type) of each tag; the letter is upper case, and empty in IO. A tag outside
            of entities has neither.
    """

    name: str
    parts: dict[str, tuple[str, str]]

    def spans(self, places: Sequence[Place], tags: Sequence[str]) -> list[TypedPlace]:
        """Entities of words at these places.

        Reads letters as conlleval does: an entity begins at `B`, after an end, after a word
        outside, and where the type changes.

        Raises:
            TagError: for an entity without its beginning or end in a scheme that marks both; only
                the end of a row may cut one.
        """
        if self.name == CATEGORIES:
            return [(*place, tag) for place, tag in zip(places, tags, strict=True)]
        spans: list[TypedPlace] = []
        letter_before, type_before = "", ""
        for at, ((start, end), tag) in enumerate(zip(places, tags, strict=True)):
            letter, kind = self.parts[tag]
            same = kind != "" and kind == type_before
            goes_on = same and letter not in _BEGIN and letter_before not in _END
            if self.name in _STRICT and not goes_on:
                if letter_before in _OPEN:
                    raise TagError(tags[at - 1], f"has no end{self._scheme}", at - 1)
                if kind and letter not in _BEGIN:
                    raise TagError(tag, f"has no beginning{self._scheme}", at)
            if goes_on:
                spans[-1] = (spans[-1][0], end, kind)
            elif kind:
                spans.append((start, end, kind))
            letter_before, type_before = letter, kind
        return spans

    @property
    def _scheme(self) -> str:
        """The name of a strict scheme, and the tag of the column that speaks for it."""
        proof = next(tag for tag, (letter, _) in self.parts.items() if letter not in {"", "B", "I"})
        return f" as {self.name} marks it ({shown(proof)} of the column is {self.name})"


def iob_spans(places: Sequence[Place], tags: Sequence[str]) -> list[TypedPlace]:
    """Entities of words whose tags are IOB1 or IOB2 with `-` after the letter.

    In IOB1 `B-` separates neighbours of one type, and any other change starts an entity by itself;
    IOB2, which marks every start with `B-`, comes out the same.
    """
    parts = {tag: (tag[:1], tag.partition("-")[2]) for tag in {*tags}}
    return TagScheme("IOB", parts).spans(places, tags)


def scheme_of(tags: Collection[str]) -> TagScheme:
    """The scheme of a column, from all its different tags.

    Tags without a letter are types: in IO where there is an outside tag (`O`), and else categories
    of words, such as parts of speech.

    Raises:
        TagError: for a tag that does not fit to the others, or a column whose scheme is open.
    """
    outside = _outside(tags)
    inside = sorted({*tags} - {outside})
    layout, others = _layout(inside, outside)
    if layout is not None:
        return _lettered(inside, others, outside, layout)
    for tag in inside:
        if tag in NO_TYPE or "*" in tag:
            raise TagError(tag, "is no type; a word outside of entities has the tag O")
    if outside is None:
        numbers = [tag for tag in inside if tag.isdecimal()]
        # A column of lemmas has a few numbers.
        if numbers and (numbers == ["0"] or len(numbers) == len(inside)):
            raise TagError(numbers[0], "is a number; the tag outside of entities is the letter O, "
                                       "and a type has a name")  # fmt: skip
        return TagScheme(CATEGORIES, {})
    if inside and {tag.upper() for tag in inside} <= LETTERS:
        raise TagError(inside[0], "names no type: it must be a letter and a type, such as B-PER")
    odd = next((tag for tag in inside if not tag[0].isalpha()), None)
    if odd is not None:
        raise TagError(odd, f"is no type; tags are {shown(outside)} or the name of a type (IO)")
    return TagScheme("IO", _with_outside({tag: ("", tag) for tag in inside}, outside))


def _outside(tags: Collection[str]) -> str | None:
    present = [tag for tag in OUTSIDE if tag in tags]
    if len(present) > 1:
        raise TagError("o", "stands beside 'O'; a column has one tag for words outside")
    return present[0] if present else None


def _layout(inside: list[str], outside: str | None) -> tuple[re.Pattern[str] | None, list[str]]:
    """The order of letter and type, and tags that it does not fit; None for tags without letter.

    A category of words may look like a letter and a type by chance, as `e-mail` does. So tags have
    letters if all of them fit, if one is upper case `B` or `I` before a mark, or, beside an outside
    tag, if most fit.
    """
    unfit = {
        layout: [tag for tag in inside if not layout.fullmatch(tag)] for layout in (_FIRST, _LAST)
    }
    whole = next((layout for layout, others in unfit.items() if inside and not others), None)
    if whole is not None:
        return whole, []
    if any(tag[:2] in _IOB_STARTS for tag in inside):
        return _FIRST, unfit[_FIRST]
    if outside is not None:
        for layout, others in unfit.items():
            if 2 * len(others) < len(inside):
                return layout, others
    return None, []


def _lettered(
    inside: list[str], others: list[str], outside: str | None, layout: re.Pattern[str]
) -> TagScheme:
    matches = [match for tag in inside if (match := layout.fullmatch(tag))]
    lower = all(match["letter"].islower() for match in matches)
    letters = {match["letter"].upper() for match in matches}
    name = next((name for name, family in FAMILIES.items() if letters <= family), None)
    allowed = _allowed(name or "IOB", matches[0], lower=lower)
    for tag in others:
        near = nearest(tag, [match[0] for match in matches])
        hint = f"; did you mean {near!r}?" if near else ""
        family = name or "a letter and a type"
        raise TagError(
            tag, f"does not fit the others of the column ({family}): it must be {allowed}{hint}"
        )
    if name is None:
        schemes = ", ".join(f"{key} ({' '.join(sorted(one))})" for key, one in FAMILIES.items())
        odd = next(match[0] for match in matches if match["letter"].upper() not in "BIES")
        raise TagError(odd, f"mixes schemes: the column has letters {' '.join(sorted(letters))}, "
                            f"and schemes are {schemes}")  # fmt: skip
    if lower and not letters & {"B", "I"}:
        raise TagError(matches[0][0], "may be a type or a letter with one; write B- and I- tags")
    for match in matches:
        if match["letter"].islower() != lower:
            raise TagError(match[0], f"has another case than others: it must be {allowed}")
        if match["mark"] != matches[0]["mark"]:
            raise TagError(match[0], f"has another mark than others: it must be {allowed}")
    if outside == "o" and not lower:
        raise TagError("o", f"has another case than others: it must be {allowed}")
    parts = {match[0]: (match["letter"].upper(), match["type"]) for match in matches}
    return TagScheme(name, _with_outside(parts, outside))


def _allowed(name: str, example: re.Match[str], *, lower: bool) -> str:
    """The tags of a scheme in words: O, or B- or I- with a type."""
    type_first = example.start("letter") > 0
    letters = [each for each in "BIMELSUW" if each in FAMILIES[name]]
    marks = [
        f"{example['mark']}{each}" if type_first else f"{each}{example['mark']}"
        for each in (map(str.lower, letters) if lower else letters)
    ]
    return f"O, or {', '.join(marks[:-1])} or {marks[-1]} with a type"


def _with_outside(
    parts: dict[str, tuple[str, str]], outside: str | None
) -> dict[str, tuple[str, str]]:
    return parts if outside is None else {**parts, outside: ("", "")}


def looks_tagged(cells: Sequence[str]) -> bool:
    """True if cells are most likely tags of words: letters with types, or few values and an O."""
    counts = Counter(cells)
    lettered = sum(
        count
        for cell, count in counts.items()
        if cell in OUTSIDE or _FIRST.fullmatch(cell) or _LAST.fullmatch(cell)
    )
    outside = max((counts[tag] for tag in OUTSIDE), default=0)
    few = len(counts) <= MOST_TYPES and len(cells) >= 2 * len(counts)
    return bool(cells) and (lettered >= 0.9 * len(cells) or (few and outside >= 0.1 * len(cells)))
