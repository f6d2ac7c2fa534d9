"""BC5CDR: abstracts of medical articles with chemicals and diseases."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, InputError, Mention, Source, SourceParams, Spans, equals
from uedp_bench.corpus import with_documents
from uedp_bench.errors import shown
from uedp_bench.io.files import shown_path
from uedp_bench.tasks.sources.reading.annotations import places_of
from uedp_bench.tasks.sources.reading.files import DOCUMENT, find_file, place_of, read_tokens
from uedp_bench.tasks.sources.reading.tag_schemes import iob_spans

TYPES: tuple[str, ...] = ("Chemical", "Disease")
FILES: dict[str, tuple[str, ...]] = {
    "train": ("train.tsv", "train.bio", "train.conll"),
    "valid": ("devel.tsv", "dev.tsv", "dev.bio", "valid.conll"),
    "test": ("test.tsv", "test.bio", "test.conll"),
}

RUNS = "neighbours differ in whole simulated users: a user is a run of sentences in the file"
"""Assumption of guarantees."""

_TAG = re.compile(rf"O|[BI]-(?:{'|'.join(TYPES)})")


class BC5CDRParams(SourceParams):
    """Files of the data, and sentences that count as one user's."""

    path: Path = Field(
        description="folder with train.tsv, devel.tsv and test.tsv (plain or .gz): a token and its "
        "IOB tag a line, a blank line after a sentence"
    )
    valid_is_public: bool = Field(
        default=True,
        description="declare the development sentences public: vocabulary and reference models "
        "come from them; they become the split 'public'",
    )
    train_on: Literal["train", "devel"] = Field(
        default="train",
        exclude_if=equals("train"),
        description="file whose sentences are the split train; those of the other are the split "
        "valid. One can be text to pre-train on, and the other annotated sentences beside it",
    )
    sentences_per_user: int = Field(
        default=9,
        ge=1,
        description="where a file does not mark documents by -DOCSTART-, this many sentences in a "
        "row count as one user's: the 500 abstracts of a file have about nine each",
    )


class BC5CDR(Source[BC5CDRParams]):
    """Sentences about chemicals and the diseases that they cause.

    A user is a document, which stands as the group `document` too, where the files mark documents.
    The files in circulation do not: then a user is a run of sentences, which may begin in the midst
    of an abstract. What is measured per user there is measured for simulated users.
    """

    name: ClassVar[str] = "bc5cdr"
    title: ClassVar[str] = "BC5CDR (chemicals and diseases)"
    source: ClassVar[str] = (
        "Li et al., BioCreative V CDR task corpus: a resource for chemical disease relation "
        "extraction, Database 2016"
    )
    Params = BC5CDRParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test (and public, where asked for).

        Raises:
            InputError: for a missing file, or a tag that is not IOB of one of the two types.
        """
        texts: list[str] = []
        users: list[int] = []
        splits: list[int] = []
        mentions: list[Mention] = []
        swapped = {"train": "valid", "valid": "train"} if self.params.train_on == "devel" else {}
        marked = True
        for split in FILES:
            file = find_file(self.params.path, FILES[swapped.get(split, split)], self.name)
            first = max(users, default=-1) + 1
            sentences, documents = self._sentences(file)
            marked &= documents
            for user, tokens, tags in sentences:
                for start, end, kind in iob_spans(places_of(tokens), tags):
                    mentions.append((len(texts), start, end, TYPES.index(kind)))
                texts.append(" ".join(tokens))
                users.append(first + user)
                splits.append(SPLITS.index(split))
        ids = np.array(users, dtype=np.int64)
        corpus = Corpus(
            texts=tuple(texts),
            groups={"user": ids, "document": ids},
            split=np.array(splits, dtype=np.int64),
            entities=Spans.build(texts, mentions),
            entity_types=TYPES,
        )
        return with_documents(corpus) if marked else replace(corpus, quotas=(RUNS,))

    def _sentences(self, file: Path) -> tuple[list[tuple[int, list[str], list[str]]], bool]:
        """User (from 0 in its file), tokens and tags of each sentence; True if files mark users."""
        columns = read_tokens(file, (), f"{self.name}.path")
        sentences = []
        size = self.params.sentences_per_user
        documents = columns.get(DOCUMENT)
        for row, (tokens, tags) in enumerate(zip(columns["token"], columns["gold"], strict=True)):
            for word, tag in enumerate(tags):
                if not _TAG.fullmatch(tag):
                    raise InputError(
                        f"{place_of(columns, row, self.name, word)}: {shown(tag)} is not O, or B- "
                        f"or I- with one of {', '.join(TYPES)}"
                    )
            user = row // size if documents is None else int(documents[row])
            sentences.append((user, tokens, tags))
        if not sentences:
            raise InputError(f"{self.name}.path: {shown_path(file)} holds no sentence")
        return sentences, documents is not None
