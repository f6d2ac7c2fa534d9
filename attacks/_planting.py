"""Rows that hold secrets: words to make them of, users to draw, and places in other rows."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.api import InputError, Layer, Mention
from uedp_bench.api.text import Rewriting, normal_surface
from uedp_bench.corpus import replaced_texts

if TYPE_CHECKING:
    from uedp_bench.api import BoolArray, Corpus, IntArray
    from uedp_bench.api.text import Piece

NAME_DRAWS = 1000
"""Attempts to find a name that is not in use."""

PRIVATE_WORDS = "no public text: canaries are made of frequent words of the train split"
"""Note."""

PERSON_TYPES = ("per", "name", "patient")
"""Beginnings of the names that corpora give to the type of people."""


def frequent_words(texts: Iterable[str], size: int) -> tuple[str, ...]:
    """The `size` most frequent lower-case alphabetic words of two letters or more.

    Frequent words are in any vocabulary made from the same text; lower-case ones survive
    lower-casing, alphabetic ones the removal of punctuation. Ties are broken alphabetically.
    """
    usable = [
        (-count, word)
        for word, count in Counter(word for text in texts for word in text.split()).items()
        if len(word) > 1 and word.isalpha() and word == word.lower()
    ]
    return tuple(word for _, word in sorted(usable)[:size])


def pool_words(corpus: Corpus, size: int) -> tuple[tuple[str, ...], str, list[str]]:
    """The `frequent_words` of the public split, or of the train split where nothing is public.

    Returns:
        The words, the split that they come from, and a note where they are not public.
    """
    split = "public" if corpus.where("public").any() else "train"
    notes = [PRIVATE_WORDS] if split == "train" else []
    return frequent_words(corpus.only(split).texts, size), split, notes


def true_types(corpus: Corpus) -> tuple[str, ...]:
    """Types of the entities that there really are: of the gold labels beside a detector."""
    beside = corpus.detector is not None and "gold" in corpus.layers
    return corpus.layers["gold"].types if beside else corpus.entity_types


def person_type(corpus: Corpus) -> int | None:
    """Index into `true_types` of people, else of the first type; None where there are none."""
    types = true_types(corpus)
    for index, name in enumerate(types):
        if name.lower().startswith(PERSON_TYPES):
            return index
    return 0 if types else None


def surfaces(corpus: Corpus) -> set[str]:
    """Normalised surfaces of all entities of a corpus."""
    _, first = np.unique(corpus.entities.entity, return_index=True)
    return {normal_surface(corpus.surface(mention)) for mention in first.tolist()}


def unused_name(
    words: Sequence[str], name: str, used: Collection[str], rng: np.random.Generator
) -> str:
    """The name if nobody has it, else as many words drawn anew until nobody does.

    Args:
        words: words that names are made of, uniformly.
        name: words joined by single spaces.
        used: normalised surfaces that it must not have.
        rng: random generator for the draws.

    Raises:
        InputError: if `NAME_DRAWS` draws do not suffice.
    """
    length = len(name.split())
    for _ in range(NAME_DRAWS):
        if normal_surface(name) not in used:
            return name
        name = " ".join(words[i] for i in rng.integers(len(words), size=length).tolist())
    raise InputError(
        f"canaries: {len(words)} words make too few names of {length} words "
        "that no other entity or canary has; raise word_pool or canary_words"
    )


def replace_rows(
    corpus: Corpus, rows: IntArray, texts: Sequence[str], mentions: Iterable[Mention]
) -> Corpus:
    """The corpus with other texts in some rows.

    Where a detector finds the entities of the corpus, it is what finds them in the new texts too:
    mechanisms act on what it says, and what it misses stays.

    Args:
        corpus: is not changed.
        rows: (replaced,) distinct rows. They lose all content that they had; a target becomes
            their new text, and gold labels become `mentions`.
        texts: (replaced,) their new texts.
        mentions: true ones in the new texts, with rows of the corpus and indexes into `true_types`.

    Raises:
        InputError: if a row is given twice, or a mention is outside its text.
    """
    if len(np.unique(rows)) != len(rows) or len(rows) != len(texts):
        raise InputError(f"replace_rows: {len(texts)} texts for {len(rows)} rows, once each")
    changed = np.zeros(len(corpus), dtype=bool)
    changed[rows] = True
    new = dict(zip(rows.tolist(), texts, strict=True))
    out = replaced_texts(corpus.texts, rows, texts)
    true, detected = list(mentions), _detected(corpus, new)
    silent = corpus.blank(changed)
    targets, layers = silent.targets, dict(silent.layers)
    if targets is not None:
        targets = replaced_texts(targets, rows, texts)
    if "gold" in layers:
        layers["gold"] = _labelled(layers["gold"], out, changed, true, true_types(corpus))
    return replace(
        silent,
        texts=out,
        entities=silent.entities.followed_by(out, true if detected is None else detected),
        origin=np.where(changed, -1, corpus.origin),
        targets=targets,
        layers=layers,
    )


def _labelled(
    layer: Layer,
    texts: Sequence[str],
    changed: BoolArray,
    mentions: Iterable[Mention],
    types: tuple[str, ...],
) -> Layer:
    """The layer with true mentions too; a row with one that it has no type for is incomplete."""
    own = {name: at for at, name in enumerate(layer.types)}
    labelled_mentions = [
        (row, start, end, own[types[kind]])
        for row, start, end, kind in mentions
        if types[kind] in own
    ]
    complete = layer.rows | changed
    complete[[row for row, _, _, kind in mentions if types[kind] not in own]] = False
    return Layer(layer.spans.followed_by(texts, labelled_mentions), layer.types, complete)


def _detected(corpus: Corpus, new: Mapping[int, str]) -> list[Mention] | None:
    """Finds mentions in new rows with the corpus' detector; None where it has none."""
    if corpus.detector is None:
        return None
    from uedp_bench.text.entities import detected_in

    texts = sorted(set(new.values()))
    mentions_by_text = dict(zip(texts, detected_in(corpus, texts), strict=True))
    return [(row, *mention) for row, text in new.items() for mention in mentions_by_text[text]]


def hidden(corpus: Corpus, row: int, start: int) -> bool:
    """True if entity mentions cover all words of a row from a character on."""
    spans = corpus.entities
    of_row = np.flatnonzero(spans.row == row)
    covered = np.zeros(len(corpus.texts[row]), dtype=bool)
    for first, last in zip(spans.start[of_row].tolist(), spans.end[of_row].tolist(), strict=True):
        covered[first:last] = True
    text: str = corpus.texts[row]
    return all(covered[at] or text[at].isspace() for at in range(start, len(text)))


def sharers_and_rows(
    corpus: Corpus,
    users: IntArray,
    rates: tuple[float, float],
    free: BoolArray,
    rng: np.random.Generator,
) -> tuple[int, IntArray]:
    """Draws who shares a secret, and which of their examples it replaces; Poisson both.

    Args:
        corpus: the corpus.
        users: (users,) those who may share.
        rates: p_u, the probability that a user shares, and p_e, the probability that a sharer's
            example is replaced.
        free: (rows,) rows that may be replaced.
        rng: random generator for both draws.

    Returns:
        The number of sharers with at least one replaced row, and the rows.
    """
    owner, rows = corpus.rows_of_user.take(users[rng.random(len(users)) < rates[0]])
    hit = (rng.random(len(rows)) < rates[1]) & free[rows]
    return len(np.unique(owner[hit])), rows[hit]


def drawn_users_and_rows(
    corpus: Corpus,
    sizes: tuple[int, int],
    free: BoolArray,
    taken: BoolArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Draws exactly so many users, and of each of them exactly so many rows.

    Args:
        corpus: the corpus.
        sizes: number of users, and number of rows of each.
        free: (rows,) rows that may be replaced; all of them have a user.
        taken: (user ids,) users that are drawn only where the others do not suffice.
        rng: random generator for both draws, uniform and without replacement.

    Returns:
        The users and the rows.

    Raises:
        InputError: if too few users have that many free rows.
    """
    users, each = sizes
    able = np.flatnonzero(np.bincount(corpus.users[free], minlength=corpus.user_count) >= each)
    if len(able) < users:
        raise InputError(
            f"secret-sharer.entity_spreads: a spread of {users - 1} needs {users} users of the "
            f"train split with {each} rows that no other canary replaced; there are {len(able)}"
        )
    fresh, rest = able[~taken[able]], able[taken[able]]
    chosen = rng.choice(fresh, min(users, len(fresh)), replace=False)
    if len(chosen) < users:
        chosen = np.concatenate([chosen, rng.choice(rest, users - len(chosen), replace=False)])
    owner, rows = corpus.rows_of_user.take(chosen)
    owner, rows = owner[free[rows]], rows[free[rows]]
    order = np.lexsort([rng.random(len(rows)), owner])  # shuffled within each user
    first = np.searchsorted(owner[order], np.arange(users))
    return chosen, rows[order][(first[:, None] + np.arange(each)).ravel()]


_WORD = re.compile(r"\S+")


def inserted(
    corpus: Corpus, pieces: list[tuple[str, IntArray]], rng: np.random.Generator
) -> Corpus:
    """The corpus with texts inserted into rows, each at a word boundary that is drawn uniformly.

    No boundary within an entity or another annotated span is drawn. Spans move with their words.

    Args:
        corpus: is not changed.
        pieces: what is inserted, and the rows (rows,) into which it is, once each.
        rng: random generator for the boundaries.
    """
    new: defaultdict[int, list[str]] = defaultdict(list)
    for text, rows in pieces:
        for row in rows.tolist():
            new[row].append(text)
    changed = np.zeros(len(corpus), dtype=bool)
    changed[list(new)] = True
    inside = _inside_of_spans(corpus, changed)
    rewriting = Rewriting(corpus)
    for row in sorted(new):
        rewriting.pieces(row, list(_at_boundaries(corpus.texts[row], inside[row], new[row], rng)))
    return replace(
        rewriting.corpus(),
        origin=np.where(changed, -1, corpus.origin),
        targets=corpus.targets,
        records=corpus.records,
    )


def _inside_of_spans(corpus: Corpus, rows: BoolArray) -> defaultdict[int, set[int]]:
    """Places of these rows that lie strictly within a mention or another annotated span."""
    out: defaultdict[int, set[int]] = defaultdict(set)
    for spans in (corpus.entities, *(layer.spans for layer in corpus.layers.values())):
        if spans.lost:
            continue
        selected = np.flatnonzero(rows[spans.row])
        columns = (column[selected].tolist() for column in (spans.row, spans.start, spans.end))
        for row, start, end in zip(*columns, strict=True):
            out[row].update(range(start + 1, end))
    return out


def _at_boundaries(
    text: str, inside: set[int], new: list[str], rng: np.random.Generator
) -> Iterator[Piece]:
    """Insertions with their places, in order; texts at one boundary follow each other."""
    words = [match.span() for match in _WORD.finditer(text)]
    places = [start for start, _ in words if start not in inside]
    end = words[-1][1] if words else 0
    drawn = np.sort(rng.integers(len(places) + 1, size=len(new)))
    for number in np.unique(drawn).tolist():
        joined = " ".join(new[i] for i in np.flatnonzero(drawn == number).tolist())
        if number < len(places):
            yield places[number], places[number], f"{joined} "
        else:
            yield end, end, f" {joined}" if words else joined
