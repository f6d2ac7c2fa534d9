"""Public sizes of a corpus as given on a command line, in place of those of a source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from uedp_bench.components.component import check_whole
from uedp_bench.contracts.mechanism import CorpusStats
from uedp_bench.errors import InputError

SIZES = {
    "users": ("users",),
    "rows": ("sentences", "records", "rows"),
    "sensitive_rows": ("sensitive_sentences",),
    "entities": ("entities",),
}
"""Sizes that a source documents -> the parameters that mechanisms have for them."""

_MISSING = -1


class MissingSizeError(InputError):
    """A size is needed that was not given.

    Args:
        size: field of `CorpusStats`.
        message: hint on the setting that gives it.
    """

    def __init__(self, size: str, message: str) -> None:
        self.size = size
        super().__init__(message)


class GivenSizes(CorpusStats):
    """Public sizes as given; one that was not is asked for when a mechanism looks at it.

    Attributes:
        seen: sizes that were looked at.
    """

    seen: set[str]
    _ask: Mapping[str, str]

    @staticmethod
    def for_mechanism(
        asker: str, parameters: Sequence[str], settings: Mapping[str, int]
    ) -> GivenSizes:
        """Build the sizes for a mechanism with these parameters.

        Args:
            asker: command and mechanism that need the sizes.
            parameters: names of the mechanism's parameters.
            settings: size -> value.
        """
        sizes_or_missing: dict[str, Any] = {size: settings.get(size, _MISSING) for size in SIZES}
        sizes = GivenSizes(**sizes_or_missing, public=True)
        words = {
            size: next((word for word in names if word in parameters), names[0])
            for size, names in SIZES.items()
        }
        messages = {
            size: f"{asker} needs --set {word}=N: a public number that no source documents"
            for size, word in words.items()
        }
        object.__setattr__(sizes, "_ask", messages)
        object.__setattr__(sizes, "seen", set())
        return sizes

    def __repr__(self) -> str:
        sizes = {size: value for size, value in vars(self).items() if size in SIZES}
        return f"GivenSizes({sizes}; {_MISSING} for missing)"

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if name in SIZES:
            self.seen.add(name)
            if value == _MISSING:
                raise MissingSizeError(name, self._ask[name])
        return value


def whole_number(name: str, word: str, value: Any) -> int:
    """A size as a number.

    Args:
        name: name of the mechanism, for the message.
        word: name of the size, for the message.
        value: value of the setting.

    Raises:
        InputError: if it is no whole number, below 0, or larger than anything.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"{name}: {word} is {value!r}; it must be a whole number, 0 or more")
    check_whole(value, f"{name}: {word}")
    return value
