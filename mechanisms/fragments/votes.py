"""Votes for phrases, by documents (users) or by single rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from uedp_bench.mechanisms._noisy_union import VotingUnit, items_of_voters, voters_of_rows
from uedp_bench.mechanisms.fragments.extraction import Phrase, Phrases

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus

Counts = dict[Phrase, int]
"""Count of each phrase of one voter."""


def phrases_of_voters(
    corpus: Corpus, every: Phrases, unit: VotingUnit, name: str
) -> dict[int, Counts]:
    """Phrases of each voter; voters are users, or rows by their key.

    Args:
        corpus: corpus of the phrases.
        every: all occurrences.
        unit: unit that votes.
        name: name of the mechanism, for the message.

    Raises:
        InputError: if users vote and a row has none.
    """
    return items_of_voters(voters_of_rows(corpus, every.row, unit, name), every.phrases)
