"""WikiPII: pages of Wikipedia about living people, annotated by a program."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, InputError, Layer, Mention, Source, SourceParams, Spans
from uedp_bench.corpus import names_of_ids
from uedp_bench.errors import shown
from uedp_bench.io.files import MOST_RATIO, MOST_UNPACKED, open_regular, shown_path
from uedp_bench.tasks.sources.reading.annotations import places_of
from uedp_bench.tasks.sources.reading.files import require_path
from uedp_bench.tasks.sources.reading.tag_schemes import iob_spans
from uedp_bench.text.automatic_annotation import AUTOMATIC

Type = Literal["BD", "PR", "SP", "CH", "ED", "BP"]
KNOWN: tuple[Type, ...] = ("BD", "PR", "SP", "CH", "ED", "BP")
FOLDERS: dict[str, str] = {"training": "train", "eval": "valid", "test": "test"}
"""Names of the authors' folders, and what these splits are called here."""


class WikiPIIParams(SourceParams):
    """Files of the data."""

    path: Path = Field(
        description="the authors' archive wikiner_dataset_txt.tar.gz, or the folder that it "
        "unpacks to: files training/PAGE/annot_csv_NUMBER.csv.txt, and so in eval and test"
    )
    types: tuple[Type, ...] = Field(
        default=KNOWN[:5],
        min_length=1,
        description="tags that are kept; the paper leaves out birth places (BP)",
    )
    only_marked_rows: bool = Field(
        default=True, description="leave out sentences without a mark, as in the paper"
    )


class Sentence(NamedTuple):
    """A sentence of a page: its words and their tags."""

    words: tuple[str, ...]
    tags: tuple[str, ...]


class WikiPII(Source[WikiPIIParams]):
    """Sentences of biographies, with tags that the infobox of the page found in them.

    A row is a sentence, its text the words joined by single spaces; a user is a page, and so one
    person. The tags are the layer `automatic`, and count as entities. There are no labels by
    people in these files, and no records.
    """

    name: ClassVar[str] = "wikipii"
    title: ClassVar[str] = "WikiPII"
    source: ClassVar[str] = (
        "Hathurusinghe, Nejadgholi and Bolic, A Privacy-Preserving Approach to Extraction of "
        "Personal Information through Automatic Annotation and Federated Learning, PrivateNLP 2021"
    )
    Params = WikiPIIParams

    def read(self) -> Corpus:
        """The corpus with the splits train, valid and test, as far as the files have them.

        Raises:
            InputError: for a missing file, a folder without pages, or a tag that is not IOB of a
                known type.
        """
        texts: list[str] = []
        owners: list[tuple[int, int]] = []
        mentions: list[Mention] = []
        types = self.params.types
        pages = self._pages()
        for user, (split, name, page) in enumerate(pages):
            for sentence in read_sentences(page, f"{self.name}.path: {name}"):
                marks = [
                    (len(texts), start, end, types.index(kind))
                    for start, end, kind in iob_spans(places_of(sentence.words), sentence.tags)
                    if kind in types
                ]
                if marks or not self.params.only_marked_rows:
                    mentions += marks
                    texts.append(" ".join(sentence.words))
                    owners.append((user, split))
        if not texts:
            raise InputError(f"{self.name}.path: {shown_path(self.params.path)} has no sentence "
                             "with a mark")  # fmt: skip
        users, splits = np.array(owners, dtype=np.int64).T.copy()
        spans = Spans.build(texts, mentions)
        return Corpus(
            texts=tuple(texts),
            groups={"user": users},
            split=splits,
            entities=spans,
            entity_types=types,
            layers={AUTOMATIC: Layer(spans, types, np.ones(len(texts), dtype=bool))},
            user_names=names_of_ids("user", [_page_name(name) for _, name, _ in pages]),
        )

    def _pages(self) -> list[tuple[int, str, str]]:
        """Split, name and text of every page, by split and the number in its name."""
        path = require_path(self.params.path, self.name)
        files = _of_folder(path) if path.is_dir() else _of_archive(path, f"{self.name}.path")
        pages = []
        for name, data in files:
            parts = PurePosixPath(name).parts
            split = next((FOLDERS[part] for part in parts[:-1] if part in FOLDERS), None)
            if split is None or not (parts[-1].startswith("annot") and name.endswith(".txt")):
                continue
            number = parts[-1].rpartition("_")[2].partition(".")[0]
            order = (SPLITS.index(split), int(number) if number.isdecimal() else -1, name)
            try:
                pages.append((order, data.decode("utf-8-sig")))
            except UnicodeDecodeError as error:
                raise InputError(f"{self.name}.path: {shown(name)} is not UTF-8 text: "
                                 f"{error.reason}") from None  # fmt: skip
        if not pages:
            raise InputError(
                f"{self.name}.path: {shown_path(path)} has no page: files annot*.txt in folders "
                f"{', '.join(FOLDERS)}"
            )
        return [(split, name, text) for (split, _, name), text in sorted(pages)]


def _page_name(path: str) -> str:
    """Path of a page from the folder of its split on, wherever that folder is."""
    parts = PurePosixPath(path).parts
    first = next(at for at, part in enumerate(parts) if part in FOLDERS)
    return "/".join(parts[first:])


def read_sentences(page: str, where: str) -> Iterator[Sentence]:
    """Sentences of a page: a word and its tag a line, a blank line after each sentence.

    Lines of one field, and sentences without a line of two, are left out, as by the authors'
    reader. Tags may have `_` for `-`, as the paper prints them.

    Raises:
        InputError: naming page and line, for a tag that is not IOB of a known type.
    """
    words: list[str] = []
    tags: list[str] = []
    for number, line in enumerate([*page.split("\n"), ""], start=1):
        fields = line.split()
        if not fields and words:
            yield Sentence(tuple(words), tuple(tags))
            words, tags = [], []
        if len(fields) < 2:
            continue
        tag = fields[-1].replace("_", "-", 1)
        prefix, _, kind = tag.partition("-")
        if tag != "O" and not (prefix in ("B", "I") and kind in KNOWN):
            raise InputError(
                f"{where}, line {number}: {shown(fields[-1])} is not O, or B- or I- with one of "
                f"{', '.join(KNOWN)}"
            )
        words.append(fields[0])
        tags.append(tag)


def _of_folder(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in sorted(folder.rglob("annot*.txt")):
        with open_regular(file, "wikipii.path") as data:
            yield file.relative_to(folder).as_posix(), data.read()


def _of_archive(path: Path, parameter: str) -> Iterator[tuple[str, bytes]]:
    """Files of an archive, read in place: nothing is unpacked to the disk."""
    where = f"{parameter}: {shown_path(path)}"
    left = max(MOST_UNPACKED, MOST_RATIO * path.stat().st_size)
    try:
        with open_regular(path, parameter) as raw, tarfile.open(fileobj=raw, mode="r|*") as archive:
            for member in archive:
                left -= member.size
                if left < 0:
                    raise InputError(
                        f"{where} unpacks to more than {MOST_RATIO} times its size, as no text does"
                    )
                content = archive.extractfile(member) if member.isfile() else None
                yield member.name, (content or io.BytesIO()).read()
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InputError(
            f"{where} is no folder and no tar archive that can be read: {error}"
        ) from None
