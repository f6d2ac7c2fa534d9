"""A data set of the Hugging Face hub, or a local folder in its format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from uedp_bench.component import MayBePath
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.files.arrow_columns import MOST_ROWS_HELD, ArrowColumns, is_of_strings
from uedp_bench.files.text_store import CheckedTexts, held_texts
from uedp_bench.requirements import DATASETS, Requirement
from uedp_bench.source import Source
from uedp_bench.tasks.sources.reading.columns import (
    ColumnParams,
    corpus_of_columns,
    undeclared_classes,
)
from uedp_bench.tasks.sources.reading.splits import split_index

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict

_SPLIT = "uedp_bench_split"  # column that says which of the data set's own splits a row is from


class HubParams(ColumnParams):
    """The data set and its columns."""

    path: Annotated[str, MayBePath()] = Field(
        min_length=1,
        description="id on the hub (owner/name), a folder written by save_to_disk, or a folder of "
        "parquet, jsonl or csv files",
    )
    config: str | None = Field(
        default=None, description="configuration of the data set, where it has several"
    )

    def requires(self) -> tuple[Requirement, ...]:
        """The library that reads data sets, and what a detector needs."""
        return (*super().requires(), DATASETS)


class Hub(Source[HubParams]):
    """Rows of a data set with named columns, read by the library `datasets`.

    Its own splits are kept (validation and dev are called valid; splits with other names are left
    out) unless `split_column` is given. What is then missing is cut off the training users, whole
    users at a time. Class names that the data set declares (`ClassLabel`) are used,
    those of lists of tags too.
    """

    name: ClassVar[str] = "hub"
    source: ClassVar[str] = "https://huggingface.co/docs/datasets"
    Params = HubParams

    def undeclared(self) -> frozenset[str]:
        """See `Source`; columns of class numbers (`ClassLabel`) declare their names."""
        features = [part.features for part in self._parts().values()]
        declares = {
            name for name in features[0] if all(getattr(of[name], "names", None) for of in features)
        }
        columns = {name: f"attribute {name}" for name in self.params.attribute_columns}
        if self.params.label_column is not None:
            columns[self.params.label_column] = "labels"
        declared = {what for name, what in columns.items() if name in declares}
        return undeclared_classes(self.params) - declared

    def read(self) -> Corpus:
        """The corpus of the data set.

        Raises:
            InputError: if it cannot be loaded, and see `corpus_of_columns`.
            MissingExtraError: if `datasets` is not installed.
        """
        columns: dict[str, list[Any]] = {}
        declared: dict[str, tuple[str, ...]] = {}
        parts = self._parts()
        params = self.params
        if params.split_column is None:
            params = params.model_copy(update={"split_column": _SPLIT})
        if sum(map(len, parts.values())) > MOST_ROWS_HELD:
            large = ArrowColumns({split: _Part(p) for split, p in parts.items()}, split=_SPLIT)
            first = next(iter(parts.values()))
            if all(set(p.column_names) == set(first.column_names) for p in parts.values()):
                return corpus_of_columns(large, params, self.name, large.declared())
        for at, (split, part) in enumerate(parts.items()):
            if at and set(part.column_names) != set(columns) - {_SPLIT}:
                raise InputError(f"hub: split {split!r} has other columns than {next(iter(parts))}")
            for name in part.column_names:
                values, names = _values(part, name)
                columns.setdefault(name, []).extend(values)
                if names:
                    declared[name] = names
            columns.setdefault(_SPLIT, []).extend([split] * len(part))
        return corpus_of_columns(columns, params, self.name, declared)

    def _parts(self) -> Mapping[str, Dataset]:
        """The splits to use, by name; all of them where a column says what a row is for."""
        data = self._open()
        every = dict(data) if isinstance(data, dict) else {"train": data}
        if self.params.split_column is not None:
            return every
        known = {name: part for name, part in every.items() if _is_split(name)}
        if not known:
            raise InputError(f"hub.path: {self.params.path} has no split train, only {[*every]}")
        return known

    def _open(self) -> DatasetDict | Dataset:
        DATASETS.check()
        import datasets

        params, folder = self.params, Path(self.params.path)
        written = ("dataset_dict.json", "state.json")
        try:
            if any((folder / name).is_file() for name in written):
                return datasets.load_from_disk(str(folder))
            return datasets.load_dataset(params.path, params.config)
        except Exception as error:
            # `datasets` raises errors of many libraries; each means that there is no such data.
            first = (str(error).splitlines() or [""])[0]
            raise InputError(
                f"hub.path: {params.path!r} cannot be loaded: {type(error).__name__}: {first}"
            ) from error


class _Part:
    """A split whose Arrow files `datasets` maps into memory; see `files.arrow_columns.ArrowPart`.

    Args:
        part: the split.
    """

    def __init__(self, part: Dataset) -> None:
        self._part = part
        self.rows, self.names = len(part), tuple(part.column_names)

    def column(self, name: str) -> Any:
        """See `ArrowPart`."""
        return self._part.select_columns([name]).with_format("arrow")[:].column(name)

    def texts(self, name: str) -> CheckedTexts | None:
        """See `ArrowPart`; they stay in the files of the data set."""
        column = self.column(name)
        return held_texts(iter(column.chunks)) if is_of_strings(column.type) else None

    def classes(self, name: str) -> tuple[str, ...]:
        """See `ArrowPart`: those of `ClassLabel`, also in lists."""
        feature = self._part.features[name]
        inner = getattr(feature, "feature", None)
        return tuple(getattr(feature, "names", None) or getattr(inner, "names", None) or ())


def _is_split(name: str) -> bool:
    try:
        split_index(name, "")
    except InputError:
        return False
    return True


def _values(part: Dataset, name: str) -> tuple[list[Any], tuple[str, ...]]:
    """Values of a column, class numbers replaced by their names, and the declared names."""
    values = part.with_format(None)[name][:]
    feature = part.features[name]
    tags = getattr(getattr(feature, "feature", None), "names", None)
    if tags:
        values = [None if row is None else [tags[at] for at in row] for row in values]
    names = tuple(getattr(feature, "names", None) or ())
    if names:
        values = [None if value is None or value < 0 else names[value] for value in values]
    return list(values), names
