"""What releases of tasks share: a model that is written into a folder, and batches by length."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from uedp_bench.component import named
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from torch import nn

    from uedp_bench.corpus import IntArray
    from uedp_bench.model import TextModel, Vocabulary

_VOCABULARY = "vocabulary"


class TrainedModel(NamedTuple):
    """A network with what made it.

    Attributes:
        model: made the network.
        vocabulary: of the texts that it reads, where it has one.
        module: the network, or a set of networks.
    """

    model: TextModel[Any]
    vocabulary: Vocabulary | None
    module: nn.Module


class SavedModel(NamedTuple):
    """What `save_model` wrote, without the network.

    Attributes:
        model: makes networks.
        vocabulary: of the texts that they read, where it has one.
        content: of the file of the release.
    """

    model: Any
    vocabulary: Vocabulary | None
    content: Mapping[str, Any]


def save_model(
    path: Path,
    trained: TrainedModel,
    write: Callable[[nn.Module, Path], object],
    content: Mapping[str, Any],
) -> None:
    """Writes a network, its vocabulary, and a file that says how they are read again.

    Args:
        path: of the file; everything stands in its folder, which is made.
        trained: what is written.
        write: writes one network into a folder.
        content: of the file beside the model (JSON values).
    """
    from uedp_bench.models.module_set import save_modules

    folder = path.parent
    folder.mkdir(parents=True, exist_ok=True)
    if trained.vocabulary is not None:
        trained.vocabulary.save(folder / _VOCABULARY)
    save_modules(trained.module, folder, write)
    everything = {"model": named(trained.model), **content}
    path.write_text(json.dumps(everything, indent=1), encoding="utf-8")


def load_model(path: Path, kind: str) -> SavedModel:
    """What stands in the file that `save_model` wrote; `load_modules` reads the network.

    Args:
        path: of the file.
        kind: what the release is, for the message.

    Raises:
        InputError: if the file is missing.
    """
    from uedp_bench.registry import models

    if not path.is_file():
        raise InputError(f"{path.parent} holds no saved {kind}: {path.name} is missing")
    content = json.loads(path.read_text(encoding="utf-8"))
    model = models.create(**content["model"])
    folder = path.parent / _VOCABULARY
    vocabulary = model.load_vocabulary(folder) if folder.is_dir() else None
    return SavedModel(model, vocabulary, content)


def save_weights(module: nn.Module, file: Path) -> None:
    """Writes the weights of a part of a network, on the CPU."""
    import torch

    torch.save({name: value.cpu() for name, value in module.state_dict().items()}, file)


def load_weights(module: nn.Module, file: Path) -> None:
    """Reads what `save_weights` wrote."""
    import torch

    module.load_state_dict(torch.load(file, weights_only=True))


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
