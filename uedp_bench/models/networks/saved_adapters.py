"""Networks whose adapters were saved apart from them, as the library peft does."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from uedp_bench.errors import InputError, MissingExtraError, shown
from uedp_bench.text.pretrained import ADAPTER, adapter_base, readable

_MERGE = "or merge them with peft's merge_and_unload, and save the whole model"


def base_folder(where: str, field: str) -> str | None:
    """The folder of the network that an adapter changes; None where a folder holds no adapter.

    Args:
        where: folder or hub id.
        field: the parameter that names it.

    Raises:
        InputError: if the network is no local folder.
    """
    base = adapter_base(Path(where))
    if base is None:
        return None
    if not Path(base).is_dir():
        raise InputError(
            f"{field} {where!r} holds an adapter of {base!r} and not that network itself, which is "
            f"no folder here: put the network there, {_MERGE}"
        )
    return base


def with_adapters(where: str, base: str, load: Callable[[str], Any], field: str) -> Any:
    """The network of a base folder around which peft has put a saved LoRA adapter: a `PeftModel`.

    Args:
        where: folder of the adapter.
        base: folder of the network.
        load: reads a network.
        field: the parameter that names the adapter.

    Raises:
        MissingExtraError: if peft is not installed.
        InputError: if the adapter is of another kind, or is not of this network.
    """
    try:
        from peft import PeftModel
    except ImportError:
        raise MissingExtraError(
            f"peft ({field} {where!r} is an adapter of {base!r})", "pip install 'uedp-bench[lora]'"
        ) from None
    with readable(where, field):
        config = json.loads((Path(where) / ADAPTER).read_text(encoding="utf-8"))
    # peft imports the module that `megatron_core` names where there is a `megatron_config`.
    if (kind := config.get("peft_type")) != "LORA" or config.get("megatron_config"):
        raise InputError(
            f"{field} {where!r} is an adapter of the kind {shown(kind)}; LoRA adapters of networks "
            f"of transformers are read: {_MERGE}"
        )
    network = _without_adapters(base, load)
    with readable(where, field), warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("always")
        adapted = PeftModel.from_pretrained(network, where)
    reports = [str(one.message) for one in messages]
    if missing := [text for text in reports if "missing adapter keys" in text]:
        raise InputError(
            f"{field} {where!r}: its weights are not those of an adapter of {base!r} "
            f"({missing[0][:200]})"
        )
    return adapted.eval()


def _without_adapters(base: str, load: Callable[[str], Any]) -> Any:
    """The network of a folder, without adapters that lie beside it: transformers would add them."""
    if not (Path(base) / ADAPTER).is_file():
        return load(base)
    with TemporaryDirectory() as folder:
        for file in Path(base).resolve().iterdir():
            if not file.name.startswith("adapter_"):
                (Path(folder) / file.name).symlink_to(file)
        try:
            return load(folder)
        except InputError as error:
            raise InputError(str(error).replace(folder, base)) from error
