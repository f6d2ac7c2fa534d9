"""Public text from files, added to a corpus as its split `public`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from uedp_bench.corpus import (
    SPLITS,
    Corpus,
    Spans,
    concatenate,
    distinct,
    names_of_ids,
    owner_numbers,
    user_names,
    user_numbers,
)
from uedp_bench.errors import InputError
from uedp_bench.io.text_files import open_text
from uedp_bench.text.simple_sentences import simple_sentences

if TYPE_CHECKING:
    from uedp_bench.contracts.source import SourceParams

PUBLIC = SPLITS.index("public")
SCORED_STAY = (
    "neighbours have the same rows in 'valid' and 'test': with source.public_share, a user who has "
    "one there is not made public"
)
"""Assumption of guarantees about a corpus of which a share is public."""

ROWS_PER_USER = 20
"""Files of plain text have no authors: this many consecutive lines count as one."""
_LINE_BREAKS = re.compile(r"<br\s*/?>")


def add_public(corpus: Corpus, params: SourceParams) -> Corpus:
    """The corpus with the rows of the files in `params.public` appended as split `public`.

    With `params.valid_is_public`, the corpus' own split `valid` is public too. Appended rows have
    users of their own, no entities, no label and no attributes; no layer covers them. At most
    `params.public_rows` public rows are kept, those that the source made itself first.

    Before that, the split `valid` takes the place of all others (`tune_on_valid`), a sample of the
    users is drawn (`sample`), rows of too few sentences are left out (`min_sentences`,
    `test_sentences`), and with `public_share` some of the training users become
    public.

    Raises:
        InputError: for a file that is missing, unreadable or without a sentence, if users of the
            split `valid` are to be public or tuned on and have rows in other splits as well, or if
            no training or test row is left.
    """
    if params.tune_on_valid is not None:
        corpus = _valid_alone(corpus, params.tune_on_valid)
    corpus = _of_length(_sample(corpus, params.sample), params)
    corpus = _share(corpus, params.public_share)
    if params.valid_is_public:
        _check_apart(corpus)
        corpus = corpus.with_split(corpus.where("valid"), "public")
    own = np.flatnonzero(corpus.split == PUBLIC)
    room = None if params.public_rows is None else max(params.public_rows - len(own), 0)
    texts = read_public(params.public, room)
    if texts:
        corpus = _append(corpus, texts)
    if params.public_rows is not None and len(own) > params.public_rows:
        keep = np.setdiff1d(np.arange(len(corpus)), own[params.public_rows :])
        corpus = replace(corpus.take(keep), origin=np.arange(len(keep)))
    return corpus


def _valid_alone(corpus: Corpus, scored: float) -> Corpus:
    """The public rows, and those of `valid`: users drawn by hash are `test`, the others `train`.

    Raises:
        InputError: if one of the two has no row, or users of `valid` have rows in `train` or
            `test`: a guarantee that covers them would not be for free.
    """
    if shared := _shared(corpus, "train", "test"):
        raise InputError(
            f"source.tune_on_valid={scored}: {shared} users of the split 'valid' have rows in "
            "'train' or 'test' too; settings may be chosen on other users alone"
        )
    kept = np.flatnonzero(corpus.where("valid", "public"))
    corpus = replace(corpus.take(kept), origin=np.arange(len(kept)))
    valid = corpus.where("valid")
    owned = corpus.users >= 0  # rows of nobody train
    test = valid & owned & (owner_numbers(corpus, 0, "tune") < scored)
    if not test.any() or not (valid & ~test).any():
        users = distinct(corpus.users[valid & (corpus.users >= 0)])
        raise InputError(
            f"source.tune_on_valid={scored} cuts {len(users)} users of "
            "the split 'valid' into users to train on and users to score, and one of them has no "
            "row; have the source cut more users off (valid=SHARE)"
        )
    return corpus.with_split(valid & ~test, "train").with_split(test, "test")


def _of_length(corpus: Corpus, params: SourceParams) -> Corpus:
    """Without the rows that have too few sentences, or of the test split too many."""
    if params.min_sentences == 1 and params.test_sentences is None:
        return corpus
    from uedp_bench.text.sentences import split_sentences

    counts = np.array([len(found) for found in split_sentences(corpus.texts)])
    keep = counts >= params.min_sentences
    if params.test_sentences is not None:
        low, high = params.test_sentences
        keep &= ~corpus.where("test") | ((counts >= low) & (counts <= high))
    kept = corpus.take(np.flatnonzero(keep))
    for split in ("train", "test"):
        if corpus.where(split).any() and not kept.where(split).any():
            raise InputError(
                f"source.min_sentences={params.min_sentences} and test_sentences="
                f"{params.test_sentences} leave no row in the split {split!r}: its rows have up to "
                f"{counts[corpus.where(split)].max()} sentences"
            )
    return replace(kept, origin=np.arange(len(kept)))


def _sample(corpus: Corpus, share: float) -> Corpus:
    """The rows of a share of the users, drawn by the hash of their name; those of nobody stay."""
    if share == 1:
        return corpus
    drawn = (owner_numbers(corpus, 0, "sample") < share) | (corpus.users < 0)
    kept = corpus.take(np.flatnonzero(drawn))
    for split in ("train", "test"):
        if corpus.where(split).any() and not kept.where(split).any():
            raise InputError(f"source.sample={share} leaves no row in {split!r}; take more")
    return replace(kept, origin=np.arange(len(kept)))


def _share(corpus: Corpus, share: float) -> Corpus:
    """With a share of the training users, drawn by the hash of their name, made public."""
    if share == 0:
        return corpus
    numbers = user_numbers(corpus, 0, "public")
    elsewhere = np.zeros(corpus.user_count, dtype=bool)
    owned = corpus.users >= 0
    elsewhere[corpus.users[owned & ~corpus.where("train", "public")]] = True
    drawn = (numbers < share) & ~elsewhere
    moved = corpus.where("train") & owned & np.append(drawn, False)[corpus.users]
    if not moved.any():
        raise InputError(
            f"source.public_share={share} draws no training user who has no valid or test row; "
            "give a larger share, or public files"
        )
    quotas = (*corpus.quotas, SCORED_STAY)
    return replace(corpus.with_split(moved, "public"), quotas=quotas)


def _check_apart(corpus: Corpus) -> None:
    """Text of a training user that were called public would be trained on without protection."""
    if shared := _shared(corpus, "train"):
        raise InputError(
            f"valid_is_public: {shared} users of the split valid are in train too, so their text "
            "is not public; only text of other users can be"
        )


def _shared(corpus: Corpus, *others: str) -> int:
    """How many users of the split `valid` have rows in one of other splits too."""
    valid, there = (distinct(corpus.users[corpus.where(*names)]) for names in (("valid",), others))
    return int((np.intersect1d(valid, there) >= 0).sum())


def read_public(files: tuple[Path, ...], room: int | None = None) -> list[str]:
    """Sentences of all files in order, at most `room`; every file must hold one.

    A file has a sentence a line; of a jsonl file, each line is an object whose `text` is split into
    sentences (`simple_sentences`; `<br />` counts as space).

    Raises:
        InputError: for a file that is missing, unreadable or without a sentence, or a line of a
            jsonl file without a text.
    """
    texts: list[str] = []
    for path in files:
        with open_text(path, "public") as lines:
            jsonl = path.name.removesuffix(".gz").endswith(".jsonl")
            sentences = _of_records(lines, path) if jsonl else _sentences(lines)
            first = next(sentences, None)
            if first is None:
                raise InputError(f"public: {path} holds no sentence")
            left = None if room is None else room - len(texts)
            texts += islice(chain([first], sentences), left)
    return texts


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    """Lines with single spaces; blank ones and WikiText headings (` = = Title = = `) are left out.

    A heading is a line that starts and ends with an equals sign.
    """
    for raw in lines:
        line = " ".join(raw.split())
        if line and not (line[0] == "=" == line[-1]):
            yield line


def _of_records(lines: Iterable[str], path: Path) -> Iterator[str]:
    """Sentences of the `text` of each line's object."""
    for number, line in enumerate(lines, start=1):
        try:
            text = json.loads(line)["text"]
            words = _LINE_BREAKS.sub(" ", text).split()
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"public: {path}, line {number} is not an object with a text: {error!r}"
            ) from None
        yield from simple_sentences(" ".join(words))


def _append(corpus: Corpus, texts: list[str]) -> Corpus:
    """With public rows of which nothing but the text and an invented user is known."""
    rows = len(texts)
    nobody = np.full(rows, -1, dtype=np.int64)
    silent = corpus.take(np.zeros(rows, dtype=np.int64)).blank(np.ones(rows, dtype=bool))
    number = np.arange(rows) // ROWS_PER_USER
    users = corpus.user_count + number
    # Nobody whom a guarantee speaks of: places in the files are names enough.
    own = names_of_ids("public row", range(rows))
    authors = names_of_ids("public user", range(int(number[-1]) + 1))
    more = replace(
        silent,
        texts=tuple(texts),
        groups={**dict.fromkeys(corpus.groups, nobody), "user": users},
        split=np.full(rows, PUBLIC, dtype=np.int64),
        labels=None if corpus.labels is None else nobody,
        attributes=dict.fromkeys(corpus.attributes, nobody),
        ids=None if corpus.ids is None else ("",) * rows,
        row_names=None if corpus.row_names is None else own,
        user_names=None if corpus.user_names is None else user_names(corpus).followed_by(authors),
    )
    without = replace(corpus, entities=Spans.none())  # else ids would be made anew
    return replace(
        concatenate(without, more), entities=corpus.entities, origin=np.arange(len(corpus) + rows)
    )
