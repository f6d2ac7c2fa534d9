"""LoRA adapters: small matrices beside a large network, trained here or saved by peft."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic import Field, model_validator

from uedp_bench.components.component import PEFT, Params, Requirement, equals
from uedp_bench.contracts.model import load_weights, save_weights
from uedp_bench.errors import InputError, MissingExtraError, shown
from uedp_bench.text.pretrained import ADAPTER, adapter_base, readable

if TYPE_CHECKING:
    from torch import nn

_WEIGHTS = "weights.pt"
_MARK = "lora_"
"""Part of the names that peft gives to the weights of adapters."""


class LoraParams(Params):
    """Parameters of the adapters of Hu et al. 2021 (LoRA, arXiv:2106.09685)."""

    lora_rank: int | None = Field(
        default=None, ge=1,
        description="r: mechanisms train adapters of this rank, and the network keeps its weights; "
        "training on public text trains all of it; needs the extra `lora`; default: no adapters",
        exclude_if=equals(None),
    )  # fmt: skip
    lora_alpha: float | None = Field(
        default=None, gt=0,
        description="alpha: what adapters give is multiplied by alpha / r; default: r",
        exclude_if=equals(None),
    )  # fmt: skip
    lora_modules: tuple[str, ...] = Field(
        default=(),
        description="ends of the names of the modules that get adapters, or ['all-linear']; "
        "default: those that the library peft takes (GPT-2: c_attn; BERT: query and value)",
        exclude_if=equals(()),
    )

    def requires(self) -> tuple[Requirement, ...]:
        """The library of adapters, where there are any."""
        return (*super().requires(), *(() if self.lora_rank is None else (PEFT,)))

    @model_validator(mode="after")
    def _of_adapters(self) -> LoraParams:
        for name in ("lora_alpha", "lora_modules"):
            if self.lora_rank is None and (value := getattr(self, name)):
                raise ValueError(f"{name} is {value!r}, but there are no adapters; give lora_rank")
        return self

    def adapt(self, network: nn.Module, seed: int) -> None:
        """Add adapters to a network of `transformers`, in place, and freezes all else in it.

        Until they are trained they add nothing: their second matrix starts at zero. They have no
        dropout, which would be drawn for whole batches.

        Args:
            network: changed; left as it is where `lora_rank` is None.
            seed: seed of the first matrices.

        Raises:
            MissingExtraError: if peft is not installed.
            InputError: if no module of the network has such a name.
        """
        if self.lora_rank is None:
            return
        PEFT.check()
        import torch
        from peft import LoraConfig, inject_adapter_in_model
        from torch import nn
        from transformers.pytorch_utils import Conv1D

        names: Any = list(self.lora_modules) or None
        config = LoraConfig(
            r=self.lora_rank,
            lora_alpha=self.lora_rank if self.lora_alpha is None else self.lora_alpha,  # type: ignore[arg-type]
            target_modules="all-linear" if names == ["all-linear"] else names,
            lora_dropout=0.0,
        )
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of Conv1D, which it then handles
            torch.manual_seed(seed)
            try:
                inject_adapter_in_model(config, network)
            except ValueError as error:
                reason = str(error).strip().splitlines()[0]
                if names is None:
                    reason = "peft takes none of its own for a network of this kind"
                ends = sorted({
                    name.rpartition(".")[2] for name, part in network.named_modules()
                    if isinstance(part, nn.Linear | Conv1D)
                })  # fmt: skip
                raise InputError(
                    f"lora_modules is {list(self.lora_modules)}: {reason}; allowed are "
                    f"'all-linear' or names among {', '.join(ends)}"
                ) from error


def whole(module: nn.Module) -> nn.Module:
    """A copy that trains everything but its adapters; the module itself where it has none."""
    if not any(_MARK in name for name, _ in module.named_parameters()):
        return module
    other = copy.deepcopy(module)
    for name, weight in other.named_parameters():
        weight.requires_grad_(_MARK not in name)
    return other


def save_adapted(network: Any, folder: Path) -> None:
    """Write the configuration of a network of `transformers`, its weights and its adapters."""
    network.config.save_pretrained(folder)
    save_weights(network, folder / _WEIGHTS)


def configured(kind: Any, folder: Path) -> Any:
    """A network of the configuration that `save_adapted` wrote; its weights mean nothing yet.

    Args:
        kind: class of `transformers` that makes it, such as `AutoModel`.
        folder: folder that was written.
    """
    import torch
    from transformers import AutoConfig

    return kind.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)


def load_adapted(network: nn.Module, folder: Path) -> None:
    """Give an adapted network the weights that `save_adapted` wrote."""
    load_weights(network, folder / _WEIGHTS)


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
