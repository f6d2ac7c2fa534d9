"""IMDB: reviews of movies with their sentiment; a movie is a user."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from uedp_bench.api import Corpus, CorpusStats, Source, SourceParams
from uedp_bench.api.text import (
    DetectionParams,
    SplitParams,
    add_entities,
    cut_missing_splits,
    named_users,
)
from uedp_bench.tasks.sources.reading.files import class_ids, find_splits, read_records, read_splits

LABELS: tuple[str, ...] = ("neg", "pos")
FIELDS: tuple[str, ...] = ("label", "movie", "text")
LineBreaks = Literal["space", "newline", "markup"]

_BREAKS = re.compile(r"(?:\s*<br\s*/?>)+\s*", re.IGNORECASE)
_USERS, _ROWS = 3_456, 25_000


class IMDBParams(DetectionParams, SplitParams, SourceParams):
    """Files of the data, and replacement of line breaks."""

    path: Path = Field(
        description="folder with train.jsonl and test.jsonl (plain or .gz), each line an object "
        "with label (pos, neg), movie and text"
    )
    line_breaks: LineBreaks = Field(
        default="space",
        description="what stands for one or more `<br />` and the space around them: a space, a "
        "newline, or the markup as it is",
    )


class IMDB(Source[IMDBParams]):
    """The 50,000 polar reviews, labelled neg (4 stars at most) or pos (7 at least).

    A row is a review. Its author is not in the data; its user is the movie, of which there are at
    most 30 reviews. The split valid, if there is no file of it, is cut off the training movies.
    The published training and test files have one movie in common. Ids and stars
    of the published files are not used; the stars would give the label away.
    """

    name: ClassVar[str] = "imdb"
    title: ClassVar[str] = "IMDB film reviews"
    source: ClassVar[str] = (
        "Maas et al., Learning Word Vectors for Sentiment Analysis, ACL 2011, section 4.1"
    )
    Params = IMDBParams

    def read(self) -> Corpus:
        """The corpus; splits without a file are cut off the training movies.

        Raises:
            InputError: for a missing, malformed or empty file, and see `add_entities`.
        """
        records, split = read_splits(find_splits(self.params.path, self.name), FIELDS, self.name)
        labels, movies, texts = zip(*records, strict=True)
        user, names = named_users(movies)
        corpus = Corpus(
            texts=tuple(break_lines(text, self.params.line_breaks) for text in texts),
            groups={"user": user},
            split=split,
            labels=class_ids(labels, LABELS, self.name, "label"),
            label_names=LABELS,
            user_names=names,
        )
        return add_entities(cut_missing_splits(corpus, self.params, self.name), self.params)

    def documented(self) -> CorpusStats | None:
        """The published sizes, if all of the published training file is trained on.

        That is with `valid=0` (or a file of its own for valid) and no detector, whose findings
        nobody published.
        """
        files = find_splits(self.params.path, self.name)
        cut = "test" not in files or ("valid" not in files and self.params.valid > 0)
        if cut or self.params.detector != "none":
            return None
        movies = [movie for (movie,) in read_records(files["train"], ("movie",), self.name)]
        if (len(movies), len(set(movies))) != (_ROWS, _USERS):
            return None
        return CorpusStats(users=_USERS, rows=_ROWS, sensitive_rows=0, entities=0, public=True)


def break_lines(text: str, line_breaks: LineBreaks) -> str:
    """The text with each run of `<br />` replaced, or as it is for `markup`."""
    if line_breaks == "markup":
        return text
    return _BREAKS.sub(" " if line_breaks == "space" else "\n", text).strip()
