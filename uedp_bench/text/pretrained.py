"""Place and identity of pretrained models that turn texts into vectors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from uedp_bench.components.requirements import Requirement
from uedp_bench.errors import InputError

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
    except InputError:
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
