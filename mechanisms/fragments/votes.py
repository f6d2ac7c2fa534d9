"""Who votes for which phrase: documents are users, or each row stands for itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from uedp_bench.errors import InputError
from uedp_bench.mechanisms.fragments.extraction import Phrase, Phrases

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus

VotingUnit = Literal["user", "record"]
"""What votes: everything that a user wrote (a document), or a row."""

Counts = dict[Phrase, int]
"""How often one voter has each of its phrases."""


def phrases_of_voters(
    corpus: Corpus, every: Phrases, unit: VotingUnit, name: str
) -> dict[int, Counts]:
    """Phrases of each voter; voters are users, or rows by their key.

    Args:
        corpus: of the phrases.
        every: all occurrences.
        unit: what votes.
        name: of the mechanism, for the message.

    Raises:
        InputError: if users vote and a row has none.
    """
    voters = (corpus.users if unit == "user" else corpus.keys)[every.row]
    if unit == "user" and (voters < 0).any():
        raise InputError(
            f"{name}.unit is user, and {len(set(every.row[voters < 0].tolist()))} rows have no "
            "user; set unit to record"
        )
    found: dict[int, Counts] = {}
    for voter, phrase in zip(voters.tolist(), every.phrases, strict=True):
        counts = found.setdefault(voter, {})
        counts[phrase] = counts.get(phrase, 0) + 1
    return found
