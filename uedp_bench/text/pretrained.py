"""Pretrained models that turn texts into vectors: their place, identity and kept vectors.

Rounding in a matrix product depends on the shape of what is multiplied: rows that are padded to
the longest of their batch, or come in a smaller last batch, get other last bits. Batches have one
shape for each length, so that a vector does not depend on its neighbours.

A text is computed once, whatever texts are asked for beside it. Vectors lie in
`$UEDP_BENCH_CACHE`, else in `~/.cache/uedp-bench`, in parts that are written as they are computed,
so that a run that is stopped goes on where it was.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from uedp_bench.components.component import Requirement
from uedp_bench.corpus import BoolArray, IntArray
from uedp_bench.errors import InputError
from uedp_bench.io.folders import cache_folder
from uedp_bench.io.sealed_files import load_arrays, save_arrays

if TYPE_CHECKING:
    from uedp_bench.corpus import FeatureArray

ADAPTER = "adapter_config.json"
"""File of a folder in which peft saved adapters."""


def adapter_base(folder: Path) -> str | None:
    """The network that saved adapters change, by its folder or hub id; None for no adapters.

    A network in the folder itself is the one.
    """
    try:
        content = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    if (folder / "config.json").is_file():
        return str(folder)
    base = content.get("base_model_name_or_path") if isinstance(content, dict) else None
    return str(base) if base else None


@contextmanager
def readable(where: str, field: str) -> Iterator[None]:
    """Turn errors of libraries for an unknown or broken model into one line.

    Args:
        where: hub id or local directory.
        field: the parameter that names it.
    """
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # each library has types of its own for a damaged file
        if (base := adapter_base(Path(where))) not in (None, where):
            raise InputError(
                f"{field} {where!r} holds adapters of {base!r}, and not a whole model: merge them "
                "with peft's merge_and_unload, and save the whole model"
            ) from error
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"{field} {where!r} is neither a readable local directory nor a model that the hub "
            f"gives: {lines[0]}"
        ) from error


def tokenizer_of(where: str, field: str) -> Any:
    """Tokenizer of a model, without code of its own.

    Args:
        where: hub id or local directory.
        field: the parameter that names it.

    Raises:
        InputError: if it cannot be read, or there is none: the library then makes an empty one, to
            which all texts are alike, and a model that reads so seems to leak nothing.
    """
    from transformers import AutoTokenizer

    with readable(where, field):
        tokenizer = AutoTokenizer.from_pretrained(where, trust_remote_code=False)
    if len(tokenizer) <= len(tokenizer.all_special_tokens):
        raise InputError(
            f"{field} {where!r} has no tokenizer; save it beside the model: "
            "tokenizer.save_pretrained(FOLDER)"
        )
    return tokenizer


def model_identity(where: str, field: str) -> str:
    """Identity of a model, wherever it lies.

    Returns:
        A hash of the files of a directory; the id and the commit of a hub model.

    Raises:
        InputError: if it is neither.
    """
    folder = Path(where)
    if folder.is_dir():
        files = sorted(path for path in folder.rglob("*") if _counts(path.relative_to(folder)))
        seen = tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
        return _digest_of_files(folder, seen)
    return f"{where}@{_hub_configuration(where, field).parent.name}"


@dataclass(frozen=True)
class PretrainedModel(Requirement):
    """Pretrained model in a local directory, or of the hub, whose configuration is read.

    Attributes:
        module: hub id or local directory.
        use: parameter that names it.
    """

    install: str = ""

    def check(self, owner: str = "") -> None:
        """Refuse a model that is neither on this machine nor to be had from the hub.

        Raises:
            InputError: naming the parameter.
        """
        if not Path(self.module).is_dir():
            _hub_configuration(self.module, f"{owner}.{self.use}")


def _hub_configuration(where: str, field: str) -> Path:
    """Configuration file of a hub model on this machine, downloaded if it is not there."""
    from transformers.utils import cached_file

    with readable(where, field):
        config = cached_file(where, "config.json")
        if config is None:
            raise OSError("it has no config.json")
    return Path(config)


def snapshot(where: str, commit: str, field: str) -> str:
    """Folder of one revision of a hub model, downloaded if it is not on this machine.

    Args:
        where: hub id.
        commit: commit, tag or branch.
        field: the parameter that names it, for messages.

    Raises:
        InputError: if the hub has no such model or revision.
    """
    from huggingface_hub import snapshot_download

    with readable(f"{where}@{commit}", field):
        return snapshot_download(where, revision=commit)


def revision(identity: str) -> str | None:
    """The commit of a hub model's identity; None of a directory's."""
    return identity.rpartition("@")[2] if "@" in identity else None


def _counts(file: Path) -> bool:
    """True if a file of a model's directory can change its vectors: not read-me's, not git's."""
    return file.suffix not in ("", ".md") and not any(part.startswith(".") for part in file.parts)


@lru_cache(maxsize=16)
def _digest_of_files(folder: Path, files: tuple[tuple[Path, int, int], ...]) -> str:
    # Times and sizes are arguments so that files that were written anew are read anew.
    digest = hashlib.sha256()
    for file, _, _ in files:
        if file.is_file():
            with file.open("rb") as content:
                held = hashlib.file_digest(content, "sha256").hexdigest()
            digest.update(f"{file.relative_to(folder).as_posix()}\0{held}\0".encode())
    return digest.hexdigest()


@contextmanager
def no_progress_bars() -> Iterator[None]:
    """Keep the library from drawing over this package's own progress bars."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


_ROWS = {"cpu": 8, "cuda": 64}
"""Rows of a batch, by kind of device. On a CPU larger ones are no faster, and take more to fill."""
SHAPES = "full batches of one length"
"""Part of the key of kept vectors; another text where batches are made in another way."""


def full_batches(
    lengths: IntArray, device: str, *, alone: bool = True
) -> Iterator[tuple[IntArray, int]]:
    """Batches of rows that are equally long, each of the same number of rows.

    Args:
        lengths: (rows,) length of each row, in units that a network reads.
        device: torch device of the batches.
        alone: False if last bits may depend on neighbours: batches then have rows of different
            lengths, which are to be padded, and the last one has fewer.

    Yields:
        (batch,) rows, and the number of wanted ones: all after them fill the batch.
    """
    size = _ROWS.get(device.split(":")[0], _ROWS["cpu"])
    order = np.argsort(lengths, kind="stable")
    if not alone:
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield rows, len(rows)
        return
    for alike in np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1):
        for start in range(0, len(alike), size):
            rows = alike[start : start + size]
            yield np.resize(rows, size), len(rows)


_FORMAT = 2  # of the cached files; raised when the same key would mean something else
_PART = 4096
"""Texts computed before their vectors are written."""

Compute = Callable[[list[str]], "FeatureArray"]
Names = NDArray[np.uint64]


def cached_vectors(
    key: Sequence[object], texts: Sequence[str], compute: Compute, *, cache: bool
) -> FeatureArray:
    """Vector of each text; see `different_vectors`."""
    vectors, which = different_vectors(key, texts, compute, cache=cache)
    return vectors[which]


def different_vectors(
    key: Sequence[object], texts: Sequence[str], compute: Compute, *, cache: bool
) -> tuple[FeatureArray, IntArray]:
    """Vectors of texts; equal texts are computed once, and kept on disk for the next run.

    Args:
        key: everything but the texts that the vectors depend on.
        texts: at least one.
        compute: function from n different texts, sorted, to (n, size) vectors.
        cache: False neither reads nor writes files.

    Returns:
        (different texts, size) vectors, and (texts,) which of them is a text's.

    Raises:
        InputError: if a vector is not finite.
    """
    unique = sorted(set(texts))
    vectors = _kept(key, unique, compute) if cache else _finite(compute(unique))
    at = {text: index for index, text in enumerate(unique)}
    return vectors, np.fromiter((at[text] for text in texts), dtype=np.int64, count=len(texts))


def _kept(key: Sequence[object], unique: list[str], compute: Compute) -> FeatureArray:
    model = hashlib.sha256(json.dumps([_FORMAT, *key]).encode()).hexdigest()[:16]
    folder = cache_folder() / "vectors" / model
    names = np.array([_name(text) for text in unique], dtype=np.uint64)
    try:
        (folder / "locks").mkdir(parents=True, exist_ok=True)
    except OSError:
        return _finite(compute(unique))
    held = _Held(folder, names)
    held.read()
    while len(missing := np.flatnonzero(~held.present)[:_PART]):
        # Another process with the same texts waits for a part of them, and reads it.
        with FileLock(folder / "locks" / _digest(names[missing])[:2]):
            held.read()
            rows = missing[~held.present[missing]]
            if len(rows):
                vectors = _finite(compute([unique[row] for row in rows]))
                held.put(rows, vectors)
                _write(folder, names[rows], vectors)
    if held.vectors is None:
        raise ValueError("at least one text is needed")
    return held.vectors


class _Held:
    """Vectors by name that were read or computed so far.

    Attributes:
        present: (names,) True where there is a vector.
        vectors: (names, size) vectors where present; None as long as there is none.
    """

    def __init__(self, folder: Path, names: Names) -> None:
        self._folder, self._names = folder, names
        self._seen: set[Path] = set()
        self.present: BoolArray = np.zeros(len(names), dtype=bool)
        self.vectors: FeatureArray | None = None

    def read(self) -> None:
        """Read new parts."""
        for file in sorted(set(self._folder.glob("*.npz")) - self._seen):
            self._seen.add(file)
            names = _names_in(file)
            at = np.searchsorted(names, self._names)
            hit = at < len(names)
            hit[hit] = names[at[hit]] == self._names[hit]
            vectors = load_arrays(file, partial(_vectors_at, at[hit])) if hit.any() else None
            if vectors is not None:
                self.put(np.flatnonzero(hit), vectors)

    def put(self, rows: IntArray, vectors: FeatureArray) -> None:
        """Set vectors (rows, size) of some of the names."""
        if self.vectors is None:
            self.vectors = np.empty((len(self._names), vectors.shape[1]), np.float32)
        self.vectors[rows] = vectors
        self.present[rows] = True


_names_of: dict[Path, Names] = {}
"""Names in parts that were read before: a part is called by its names, and they never change."""


def _names_in(file: Path) -> Names:
    """The names in a part, sorted; none in one that is damaged."""
    if file in _names_of:
        return _names_of[file]
    names = load_arrays(file, lambda data: np.asarray(data["names"]))
    if names is None:
        return np.empty(0, dtype=np.uint64)
    _names_of[file] = names
    return names


def _vectors_at(rows: IntArray, data: Mapping[str, Any]) -> FeatureArray:
    vectors: FeatureArray = data["vectors"][rows]
    return vectors


def _write(folder: Path, names: Names, vectors: FeatureArray) -> None:
    order = np.argsort(names)
    file = folder / f"{_digest(names[order])}.npz"
    save_arrays(file, "vectors of texts", names=names[order], vectors=vectors[order])


def _digest(names: Names) -> str:
    return hashlib.sha256(names.tobytes()).hexdigest()[:16]


def _name(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def _finite(vectors: FeatureArray) -> FeatureArray:
    if not np.isfinite(vectors).all():
        raise InputError("the pretrained encoder gives vectors that are not finite numbers")
    return vectors
