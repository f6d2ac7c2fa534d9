"""Parallel text in plain files: two a split, line by line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from pydantic import Field

from uedp_bench.api import SPLITS, Corpus, InputError, Source, SourceParams
from uedp_bench.api.text import named_users
from uedp_bench.io.files import shown_path
from uedp_bench.tasks.sources.reading.files import parallel_corpus, read_lines, read_pairs
from uedp_bench.text.comparison import Pair

_NAMES = {"train": ("train",), "valid": ("valid", "dev"), "test": ("test",), "public": ("public",)}
_ENDINGS = ("de", "en")
"""Endings of the files of texts and of their translations."""


class ParallelTextParams(SourceParams):
    """Folder of the files, and their name."""

    path: Path = Field(
        description="folder with two files a split, train.de of texts and train.en of their "
        "translations, whatever the languages are (plain or .gz; splits train, valid or dev, test, "
        "public): line n of one is the translation of line n of the other. A third file, "
        "train.doc, may name the document of each line: documents are users, and one whose lines "
        "are in several splits is one user"
    )
    clean: bool = Field(
        default=False,
        description="leave out pairs whose translation contains the whole text; `uedp-bench data "
        "describe` counts them",
    )


class ParallelText(Source[ParallelTextParams]):
    """Pairs of lines in two languages, with documents as users where a file names them.

    Without a file of documents, rows have no user: mechanisms protect records.
    """

    name: ClassVar[str] = "parallel-text"
    source: ClassVar[str] = "files of the user"
    Params = ParallelTextParams

    def read(self) -> Corpus:
        """The corpus of the folder.

        Raises:
            InputError: if files are missing, or have other numbers of lines than their partners.
        """
        p, parameter = self.params, f"{self.name}.path"
        pairs: list[Pair] = []
        split: list[int] = []
        documents: list[str | None] = []
        for name in SPLITS:
            sides = self._files(name)
            if sides is None:
                continue
            file_pairs = read_pairs(*sides, parameter)
            pairs += file_pairs
            split += [SPLITS.index(name)] * len(file_pairs)
            documents += self._documents(sides[0], len(file_pairs))
        if SPLITS.index("train") not in split:
            raise InputError(f"{parameter}: {shown_path(p.path)} has no train.de and train.en")
        blank = self._named_by_content(pairs, split, documents)
        users, names = named_users(documents)
        corpus = parallel_corpus(pairs, split, users.tolist(), parameter, clean=p.clean)
        names.of_content = blank
        return replace(corpus, user_names=names)

    @staticmethod
    def _named_by_content(
        pairs: Sequence[Pair], split: Sequence[int], documents: list[str | None]
    ) -> bool:
        """Names documents of one line, whose name is blank, by what they say; True if any is."""
        before: Counter[str] = Counter()
        for row, name in enumerate(documents):
            if name == "":
                content = "\n".join((SPLITS[split[row]], *pairs[row]))  # no name has a line break
                documents[row] = f"{content}\n{before[content]}"
                before[content] += 1
        return bool(before)

    def _files(self, split: str) -> tuple[Path, Path] | None:
        """Both files of a split; None where it has none.

        Raises:
            InputError: if one of the two is missing.
        """
        for name in _NAMES.get(split, ()):
            sides = [_plain_or_packed(self.params.path / f"{name}.{end}") for end in _ENDINGS]
            present = [side for side in sides if side is not None]
            if len(present) == 1:
                missing = _ENDINGS[1 if sides[0] is not None else 0]
                raise InputError(
                    f"{self.name}.path: {shown_path(present[0])} has no {name}.{missing} beside it"
                )
            if present:
                return present[0], present[1]
        return None

    def _documents(self, text: Path, lines: int) -> list[str | None]:
        """(lines,) name of the document of each line; None where there is no file of documents.

        A name stands for one document in all splits. A blank line is a document of its own.
        """
        name = text.name.partition(".")[0]
        file = _plain_or_packed(text.with_name(f"{name}.doc"))
        if file is None:
            return [None] * lines
        names = read_lines(file, f"{self.name}.path")
        if len(names) != lines:
            raise InputError(
                f"{self.name}.path: {shown_path(file)} names the documents of {len(names)} lines, "
                f"and {shown_path(text)} has {lines}"
            )
        return [*names]


def _plain_or_packed(path: Path) -> Path | None:
    for candidate in (path, path.with_name(f"{path.name}.gz")):
        if candidate.is_file():
            return candidate
    return None
