"""A data set of the Hugging Face hub, or a local folder in its format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import Field

from uedp_bench.api import Corpus, InputError, MayBePath, Requirement, Source
from uedp_bench.components.component import DATASETS
from uedp_bench.data.table_columns import MOST_ROWS_HELD, ArrowColumns
from uedp_bench.data.tables import Columns
from uedp_bench.tasks.sources.reading.columns import (
    ColumnParams,
    corpus_of_columns,
    named_columns,
    undeclared_classes,
)
from uedp_bench.tasks.sources.reading.files import SPLIT, joined
from uedp_bench.tasks.sources.reading.splits import ALIASES

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


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
        parts, params = self._parts(), self.params
        first, *others = parts
        for split in others:
            if {*parts[split].column_names} != {*parts[first].column_names}:
                raise InputError(f"hub: split {split!r} has other columns than {first}")
        wanted = {*named_columns(params).values()}
        if params.split_column is None:
            params = params.model_copy(update={"split_column": SPLIT})
        is_large = sum(map(len, parts.values())) > MOST_ROWS_HELD
        tables: dict[str, Columns] = {}
        for split, part in parts.items():
            names = part.column_names
            selected = [name for name in names if name in wanted] if is_large else names
            table = _table(part, selected or names)
            tables[split] = ArrowColumns(table, names) if is_large else table.to_pydict()
        declared = {name: _classes(of) for name, of in parts[first].features.items()}
        return corpus_of_columns(joined(tables), params, self.name, declared)

    def _parts(self) -> Mapping[str, Dataset]:
        """The splits to use, by name; all of them where a column says what a row is for."""
        data = self._open()
        every = dict(data) if isinstance(data, dict) else {"train": data}
        if self.params.split_column is not None:
            return every
        splits = {name: part for name, part in every.items() if name.strip().lower() in ALIASES}
        if not splits:
            raise InputError(f"hub.path: {self.params.path} has no split train, only {[*every]}")
        return splits

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


def _table(part: Dataset, names: list[str]) -> Any:
    """Columns of a split, numbers of classes replaced by their names, in lists too."""
    import pyarrow as pa
    import pyarrow.compute as pc

    table = part.select_columns(names).with_format("arrow")[:]
    for at, name in enumerate(names):
        column, feature = table.column(name), part.features[name]
        classes, of_lists = _classes(feature), _classes(getattr(feature, "feature", None))
        if classes:
            table = table.set_column(at, name, _named(column, classes))
        elif of_lists:
            column = column.combine_chunks()
            lengths = pc.list_value_length(column).fill_null(0).to_numpy()
            lists = pa.ListArray.from_arrays(
                np.append(0, lengths.cumsum()).astype(np.int32),
                _named(column.flatten(), of_lists),
                mask=column.is_null(),
            )
            table = table.set_column(at, name, lists)
    return table


def _classes(feature: Any) -> tuple[str, ...]:
    return tuple(getattr(feature, "names", None) or ())


def _named(numbers: Any, classes: tuple[str, ...]) -> Any:
    """Names of classes by their numbers; a number below 0 is a null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.take(pa.array(classes), pc.if_else(pc.less(numbers, 0), None, numbers))
