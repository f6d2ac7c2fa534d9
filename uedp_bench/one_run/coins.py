"""Coins that fell before somebody trained elsewhere, and the corpus that they made.

Coins fall by a secret key of the operating system, never by the seed of a spec: whoever trains may
know the source, the spec and the planted corpus, and learns nothing of the canaries that are out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from uedp_bench.contracts.leakage import Attack
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError
from uedp_bench.io.folders import write_json
from uedp_bench.version import __version__

KEY_BITS = 128


class Coins(BaseModel):
    """The file `coins.json`: keep it from whoever trains.

    Attributes:
        format: format of this file.
        version: version of this package, which threw the coins.
        key: 32 hexadecimal digits from the operating system, which every draw came from.
        attacks: attacks that planted, with all parameters.
        data: fingerprint of the corpus before anything was planted.
        corpus: fingerprint of the corpus that is trained on: everything planted, what coins left
            out in the split held_out.
        planted: planted secrets of each attack, by its name: canaries and their coins.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    format: Literal[1] = 1
    version: str = __version__
    key: str = Field(pattern=f"^[0-9a-f]{{{KEY_BITS // 4}}}$")
    attacks: tuple[ComponentSpec, ...]
    data: str
    corpus: str
    planted: Mapping[str, Any]

    @property
    def number(self) -> int:
        """The key as seed of all planting."""
        return int(self.key, 16)

    def check_planted(self, corpus: Corpus, planted: Mapping[str, Any], where: Path) -> None:
        """Refuse another corpus than that on which the coins fell.

        Raises:
            InputError: if planting again gives something else.
        """
        again = {name: value.model_dump(mode="json") for name, value in planted.items()}
        if corpus.fingerprint != self.corpus or again != dict(self.planted):
            raise InputError(
                f"{where}: planting again gives other coins. Either somebody changed the file, or "
                f"version {self.version} of this package, which threw them, plants otherwise: use "
                "that version"
            )


def new_key() -> str:
    """A key that nobody can guess."""
    return f"{secrets.randbits(KEY_BITS):0{KEY_BITS // 4}x}"


def write_coins(coins: Coins, path: Path) -> None:
    """Write the file, for its owner alone."""
    write_json(path, coins.model_dump(mode="json"), private=True)


def read_coins(path: Path) -> Coins:
    """Read the coins of a file.

    Raises:
        InputError: if there is none, or it is not what `write_coins` wrote.
    """
    if not path.is_file():
        raise InputError(
            f"trained-elsewhere.coins: there is no file {path}; `uedp-bench plant` writes it "
            "before the model is trained"
        )
    try:
        return Coins.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"trained-elsewhere.coins: {path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        description = ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
        raise InputError(f"{path} holds no coins of `uedp-bench plant`: {description}") from None


def check_attacks(coins: Coins, attacks: tuple[Attack[Any], ...], where: Path) -> None:
    """Refuse an attack with other parameters than those by which it planted.

    Raises:
        InputError: naming the first parameter that differs, and the value that it planted with.
    """
    planted_params = {ref.name: ref.params for ref in coins.attacks}
    for attack in attacks:
        if attack.name not in planted_params:
            continue
        params = attack.params.model_dump(mode="json")
        before = type(attack).create(planted_params[attack.name]).params.model_dump(mode="json")
        differs = [name for name in params if params[name] != before.get(name)]
        if differs:
            name = differs[0]
            raise InputError(
                f"{attack.name}.{name} is {params[name]!r}, and the canaries of {where} were "
                f"planted with {before.get(name)!r}: "
                f"--set attack.{attack.name}.{name}={before.get(name)}"
            )
