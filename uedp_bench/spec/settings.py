"""`--set NAME=VALUE`: a dotted name and a value written as in YAML."""

from __future__ import annotations

from typing import Any

from uedp_bench.errors import InputError, shown
from uedp_bench.io.yaml_files import load_yaml

MOST_NAME, MOST_PARTS = 200, 8
"""Characters of a setting's name, and parts that dots separate."""


def parse_setting(text: str, example: str = "mechanism.rounds=50") -> tuple[tuple[str, ...], Any]:
    """Splits a setting into its path and its value.

    `mechanism.rounds=50` is `(("mechanism", "rounds"), 50)`. Values are YAML: numbers, `true`,
    `null`, `[1, 2]`; what is nothing else is a string. Numbers may also be written `1e-5`.

    Args:
        text: text that the user typed.
        example: example for messages.

    Raises:
        InputError: if there is no `=`, a part of the name is empty, or the value is not YAML.
    """
    name, sign, written = text.partition("=")
    path = tuple(part.strip() for part in name.split("."))
    if not sign or not all(path):
        raise InputError(f"--set {shown(text)}: write NAME=VALUE, for instance {example}")
    if len(path) > MOST_PARTS or len(name) > MOST_NAME:
        raise InputError(f"--set {shown(name)}: no parameter has such a name, as {example} does")
    try:
        value = load_yaml(written)
    except InputError as error:
        raise InputError(
            f"--set {name.strip()}: {shown(written)} is not a value (YAML: 5, 0.1, true, [1, 2], "
            f"text): {error}"
        ) from None
    return path, _with_exponents(value)


def _with_exponents(value: Any) -> Any:
    # YAML 1.1 reads 1e-5 (no dot) as text.
    if isinstance(value, list):
        return [_with_exponents(part) for part in value]
    if isinstance(value, str) and value[:1] in "+-.0123456789" and "e" in value.lower():
        try:
            return float(value)
        except ValueError:
            return value
    return value
