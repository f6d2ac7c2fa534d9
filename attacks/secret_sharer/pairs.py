"""Canaries of translators: pairs whose two sides are the same words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from uedp_bench.corpus import FloatArray
from uedp_bench.errors import InputError
from uedp_bench.release import Completer, PairScorer


@dataclass(frozen=True)
class PairCompleter:
    """A translator as a `Completer`: a text is as likely as it is as its own translation.

    A planted canary stands on both sides of its row, as names and numbers do: its prefix and its
    secret in the text, and its secret in the target. So do the references that it is ranked
    among, so that a canary which was not learnt is exchangeable with them, however well the
    translator copies words.

    Attributes:
        release: that is asked.
    """

    NOTE: ClassVar[str] = (
        "canaries are pairs: the same words stand in the text and in its translation, and are "
        "ranked by the loss of the translation"
    )
    release: PairScorer

    def filler_losses(self, before: str, after: str, fillers: Sequence[str]) -> FloatArray:
        """See `Completer`; the losses are those of whole targets, which share their beginning."""
        texts = [f"{before}{filler}{after}" for filler in fillers]
        return self.release.pair_losses(texts, texts)


def as_completer(release: object) -> Completer:
    """The release where it is a `Completer`, else a translator as one.

    Raises:
        InputError: if it is neither.
    """
    if isinstance(release, Completer):
        return release
    if isinstance(release, PairScorer):
        return PairCompleter(release)
    raise InputError(f"secret-sharer needs a Completer, not {type(release).__name__}")
