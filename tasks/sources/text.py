"""Any csv, tsv, jsonl, parquet or CoNLL file with named columns."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import Field, field_validator

from uedp_bench.api import SPLITS, Corpus, InputError, Source, equals
from uedp_bench.data.tables import ENDINGS as TABLES
from uedp_bench.data.tables import Columns, FileColumns, Layout, ending_of, read_table
from uedp_bench.data.text_files import Quoting
from uedp_bench.io.files import UTF_8, shown_path
from uedp_bench.tasks.sources.reading.columns import (
    ColumnParams,
    corpus_of_columns,
    named_columns,
    undeclared_classes,
)
from uedp_bench.tasks.sources.reading.files import (
    DOCUMENT,
    ENDINGS,
    SPLIT,
    FileFormat,
    joined,
    read_tokens,
)
from uedp_bench.tasks.sources.reading.splits import ALIASES


class TextFileParams(ColumnParams):
    """The file and its columns."""

    path: Path = Field(
        description="file ending in .csv, .tsv, .jsonl, .ndjson, .json, .txt, .pubtator, "
        ".conll, .bio, .iob, .iob2 (each plain or .gz) or .parquet; or a folder with one a split: "
        "train, valid (or dev), test, public"
    )
    file_format: FileFormat | None = Field(
        default=None,
        exclude_if=equals(None),
        description="what the file is, whatever its ending says: csv and tsv with a header, an "
        "object a line (jsonl), a list of objects (json), parquet, a token a line (conll), a "
        "text a line (lines, whose column is called text), pubtator, or brat (path is a folder of "
        "NAME.txt and NAME.ann); the last two have columns id, text and entities",
    )
    encoding: str = Field(
        default="utf-8",
        exclude_if=equals("utf-8"),
        description="encoding of the file's text, by its name in Python: utf-8 (with or without a "
        "byte order mark), cp1252, latin-1, utf-16",
    )
    delimiter: str | None = Field(
        default=None,
        exclude_if=equals(None),
        min_length=1,
        max_length=1,
        description="between the fields of a line of csv or tsv, such as ';'; by default a comma "
        "or a tab",
    )
    quoting: Quoting | None = Field(
        default=None,
        exclude_if=equals(None),
        description="double quotes in csv and tsv. standard: a field may stand in them (RFC 4180); "
        "none: they are text. By default standard, and a file that may have none is refused",
    )
    token_columns: tuple[str, ...] = Field(
        default=(),
        exclude_if=equals(()),
        description="names of the columns of a file in CoNLL layout (.conll, .bio, .iob, .iob2), "
        "the tokens first; by default the first is token and the last gold",
    )

    @field_validator("encoding")
    @classmethod
    def _check_encoding(cls, value: str) -> str:
        try:
            "".encode(value)
        except (LookupError, ValueError):
            raise ValueError("Python has no text encoding of this name") from None
        return value


class TextFile(Source[TextFileParams]):
    """Rows of a file with named columns.

    csv and tsv have a header, and their empty fields are nulls; jsonl has one object a line, and
    fields of objects within it are columns with a dot in their name; a file in CoNLL layout has a
    token and its tags a line, and a blank line after a sentence; text is UTF-8 unless `encoding`
    says otherwise. Splits that the files do not have are cut off the training users, whole users at
    a time.
    """

    name: ClassVar[str] = "text"
    source: ClassVar[str] = "a file of the user"
    Params = TextFileParams

    def undeclared(self) -> frozenset[str]:
        """See `Source`."""
        return undeclared_classes(self.params)

    def read(self) -> Corpus:
        """The corpus of the file.

        Raises:
            InputError: for a missing or malformed file, and see `corpus_of_columns`.
        """
        params = self.params
        if params.path.is_dir() and params.file_format != "brat":
            files = _of_splits(params.path, f"{self.name}.path")
            columns: Columns = joined(
                {split: read_columns(file, params, self.name) for split, file in files.items()}
            )
            params = params.model_copy(update={"split_column": params.split_column or SPLIT})
        else:
            columns = read_columns(params.path, params, self.name)
        if isinstance(columns, FileColumns) and columns.by_word:
            params = _of_tokens(params, columns)
        return corpus_of_columns(columns, params, self.name)


def _of_splits(folder: Path, parameter: str) -> dict[str, Path]:
    """The file of each split that a folder has, by the beginning of its name.

    Raises:
        InputError: if none is of the training split, or two are of one split.
    """
    files: dict[str, Path] = {}
    for file in sorted(folder.iterdir()):
        split = ALIASES.get(file.name.partition(".")[0].lower())
        if split is None or ending_of(file) not in {*ENDINGS, *TABLES}:
            continue
        if split in files:
            raise InputError(
                f"{parameter}: {shown_path(folder)} has two files of the split {split}: "
                f"{files[split].name} and {file.name}"
            )
        files[split] = file
    if "train" not in files:
        pairs = next(folder.glob("*.ann"), None) is not None
        hint = f"; {parameter.removesuffix('.path')}.file_format=brat reads pairs of .txt and .ann"
        raise InputError(
            f"{parameter}: {shown_path(folder)} has no file train.*, of a kind that this source "
            f"reads: {', '.join(sorted({*ENDINGS, *TABLES}))}{hint if pairs else ''}"
        )
    return {split: files[split] for split in SPLITS if split in files}


def _of_tokens(params: TextFileParams, columns: Columns) -> TextFileParams:
    """Defaults for a file in CoNLL layout: all its columns of tags are layers."""
    token, *tags = (name for name in columns if name not in (DOCUMENT, SPLIT))
    defaults = {
        "tokens_column": params.tokens_column or token,
        "layer_columns": params.layer_columns or tuple(tags),
    }
    return params.model_copy(update=defaults)


def read_columns(path: Path, params: TextFileParams, owner: str) -> Columns:
    """The columns of a file, whose format is in its ending unless the parameters name it.

    Args:
        path: the file.
        params: format of the file.
        owner: the source, for messages.

    Raises:
        InputError: if the file is missing, of an unknown format or malformed.
    """
    kind, named = ending_of(path), params.file_format
    parameter = f"{owner}.path"
    encoding = UTF_8 if params.encoding.lower() in ("utf-8", "utf8") else params.encoding
    if named == "conll" or (named is None and kind in ENDINGS):
        return read_tokens(path, params.token_columns, parameter, encoding)
    if named is not None or kind in TABLES:
        layout = Layout(named, encoding, params.delimiter, params.quoting)
        return read_table(path, parameter, layout, {*named_columns(params).values()})
    if not path.exists():
        raise InputError(f"{parameter}: no such file: {shown_path(path)}")
    raise InputError(
        f"{parameter}: {shown_path(path)} must end in {', '.join(sorted(TABLES))} or, in CoNLL "
        f"layout, {', '.join(sorted(ENDINGS))}; or say what it is: {owner}.file_format"
    )
