"""Learner and release of a task: a network with the reader that makes batches and losses."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from uedp_bench.components.component import named
from uedp_bench.contracts.learner import (
    Batch,
    Learner,
    Losses,
    Schedule,
    TrainedRelease,
    example_ids,
    row_seeds,
)
from uedp_bench.contracts.model import TextEncoder, load_weights, save_weights
from uedp_bench.corpus import BoolArray, Corpus, FloatArray, IntArray, some_texts
from uedp_bench.errors import InputError, UedpBenchError
from uedp_bench.tasks.tokens.rows import Columns, EncodedRows, TextRows, encoded_rows

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.contracts.learner import RowLengths

_VOCABULARY, _WEIGHTS = "vocabulary", "weights.pt"
_NOT_SAVED = ("model", "vocabulary", "device")


@dataclass(frozen=True, eq=False, kw_only=True)
class Reader(ABC):
    """Reading of rows by a network, in training and in questions to its release; and its loss.

    Its fields are saved with the network. A subclass that adds some is a dataclass of this kind,
    and fields that are called as parameters of the task have their values.

    Attributes:
        model: model that makes the network.
        vocabulary: tokens of the model; None where a task without one says so.
        max_tokens: most tokens of a row; None for any number.
        score_rows: most rows that the release answers about at once.
        device: torch device on which a frozen encoder computes.
        FILE: name of the file beside a saved network.
        needs_vocabulary: False for networks that may read vectors.
        similar: rows of similar length are computed side by side, see `Learner.row_lengths`.
        sized: columns whose lengths add up to that of a row.
    """

    model: Any = field(kw_only=False)
    vocabulary: Any = field(kw_only=False)
    max_tokens: int | None = None
    score_rows: int = 512
    device: str = "cpu"

    FILE: ClassVar[str] = "release.json"
    needs_vocabulary: ClassVar[bool] = True
    similar: ClassVar[bool] = False
    sized: ClassVar[tuple[str, ...]] = ("tokens",)

    def __post_init__(self) -> None:
        if self.vocabulary is None and self.needs_vocabulary:
            raise InputError(
                f"{type(self).__name__}: the network needs a vocabulary, and the model "
                f"{self.model.name} has none here: train the model instead of freezing it"
            )

    @abstractmethod
    def read(self, corpus: Corpus) -> Mapping[str, Any]:
        """Columns of rows by name: arrays with an entry a row, or token rows (`framed`).

        An entry depends on its own row alone.
        """

    @abstractmethod
    def network(self, seed: int, head_seed: int) -> nn.Module:
        """The network on the CPU.

        Args:
            seed: seed of the model's weights.
            head_seed: seed of layers on top of it.
        """

    @abstractmethod
    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """See `Learner.losses`."""

    def scorable(self, corpus: Corpus) -> BoolArray:
        """(rows,) True where a row has what is learnt: a label, by default."""
        labels = corpus.labels
        return np.zeros(len(corpus), dtype=bool) if labels is None else np.asarray(labels >= 0)

    def prepared(self, corpus: Corpus) -> Corpus:
        """The corpus as its learner shows it to mechanisms and attacks."""
        return corpus

    def examples(self, corpus: Corpus) -> Mapping[str, Any]:
        """Columns of made-up rows for `Learner.example_batch`.

        By default they are read from texts of random tokens, each its own target, with random
        labels and attributes.

        Args:
            corpus: rows whose numbers must not be in them.
        """
        rng = np.random.default_rng(0)
        ids = example_ids(self.vocabulary.size, self.room)
        texts, rows = tuple(map(self.vocabulary.decode, ids)), np.arange(len(ids))
        names = corpus.attribute_names
        example_corpus = Corpus(
            texts,
            {"user": rows},
            np.zeros_like(rows),
            labels=rng.integers(max(1, len(corpus.label_names)), size=len(ids)),
            label_names=corpus.label_names,
            attributes={k: rng.integers(max(1, len(v)), size=len(ids)) for k, v in names.items()},
            attribute_names=names,
            targets=texts,
        )
        return self.read(example_corpus)

    def batch(self, columns: Mapping[str, Any], rows: IntArray, seeds: IntArray) -> dict[str, Any]:
        """Arrays of some rows: tokens (rows, longest) are padded, `lengths` (rows,) counts them.

        Args:
            columns: encoded rows.
            rows: (rows,) numbers of those that are asked for.
            seeds: (rows,) seeds of what is random about each; the batch holds them as `seeds`.
        """
        out: dict[str, Any] = {}
        for name, column in columns.items():
            if isinstance(column, TextRows):
                out[name] = column.table(rows, self.padding)
                if name == "tokens":
                    out["lengths"] = column.lengths[rows]
            else:
                out[name] = column[rows]
        return {**out, "seeds": seeds}

    def row_size(self, columns: Columns, longest: int, module: nn.Module) -> int:
        """Numbers in the largest tensor that one row needs; see `Learner`.

        Args:
            columns: encoded rows.
            longest: tokens of the longest row.
            module: the network.
        """
        widths = [int(part.width) for part in module.modules() if hasattr(part, "width")]  # type: ignore[arg-type]
        width = max(widths, default=1)
        encoder = isinstance(self.model, TextEncoder)
        return int(self.model.row_numbers(longest, width)) if encoder else longest * width

    def truncated(self, columns: Columns, corpus: Corpus) -> int | None:
        """Rows of a corpus that lost tokens to a limit; None where nobody counts them."""
        return None if corpus.stored else columns.truncated

    @property
    def vectorised(self) -> bool:
        """See `Learner`."""
        return bool(self.model.vectorised)

    @property
    def padding(self) -> int:
        """Token id that fills rows up; networks do not look at it."""
        return 0 if self.vocabulary is None else int(self.vocabulary.end)

    @property
    def limit(self) -> int | None:
        """Most tokens of a row with its begin and its end; None for any number."""
        limits = (self.max_tokens, self.model.max_length())
        return min((value for value in limits if value is not None), default=None)

    @property
    def room(self) -> int | None:
        """Most tokens between the begin and the end of a row; None for any number."""
        return None if self.limit is None else self.limit - 2

    def framed(self, texts: Sequence[str]) -> TextRows:
        """Tokens of texts, each row with a begin and an end."""
        return TextRows.framed(self.vocabulary.encode(texts), self.vocabulary, self.room)

    def encoded(self, corpus: Corpus) -> tuple[EncodedRows, RowLengths]:
        """Rows as the network reads them, and their lengths; few of a file are in memory."""
        return encoded_rows(corpus, partial(self.columns_of, corpus))

    def columns_of(self, corpus: Corpus, rows: IntArray) -> Columns:
        """Columns of some different rows, in order."""
        if len(rows) < len(corpus) or corpus.stored:
            corpus = self.in_memory(corpus, rows)
        return Columns(self.read(corpus), self.sized)

    @staticmethod
    def in_memory(corpus: Corpus, rows: IntArray) -> Corpus:
        """Some rows with their texts in memory, for which a file is read once."""
        sides = {"texts": corpus.texts, "targets": corpus.targets}
        held = {n: tuple(some_texts(each, rows)) for n, each in sides.items() if each is not None}
        return replace(corpus.take(rows), **held)  # type: ignore[arg-type]

    def learner(
        self, module: nn.Module, corpus: Corpus, schedule: Schedule | None = None
    ) -> SupervisedLearner:
        """The learner of some rows; see `SupervisedLearner`."""
        return SupervisedLearner(self, module, corpus, schedule)

    def release(self, module: nn.Module) -> SupervisedRelease:
        """Release of a network; predictions of each row by default."""
        return PredictingRelease(self, module)

    def save_network(self, module: nn.Module, folder: Path) -> None:
        """Writes one network into a folder; all of its weights by default."""
        save_weights(module, folder / _WEIGHTS)

    def load_network(self, folder: Path) -> nn.Module:
        """The network that `save_network` wrote, on the CPU."""
        return load_weights(self.network(0, 0), folder / _WEIGHTS)

    @classmethod
    def load(cls, folder: Path) -> Any:
        """The release that `SupervisedRelease.save` wrote, on the CPU.

        Raises:
            InputError: if the folder has none, or lacks its vocabulary.
        """
        from uedp_bench.components.registry import models
        from uedp_bench.models.networks.modules import load_modules

        if not (file := folder / cls.FILE).is_file():
            raise InputError(f"{folder} holds no saved release: {cls.FILE} is missing")
        content = json.loads(file.read_text(encoding="utf-8"))
        model = models.create(**content["model"])
        place = folder / _VOCABULARY
        if not place.is_dir() and cls.needs_vocabulary:
            raise InputError(f"{folder} holds no vocabulary: the saved release is damaged")
        vocabulary = model.load_vocabulary(place) if place.is_dir() else None
        own = {name: content[name] for name in _saved(cls) if name in content}
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in own.items()
        }
        reader = cls(model, vocabulary, **values)
        return reader.release(load_modules(folder, reader.load_network)).restored(content)


class SupervisedLearner(Learner):
    """A network and the rows that it learns from.

    Args:
        reader: reader of the rows.
        module: the network.
        corpus: the rows, numbered from 0, all of them `scorable`.
        schedule: plain training on public rows; None for the private stage.

    Attributes:
        truncated: see `Reader.truncated`.
    """

    def __init__(
        self, reader: Reader, module: nn.Module, corpus: Corpus, schedule: Schedule | None = None
    ) -> None:
        self.module = module if schedule is None else reader.model.on_public_text(module)
        self.reader, self.corpus = reader, reader.prepared(corpus)
        self.vocabulary, self.vectorised = reader.vocabulary, reader.vectorised
        self.role = "private" if schedule is None else "public"
        self.schedule = schedule
        self.rows, lengths = reader.encoded(self.corpus)
        self.row_lengths = lengths if reader.similar else None
        held = self.rows.held
        self.truncated = reader.truncated(held, self.corpus)
        self.row_size = reader.row_size(held, int(lengths.max(initial=1)), self.module)

    def batch(self, rows: Sequence[int] | IntArray, seeds: IntArray) -> Batch:
        """See `Learner` and `Reader.batch`."""
        encoded, place = self.rows.some(np.asarray(rows, dtype=np.int64))
        return tensors(self.reader.batch(encoded.columns, place, seeds))

    def example_batch(self) -> Batch:
        """See `Learner` and `Reader.examples`."""
        columns = self.reader.examples(self.corpus)
        every = np.arange(len(Columns(columns, self.reader.sized).lengths))
        seeds = row_seeds(np.random.default_rng(0), every.shape)
        return tensors(self.reader.batch(columns, every, seeds))

    def losses(self, module: nn.Module, batch: Batch) -> Losses:
        """See `Reader`."""
        return self.reader.losses(module, batch)

    def release(self, module: nn.Module) -> SupervisedRelease:
        """See `Reader`."""
        return self.reader.release(module)


class SupervisedRelease(TrainedRelease):
    """A trained network as its users, and anybody with its weights, can ask it.

    Args:
        reader: reader of the rows that it is asked about.
        module: the network; it is put into evaluation mode.
    """

    view = "model weights"

    def __init__(self, reader: Any, module: nn.Module) -> None:
        self.reader, self.module = reader, module.eval()

    @property
    def vocabulary(self) -> Any:
        """Tokens of the model."""
        return self.reader.vocabulary

    @property
    def device(self) -> Any:
        """Device of the network."""
        return next(self.module.parameters()).device

    def scorable(self, corpus: Corpus) -> BoolArray:
        """See `RowScorer`."""
        return np.asarray(self.reader.scorable(corpus))

    def learner(self, corpus: Corpus) -> Any:
        """See `TrainedRelease`."""
        return self.reader.learner(self.module, corpus)

    def save(self, folder: Path) -> None:
        """Writes weights, vocabulary and how to read rows; `Reader.load` reads them."""
        from uedp_bench.models.networks.modules import save_modules

        reader = self.reader
        folder.mkdir(parents=True, exist_ok=True)
        if reader.vocabulary is not None:
            reader.vocabulary.save(folder / _VOCABULARY)
        save_modules(self.module, folder, reader.save_network)
        own = {name: getattr(reader, name) for name in _saved(type(reader))}
        content = {"model": named(reader.model), **own, **self.content()}
        (folder / reader.FILE).write_text(json.dumps(content, indent=1), encoding="utf-8")

    def content(self) -> dict[str, Any]:
        """JSON values that `save` writes beside the fields of the reader."""
        return {}

    def restored(self, content: Mapping[str, Any]) -> SupervisedRelease:
        """The release with what `content` wrote."""
        return self


class PredictingRelease(SupervisedRelease):
    """A `Predictor`: its network maps a batch to one prediction, or one vector of them, a row."""

    def predictions(self, corpus: Corpus) -> FloatArray:
        """See `Predictor`.

        Raises:
            UedpBenchError: if one is NaN.
        """
        import torch

        from uedp_bench.contracts.learner import batches_of

        with torch.no_grad():
            batches = batches_of(self.learner(corpus))
            answers = [self.module(batch).double().cpu().numpy() for _, batch in batches]
        out = np.concatenate(answers) if answers else np.empty(0)
        if np.isnan(out).any():
            raise UedpBenchError("a prediction is NaN: the weights are not finite")
        return out


def _saved(reader: type[Reader]) -> list[str]:
    return [each.name for each in fields(reader) if each.name not in _NOT_SAVED]


def tensors(arrays: Mapping[str, Any]) -> Batch:
    """Arrays as tensors on the CPU."""
    import torch

    return {name: torch.as_tensor(value) for name, value in arrays.items()}


def batches_by_length(
    lengths: IntArray, rows_at_once: Callable[[int], int], *, least: int = 0
) -> Iterator[IntArray]:
    """Numbers of rows, rows of similar length together, short ones first.

    Args:
        lengths: (rows,) of each row.
        rows_at_once: how many rows fit into a batch whose longest row has this length.
        least: shorter rows are left out.
    """
    order = np.argsort(lengths, kind="stable")
    order = order[lengths[order] >= least]
    at = 0
    while at < len(order):
        size = rows_at_once(int(lengths[order[at]]))
        # Later rows are longer: shrink until the batch fits with its own longest row.
        while size > 1 and size > rows_at_once(int(lengths[order[min(at + size, len(order)) - 1]])):
            size = max(1, size // 2)
        yield order[at : at + size]
        at += size
