"""CoNLL-2003: English newswire with gold entities; a document is a user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, CorpusStats, InputError, Source, SourceParams, Spans
from uedp_bench.api.text import open_text
from uedp_bench.corpus import with_documents
from uedp_bench.tasks.sources.reading.annotations import places_of
from uedp_bench.tasks.sources.reading.files import find_file
from uedp_bench.tasks.sources.reading.tag_schemes import iob_spans

EntityType = Literal["LOC", "MISC", "ORG", "PER"]
ENTITY_TYPES: tuple[EntityType, ...] = ("LOC", "MISC", "ORG", "PER")
FILES: dict[str, str] = {"train": "eng.train", "valid": "eng.testa", "test": "eng.testb"}

_USERS, _ROWS = 946, 14_041
_ENTITIES: dict[str, int] = {"LOC": 1_106, "MISC": 798, "ORG": 2_312, "PER": 3_531}
# Sentences of the published training file that mention one of these types.
_SENSITIVE: dict[str, int] = {
    "LOC": 5_127, "MISC": 2_698, "ORG": 4_587, "PER": 4_373, "LOC MISC": 6_756, "LOC ORG": 8_581,
    "LOC PER": 7_387, "MISC ORG": 6_608, "MISC PER": 6_153, "ORG PER": 7_792,
    "LOC MISC ORG": 9_824, "LOC MISC PER": 8_566, "LOC ORG PER": 10_202, "MISC ORG PER": 9_167,
    "LOC MISC ORG PER": 11_132,
}  # fmt: skip


class CoNLL2003Params(SourceParams):
    """Files of the data, and types that count as entities."""

    path: Path = Field(description="folder with eng.train, eng.testa, eng.testb (plain or .gz)")
    valid_is_public: bool = Field(
        default=True,
        description="declare the development documents (testa) public: vocabulary and reference "
        "models come from them; they become the split 'public'",
    )
    entity_types: tuple[EntityType, ...] = Field(
        default=ENTITY_TYPES,
        min_length=1,
        description="types that count as entities; the others are plain text",
    )


class Sentence(NamedTuple):
    """One sentence: its document (from 0 in its file) and its tokens with their IOB tags."""

    document: int
    tokens: tuple[str, ...]
    tags: tuple[str, ...]


class CoNLL2003(Source[CoNLL2003Params]):
    """The column files of the shared task: train, valid (testa) and test (testb).

    A row is a sentence, its text the tokens joined by single spaces. A document is a user (there
    are no authors) and stands as the group `document` too. Entity types: LOC, MISC, ORG, PER.
    """

    name: ClassVar[str] = "conll2003"
    title: ClassVar[str] = "CoNLL-2003"
    source: ClassVar[str] = (
        "Tjong Kim Sang and De Meulder, Introduction to the CoNLL-2003 shared task, CoNLL 2003"
    )
    Params = CoNLL2003Params

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test (and public, where asked for).

        Raises:
            InputError: for a missing file, a tag that is not IOB, or text outside documents.
        """
        texts: list[str] = []
        users: list[int] = []
        splits: list[int] = []
        mentions: list[tuple[int, int, int, int]] = []
        types = self._types()
        documents = 0
        for split, name in FILES.items():
            last = -1
            for last, tokens, tags in read_sentences(self._file(name)):
                for start, end, kind in iob_spans(places_of(tokens), tags):
                    if kind in types:
                        mentions.append((len(texts), start, end, types.index(kind)))
                texts.append(" ".join(tokens))
                users.append(documents + last)
                splits.append(SPLITS.index(split))
            documents += last + 1
        user = np.array(users, dtype=np.int64)
        corpus = Corpus(
            texts=tuple(texts),
            groups={"user": user, "document": user},
            split=np.array(splits, dtype=np.int64),
            entities=Spans.build(texts, mentions),
            entity_types=types,
        )
        return with_documents(corpus)

    def documented(self) -> CorpusStats | None:
        """The published sizes, if the training file is the whole published one."""
        sentences = list(read_sentences(self._file(FILES["train"])))
        if (len(sentences), len({sentence.document for sentence in sentences})) != (_ROWS, _USERS):
            return None
        types = self._types()
        return CorpusStats(
            users=_USERS,
            rows=_ROWS,
            sensitive_rows=_SENSITIVE[" ".join(types)],
            entities=sum(_ENTITIES[kind] for kind in types),
            public=True,
        )

    def _types(self) -> tuple[str, ...]:
        return tuple(sorted(set(self.params.entity_types)))

    def _file(self, name: str) -> Path:
        return find_file(self.params.path, (name,), self.name)


def read_sentences(file: Path) -> Iterator[Sentence]:
    """Sentences of a column file: token first, IOB tag last, a blank line after each sentence.

    Documents without a sentence are not counted.

    Raises:
        InputError: naming file and line, for a tag that is not IOB or of an unknown type, or text
            before the first `-DOCSTART-`.
    """
    document, pending = -1, False
    tokens: list[str] = []
    tags: list[str] = []
    with open_text(file, "conll2003.path") as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.split()
            starts = bool(columns) and columns[0] == "-DOCSTART-"
            if (starts or not columns) and tokens:
                yield Sentence(document, tuple(tokens), tuple(tags))
                tokens, tags = [], []
            if starts:
                pending = True
            elif columns:
                _check(columns, f"{file}, line {number}")
                if pending:
                    document, pending = document + 1, False
                if document < 0:
                    raise InputError(f"{file}, line {number}: text before the first -DOCSTART-")
                tokens.append(columns[0])
                tags.append(columns[-1])
    if tokens:
        yield Sentence(document, tuple(tokens), tuple(tags))


def _check(columns: list[str], where: str) -> None:
    prefix, _, kind = columns[-1].partition("-")
    outside = prefix == "O" and not kind
    if len(columns) < 2 or not (outside or (prefix in {"B", "I"} and kind in ENTITY_TYPES)):
        raise InputError(
            f"{where}: {columns[-1]!r} is not an IOB tag; the last column must be O, or B- or I- "
            f"with one of {', '.join(ENTITY_TYPES)}"
        )
